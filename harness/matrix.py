"""Scenario to cells, and the order in which their repetitions are taken.

Cells are interleaved: one repetition of every cell, then the next repetition of every cell, so
that drift of the machine meets all cells alike. The direction turns with each repetition (A B,
B A, ...), which cancels the advantage of coming first to first order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination under test.

    Attributes:
        cell_id: `<engine>/<index>`, with `/<variant>` and `/rows-<rows>` where the scenario has
            variants or several sizes; stable between runs of a scenario.
        engine: engine name.
        index: index name.
        options: `hoodie.*` options of its table: the scenario's for all, then for this index,
            for this engine, then the variant's.
        rows: that its table is loaded with, where that is the scenario's to say.
    """

    cell_id: str
    engine: str
    index: str
    options: Mapping[str, str]
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One repetition of one cell; warm-ups are counted apart, from 0."""

    cell: Cell
    repetition: int
    warmup: bool

    @property
    def turn(self) -> str:
        """`w0`, `w1`, ... for warm-ups, then `r0`, `r1`, ..."""
        return f"{'w' if self.warmup else 'r'}{self.repetition}"

    @property
    def label(self) -> str:
        """Name of the slot in Spark's event log: `<cell>|<turn>`."""
        return f"{self.cell.cell_id}|{self.turn}"


def expand(scenario: Scenario) -> tuple[Cell, ...]:
    """The full product engines x indexes x variants x sizes, in the scenario's order."""
    table, tables = scenario.table, scenario.dataset.tables
    variants = {f"/{name}": options for name, options in table.variants.items()} or {"": {}}
    return tuple(
        Cell(
            cell_id=f"{engine}/{index}{variant}" + (f"/rows-{rows}" if len(tables) > 1 else ""),
            engine=engine,
            index=index,
            options={
                **table.options,
                **table.index_options.get(index, {}),
                **table.engine_options.get(engine, {}),
                **options,
            },
            rows=rows,
        )
        for engine in scenario.engines
        for index in scenario.indexes
        for variant, options in variants.items()
        for rows in tables
    )


def schedule(cells: Sequence[Cell], *, warmups: int, repetitions: int) -> tuple[Slot, ...]:
    """All slots in the order in which they are taken."""
    return tuple(_rounds(cells, warmups, repetitions))


def _rounds(cells: Sequence[Cell], warmups: int, repetitions: int) -> Iterator[Slot]:
    for turn in range(warmups + repetitions):
        warmup = turn < warmups
        repetition = turn if warmup else turn - warmups
        order = cells if turn % 2 == 0 else tuple(reversed(cells))
        for cell in order:
            yield Slot(cell=cell, repetition=repetition, warmup=warmup)
