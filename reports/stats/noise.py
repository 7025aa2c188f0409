"""The machine's noise during a run: what the canary saw, in words, numbers and a picture.

`keymark.harness.store.beats` says what is taken from the beats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from matplotlib.figure import FigureBase

from keymark.harness.store.beats import LOADS, Spread, spreads
from keymark.harness.store.results import Beat
from keymark.harness.store.units import Unit
from keymark.reports.model.projection import Run
from keymark.reports.render.charts import INK, Drawing, style_panel
from keymark.reports.render.figures import Chart, chart
from keymark.reports.render.format_values import amount, digits, interval
from keymark.reports.render.grids import Entry, Grid, Row
from keymark.reports.render.prose import Answer
from keymark.reports.render.text import clean

PREFIX = "noise"
"""How the names of its chart files begin."""

TITLE = "The machine's noise"
_CHART_TITLE = "Every beat of the canary"

_SECONDS = Unit.SECONDS.value
_BAND_ROWS = 2
_BAND = 0.9
_MARKERS = {"processor": "o", "disk": "s", "memory": "^"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisePart:
    """The section of one run.

    Attributes:
        run_id: the run's own id.
        name: what the run is called on the page, empty when it is the only one.
        grid: the spreads.
        findings: what they mean.
        chart: every beat over the time of the run.
    """

    run_id: str
    name: str
    grid: Grid
    findings: list[Answer]
    chart: Chart


def noise_part(run: Run) -> NoisePart | None:
    """The section of a run, None if its canary took too few beats to say anything."""
    found = spreads(run.beats)
    if not found:
        return None
    numbers = _grid(found, len(run.beats))
    findings = [_finding(each) for each in found]
    words = " ".join(f"{each.topic}: {each.words}." for each in findings)
    label = f"Chart of the canary's times over the minutes of the run. {words}"
    drawing = _drawing(run.beats)
    return NoisePart(
        run_id=clean(run.run_id),
        name=run.name if run.label else "",
        grid=numbers,
        findings=findings,
        chart=chart(f"{PREFIX}{run.file_suffix}", _CHART_TITLE, label, drawing, numbers),
    )


def noise_values(beats: Sequence[Beat]) -> list[dict[str, Any]]:
    """The spreads in base units, for summary.json."""
    return [
        {
            "load": each.load,
            "unit": _SECONDS,
            "median": each.middle,
            "p10": each.low,
            "p90": each.high,
            "most": each.worst,
            "spread": each.share,
            "drift": each.drift,
            "n": len(beats),
        }
        for each in spreads(beats)
    ]


def _grid(found: Sequence[Spread], beats: int) -> Grid:
    rows = [
        Row(
            label=each.load,
            index="",
            entries=(
                Entry(value=amount(each.middle, _SECONDS)),
                Entry(value=interval(each.low, each.high, _SECONDS) or "all equal"),
                Entry(value=_percent(each.share)),
                Entry(value=amount(each.worst, _SECONDS)),
                Entry(value=f"{each.drift - 1:+.0%}"),
            ),
        )
        for each in found
    ]
    heads = ("median", "middle four fifths", "their width", "slowest", "last third to first")
    return Grid(caption=f"{TITLE}: {beats} beats of the canary", heads=heads, rows=tuple(rows))


def _finding(each: Spread) -> Answer:
    words = (
        f"the same work took {amount(each.middle, _SECONDS)}, four of five times within a range "
        f"of {_percent(each.share)} of that"
    )
    return Answer(topic=each.load.capitalize(), words=words)


def _percent(share: float) -> str:
    return f"{digits(100 * share)} %"


def _drawing(beats: Sequence[Beat]) -> Drawing:
    minutes = [(beat.at - beats[0].at) / 60 for beat in beats]
    taken = {load: [getattr(beat, name) for beat in beats] for load, name in LOADS.items()}

    def draw(figure: FigureBase) -> None:
        axes = figure.add_subplot()
        middles, labels = [], []
        for floor, (load, values) in enumerate(reversed(taken.items())):
            shares = [floor + _BAND * value / max(values) for value in values]
            axes.axhline(floor, color=INK, linewidth=0.8)
            axes.plot(
                minutes, shares, _MARKERS[load], color=INK, markersize=3.5, markerfacecolor="none"
            )
            middles.append(median(shares))
            labels.append(f"{load}\n{amount(median(values), _SECONDS)}")
        axes.set_ylim(0, len(taken))
        style_panel(axes, "")
        axes.set_yticks(middles, labels)
        axes.set_xlabel(
            "minutes of the run\neach load from zero to its slowest beat, beside the median;\n"
            "steady points are a quiet machine"
        )

    return Drawing(draw=draw, rows=len(LOADS) * _BAND_ROWS, title=_CHART_TITLE)
