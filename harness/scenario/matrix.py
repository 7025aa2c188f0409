"""Scenario to cells, and the order in which their repetitions are taken.

Cells are interleaved: one repetition of every cell, then the next repetition of every cell, so
that drift of the machine meets all cells alike. The direction turns with each repetition (A B,
B A, ...), which cancels the advantage of coming first to first order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from keymark.harness.engines import BARE, NATIVE, hudi_version, table_version
from keymark.harness.engines.hudi_releases import BASE_VERSION
from keymark.harness.scenario.scenario import Scenario
from keymark.harness.store.data_point import DataPoint
from keymark.indexes.installed import measured_specs


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
        variant: name of the variant of its table; empty where the scenario has none.
        smaller: ids of the cells whose tables are smaller and that differ in nothing else, the
            smallest one first.
    """

    cell_id: str
    table_id: str
    engine: str
    index: str
    options: Mapping[str, str]
    data: DataPoint
    variant: str = ""
    smaller: tuple[str, ...] = ()

    def is_among(self, names: Iterable[str]) -> bool:
        """Whether one of the names is the cell's id, or a beginning of it that ends at a slash."""
        return f"{self.cell_id}/".startswith(tuple(f"{name}/" for name in names))


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
    """The product engines x their indexes x variants x shapes x sizes x batches, in that order."""
    return tuple(
        _cell(scenario, engine=engine, index=index, variant=variant, data=data)
        for engine in scenario.engines
        for index in scenario.indexes_of(engine)
        for variant in scenario.table.variants_of(engine, index)
        for data in scenario.dataset.points_of(index)
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
    size = [f"rows-{data.rows}"] if scenario.dataset.sizes else []
    batch = [f"batch-{data.batch}"] if data.batch else []
    smaller = [rows for rows in scenario.dataset.sizes if rows < data.rows]
    return Cell(
        cell_id="/".join([*parts, *size, *batch]),
        table_id="/".join([*parts, *size]),
        engine=engine,
        index=index,
        options={
            **table.options,
            **table.index_options.get(index, {}),
            **table.engine_options.get(engine, {}),
            **table.variants.get(variant, {}),
        },
        data=data,
        variant=variant,
        smaller=tuple("/".join([*parts, f"rows-{rows}", *batch]) for rows in smaller),
    )


def first_of(cells: Iterable[Cell], kind: Callable[[Cell], Hashable]) -> tuple[Cell, ...]:
    """The first cell of each kind, in order."""
    found: dict[Hashable, Cell] = {}
    for cell in cells:
        found.setdefault(kind(cell), cell)
    return tuple(found.values())


def loaders(cells: Iterable[Cell], *, shared_index: bool = False) -> dict[str, Cell]:
    """The cell whose loaded table another one starts from, by the id of the one that starts.

    Tables may share a load if their rows are the same, and so are all options but those of an index
    alone. The load is that of a cell of the group whose index needs nothing but base files: what it
    takes is what this cell's load takes. Where no cell has such an index, Keymark loads a table
    that belongs to no cell. Without an entry are tables that load themselves.

    Args:
        cells: of a scenario.
        shared_index: whether a table of Hudi's with an index in the metadata table starts from
            Keymark's table with the same index and options, where a cell has one.
    """
    groups: dict[Hashable, dict[str, Cell]] = {}
    for cell in cells:
        if _can_start(cell):
            group = groups.setdefault((cell.data.loaded, _options(cell)), {})
            group.setdefault(cell.table_id, cell)
    found: dict[str, Cell] = {}
    for number, group in enumerate(groups.values(), start=1):
        members = list(group.values())
        native = [cell for cell in members if cell.engine == NATIVE]
        if len(members) > 1 and native:
            loader = _loader(native, number)
            found |= {name: loader for name, cell in group.items() if cell != loader}
            for cell in members if shared_index else ():
                twin = next((each for each in native if _is_built_alike(each, cell)), None)
                if twin is not None and cell.engine != NATIVE:
                    found[cell.table_id] = twin
    return found


def _is_built_alike(one: Cell, other: Cell) -> bool:
    """Whether two tables of the same rows have the same index in their metadata tables."""
    is_built = measured_specs()[one.index].metadata_partition is not None
    return is_built and (one.index, one.options) == (other.index, other.options)


def _can_start(cell: Cell) -> bool:
    """Whether a table that Keymark's newest code makes may be the cell's.

    It is of version 6: an engine of Hudi that makes others loads its own.
    """
    is_known = cell.engine in (NATIVE, BARE) or hudi_version(cell.engine) is not None
    is_alike = is_known and table_version(cell.engine) == BASE_VERSION
    return is_alike and measured_specs()[cell.index].takes_loaded_files


def _options(cell: Cell) -> frozenset[tuple[str, str]]:
    """The options of a cell that its base files depend on, as far as names can tell."""
    of_indexes = {name for spec in measured_specs().values() for name in spec.own_options}
    of_indexes.update(measured_specs()[cell.index].requirements.options)
    return frozenset(pair for pair in cell.options.items() if pair[0] not in of_indexes)


def _loader(native: list[Cell], number: int) -> Cell:
    """The cell whose index is nothing but base files, or one that no scenario has."""
    plain = [spec.name for spec in measured_specs().values() if spec.needs_base_files_only]
    for cell in sorted(native, key=lambda cell: measured_specs()[cell.index].order):
        if cell.index in plain:
            return cell
    name = f"shared-load/{number}"
    return replace(
        native[0],
        cell_id=name,
        table_id=name,
        index=plain[0],
        options=dict(sorted(_options(native[0]))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The trials of a run, in the order in which they are taken.

    Attributes:
        cells: that are measured.
        loads: how often each table is loaded.
        loaders: by the id of a table that starts from another loaded one, the cell of that.
        warm: the cells that take warm-ups.
        warmups: of each of these.
        on_small_tables: whether these are one pass through the steps on a small table each.
        repetitions: of each cell, that count.
    """

    cells: tuple[Cell, ...]
    loads: int
    warm: tuple[Cell, ...]
    warmups: int
    repetitions: int
    on_small_tables: bool = False
    loaders: Mapping[str, Cell] = field(default_factory=dict)

    @classmethod
    def of(cls, cells: Sequence[Cell], scenario: Scenario) -> Schedule:
        """The schedule of cells that a scenario asks for."""
        times, warm, source = scenario.schedule, tuple(cells), scenario.table.source
        if times.warm == "index":
            warm = first_of(cells, lambda cell: (cell.engine, cell.index))
        return cls(
            cells=tuple(cells),
            # A copy of a table that exists is not measured.
            loads=1 if source else times.loads,
            warm=warm,
            warmups=times.warmups,
            repetitions=times.repetitions,
            on_small_tables=times.warm == "small",
            loaders=(
                loaders(cells, shared_index=scenario.table.shared_index)
                if scenario.table.shared_load and not source
                else {}
            ),
        )

    @property
    def tables(self) -> tuple[Cell, ...]:
        """The first cell of each loaded table: its load is on that cell's clock.

        Those come first that others start from; one of them may belong to no cell.
        """
        own = first_of(self.cells, lambda cell: cell.table_id)
        started_from = sorted(self.loaders.values(), key=lambda cell: cell.table_id in self.loaders)
        return first_of((*started_from, *own), lambda cell: cell.table_id)

    def depends(self, cell: Cell, loaded: Cell) -> bool:
        """Whether a cell's table is the one of a loaded cell, or starts from it."""
        loader = self.loaders.get(cell.table_id)
        return cell.table_id == loaded.table_id or (
            loader is not None and self.depends(loader, loaded)
        )

    def builds(self, cell: Cell) -> bool:
        """Whether a table that starts from a loaded one gets an index built upon its files."""
        loader = self.loaders[cell.table_id]
        return measured_specs()[cell.index].is_built and loader.index != cell.index

    @property
    def size(self) -> int:
        """How many trials there are in all."""
        loads, warm_ups = len(self.tables) * self.loads, len(self.warm_up_trials())
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
        if self.on_small_tables:
            return ()
        return tuple(
            trial
            for number in range(self.warmups)
            for trial in _round(self.warm, number, warmup=True, turned=number % 2 == 1)
        )

    def repetition_trials(self, number: int) -> tuple[Trial, ...]:
        """One repetition of every cell; directions alternate from the first warm-up on."""
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
