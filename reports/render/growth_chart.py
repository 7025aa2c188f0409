"""A measure over sizes as a picture: a line per index, a panel per engine and shape of keys.

An axis is logarithmic only where its values lie so far apart that a linear one would hide the
smaller ones; zero then stands below the smallest of them. The names of the indexes stand at the
ends of their lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.patheffects import Normal, Stroke
from matplotlib.ticker import (
    EngFormatter,
    FixedLocator,
    LogLocator,
    MaxNLocator,
    NullLocator,
)

from keymark.reports.model.measures import Measure
from keymark.reports.render.charts import (
    INK,
    Drawing,
    interval_words,
    number_ticks,
    style_panel,
    ticks_within,
)
from keymark.reports.render.format_values import axis_scale
from keymark.reports.render.text import clean
from keymark.reports.stats.growth import PUBLISHED_ROWS, Line, panels
from keymark.reports.stats.statistics import Summary

_PANEL_ROWS = 4
_MARKERS = "osD^vPX"
_FAR_SIZES = 8
_FAR_VALUES = 20
_LABEL_HEIGHT = 0.11
_BESIDE = 0.012
_NAMES_AT = 1.06


@dataclass(frozen=True, slots=True, kw_only=True)
class Beyond:
    """A line at PUBLISHED_ROWS, where nothing was measured.

    Attributes:
        line: the line.
        projection: what its fit is there, in base units.
        published: what was published for its index, in base units; 0 for nothing.
    """

    line: Line
    projection: Summary
    published: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scales:
    """What the axes of all panels count in.

    Attributes:
        unit: name of what the values are in.
        base: base units in one of it.
        sizes: that were measured, ascending.
        highest: end of the values, in `unit`.
        lowest: smallest value above zero where the values are on a logarithmic axis, else 0.
        has_zero: whether a value is zero.
        log_x: whether the sizes are on a logarithmic axis.
    """

    unit: str
    base: float
    sizes: tuple[int, ...]
    highest: float
    lowest: float
    has_zero: bool
    log_x: bool

    @classmethod
    def of(cls, measure: Measure, found: Sequence[Line], beyond: Sequence[Beyond] = ()) -> Scales:
        """Choose what suits the lines, and what is drawn beyond them."""
        summaries = [each for line in found for each in line.summaries().values()]
        values = [value for each in summaries for value in (each.low, each.high)]
        has_zero = min(values) == 0
        # A projection whose interval begins at zero does not make room for zero.
        values += [
            value for each in beyond for value in (each.projection.low, each.projection.high)
        ]
        values += [each.published for each in beyond]
        low, high = min(filter(None, values), default=0.0), max(values)
        base, unit = axis_scale(measure.unit, high)
        every = {size for line in found for size in line.values}
        sizes = tuple(sorted(every | ({PUBLISHED_ROWS} if beyond else set())))
        far = high >= _FAR_VALUES * low > 0
        return cls(
            unit=unit,
            base=base,
            sizes=sizes,
            highest=high / base,
            lowest=low / base if far else 0.0,
            has_zero=has_zero,
            log_x=sizes[-1] >= _FAR_SIZES * sizes[0],
        )

    def beside(self, sizes: Sequence[int], steps: float) -> list[float]:
        """Sizes moved a little, so that intervals of several lines do not hide each other."""
        first, last = self.sizes[0], self.sizes[-1]
        if self.log_x:
            return [size * (last / first) ** (_BESIDE * steps) for size in sizes]
        return [size + (last - first) * _BESIDE * steps for size in sizes]


def growth_chart(
    measure: Measure,
    found: Sequence[Line],
    *,
    title: str,
    along: str,
    beyond: Sequence[Beyond] = (),
) -> Drawing:
    """Draw medians with intervals; all panels have the same axes, linear ones from zero.

    Args:
        measure: what is drawn.
        found: its lines.
        title: of the stand-alone picture.
        along: what the sizes are.
        beyond: what is drawn at PUBLISHED_ROWS.
    """
    shown = panels(found)
    names = list(dict.fromkeys(line.name for line in found))
    scales = Scales.of(measure, found, beyond)

    def draw(figure: FigureBase) -> None:
        every = figure.subplots(len(shown), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, panel in zip(every, shown, strict=True):
            _finish(axes, ", ".join([*panel_names(panel[0], found), scales.unit]), scales)
            for line in panel:
                place = names.index(line.name)
                steps = place - (len(names) - 1) / 2
                _draw_line(axes, line, scales, marker=_MARKERS[place % 7], steps=steps)
            for each in beyond:
                if each.line in panel:
                    _draw_beyond(axes, each, scales)
            _name_lines(axes, panel, beyond, scales)
        summaries = [each for line in found for each in line.summaries().values()]
        legend = "\ndashed: projection" if beyond else ""
        legend += "; star: published" if any(each.published for each in beyond) else ""
        every[-1].set_xlabel(f"{along}\n{interval_words(summaries)}{legend}")

    return Drawing(draw=draw, rows=_PANEL_ROWS * len(shown) + 1, title=title)


def panel_names(line: Line, found: Sequence[Line]) -> list[str]:
    """What tells the panel of a line from others: its shape of keys, its engine, or nothing."""
    engines = {each.engine for each in found}
    names = [line.shape] if line.shape else []
    names += [line.engine] if len(engines) > 1 or not names else []
    return [clean(name, 40) for name in names]


def spread_out(places: Sequence[float], gap: float) -> list[float]:
    """Move places apart until any two have the gap between them, within 0 and 1 if they fit.

    Their order stays; those that are far enough apart stay where they are.
    """
    order = sorted(range(len(places)), key=lambda each: places[each])
    moved = [0.0] * len(places)
    floor = 0.0
    for each in order:
        moved[each] = max(places[each], floor)
        floor = moved[each] + gap
    ceiling = max(1.0, gap * (len(places) - 1))
    for each in reversed(order):
        moved[each] = min(moved[each], ceiling)
        ceiling = moved[each] - gap
    return moved


def _draw_line(axes: Axes, line: Line, scales: Scales, *, marker: str, steps: float) -> None:
    known = line.summaries()
    middle = [each.median / scales.base for each in known.values()]
    around = [
        [(each.median - each.low) / scales.base for each in known.values()],
        [(each.high - each.median) / scales.base for each in known.values()],
    ]
    color = line.spec.color
    at = scales.beside(list(known), steps)
    axes.errorbar(at, middle, yerr=around, fmt="none", ecolor=color, elinewidth=1.2, zorder=2)
    # A rim in ink keeps the pale colours apart from the paper.
    rim = [Stroke(linewidth=2.2, foreground=INK), Normal()]
    axes.plot(at, middle, color=color, linewidth=1.5, zorder=3, path_effects=rim)
    axes.plot(
        at, middle, color=color, marker=marker, markersize=5, linestyle="none", zorder=4,
        markeredgecolor=INK, markeredgewidth=0.6,
    )  # fmt: skip


def _draw_beyond(axes: Axes, beyond: Beyond, scales: Scales) -> None:
    """A dashed line to a hollow mark with its interval, and a star for what was published."""
    line, at = beyond.line, beyond.projection
    size, last = list(line.summaries().items())[-1]
    color, end = line.spec.color, at.median / scales.base
    around = [[end - at.low / scales.base], [at.high / scales.base - end]]
    axes.errorbar([PUBLISHED_ROWS], [end], yerr=around, fmt="none", ecolor=color, elinewidth=1.2)
    # A straight line over the rows is a curve where their axis is logarithmic.
    rows = np.geomspace(size, PUBLISHED_ROWS)
    values = np.interp(rows, [size, PUBLISHED_ROWS], [last.median / scales.base, end])
    axes.plot(
        rows, values, color=color, linewidth=1.2, zorder=3,
        linestyle="--", marker="o", markersize=5, markevery=[-1], markerfacecolor="none",
    )  # fmt: skip
    if beyond.published:
        axes.plot(
            [PUBLISHED_ROWS], [beyond.published / scales.base], color=color, marker="*",
            markersize=11, markeredgecolor=INK, markeredgewidth=0.6, zorder=4,
        )  # fmt: skip


def _name_lines(
    axes: Axes, panel: Sequence[Line], beyond: Sequence[Beyond], scales: Scales
) -> None:
    """Write each index's name to the right of its last point, one below the other."""
    to_axes = axes.transScale + axes.transLimits
    ends = []
    for line in panel:
        points = list(line.summaries().items())
        points += [(PUBLISHED_ROWS, each.projection) for each in beyond if each.line is line]
        size, summary = points[-1]
        ends.append(to_axes.transform((size, summary.median / scales.base)))
    heights = spread_out([float(y) for _, y in ends], _LABEL_HEIGHT)
    for line, (x, y), height in zip(panel, ends, heights, strict=True):
        axes.plot(
            [x, _NAMES_AT], [y, height], color=line.spec.color, linewidth=1.0,
            transform=axes.transAxes, clip_on=False, zorder=1,
        )  # fmt: skip
        axes.text(
            _NAMES_AT + 0.01, height, clean(line.name, 24), va="center", fontsize=8.5,
            transform=axes.transAxes,
        )  # fmt: skip


def _finish(axes: Axes, name: str, scales: Scales) -> None:
    style_panel(axes, name)
    first, last = scales.sizes[0], scales.sizes[-1]
    if scales.log_x:
        axes.set_xscale("log")
        axes.set_xlim(first / 1.4, last * 1.4)
        axes.xaxis.set_major_locator(FixedLocator(scales.sizes))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(EngFormatter())
    else:
        axes.set_xlim(0, last * 1.05)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        number_ticks(axes.xaxis)
    if scales.lowest:
        _logarithmic(axes, scales)
    else:
        axes.set_ylim(0, scales.highest * 1.05 or 1)
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))


def _logarithmic(axes: Axes, scales: Scales) -> None:
    """A logarithmic axis of values, with a place for zero below the smallest of them."""
    few = scales.highest < 100 * scales.lowest
    least, top = scales.lowest, scales.highest * 1.3
    if scales.has_zero:
        axes.set_yscale("symlog", linthresh=scales.lowest, linscale=0.5)
        axes.set_ylim(-0.2 * scales.lowest, top)
    else:
        least /= 1.3
        axes.set_yscale("log")
        axes.set_ylim(least, top)
    ticks = ticks_within(LogLocator(subs=(1, 2, 5) if few else (1, 3)), least, top)
    axes.yaxis.set_major_locator(FixedLocator([0.0, *ticks] if scales.has_zero else ticks))
    axes.yaxis.set_minor_locator(NullLocator())
    number_ticks(axes.yaxis)
