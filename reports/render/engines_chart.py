"""Ratios of ours to another engine's as a picture: a point with its interval for each index."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import FigureBase
from matplotlib.ticker import NullLocator

from keymark.reports.render.charts import (
    GRID,
    INK,
    Drawing,
    interval_words,
    log_ticks,
    number_ticks,
)
from keymark.reports.render.format_values import times
from keymark.reports.stats.statistics import Summary

PREFIX = "engines_"
"""How the names of its chart files begin."""

_ROOM = 1.15


def engines_chart(
    ratios: Sequence[tuple[str, str, Summary]], *, engine: str, title: str
) -> Drawing:
    """Draw (label, colour, ratio) one below the other on a logarithmic axis, with a line at 1."""
    shown = [ratio for _, _, ratio in ratios]
    ends = [end for ratio in shown for end in (ratio.low, ratio.high) if end > 0]
    low, high = min(1.0, *ends) / _ROOM, max(1.0, *ends) * _ROOM

    def draw(figure: FigureBase) -> None:
        axes = figure.add_subplot()
        axes.axvline(1.0, color=INK, linewidth=1.2)
        for row, (_, color, ratio) in enumerate(ratios):
            at = max(ratio.median, low)
            around = [[at - max(ratio.low, low)], [ratio.high - at]]
            axes.errorbar(
                at, row, xerr=around, fmt="o", color=color, ecolor=INK,
                markersize=8, markeredgecolor=INK, markeredgewidth=0.8, elinewidth=1.2, capsize=3,
            )  # fmt: skip
            axes.text(
                1.02, row, times(ratio.median), va="center", fontsize=9,
                transform=axes.get_yaxis_transform(),
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        axes.set_ylim(len(ratios) - 0.5, -0.5)
        axes.set_yticks(
            range(len(ratios)), [label.replace(" · ", "\n", 1) for label, _, _ in ratios]
        )
        axes.xaxis.set_major_locator(log_ticks(low, high))
        axes.xaxis.set_minor_locator(NullLocator())
        number_ticks(axes.xaxis)
        axes.grid(axis="x", color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(length=0)
        axes.xaxis.label.set_fontsize(9)
        axes.set_xlabel(f"Keymark's time as a multiple of {engine}\n{interval_words(shown)}")
        for side in ("top", "right", "bottom"):
            axes.spines[side].set_visible(False)

    return Drawing(draw=draw, rows=len(ratios), title=title)
