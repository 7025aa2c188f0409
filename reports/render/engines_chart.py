"""Ratios of ours to another engine's as a picture: a point with its interval for each index."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import FigureBase

from keymark.reports.render.charts import (
    INK,
    Drawing,
    frame_rows,
    interval_words,
    log_ticks,
)
from keymark.reports.render.format_values import times
from keymark.reports.stats.statistics import Summary

PREFIX = "engines_"
"""How the names of its chart files begin."""

_ROOM = 1.15


def engines_chart(
    ratios: Sequence[tuple[str, str, Summary]], *, engine: str, title: str
) -> Drawing:
    """Draw ratios one below the other on a logarithmic axis, with a line at 1.

    Args:
        ratios: label, colour and ratio of each row.
        engine: what the ratios are multiples of, as the axis says it.
        title: of the chart where it stands alone.
    """
    shown = [ratio for _, _, ratio in ratios]
    ends = [end for ratio in shown for end in (ratio.low, ratio.high) if end > 0]
    low, high = min(1.0, *ends) / _ROOM, max(1.0, *ends) * _ROOM

    def draw(figure: FigureBase) -> None:
        axes = figure.add_subplot()
        axes.axvline(1.0, color=INK, linewidth=1.2)
        middle = [max(ratio.median, low) for ratio in shown]
        least = [at - max(ratio.low, low) for at, ratio in zip(middle, shown, strict=True)]
        most = [ratio.high - at for at, ratio in zip(middle, shown, strict=True)]
        rows = range(len(shown))
        axes.errorbar(
            middle, rows, xerr=[least, most], fmt="none", ecolor=INK, elinewidth=1.2, capsize=3
        )
        axes.scatter(
            middle, rows, s=64, c=[color for _, color, _ in ratios], edgecolors=INK,
            linewidths=0.8, zorder=3,
        )  # fmt: skip
        for row, ratio in enumerate(shown):
            axes.text(
                1.02, row, times(ratio.median), va="center", fontsize=9,
                transform=axes.get_yaxis_transform(),
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        labels = [label.replace(" · ", "\n", 1) for label, _, _ in ratios]
        words = f"Keymark's time as a multiple of {engine}\n{interval_words(shown)}"
        frame_rows(axes, labels, log_ticks(low, high), words)

    return Drawing(draw=draw, rows=len(ratios), title=title)
