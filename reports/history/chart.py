"""A history as a picture: a panel for each number, its changes marked."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import MaxNLocator

from keymark.harness.store.results import PHASES
from keymark.indexes import installed
from keymark.reports.history.series import History, NumberHistory
from keymark.reports.render.charts import INK, Drawing, style_panel
from keymark.reports.render.format_values import axis_scale
from keymark.reports.render.text import clean

PANELS = 8
"""Numbers that a chart shows at most."""

_MARK = "#b3261e"
_PANEL_ROWS = 3


def history_chart(history: History) -> Drawing:
    """Draw the numbers that changed, then the times of whole steps that did not.

    A dot is the median of a run, a line the median of a level, a dashed line a change, and a
    dotted line where a step begins anew.
    """
    shown, not_all = _candidates(history)[:PANELS], drawn_words(history)
    title = "Changes of level" if history.changed else "No change of level"

    def draw(figure: FigureBase) -> None:
        panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
        for axes, series in zip(panels, shown, strict=True):
            _panel(axes, series)
            for begin in history.begins:
                if series.key.step == begin.step:
                    axes.axvline(begin.run - 0.5, color=INK, linewidth=1.2, linestyle=":")
        panels[-1].set_xlim(-0.5, len(history.runs) - 0.5)
        panels[-1].xaxis.set_major_locator(MaxNLocator(6, integer=True))
        panels[-1].set_xlabel(
            f"run, {history.runs[0][:40]} is 0\ndot: median of a run, line: median of a level,\n"
            "dashed: change"
            + ("; dotted: the step begins anew" if history.begins else "")
            + (f"\n{not_all}" if not_all else "")
        )

    return Drawing(draw=draw, rows=_PANEL_ROWS * len(shown), title=title)


def drawn_words(history: History) -> str:
    """How many of how many numbers a chart shows; empty where it shows all."""
    many = len(_candidates(history))
    return f"{PANELS} of {many} drawn, the largest changes first" if many > PANELS else ""


def _candidates(history: History) -> list[NumberHistory]:
    """The numbers that are worth a panel; where there is none, all."""
    steady = [
        each
        for each in history.series
        if not each.changes and (each.key.phase, each.unit) == (PHASES[-1], "s")
    ]
    return [*history.changed, *steady] or list(history.series)


def _panel(axes: Axes, series: NumberHistory) -> None:
    scale, unit = axis_scale(series.unit, max(map(abs, series.values)))
    index = series.key.cell.split("/")[1] if "/" in series.key.cell else ""
    color = installed.color_of(index)
    axes.plot(
        series.runs,
        [value / scale for value in series.values],
        linestyle="",
        marker="o",
        markersize=3.5,
        color=color,
    )
    style_panel(axes, f"{clean(' '.join(series.key), 60)}, {unit}")
    for first, last, level in levels(series):
        axes.hlines(level / scale, first - 0.4, last + 0.4, color=INK, linewidth=1.2)
    for change in series.changes:
        axes.axvline(series.runs[change.at] - 0.5, color=_MARK, linewidth=1.2, linestyle="--")
    highest = max(series.values) / scale
    axes.set_ylim(0, 1.25 * highest if highest > 0 else 1)
    axes.yaxis.set_major_locator(MaxNLocator(3))
    for change in series.changes:
        axes.annotate(
            change_words(change.ratio),
            (series.runs[change.at] - 0.5, 1.0),
            (3, -2),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            va="top",
            color=_MARK,
            fontsize=8.5,
        )


def levels(series: NumberHistory) -> Sequence[tuple[int, int, float]]:
    """First run, last run and median of each level."""
    starts = [0, *(change.at for change in series.changes)]
    stops = [*starts[1:], len(series.runs)]
    medians = [series.changes[0].before] if series.changes else [median(series.values)]
    medians += [change.after for change in series.changes]
    return [
        (series.runs[start], series.runs[stop - 1], level)
        for start, stop, level in zip(starts, stops, medians, strict=True)
    ]


def change_words(ratio: float | None) -> str:
    """A change in words: ``+12%``."""
    if ratio is None:
        return "from zero"
    return f"{ratio - 1.0:+.0%}" if abs(ratio - 1.0) >= 0.02 else f"{ratio - 1.0:+.2%}"
