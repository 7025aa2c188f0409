"""Releases of Hudi on the same data: what changed from each to the next one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

from keymark.harness.engines import hudi_name, hudi_order
from keymark.reports.model.projection import CellView, Run
from keymark.reports.render.grids import Grid
from keymark.reports.render.prose import Answer
from keymark.reports.render.text import clean
from keymark.reports.sections.changes import changes_grid, changes_sentence, changes_values


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasesPart:
    """The section of one run.

    Attributes:
        run_id: the run's own id.
        name: what the run is called on the page, empty when it is the only one.
        tables: for each index on the same data its measures by release, and what changed.
        overall: for each of these what changed from the first release to the last one.
        values: the changes, for summary.json.
    """

    run_id: str
    name: str
    tables: list[tuple[Grid, list[Answer]]]
    overall: list[Answer]
    values: list[dict[str, Any]]


def releases_part(run: Run) -> ReleasesPart | None:
    """The section of a run; None unless two engines of Hudi measured the same index."""
    series = [cells for cells in _series(run.cells) if len(cells) > 1]
    if not series:
        return None
    return ReleasesPart(
        run_id=clean(run.run_id),
        name=run.name if run.label else "",
        tables=[
            (
                changes_grid(cells, [_engine(cell) for cell in cells], _label(cells[0])),
                [_answer(_engine(after), before, after) for before, after in pairwise(cells)],
            )
            for cells in series
        ],
        overall=[
            _answer(f"{_label(cells[0])}, {_engine(cells[-1])}", cells[0], cells[-1])
            for cells in series
        ],
        values=[
            value
            for cells in series
            for before, after in pairwise(cells)
            for value in changes_values(before, after)
        ],
    )


def _answer(topic: str, before: CellView, after: CellView) -> Answer:
    return Answer(topic=topic, words=changes_sentence(_engine(before), before, after))


def _series(cells: Iterable[CellView]) -> list[list[CellView]]:
    """Verified cells of Hudi's that differ in the engine alone, releases ascending."""
    of_hudi = [cell for cell in cells if cell.verified and hudi_name(cell.engine)]
    ordered = sorted(of_hudi, key=lambda cell: (_rest(cell), hudi_order(cell.engine)))
    return [list(group) for _, group in groupby(ordered, key=_rest)]


def _rest(cell: CellView) -> str:
    return cell.cell.removeprefix(cell.engine)


def _engine(cell: CellView) -> str:
    return clean(cell.engine, 40)


def _label(cell: CellView) -> str:
    return clean(_rest(cell).removeprefix("/").replace("/", " · "), 80)
