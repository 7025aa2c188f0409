"""Which release of Hudi runs which index on which kind of table: a row a release, a mark a cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from keymark.harness.engines import hudi_name, hudi_order
from keymark.reports.model.projection import CellView, Run
from keymark.reports.render.grids import Entry, Grid, Row
from keymark.reports.render.text import NOTHING, clean

VERIFIED, REFUSED, WRONG = "verified", "refused", "wrong answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomesPart:
    """The section of the runs of a report.

    Attributes:
        grid: a row per engine of Hudi, a column per index and variant.
        reasons: why a cell is not verified, or a release does not have an index, by its name.
    """

    grid: Grid
    reasons: list[tuple[str, str]]

    @property
    def finding(self) -> str:
        """How many cells are verified, in a sentence."""
        marks = [entry.value for row in self.grid.rows for entry in row.entries]
        counts = {mark: marks.count(mark) for mark in (VERIFIED, REFUSED, WRONG)}
        others = [f"{counts[mark]} {mark}" for mark in (REFUSED, WRONG) if counts[mark]]
        told = f"{counts[VERIFIED]} of {sum(counts.values())} cells of Hudi are verified"
        return f"{', '.join([told, *others])}."


def outcomes_part(runs: Sequence[Run]) -> OutcomesPart | None:
    """The section; None unless the runs have two engines of Hudi."""
    cells = [cell for run in runs for cell in run.cells if hudi_name(cell.engine)]
    engines = sorted({cell.engine for cell in cells}, key=hudi_order)
    if len(engines) < 2:
        return None
    ordered = sorted(cells, key=lambda cell: (cell.spec.order, cell.index, cell.variant))
    columns = list(dict.fromkeys((cell.index, cell.variant) for cell in ordered))
    by_place = {(cell.engine, cell.index, cell.variant): cell for cell in cells}
    rows = tuple(
        Row(
            label=clean(engine, 40),
            index="",
            entries=tuple(Entry(value=_mark(by_place.get((engine, *each)))) for each in columns),
        )
        for engine in engines
    )
    heads = tuple(clean(" · ".join(filter(None, each)), 60) for each in columns)
    reasons = [
        (clean(cell.cell, 80), clean("; ".join(cell.reasons), 400))
        for cell in sorted(cells, key=lambda cell: (hudi_order(cell.engine), cell.cell))
        if not cell.verified
    ]
    for run in runs:
        skipped = run.record.skipped
        reasons += [(clean(name, 80), clean(why, 400)) for name, why in skipped.items()]
    return OutcomesPart(
        grid=Grid(caption="Releases and indexes", heads=heads, rows=rows), reasons=reasons
    )


def _mark(cell: CellView | None) -> str:
    """What became of a cell; a dash where there is none."""
    if cell is None:
        return NOTHING
    if cell.verified:
        return VERIFIED
    # A step that raised an error says so; another one gave a wrong answer.
    return REFUSED if any("failed: " in reason for reason in cell.reasons) else WRONG
