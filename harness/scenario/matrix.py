"""Scenario to cells, and the order in which their repetitions are taken.

Cells are interleaved: one repetition of every cell, then the next repetition of every cell, so
that drift of the machine meets all cells alike. The direction turns with each repetition (A B,
B A, ...), which cancels the advantage of coming first to first order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from keymark.harness.scenario.scenario import Scenario
from keymark.harness.store.data_point import DataPoint


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
    def name(self) -> str:
        """`w0`, `w1`, ... for warm-ups, then `r0`, `r1`, ..."""
        return f"{'w' if self.warmup else 'r'}{self.repetition}"

    @property
    def label(self) -> str:
        """Name of the trial in Spark's event log: `<cell>|<name>`."""
        return f"{self.cell.cell_id}|{self.name}"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The trials of a run, in the order in which they are taken.

    Attributes:
        cells: that are measured.
        loads: how often each table is loaded.
        warm: the cells that take warm-ups.
        warmups: of each of these.
        repetitions: of each cell, that count.
    """

    cells: tuple[Cell, ...]
    loads: int
    warm: tuple[Cell, ...]
    warmups: int
    repetitions: int

    @classmethod
    def of(cls, cells: Sequence[Cell], scenario: Scenario) -> Schedule:
        """The schedule of cells that a scenario asks for."""
        times, warm = scenario.schedule, tuple(cells)
        if times.warm == "index":
            warm = first_of(cells, lambda cell: (cell.engine, cell.index))
        return cls(
            cells=tuple(cells),
            # A copy of a table that exists is not measured.
            loads=1 if scenario.table.source else times.loads,
            warm=warm,
            warmups=times.warmups,
            repetitions=times.repetitions,
        )

    @property
    def tables(self) -> tuple[Cell, ...]:
        """The first cell of each loaded table: its load is on that cell's clock."""
        return first_of(self.cells, lambda cell: cell.table_id)

    @property
    def size(self) -> int:
        """How many trials there are in all."""
        loads, warm_ups = len(self.tables) * self.loads, len(self.warm) * self.warmups
        return loads + warm_ups + len(self.cells) * self.repetitions

    def load_trials(self) -> tuple[Trial, ...]:
        """Every load of every table."""
        return tuple(
            trial
            for number in range(self.loads)
            for trial in _round(self.tables, number, warmup=False, turned=number % 2 == 1)
        )

    def warm_up_trials(self) -> tuple[Trial, ...]:
        """The repetitions that do not count."""
        return tuple(
            trial
            for number in range(self.warmups)
            for trial in _round(self.warm, number, warmup=True, turned=number % 2 == 1)
        )

    def repetition_trials(self, number: int) -> tuple[Trial, ...]:
        """One repetition of every cell; the direction goes on to turn where warm-ups ended."""
        turned = (self.warmups + number) % 2 == 1
        return _round(self.cells, number, warmup=False, turned=turned)

    def trials(self) -> tuple[Trial, ...]:
        """Warm-ups and repetitions, in order."""
        counted = (self.repetition_trials(number) for number in range(self.repetitions))
        return (*self.warm_up_trials(), *chain.from_iterable(counted))


def _round(
    cells: Sequence[Cell], repetition: int, *, warmup: bool, turned: bool
) -> tuple[Trial, ...]:
    """One trial of each cell, the last cell first if the direction is turned."""
    order = reversed(cells) if turned else cells
    return tuple(Trial(cell=cell, repetition=repetition, warmup=warmup) for cell in order)
