"""What the cells of one run differ in beside their index: shape of the keys, rows, batch.

Only cells of one setting are compared with each other: everything else would compare data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from keymark.harness.store.run_record import CellRecord
from keymark.reports.render.text import clean


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The data that a cell works on.

    Attributes:
        shape: name of its keys' shape; empty where the run has none.
        rows: that its table was loaded with; None unless the run has tables of several sizes.
        batch: rows of each change batch; None unless the run has batches of several sizes.
        place: of its shape in the scenario.
    """

    shape: str = ""
    rows: int | None = None
    batch: int | None = None
    place: int = field(default=0, compare=False)

    @property
    def words(self) -> str:
        """How a page names it: ``random · 80,000 rows · batches of 1,000``; empty without."""
        parts = [clean(self.shape, 40)] if self.shape else []
        parts += [f"{self.rows:,} rows"] if self.rows else []
        parts += [f"batches of {self.batch:,}"] if self.batch else []
        return " · ".join(parts)

    @property
    def order(self) -> tuple[int, str, int, int]:
        """Sort key: shapes as the scenario has them, the largest first."""
        return self.place, self.shape, -(self.rows or 0), -(self.batch or 0)


class Placed(Protocol):
    """What has a setting in a run."""

    @property
    def run_id(self) -> str:
        """The run."""

    @property
    def setting(self) -> Setting:
        """The data it works on."""


Cell = TypeVar("Cell", bound=Placed)


def settings_of(cells: Sequence[CellRecord]) -> dict[str, Setting]:
    """The setting of each cell that run.json lists; what does not vary is left out of them."""
    order = list(dict.fromkeys(each.shape for each in cells))
    several_rows = len({each.rows for each in cells if each.rows > 0}) > 1
    several_batches = len({each.batch for each in cells if each.batch > 0}) > 1
    return {
        each.cell: Setting(
            shape=each.shape,
            rows=each.rows if several_rows and each.rows > 0 else None,
            batch=each.batch if several_batches and each.batch > 0 else None,
            place=order.index(each.shape),
        )
        for each in cells
    }


def leading(cells: Iterable[Cell]) -> list[Cell]:
    """Of each run the cells with the largest table and the largest batch, in every shape."""
    every = list(cells)
    most: dict[str, tuple[int, int]] = {}
    for cell in every:
        rows, batch = most.get(cell.run_id, (0, 0))
        most[cell.run_id] = max(rows, cell.setting.rows or 0), max(batch, cell.setting.batch or 0)
    return [
        cell
        for cell in every
        if (cell.setting.rows or 0, cell.setting.batch or 0) == most[cell.run_id]
    ]


def by_setting(cells: Sequence[Cell]) -> dict[Setting, list[Cell]]:
    """Cells that may be compared with each other, the largest data first."""
    found: dict[Setting, list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.setting, []).append(cell)
    return dict(sorted(found.items(), key=lambda item: item[0].order))
