"""What compaction costs beside the upserts that put it off: both on one bill.

A table that is compacted inside of a write shows it in that upsert, one that is compacted by a step
of its own in that step, and a copy-on-write table not at all. Only the sum of both can be compared.
The slowest upsert says what a single write had to wait for. Compaction that is put off costs
reads: a snapshot merges log files, and a read-optimised query leaves them out. Both are taken one
after the other, before the compaction at the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from keymark.reports.model.data_points import by_data, leading, words_of
from keymark.reports.model.measures import BY_KEY, Measure, time_of
from keymark.reports.model.projection import UPSERT, CellView, Run, Trial
from keymark.reports.model.tables import SummaryTable, table
from keymark.reports.render.grids import Grid, grid
from keymark.reports.render.prose import Answer, answers
from keymark.reports.render.text import clean

COMPACT_ROWS = "compact_rows"
"""Name of the steps that put rows together in fewer files, without the round that ends it."""

_ROUND = re.compile(r"_\d+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class OverSteps(Measure):
    """One number of all steps of a kind in a repetition.

    Attributes:
        kinds: names of the steps, without the rounds that end them.
        combined: what makes one number of theirs.
    """

    kinds: tuple[str, ...]
    combined: Callable[[Sequence[float]], float] = field(default=sum)

    def values(self, cell: CellView) -> dict[Trial, float]:
        """By trial; a repetition that misses one of the steps is left out."""
        found = [
            {repetition: value for (repetition, _), value in series.values.items()}
            for (step, phase, metric), series in cell.series.items()
            if (phase, metric) == (self.phase, self.metric) and _ROUND.sub("", step) in self.kinds
        ]
        complete = set.intersection(*map(set, found)) if found else set()
        return {(each, 0): self.combined([of[each] for of in found]) for each in sorted(complete)}


def _seconds(
    key: str,
    title: str,
    kinds: tuple[str, ...],
    combined: Callable[[Sequence[float]], float] = sum,
) -> OverSteps:
    return OverSteps(
        key=key,
        title=title,
        what=title,
        step=UPSERT,
        phase="total",
        metric="wall_s",
        kinds=kinds,
        combined=combined,
    )


_COMPACTION = _seconds("compaction", "Compaction as a step", (COMPACT_ROWS,))
MEASURES = (
    _seconds("bill", "Upserts and compaction", (UPSERT, COMPACT_ROWS)),
    _seconds("upserts", "Upserts alone", (UPSERT,)),
    _seconds("slowest_upsert", "Slowest upsert", (UPSERT,), max),
    _COMPACTION,
)
_SNAPSHOT = "Snapshot point query at the end"
_OPTIMISED = "Read-optimised point query at the end"
READS = (
    replace(BY_KEY["point_query_spark"], key="snapshot_read", title=_SNAPSHOT, what=_SNAPSHOT),
    time_of("point_query_optimized", _OPTIMISED, _OPTIMISED),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPart:
    """The section of one run.

    Attributes:
        run_id: the run's own id.
        name: what the run is called on the page, empty when it is the only one.
        tables: for each shape of data the bill of each cell, and what it shows.
        values: the bills, for summary.json.
    """

    run_id: str
    name: str
    tables: list[tuple[Grid, list[Answer]]]
    values: list[dict[str, Any]]


def compaction_part(run: Run) -> CompactionPart | None:
    """The section of a run; None unless cells on the same data differ in how they compact."""
    right = leading([cell for cell in run.cells if cell.verified])
    made = {
        words_of(data): table(cells, [*MEASURES, *(each for each in READS if _has(cells, each))])
        for data, cells in by_data(right).items()
        if len(cells) > 1 and _has(cells, _COMPACTION)
    }
    if not made:
        return None
    title = "Time of all upserts and compactions of a repetition"
    return CompactionPart(
        run_id=clean(run.run_id),
        name=run.name if run.label else "",
        tables=[
            (grid(bills, f"{title}: {words}" if words else title), answers(bills))
            for words, bills in made.items()
        ],
        values=[value for bills in made.values() for value in _values(bills)],
    )


def _has(cells: Sequence[CellView], measure: Measure) -> bool:
    return any(measure.values(cell) for cell in cells)


def _values(bills: SummaryTable) -> list[dict[str, Any]]:
    return [
        {
            "cell": clean(cell.cell),
            "measure": column.measure.key,
            "median": summary.median,
            "low": summary.low,
            "high": summary.high,
            "n": summary.n,
        }
        for column in bills.columns
        for cell, summary in zip(bills.cells, column.summaries, strict=True)
        if summary is not None
    ]
