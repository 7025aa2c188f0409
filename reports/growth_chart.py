"""A measure over the rows of the table as a picture: a line per index, a panel per engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from reports.amounts import axis_scale
from reports.charts import GRID, INDEX_COLORS, UNKNOWN_COLOR, Drawing, interval_words, render
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
            _finish(axes, clean(engine, 40), unit)
        panels[-1].set_xlabel(f"rows of the table\n{interval_words(summaries)}")
        panels[-1].xaxis.label.set_fontsize(9)
        figure.legend(
            handles=[
                Line2D([], [], color=_color(index), marker=_MARKERS[place % 7], markersize=5,
                       label=clean(index, 40))
                for place, index in enumerate(indexes)
            ],
            loc="outside lower left", ncols=3, frameon=False, fontsize=9,
        )  # fmt: skip

    return render(draw, rows=_PANEL_ROWS * len(engines) + 1, title=title)


def _color(index: str) -> str:
    return INDEX_COLORS.get(index, UNKNOWN_COLOR)


def _draw_line(axes: Any, line: Line, marker: str, scale: float) -> None:
    known = line.summaries()
    middle = [each.median / scale for each in known.values()]
    around = [
        [(each.median - each.low) / scale for each in known.values()],
        [(each.high - each.median) / scale for each in known.values()],
    ]
    axes.errorbar(
        list(known), middle, yerr=around, color=_color(line.index), marker=marker, markersize=5,
        linewidth=1.4, capsize=3, elinewidth=1.0,
    )  # fmt: skip


def _finish(axes: Any, name: str, unit: str) -> None:
    axes.set_title(f"{name}, {unit}", fontsize=9, loc="left")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}"))
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=8.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
