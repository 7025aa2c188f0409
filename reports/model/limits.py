"""Who ended at a limit of memory or time, and the largest table with which it did not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from keymark.reports.model.projection import CellView


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Where one engine and index, in one variant on one kind of data, came to a limit.

    Attributes:
        cell: the one with the smallest table, of those that ended at a limit.
        largest: rows of the largest table, smaller than that one, with which it took all of its
            steps; 0 where there is none.
    """

    cell: CellView
    largest: int


def limits(cells: Sequence[CellView]) -> list[Limit]:
    """The limits that cells of one run ended at, in the order of the cells."""
    alike: dict[tuple[str, str, str, str, int], list[CellView]] = {}
    for cell in cells:
        key = (cell.engine, cell.index, cell.variant, cell.data.shape, cell.data.batch)
        alike.setdefault(key, []).append(cell)
    found = []
    for group in alike.values():
        ended = [cell for cell in group if cell.ended]
        if ended:
            first = min(ended, key=lambda cell: cell.data.rows)
            smaller = [
                cell.data.rows
                for cell in group
                if cell.verified and not cell.ended and cell.data.rows < first.data.rows
            ]
            found.append(Limit(cell=first, largest=max(smaller, default=0)))
    return found
