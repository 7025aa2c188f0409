"""A measure over the rows of the table as a picture: a line per index, a panel per engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from reports.amounts import axis_scale
from reports.charts import Drawing, index_color, interval_words, render, style_panel
from reports.growth import Line
from reports.tables import Measure
from reports.text import clean

_PANEL_ROWS = 4
_MARKERS = "osD^vPX"


def growth_chart(measure: Measure, found: Sequence[Line], title: str) -> Drawing:
    """Draw medians with intervals; all panels have the same axes, both from zero."""
    engines = list(dict.fromkeys(line.engine for line in found))
    indexes = list(dict.fromkeys(line.index for line in found))
    summaries = [each for line in found for each in line.summaries().values()]
    scale, unit = axis_scale(measure.unit, max(each.high for each in summaries))

    def draw(figure: Figure) -> None:
        panels = figure.subplots(len(engines), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, engine in zip(panels, engines, strict=True):
            for line in found:
                if line.engine == engine:
                    _draw_line(axes, line, _MARKERS[indexes.index(line.index) % 7], scale)
        # Only now: a limit that is set keeps the shared axes from growing with later panels.
        for axes, engine in zip(panels, engines, strict=True):
            _finish(axes, clean(engine, 40), unit)
        panels[-1].set_xlabel(f"rows of the table\n{interval_words(summaries)}")
        figure.legend(
            handles=[
                Line2D([], [], color=index_color(index), marker=_MARKERS[place % 7], markersize=5,
                       label=clean(index, 40))
                for place, index in enumerate(indexes)
            ],
            loc="outside lower left", ncols=3, frameon=False, fontsize=9,
        )  # fmt: skip

    return render(draw, rows=_PANEL_ROWS * len(engines) + 1, title=title)


def _draw_line(axes: Any, line: Line, marker: str, scale: float) -> None:
    known = line.summaries()
    middle = [each.median / scale for each in known.values()]
    around = [
        [(each.median - each.low) / scale for each in known.values()],
        [(each.high - each.median) / scale for each in known.values()],
    ]
    axes.errorbar(
        list(known), middle, yerr=around, color=index_color(line.index), marker=marker,
        markersize=5, linewidth=1.4, capsize=3, elinewidth=1.0,
    )  # fmt: skip


def _finish(axes: Any, name: str, unit: str) -> None:
    style_panel(axes, f"{name}, {unit}")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
