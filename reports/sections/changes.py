"""What differs between two cells on the same data: counters first, then times.

Counters come first, since they repeat whatever the machine does. Times are ratios within each
repetition, where both cells ran side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keymark.harness.store.units import REQUEST_COUNTS
from keymark.reports.model.measures import BY_KEY, LAST, Measure
from keymark.reports.model.projection import UPSERT, CellView
from keymark.reports.render.format_values import amount, times
from keymark.reports.render.grids import Entry, Grid, Row, ratio_words, spread
from keymark.reports.render.prose import LONGEST_LIST
from keymark.reports.render.text import NOTHING, clean, listed
from keymark.reports.stats.statistics import (
    LEAST_CHANGE,
    Summary,
    is_shown,
    paired_ratio,
    summarize,
)

_STEPS = {
    "bulk_insert": "a load",
    UPSERT: "an upsert",
    "delete": "a delete",
    "lookup": "a lookup",
    "point_query": "a point query",
    "column_query": "a column query",
}
_COUNTED = {
    "jobs": "Jobs of",
    "tasks": "Tasks of",
    "shuffle_write_bytes": "Shuffle of",
    "bytes_written": "Bytes written by",
    "files_written": "Base files written by",
    "files_read": "Base files read by",
    **{name: f"{title} of" for name, title in REQUEST_COUNTS.items()},
}


def _measure(key: str, title: str, metric: str, step: str) -> Measure:
    return Measure(key=key, title=title, what=title, step=step, phase="total", metric=metric)


COUNTERS = (
    *(
        _measure(f"{step}_{metric}", f"{words} {of}", metric, step)
        for step, of in _STEPS.items()
        for metric, words in _COUNTED.items()
    ),
    _measure("storage", "Index on disk", "index_bytes", LAST),
    _measure("table_bytes", "Table on disk", "table_bytes", LAST),
)
_TIMES = ("build_index", "write_latency", "delete", "lookup", "point_query", "column_query")
TIMES = (
    _measure("load", "Load", "wall_s", "bulk_insert"),
    *(BY_KEY[key] for key in _TIMES),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One measure of a cell, beside the same one of another cell.

    Attributes:
        measure: what is compared.
        before: of the cell that is compared with.
        after: of the other one.
        ratio: after / before, paired by repetition; None where the one before is 0.
        is_shown: whether there is a difference beyond chance and noise.
    """

    measure: Measure
    before: Summary
    after: Summary
    ratio: Summary | None
    is_shown: bool

    @property
    def size(self) -> float:
        """How far apart both are: the larger one as a multiple of the smaller one."""
        low, high = sorted((self.before.median, self.after.median))
        return high / low if low else float("inf")


def changes(before: CellView, after: CellView) -> list[Change]:
    """What both cells measured and at least one has; counters first."""
    found = []
    for measure in (*COUNTERS, *TIMES):
        old, new = measure.values(before), measure.values(after)
        if not old or not new or not any((*old.values(), *new.values())):
            continue
        ratio = paired_ratio(old, new)[0]
        one, other = summarize(list(old.values())), summarize(list(new.values()))
        if measure.is_time:
            differs = ratio is not None and is_shown(ratio, after.noise)
        else:
            differs = abs(other.median - one.median) > LEAST_CHANGE * max(one.median, other.median)
        found.append(
            Change(measure=measure, before=one, after=other, ratio=ratio, is_shown=differs)
        )
    return found


def changes_grid(cells: Sequence[CellView], names: Sequence[str], caption: str) -> Grid:
    """The measures of cells: a row for each that one of them has, a column for each cell.

    Args:
        cells: on the same data.
        names: of them, as heads.
        caption: what they have in common.
    """
    measures = [
        measure
        for measure in (*COUNTERS, *TIMES)
        if any(any(measure.values(cell).values()) for cell in cells)
    ]
    rows = tuple(
        Row(
            label=measure.title,
            index="",
            entries=tuple(_entry(measure, cell) for cell in cells),
        )
        for measure in measures
    )
    return Grid(caption=caption, heads=tuple(names), rows=rows)


def _entry(measure: Measure, cell: CellView) -> Entry:
    values = measure.values(cell)
    if not values:
        return Entry(value=NOTHING)
    summary = summarize(list(values.values()))
    return Entry(
        value=amount(summary.median, measure.unit),
        spread=spread(summary, measure.unit) if summary.n > 1 else "one value",
        n=str(summary.n),
    )


def changes_sentence(name: str, before: CellView, after: CellView) -> str:
    """What changed from one cell to another.

    The counters that changed most are named; the table has all.

    Args:
        name: of the cell before.
        before: that is compared with.
        after: that is described.
    """
    found = changes(before, after)
    counters = [each for each in found if not each.measure.is_time]
    seconds = [each for each in found if each.measure.is_time]
    changed = sorted((each for each in counters if each.is_shown), key=lambda each: -each.size)
    differences = [_counter_words(each) for each in changed[:LONGEST_LIST]]
    if len(changed) > LONGEST_LIST:
        differences.append(f"{_counted(len(changed) - LONGEST_LIST)} more")
    differences += [_time_words(each) for each in seconds if each.is_shown]
    same = [each.measure.title.lower() for each in seconds if not each.is_shown]
    if len(counters) > len(changed):
        same.append(_counted(len(counters) - len(changed)))
    words = [
        f"beside {name}",
        f"changed: {listed(differences)}" if differences else "nothing changed",
    ]
    if same:
        words.append(f"no difference shown: {listed(same)}")
    return f"{'; '.join(words)}."


def _counted(counters: int) -> str:
    return "1 counter" if counters == 1 else f"{counters} counters"


def _counter_words(change: Change) -> str:
    unit = change.measure.unit
    values = f"{amount(change.before.median, unit)} to {amount(change.after.median, unit)}"
    factor = f" ({times(change.ratio.median)})" if change.ratio else ""
    title = change.measure.title
    return f"{title[0].lower() if title[1].islower() else title[0]}{title[1:]} {values}{factor}"


def _time_words(change: Change) -> str:
    assert change.ratio is not None
    return f"{change.measure.title.lower()} {ratio_words(change.ratio)}"


def changes_values(before: CellView, after: CellView) -> list[dict[str, Any]]:
    """The changes from one cell to another, for summary.json."""
    return [
        {
            "index": clean(after.index),
            "before": clean(before.cell),
            "after": clean(after.cell),
            "measure": each.measure.key,
            "unit": each.measure.unit,
            "values": [each.before.median, each.after.median],
            "ratio": each.ratio
            and {"ratio": each.ratio.median, "low": each.ratio.low, "high": each.ratio.high},
            "is_shown": each.is_shown,
        }
        for each in changes(before, after)
    ]
