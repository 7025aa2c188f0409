"""Which index for which table and workload: a map over the rows of tables and batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from keymark.reports.render.charts import INK, Drawing, style_panel
from keymark.reports.render.figures import Chart, chart
from keymark.reports.render.grids import Entry, Grid, Row
from keymark.reports.render.text import NOTHING, listed
from keymark.reports.site.model import RunEntry, Spot

_TITLES = {
    "write_latency": "Fastest to write a batch",
    "tag": "Fastest to find the rows of a batch",
    "lookup": "Fastest to look keys up",
}
_AMONG = {True: "indexes that find a key anywhere", False: "all indexes"}
_ROWS = 8
_MARKERS = "osD^vPX"
_ROOM = 1.6


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexMap:
    """One map.

    Attributes:
        chart: the picture with its table.
        sentence: what it shows.
        runs: ids of the runs that it is made of.
    """

    chart: Chart
    sentence: str
    runs: tuple[str, ...]


def index_maps(entries: Sequence[RunEntry]) -> list[IndexMap]:
    """A map of each measure; where several runs say something of one place, the first of them."""
    made = []
    for (key, title), is_anywhere in product(_TITLES.items(), (True, False)):
        found: dict[tuple[str, int, int], tuple[Spot, str]] = {}
        for entry in entries:
            for spot in entry.spots:
                if (spot.measure, spot.is_anywhere) == (key, is_anywhere):
                    place = (spot.shape, spot.rows, spot.batch)
                    found.setdefault(place, (spot, entry.run_id))
        if found:
            spots = [spot for _, (spot, _) in sorted(found.items())]
            runs = tuple(dict.fromkeys(run_id for _, run_id in found.values()))
            made.append(_map(key, f"{title}: {_AMONG[is_anywhere]}", spots, runs))
    return made


def _map(key: str, title: str, spots: Sequence[Spot], runs: tuple[str, ...]) -> IndexMap:
    """The map of a measure among the indexes that its title names."""
    sentence = _sentence(spots)
    label = f"Map of {title[0].lower()}{title[1:]}, by rows of the table and of a batch. {sentence}"
    drawing = Drawing(draw=lambda figure: _draw(figure, key, spots), rows=_ROWS, title=title)
    name = f"map_{key}" if spots[0].is_anywhere else f"map_{key}_all"
    return IndexMap(
        chart=chart(name, title, label, drawing, _grid(title, spots)),
        sentence=sentence,
        runs=runs,
    )


def _sentence(spots: Sequence[Spot]) -> str:
    won = Counter(spot.first for spot in spots if spot.is_clear)
    unclear = sum(not spot.is_clear for spot in spots)
    parts = [f"{name} is fastest in {count}" for name, count in won.most_common()]
    parts += [f"{unclear} {'has' if unclear == 1 else 'have'} no clear winner"] if unclear else []
    many = len(spots) > 1
    return f"Of {len(spots)} combination{'s' if many else ''} measured, {listed(parts)}."


def _grid(title: str, spots: Sequence[Spot]) -> Grid:
    batches = sorted({spot.batch for spot in spots})
    rows: dict[tuple[str, int], dict[int, Spot]] = {}
    for spot in spots:
        rows.setdefault((spot.shape, spot.rows), {})[spot.batch] = spot
    return Grid(
        caption=title,
        heads=tuple(f"{batch:,}" for batch in batches),
        rows=tuple(
            Row(
                label=" · ".join(filter(None, [shape, f"{size:,} rows"])),
                index="",
                entries=tuple(_entry(found.get(batch)) for batch in batches),
            )
            for (shape, size), found in rows.items()
        ),
    )


def _entry(spot: Spot | None) -> Entry:
    if spot is None:
        return Entry(value=NOTHING)
    index = spot.first if spot.is_clear else ""
    return Entry(value=spot.first if index else "no clear winner", spread=spot.words, index=index)


def _draw(figure: FigureBase, key: str, spots: Sequence[Spot]) -> None:
    """A mark for each place; those of several shapes of keys stand beside each other."""
    axes = figure.add_subplot()
    style_panel(axes, "")
    axes.set_xscale("log")
    axes.set_yscale("log")
    names = list(dict.fromkeys(spot.first for spot in spots if spot.is_clear))
    shapes = list(dict.fromkeys(spot.shape for spot in spots))
    handles = {}
    for spot in spots:
        beside = 1.12 ** (shapes.index(spot.shape) - (len(shapes) - 1) / 2)
        marker = _MARKERS[names.index(spot.first) % len(_MARKERS)] if spot.is_clear else "o"
        face = spot.color if spot.is_clear else "none"
        axes.plot(
            [spot.rows * beside], [spot.batch], marker=marker, markersize=9, linestyle="",
            markerfacecolor=face, markeredgecolor=INK, markeredgewidth=0.8,
        )  # fmt: skip
        name = spot.first if spot.is_clear else "no clear winner"
        handles[name] = Line2D(
            [], [], marker=marker, markersize=7, linestyle="", markerfacecolor=face,
            markeredgecolor=INK, markeredgewidth=0.8, label=name,
        )  # fmt: skip
    for axis, sizes, limit in (
        (axes.xaxis, sorted({spot.rows for spot in spots}), axes.set_xlim),
        (axes.yaxis, sorted({spot.batch for spot in spots}), axes.set_ylim),
    ):
        limit(sizes[0] / _ROOM, sizes[-1] * _ROOM)
        axis.set_major_locator(FixedLocator(sizes))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(_short))
    what = "keys asked" if key == "lookup" else "rows of a batch"
    axes.set_xlabel(f"rows of the table\nupwards: {what}")
    figure.legend(
        handles=list(handles.values()), loc="outside lower left", ncols=3, frameon=False,
        fontsize=9, handlelength=1.2, columnspacing=1.0,
    )  # fmt: skip


def _short(value: float, _place: object) -> str:
    """A number of rows as an axis has room for it: `200k`, `1M`."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:,.3g}{letter}"
    return f"{value:,.0f}"
