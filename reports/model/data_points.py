"""What the cells of one run differ in beside their index: shape of the keys, rows, batch.

Only cells on the same data are compared with each other: everything else would compare the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from keymark.harness.store.data_point import DataPoint
from keymark.harness.store.run_record import CellRecord
from keymark.reports.render.text import clean


def words_of(data: DataPoint) -> str:
    """How a page names it: ``random · 80,000 rows · batches of 1,000``; empty without."""
    parts = [clean(data.shape, 40)] if data.shape else []
    parts += [f"{data.rows:,} rows"] if data.rows else []
    parts += [f"batches of {data.batch:,}"] if data.batch else []
    return " · ".join(parts)


def order_of(data: DataPoint) -> tuple[int, str, int, int]:
    """Sort key: shapes as the scenario has them, the largest first."""
    return data.place, data.shape, -data.rows, -data.batch


class OnData(Protocol):
    """What works on data in a run."""

    @property
    def run_id(self) -> str:
        """The run."""

    @property
    def data(self) -> DataPoint:
        """The data it works on."""


Cell = TypeVar("Cell", bound=OnData)


def data_points_of(cells: Sequence[CellRecord]) -> dict[str, DataPoint]:
    """The data of each cell that run.json lists; what does not vary is left out of them."""
    shapes = list(dict.fromkeys(each.shape for each in cells))
    several_rows = len({each.rows for each in cells if each.rows > 0}) > 1
    several_batches = len({each.batch for each in cells if each.batch > 0}) > 1
    return {
        each.cell: DataPoint(
            shape=each.shape,
            rows=each.rows if several_rows and each.rows > 0 else 0,
            batch=each.batch if several_batches and each.batch > 0 else 0,
            place=shapes.index(each.shape),
        )
        for each in cells
    }


def leading(cells: Iterable[Cell]) -> list[Cell]:
    """The cells of each run with the largest table and the largest batch, in every shape."""
    every = list(cells)
    most: dict[str, tuple[int, int]] = {}
    for cell in every:
        rows, batch = most.get(cell.run_id, (0, 0))
        most[cell.run_id] = max(rows, cell.data.rows), max(batch, cell.data.batch)
    return [cell for cell in every if (cell.data.rows, cell.data.batch) == most[cell.run_id]]


def by_data(cells: Sequence[Cell]) -> dict[DataPoint, list[Cell]]:
    """Cells that may be compared with each other, the largest data first."""
    found: dict[DataPoint, list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.data, []).append(cell)
    return dict(sorted(found.items(), key=lambda item: order_of(item[0])))
