"""Variants of a table side by side in one engine: what each changes beside the first one.

A scenario's variants differ in the options of their tables (`table.variants`); the first one is
what the others are compared with. Runs of several releases of Hudi compare these (`releases_part`),
and runs of other formats have a section of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from keymark.harness.engines import hudi_name, is_native
from keymark.reports.model.data_points import leading, words_of
from keymark.reports.model.projection import CellView, Run, cell_order, place_in
from keymark.reports.render.grids import Grid
from keymark.reports.render.prose import Answer
from keymark.reports.render.text import clean
from keymark.reports.sections.changes import changes_grid, changes_sentence, changes_values


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantsPart:
    """The section of one run.

    Attributes:
        run_id: the run's own id.
        name: what the run is called on the page, empty when it is the only one.
        tables: for each engine and index on the same data its measures by variant, and what each
            variant changes.
        values: the changes, for summary.json.
    """

    run_id: str
    name: str
    tables: list[tuple[Grid, list[Answer]]]
    values: list[dict[str, Any]]


def variants_part(run: Run) -> VariantsPart | None:
    """The section of a run; None unless its one engine of Hudi has variants of a table."""
    engines = {cell.engine for cell in run.cells}
    of_hudi = {engine for engine in engines if hudi_name(engine)}
    is_alike = all(is_native(engine) for engine in engines - of_hudi)
    groups = [cells for cells in _groups(run) if len(cells) > 1]
    if len(of_hudi) != 1 or not is_alike or not any(c[0].engine in of_hudi for c in groups):
        return None
    return VariantsPart(
        run_id=clean(run.run_id),
        name=run.name if run.label else "",
        tables=[
            (
                changes_grid(cells, [_name(cell) for cell in cells], _caption(cells[0])),
                [
                    Answer(topic=_name(after), words=changes_sentence(_name(first), first, after))
                    for first, after in _beside_the_first(cells)
                ],
            )
            for cells in groups
        ],
        values=[
            value
            for cells in groups
            for first, after in _beside_the_first(cells)
            for value in changes_values(first, after)
        ],
    )


def _groups(run: Run) -> list[list[CellView]]:
    """Verified cells that differ in the variant alone, as the scenario has them."""
    planned = [each.cell for each in run.record.cells or ()]
    right = leading([cell for cell in run.cells if cell.verified])
    ordered = sorted(right, key=lambda cell: (cell_order(cell)[:5], place_in(cell.cell, planned)))
    return [list(group) for _, group in groupby(ordered, key=lambda cell: cell_order(cell)[:5])]


def _beside_the_first(cells: Sequence[CellView]) -> list[tuple[CellView, CellView]]:
    return [(cells[0], each) for each in cells[1:]]


def _name(cell: CellView) -> str:
    return clean(cell.variant, 40)


def _caption(cell: CellView) -> str:
    parts = (clean(cell.engine, 40), clean(cell.index, 40), words_of(cell.data))
    return " · ".join(part for part in parts if part)
