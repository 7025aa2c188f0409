"""Several values of a kind on each row, as dots on a logarithmic axis: ratios, errors."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from keymark.reports.render.charts import INK, Drawing, frame_rows, log_ticks, ticks_within

_MARKERS = "osD^vPX*<>"
_ROOM = 1.2
_EDGE = 1.05
_NARROW = 4
# Up to so many dots a row needs less than the height of a bar: that of two lines of its label.
_FEW_DOTS, _DENSE = 2, 0.8
_LABEL, _NAME, _AXIS = 26, 34, 40
"""Letters in a line of a row's label, of an entry of the legend, and below the axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One value.

    Attributes:
        name: what it is of; dots of a name have one mark on all rows.
        color: of the dot.
        value: at least 0; 0 stands at the axis' left end.
        low: lower end of its interval; that of a value without one is the value.
        high: upper end.
    """

    name: str
    color: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DotRow:
    """The values of one row, beside each other from the top down."""

    label: str
    dots: tuple[Dot, ...]


def dots_chart(
    rows: Sequence[DotRow], *, title: str, axis: str, line: float | None = 1.0
) -> Drawing:
    """Draw rows one below the other.

    Args:
        rows: at least one, with a dot above 0.
        title: of the chart where it stands alone.
        axis: what the values are, with their unit.
        line: value at which a line stands; None for none.
    """
    names = list(dict.fromkeys(dot.name for row in rows for dot in row.dots))
    colors = {dot.name: dot.color for row in rows for dot in row.dots}
    marks = {name: _MARKERS[place % len(_MARKERS)] for place, name in enumerate(names)}
    ends = [end for row in rows for dot in row.dots for end in (dot.low, dot.value, dot.high)]
    known = [end for end in (*ends, *([] if line is None else [line])) if end > 0]
    low, high = min(known) / _ROOM, max(known) * _ROOM
    # The dots of a row lie around its middle.
    placed = [
        (place + 0.7 * ((number + 0.5) / len(row.dots) - 0.5), dot)
        for place, row in enumerate(rows)
        for number, dot in enumerate(row.dots)
    ]

    def draw(figure: FigureBase) -> None:
        axes = figure.add_subplot()
        if line is not None:
            axes.axvline(line, color=INK, linewidth=1.2)
        for name, color in dict.fromkeys((dot.name, dot.color) for _, dot in placed):
            mine = [(at, dot) for at, dot in placed if (dot.name, dot.color) == (name, color)]
            middle = [max(dot.value, low * _EDGE) for _, dot in mine]
            least = [min(max(dot.low, low), x) for x, (_, dot) in zip(middle, mine, strict=True)]
            most = [max(dot.high, x) for x, (_, dot) in zip(middle, mine, strict=True)]
            axes.errorbar(
                middle, [at for at, _ in mine], xerr=np.abs(np.subtract([least, most], middle)),
                fmt=marks[name], color=color, ecolor=INK, markersize=5.5,
                markeredgecolor=INK, markeredgewidth=0.6, elinewidth=0.9,
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        few = MaxNLocator(4)
        ticks = ticks_within(few, low, high) if high < _NARROW * low else log_ticks(low, high)
        words = "\n".join(textwrap.fill(line, _AXIS) for line in axis.split("\n"))
        words = words if all(ends) else f"{words}\nat the left edge: 0"
        labels = [textwrap.fill(row.label, _LABEL) for row in rows]
        frame_rows(axes, labels, ticks, words, size=8.5)
        handles = [
            Line2D(
                [], [], marker=marks[name], linestyle="", markersize=5.5, label=name[:_NAME],
                markerfacecolor=colors[name], markeredgecolor=INK, markeredgewidth=0.6,
            )
            for name in names
        ]  # fmt: skip
        figure.legend(
            handles=handles, loc="outside lower left", ncols=2, frameon=False, fontsize=8,
            handlelength=1.0, columnspacing=1.0,
        )  # fmt: skip

    height = _DENSE if max(len(row.dots) for row in rows) <= _FEW_DOTS else 1.0
    # A line of the legend takes less than half of a row.
    return Drawing(draw=draw, rows=height * len(rows) + 1 + len(names) // 4, title=title)
