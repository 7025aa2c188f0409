"""Scenario to cells, and the order in which their repetitions are taken.

Cells are interleaved: one repetition of every cell, then the next repetition of every cell, so
that drift of the machine meets all cells alike. The direction turns with each repetition (A B,
B A, ...), which cancels the advantage of coming first to first order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from keymark.harness.scenario.dataset_section import DataPoint
from keymark.harness.scenario.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination under test.

    Attributes:
        cell_id: `<engine>/<index>[/<variant>][/shape-<name>][/rows-<rows>][/batch-<rows>]`, with
            the parts of the axes that the scenario has; stable between runs of a scenario.
        table_id: the same without the batch: cells that share a loaded table.
        engine: engine name.
        index: index name.
        options: `hoodie.*` options of its table: the scenario's for all, then for this index,
            for this engine, then the variant's.
        data: what its table is loaded with and changed by, where that is the scenario's to say.
    """

    cell_id: str
    table_id: str
    engine: str
    index: str
    options: Mapping[str, str]
    data: DataPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
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
        """Name of the trial in Spark's event log: `<cell>|<turn>`."""
        return f"{self.cell.cell_id}|{self.turn}"


def expand(scenario: Scenario) -> tuple[Cell, ...]:
    """The full product engines x indexes x variants x shapes x sizes x batches, in that order."""
    return tuple(
        _cell(scenario, engine=engine, index=index, variant=variant, data=data)
        for engine in scenario.engines
        for index in scenario.indexes
        for variant in scenario.table.variants_of(index)
        for data in scenario.dataset.points
    )


def neighbours(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """The same cells with those of one index on the same data side by side, engines closest.

    They are compared pair by pair: the closer in time, the less of the machine is in between.
    """
    places: dict[Hashable, int] = {}
    for cell in cells:
        for key in _places(cell):
            places.setdefault(key, len(places))
    return tuple(sorted(cells, key=lambda cell: [places[key] for key in _places(cell)]))


def _places(cell: Cell) -> tuple[Hashable, Hashable]:
    """What neighbours share: index and data, then all but the engine."""
    return (cell.index, cell.data), cell.cell_id.removeprefix(cell.engine)


def _cell(scenario: Scenario, *, engine: str, index: str, variant: str, data: DataPoint) -> Cell:
    table = scenario.table
    parts = [engine, index]
    parts += [variant] if variant else []
    parts += [f"shape-{data.shape}"] if data.shape else []
    parts += [f"rows-{data.rows}"] if scenario.dataset.sizes else []
    batch = [f"batch-{data.batch}"] if data.batch else []
    return Cell(
        cell_id="/".join([*parts, *batch]),
        table_id="/".join(parts),
        engine=engine,
        index=index,
        options={
            **table.options,
            **table.index_options.get(index, {}),
            **table.engine_options.get(engine, {}),
            **table.variants.get(variant, {}),
        },
        data=data,
    )


def first_of(cells: Iterable[Cell], kind: Callable[[Cell], Hashable]) -> tuple[Cell, ...]:
    """The first cell of each kind, in order."""
    found: dict[Hashable, Cell] = {}
    for cell in cells:
        found.setdefault(kind(cell), cell)
    return tuple(found.values())


def schedule(
    cells: Sequence[Cell], *, warmups: int, repetitions: int, warm: Collection[Cell] | None = None
) -> tuple[Trial, ...]:
    """All trials in the order in which they are taken.

    Args:
        cells: the cells.
        warmups: turns before those that count.
        repetitions: turns that count.
        warm: the cells that take warm-ups; None: all.
    """
    ids = {cell.cell_id for cell in (cells if warm is None else warm)}
    trials = _rounds(cells, warmups, repetitions)
    return tuple(trial for trial in trials if not trial.warmup or trial.cell.cell_id in ids)


def _rounds(cells: Sequence[Cell], warmups: int, repetitions: int) -> Iterator[Trial]:
    for turn in range(warmups + repetitions):
        warmup = turn < warmups
        repetition = turn if warmup else turn - warmups
        order = cells if turn % 2 == 0 else tuple(reversed(cells))
        for cell in order:
            yield Trial(cell=cell, repetition=repetition, warmup=warmup)
