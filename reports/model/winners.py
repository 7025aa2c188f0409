"""Which index is fastest on which data: a map of shapes and rows against batches.

An index leads where it is ahead of every other one beyond the spread of their paired ratios and the
machine's noise, with three repetitions at least. Otherwise no difference is shown, and the map
says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from keymark.harness.store.data_point import DataPoint
from keymark.reports.model.data_points import by_data, words_of
from keymark.reports.model.measures import BY_KEY, Measure
from keymark.reports.model.projection import CellView
from keymark.reports.render.format_values import digits, times
from keymark.reports.render.grids import Entry, Grid, Row
from keymark.reports.render.text import NOTHING, clean, listed
from keymark.reports.stats.statistics import Summary, is_shown, paired_ratio, summarize

MAPPED = tuple(BY_KEY[key] for key in ("tag", "write_latency", "lookup"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """Who is fastest on the same data.

    Attributes:
        data: that they work on.
        first: the index with the lowest median.
        second: the one next to it; empty when no other was measured.
        margin: the second as a multiple of the first, paired; None without a pair.
        rivals: indexes without a shown difference from the first, nearest first.
    """

    data: DataPoint
    first: str
    second: str
    margin: Summary | None
    rivals: tuple[str, ...]


def winners(cells: Sequence[CellView], measure: Measure) -> list[Winner]:
    """The fastest index on all data that any was measured in; cells of one engine."""
    made = []
    noise = max((cell.noise for cell in cells), default=0.0)
    for data, group in by_data(cells).items():
        found = {cell.index: values for cell in group if (values := measure.values(cell))}
        medians = {index: summarize(list(each.values())).median for index, each in found.items()}
        ranked = sorted(found, key=lambda index: medians[index])
        if not ranked:
            continue
        first, *others = ranked
        ratios = {other: paired_ratio(found[first], found[other])[0] for other in others}
        made.append(
            Winner(
                data=data,
                first=first,
                second=others[0] if others else "",
                margin=ratios[others[0]] if others else None,
                rivals=tuple(
                    other
                    for other, ratio in ratios.items()
                    if not (ratio is not None and ratio.low > 1 and is_shown(ratio, noise))
                ),
            )
        )
    return made


def winner_map(cells: Sequence[CellView], measure: Measure) -> Grid | None:
    """The fastest indexes as a table: a row per shape and rows, a column per batch.

    Indexes that look within a partition only answer less than global ones, so that the global ones
    have columns of their own beside those of all.
    """
    kinds = {"": list(cells)}
    if not all(cell.spec.is_global for cell in cells):
        kinds["global, "] = [cell for cell in cells if cell.spec.is_global]
    found = {
        kind: {won.data: won for won in winners(group, measure)} for kind, group in kinds.items()
    }
    points = [data for data, _ in by_data(cells).items() if data in found[""]]
    if len(points) < 2:
        return None
    batches = sorted({data.batch for data in points})
    heads = [(kind, batch) for kind in found for batch in batches]
    rows = []
    for line in dict.fromkeys(replace(data, batch=0) for data in points):
        at = [(kind, replace(line, batch=batch)) for kind, batch in heads]
        entries = tuple(_entry(found[kind].get(data)) for kind, data in at)
        rows.append(Row(label=words_of(line) or "all", index="", entries=entries))
    return Grid(
        caption=f"Fastest index: {measure.what[0].lower()}{measure.what[1:]}",
        heads=tuple(
            f"{kind}batches of {batch:,}" if batch else f"{kind}fastest" for kind, batch in heads
        ),
        rows=tuple(rows),
    )


def _entry(won: Winner | None) -> Entry:
    if won is None:
        return Entry(value=NOTHING)
    if won.rivals:
        near = listed([clean(index, 20) for index in (won.first, *won.rivals)])
        return Entry(value="no clear winner", spread=near)
    ahead = ""
    if won.margin is not None:
        around = f" ({digits(won.margin.low)} to {digits(won.margin.high)})"
        ahead = f"{clean(won.second, 20)} {times(won.margin.median)}{around}"
    return Entry(value=clean(won.first, 20), spread=ahead or "alone", index=won.first)


def map_values(cells: Sequence[CellView], measure: Measure) -> list[dict[str, Any]]:
    """The map for summary.json."""
    return [
        {
            "measure": measure.key,
            "shape": clean(won.data.shape),
            "rows": won.data.rows or None,
            "batch": won.data.batch or None,
            "fastest": clean(won.first),
            "not_told_apart": [clean(index) for index in won.rivals],
            "next": clean(won.second),
            "next_ratio": won.margin.median if won.margin else None,
            "next_low": won.margin.low if won.margin else None,
            "next_high": won.margin.high if won.margin else None,
        }
        for won in winners(cells, measure)
    ]
