"""Sensitivity: what each index adds to a write as the table, the batch or the cluster grows.

A picture is an SVG of its own making: two logarithmic axes, a line and a band for each index. The
range of sizes that was calibrated is shaded, so that what lies outside is seen to be extrapolated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape

from keymark.harness.store.units import Unit
from keymark.reports.plan.answer import Plan
from keymark.reports.plan.decide import sweep
from keymark.reports.plan.formulas import known
from keymark.reports.plan.predict import Estimate, added
from keymark.reports.render.format_values import amount

AXES = {
    "rows": "rows of the table",
    "batch": "keys of a batch",
    "executors": "cores of all executors",
}

_WIDTH, _HEIGHT = 520, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 110, 12, 40
_NAME_GAP = 15
_FLOOR = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One picture.

    Attributes:
        along: a name of AXES.
        title: what stands above it.
        sizes: ascending, positive.
        lines: by index, an estimate for each size.
        calibrated: ends of the calibrated range.
        here: the size that was asked about.
    """

    along: str
    title: str
    sizes: tuple[float, ...]
    lines: Mapping[str, tuple[Estimate, ...]]
    calibrated: tuple[float, float]
    here: float

    @property
    def label(self) -> str:
        """What a reader who does not see the picture is told."""
        ends = [
            f"{index} from {_seconds(line[0].value)} to {_seconds(line[-1].value)}"
            for index, line in self.lines.items()
        ]
        span = f"{self.sizes[0]:,.0f} to {self.sizes[-1]:,.0f}"
        return f"{self.title}, {span} {AXES[self.along]}: {'; '.join(ends)}"


def curves(made: Plan) -> list[Curve]:
    """The pictures of an answer."""
    found = []
    for along, words in AXES.items():
        attribute = "cores" if along == "executors" else along
        places = {float(getattr(place, attribute)): place for place in sweep(made.wish.at, along)}
        found.append(
            Curve(
                along=along,
                title=f"What an index adds to a write, by {words}",
                sizes=tuple(places),
                lines={
                    index: tuple(added(made.calibration, index, p) for p in places.values())
                    for index in made.candidates
                },
                calibrated=made.calibration.ranges[attribute],
                here=float(getattr(made.wish.at, attribute)),
            )
        )
    return found


def svg(curve: Curve) -> str:
    """The picture as markup to put into a page."""
    every = [max(e.value, _FLOOR) for line in curve.lines.values() for e in line]
    x = _Scale(curve.sizes[0], curve.sizes[-1], _LEFT, _WIDTH - _RIGHT)
    y = _Scale(min(every) / 1.5, max(every) * 1.5, _HEIGHT - _BOTTOM, _TOP)
    low, high = (x.at(end) for end in curve.calibrated)
    here, middle = x.at(curve.here), (_LEFT + _WIDTH - _RIGHT) / 2
    parts = [
        (
            f'<rect x="{low:.1f}" y="{_TOP}" width="{max(high - low, 1):.1f}" '
            f'height="{_HEIGHT - _TOP - _BOTTOM}" fill="var(--lead)"/>'
        ),
        _grid(x, y),
        (
            f'<line x1="{here:.1f}" x2="{here:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" '
            'stroke="currentColor" stroke-dasharray="3 3"/>'
        ),
        *(_band_and_line(index, curve, x, y) for index in curve.lines),
        _names(curve, x, y),
        (
            f'<text x="{middle}" y="{_HEIGHT - 6}" text-anchor="middle" fill="currentColor">'
            f"{AXES[curve.along]}</text>"
        ),
    ]
    return (
        f'<svg class="chart" role="img" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-size="11" '
        f'aria-label="{escape(curve.label)}">{"".join(parts)}</svg>'
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    """A logarithmic axis: values from `first` to `last` lie between two places."""

    first: float
    last: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Where a value lies; values outside lie at the ends."""
        kept = min(max(value, self.first), self.last)
        span = math.log(self.last / self.first) or 1.0
        return self.start + (self.end - self.start) * math.log(kept / self.first) / span

    def ticks(self) -> list[float]:
        """Powers of ten on the axis, every second or third of many."""
        low, high = math.ceil(math.log10(self.first)), math.floor(math.log10(self.last))
        step = max(1, (high - low) // 5 + 1)
        return [10.0**power for power in range(low, high + 1, step)]


def _grid(x: _Scale, y: _Scale) -> str:
    parts = []
    for tick in x.ticks():
        at = x.at(tick)
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{y.end}" y2="{y.start}" stroke="var(--grid)"/>'
            f'<text x="{at:.1f}" y="{y.start + 14}" text-anchor="middle" fill="currentColor">'
            f"{_count(tick)}</text>"
        )
    for tick in y.ticks():
        at = y.at(tick)
        parts.append(
            f'<line x1="{x.start}" x2="{x.end}" y1="{at:.1f}" y2="{at:.1f}" stroke="var(--grid)"/>'
            f'<text x="{x.start - 6}" y="{at + 4:.1f}" text-anchor="end" fill="currentColor">'
            f"{_seconds(tick)}</text>"
        )
    return "".join(parts)


def _band_and_line(index: str, curve: Curve, x: _Scale, y: _Scale) -> str:
    def points(values: Iterable[float]) -> list[str]:
        found = zip(curve.sizes, values, strict=True)
        return [f"{x.at(size):.1f},{y.at(max(value, _FLOOR)):.1f}" for size, value in found]

    line, color = curve.lines[index], known()[index].color
    band = [*points(e.high for e in line), *reversed(points(e.low for e in line))]
    middle = points(e.value for e in line)
    return (
        f'<polygon points="{" ".join(band)}" fill="{color}" fill-opacity="0.12"/>'
        f'<polyline points="{" ".join(middle)}" fill="none" stroke="{color}" stroke-width="2"/>'
    )


def _names(curve: Curve, x: _Scale, y: _Scale) -> str:
    """Each index's name to the right of its line, none above another."""
    ends = sorted((y.at(max(line[-1].value, _FLOOR)), index) for index, line in curve.lines.items())
    parts, floor = [], 0.0
    for at, index in ends:
        floor = max(at, floor)
        parts.append(
            f'<text x="{x.end + 8}" y="{floor + 4:.1f}" fill="currentColor">'
            f'<tspan fill="{known()[index].color}">■</tspan> {escape(index)}</text>'
        )
        floor += _NAME_GAP
    return "".join(parts)


def _seconds(value: float) -> str:
    return amount(value, Unit.SECONDS.value)


def _count(value: float) -> str:
    """A power of ten for an axis: 1, 1,000, 1e6 as `1M`."""
    for size, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.0f}{name}"
    return f"{value:.0f}"
