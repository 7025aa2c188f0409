"""Which cells of a run are compared with which: the pairs that headline ratios are made of."""

from __future__ import annotations

from collections.abc import Sequence

from keymark.reports.model.data_points import by_data
from keymark.reports.model.projection import CellView


def cell_pairs(cells: Sequence[CellView]) -> list[tuple[CellView, CellView]]:
    """Pairs of cells on the same data: the base, and the cell that is compared with it.

    An index is compared with the first one of its engine, and with the same index and variant of
    the first engine that has it; so is each side of a job with the first side. A mode of another
    format than Hudi's is also compared with the first cell on the data.

    Args:
        cells: verified cells of one run, in the order of its tables.

    Returns:
        Each pair once, in the order of the cells.
    """
    found = []
    for group in by_data(cells).values():
        firsts: dict[tuple[str, str], CellView] = {("data", ""): group[0]}
        for cell in group:
            kinds = [("engine", cell.engine), ("index", cell.cell.removeprefix(f"{cell.engine}/"))]
            kinds += [("data", "")] if cell.spec.in_formats else []
            bases: dict[str, CellView] = {}
            for kind in kinds:
                base = firsts.setdefault(kind, cell)
                bases[base.cell] = base
            bases.pop(cell.cell, None)
            found += [(base, cell) for base in bases.values()]
    return found
