"""The lookup model as a picture: measured points and the fitted line, both axes logarithmic."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from keymark.harness.store.units import Unit
from keymark.reports.render.charts import INK, Drawing, style_panel
from keymark.reports.render.format_values import amount
from keymark.reports.stats.lookup_model import CACHES, LookupModel

MARKERS = "osD^vP"
"""One per number of shards, ascending; those beyond share the last."""

_ROWS = 11
_PANEL_NAMES = {"cold": "cold cache", "warm": "warm cache"}


def model_chart(model: LookupModel, state: str, title: str) -> Drawing:
    """Draw the points of one state of the index, cold above warm, with the model of each."""
    color = model.spec.color

    def draw(figure: FigureBase) -> None:
        panels = figure.subplots(len(CACHES), 1, sharex=True, sharey=True)
        for axes, cache in zip(panels, CACHES, strict=True):
            axes.set_xscale("log")
            axes.set_yscale("log")
            for spot in model.spots:
                if (spot.state, spot.cache) == (state, cache):
                    axes.plot(
                        spot.load, spot.wall, marker(model, spot.shards), markersize=5,
                        color=color, markerfacecolor=color if spot.kind == "present" else "none",
                    )  # fmt: skip
            _line(axes, model, state, cache)
            _finish(axes, _PANEL_NAMES[cache])
        panels[-1].set_xlabel("M/N, keys per shard\nmedians; filled: keys present, hollow: absent")
        figure.legend(
            handles=_legend(model, color), loc="outside lower left", ncols=4, frameon=False,
            fontsize=9, handlelength=1.2, columnspacing=1.0,
        )  # fmt: skip

    return Drawing(draw=draw, rows=_ROWS, title=title)


def marker(model: LookupModel, shards: int) -> str:
    """The marker of a number of shards."""
    return MARKERS[min(model.shard_counts.index(shards), len(MARKERS) - 1)]


def _line(axes: Axes, model: LookupModel, state: str, cache: str) -> None:
    fit = model.of(state, cache)
    if fit is None:
        return
    ends = [spot.load for spot in model.spots]
    low, high = min(ends), max(ends)
    loads = [low * (high / low) ** (step / 60) for step in range(61)]
    axes.plot(loads, [max(fit.at(load), 1e-9) for load in loads], color=INK, linewidth=1.2)


def _finish(axes: Axes, name: str) -> None:
    style_panel(axes, name)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: amount(y, Unit.SECONDS.value)))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())


def _legend(model: LookupModel, color: str) -> list[Line2D]:
    handles = [
        Line2D([], [], color=color, marker=marker(model, shards), linestyle="", markersize=5,
               label=f"N = {shards}")
        for shards in model.shard_counts
    ]  # fmt: skip
    return [*handles, Line2D([], [], color=INK, linewidth=1.2, label="K + (M/N)·c")]
