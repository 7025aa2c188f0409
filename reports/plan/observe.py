"""What runs have measured of the cost model's quantities, with the workload of each cell.

A value is the median of its repetitions: what its user will usually see. (The fastest is lower the
more repetitions there are.) Only first upserts of freshly loaded tables are observed:
later ones meet log blocks and files that the formulas leave out. Where tables share a load
(`table.shared_load`) they have the files of the table that was loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from keymark.harness.engines import NATIVE, hudi_version
from keymark.harness.store.run_record import CellRecord, RunRecord
from keymark.harness.store.units import REQUEST_COUNTS
from keymark.indexes.spec import Amounts
from keymark.indexes.workload import BLOCK_BYTES, FILTER_BYTES, LOCAL_BYTES, Workload
from keymark.reports.model.projection import CellView, Run
from keymark.reports.plan.formulas import (
    IN_BYTES,
    POINT_QUERIES,
    SHUFFLE_REST,
    WHOLE,
    CostModel,
    cost_model,
)

STEP = "upsert_1"
LOAD = "bulk_insert"
BUILD = "build_index"
GROWING_KINDS = ("uuid7", "sequence", "ulid")
"""Kinds of keys that grow with time."""

_MASTER = re.compile(r"local\[(\d+)\]")
_SIZE = re.compile(r"(-?\d+)\s*([kmg]?)b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_PREFIX = "hoodie.metadata.record.index."
_LOCAL_PREFIX = "hoodie.metadata.record.level.index."


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One quantity of one cell.

    Attributes:
        run: the run that measured it.
        cell: the cell's id in that run.
        index: its index.
        quantity: `tag`, `write`, ...: the first part of an equation's name.
        equation: that says the quantity; None where it is nothing.
        at: the cell's workload.
        amounts: of the equation there.
        values: measured, in base units, by repetition; at least one.
    """

    run: str
    cell: str
    index: str
    quantity: str
    equation: str | None
    at: Workload
    amounts: Amounts
    values: tuple[float, ...]

    @property
    def value(self) -> float:
        """The median of the repetitions."""
        return median(self.values)

    @property
    def work(self) -> tuple[object, ...]:
        """What it has in common with cells that are the same work for its index."""
        return (self.index, self.quantity, self.equation, tuple(self.amounts.items()))

    @property
    def noise(self) -> float:
        """By how much of the fastest repetition the median one is slower."""
        return self.value / min(self.values) - 1 if min(self.values) else 0.0


def observations(run: Run, engine: str = NATIVE) -> Iterator[Observation]:
    """All that the verified cells of an engine tell in a run."""
    model = cost_model(engine)
    listed = {each.cell: each for each in run.record.cells or ()}
    verified = [view for view in run.cells if view.verified]
    loads = [view for view in verified if view.values(LOAD, "total", "files_written")]
    for view in verified:
        if view.engine != engine or view.cell not in listed:
            continue
        load = _load_of(view, loads)
        if load is not None:
            at = workload(run.record, listed[view.cell], load)
        elif not view.spec.owns_layout:
            at = _workload_of_upsert(run.record, listed[view.cell], view)
        else:
            continue
        if at is not None:
            yield from _of_cell(model, view, at, load if view is load else None)
            yield from _of_lookup(model, view, asked(run.record, at))
            yield from _of_point_queries(model, view, at)


def engine_in(names: Iterable[str], engine: str) -> str:
    """An engine if it is among names, or else the same release of Hudi with other tables.

    Hudi's tables of version 6 can start from Keymark's files, which those of later versions cannot.
    """
    found = tuple(names)
    release = hudi_version(engine)
    alike = [name for name in found if release is not None and hudi_version(name) == release]
    return engine if engine in found or not alike else alike[0]


def workload(record: RunRecord, cell: CellRecord, load: CellView) -> Workload | None:
    """The workload of a cell that run.json lists; None where it does not say enough.

    Args:
        record: what run.json says.
        cell: one of its cells.
        load: the cell that has the numbers of its table's load.
    """
    files, stored = _files_and_bytes(load, LOAD)
    if not cell.rows or not files:
        return None
    row_bytes = max((stored - files * FILTER_BYTES) / cell.rows, 1.0)
    return planned(record, cell, files=files, row_bytes=row_bytes)


def _workload_of_upsert(record: RunRecord, cell: CellRecord, view: CellView) -> Workload | None:
    """The workload of a cell whose table's load was not measured; None where nothing says it.

    Such a table started from a shared load, and no cell of the run has the numbers of that. Its
    files are taken to be as many as a load makes, and as large as those that the upsert wrote.
    """
    written, stored = _files_and_bytes(view, STEP)
    if not cell.rows or not written or not stored:
        return None
    at = planned(record, cell, files=1.0, row_bytes=1.0)
    files = max(written, files_of_load(record, at))
    row_bytes = max((stored / written - FILTER_BYTES) * files / cell.rows, 1.0)
    return replace(at, files=files, row_bytes=row_bytes)


def _files_and_bytes(view: CellView, step: str) -> tuple[float, float]:
    """How many base files a step wrote, and their bytes; 0 where a cell has no such number."""
    files = view.values(step, "total", "files_written").values()
    stored = view.values(step, "write", "bytes_written").values()
    return median(files or [0.0]), median(stored or [0.0])


def files_of_load(record: RunRecord, at: Workload) -> float:
    """The files that a load makes: each of its tasks one of each partition path.

    It has a task for each core, or as many as Spark's default parallelism says.
    """
    parallelism = record.spark_conf.get("spark.default.parallelism", "")
    tasks = int(parallelism) if parallelism.isdecimal() else at.cores
    return float(tasks * at.partitions)


def planned(record: RunRecord, cell: CellRecord, *, files: float, row_bytes: float) -> Workload:
    """The workload of a cell, by the files of its table and the bytes of a row.

    Of runs without batches, which only read, a batch is one key.
    """
    data = record.scenario.dataset
    batch = cell.batch or data.batch_rows or 1
    settings = data.settings_of(cell.shape)
    own = settings.get("date_partitions")
    partitions = own if isinstance(own, int) else data.partitions or 1
    share = settings.get("update_share", data.update_share)
    conf = record.spark_conf
    return Workload(
        rows=float(cell.rows),
        batch=float(batch),
        cores=_cores(record),
        partitions=partitions,
        files=files,
        shards=int(cell.options.get(f"{_PREFIX}min.filegroup.count", 10)),
        local_shards=partitions * int(cell.options.get(f"{_LOCAL_PREFIX}min.filegroup.count", 1)),
        buckets=partitions * int(cell.options.get("hoodie.bucket.index.num.buckets", 256)),
        new_share=1.0 - (share if isinstance(share, int | float) else 0.5),
        row_bytes=row_bytes,
        ordered=any(value in GROWING_KINDS for value in settings.values()),
        one_load=not record.scenario.table.source,
        local_bytes=float(cell.options.get("keymark.local.bytes", LOCAL_BYTES)),
        block_bytes=float(cell.options.get("hoodie.hfile.block.size", BLOCK_BYTES)),
        broadcast_bytes=_size(conf.get("spark.sql.autoBroadcastJoinThreshold", "10485760")),
    )


def _of_cell(
    model: CostModel, view: CellView, at: Workload, load: CellView | None
) -> Iterator[Observation]:
    phases = {p: dict(view.values(STEP, p, "wall_s")) for p in ("total", "tag", "write", "index")}
    rest = {
        trial: whole - sum(phases[part].get(trial, 0.0) for part in ("tag", "write", "index"))
        for trial, whole in phases["total"].items()
    }
    tagged, shuffled = (view.values(STEP, p, "shuffle_write_bytes") for p in ("tag", "total"))
    measured = {
        "tag": phases["tag"],
        "write": phases["write"],
        "index": phases["index"],
        "around": rest,
        WHOLE: phases["total"],
        "shuffle": tagged,
        **{kind: view.values(STEP, "total", kind) for kind in REQUEST_COUNTS},
    }
    if model.of_hudi:
        rest_of = {trial: whole - tagged.get(trial, 0.0) for trial, whole in shuffled.items()}
        measured[SHUFFLE_REST] = rest_of
    if load is not None:
        laid_out = view.index in model.known and model.known[view.index].owns_layout
        measured["bootstrap"] = load.values(LOAD, "total" if laid_out else "index", "wall_s")
        measured["index_bytes"] = load.values(LOAD, "index", "bytes_written")
    elif phases["total"]:
        measured["index_bytes"] = view.values(BUILD, "total", "index_bytes")
    for quantity, found in measured.items():
        values = tuple(found.values())
        if values and (quantity in IN_BYTES or min(values) > 0):
            yield _observed(model, view, quantity, at, values)


def asked(record: RunRecord, at: Workload) -> Workload:
    """The workload of a cell's lookup, by the keys that run.json says it asks."""
    steps = record.scenario.workload
    keys = float(steps.lookup_keys)
    return replace(at, batch=keys, new_share=steps.lookup_absent / keys) if keys else at


def _of_lookup(model: CostModel, view: CellView, at: Workload) -> Iterator[Observation]:
    values = tuple(view.values("lookup", "total", "wall_s").values())
    if values and min(values) > 0:
        yield _observed(model, view, "lookup", at, values)


def _of_point_queries(model: CostModel, view: CellView, at: Workload) -> Iterator[Observation]:
    for step in POINT_QUERIES:
        values = tuple(view.values(step, "total", "wall_s").values())
        if values and min(values) > 0 and model.name_of(step, view.index):
            yield _observed(model, view, step, at, values)


def pooled(found: Iterable[Observation]) -> list[Observation]:
    """Cells that are the same work for an index as one, with the repetitions of all.

    A cell that several runs have measured is; so are cells that differ in what does not concern
    the quantity, as the shards do not concern a bucket's hash.
    """
    kept: dict[tuple[object, ...], Observation] = {}
    for each in found:
        first = kept.get(each.work)
        kept[each.work] = replace(each, values=first.values + each.values) if first else each
    return list(kept.values())


def _observed(
    model: CostModel, view: CellView, quantity: str, at: Workload, values: tuple[float, ...]
) -> Observation:
    name = model.equation_of(quantity, view.index, at)
    mode = model.mode_of(quantity, view.index, at)
    work = model.amounts(quantity, view.index, at, mode) if name else {}
    return Observation(
        run=view.run_id,
        cell=view.cell,
        index=view.index,
        quantity=quantity,
        equation=name,
        at=at,
        amounts=work,
        values=values,
    )


def _load_of(view: CellView, loads: Sequence[CellView]) -> CellView | None:
    """The cell that has the numbers of the load that a cell's table began with.

    It is the cell of its own table with which the load was timed. A table that started from another
    one's load, as only those do whose index leaves the files as they are, has the load of the same
    rows: of the same engine and variant, if there is one.

    Args:
        view: the cell.
        loads: cells that have numbers of a load.
    """
    own = [each for each in loads if _table(each.cell) == _table(view.cell)]
    if own or view.spec.owns_layout:
        return own[-1] if own else None
    alike = [
        each
        for each in loads
        if (each.data.shape, each.data.rows) == (view.data.shape, view.data.rows)
        and not each.spec.owns_layout
    ]

    def unlike(each: CellView) -> tuple[bool, bool]:
        return each.engine != view.engine, each.variant != view.variant

    return min(alike, key=unlike, default=None)


def _table(cell: str) -> str:
    """What cells with the same loaded table share of their ids."""
    return "/".join(part for part in cell.split("/") if not part.startswith("batch-"))


def _cores(record: RunRecord) -> int:
    """Cores of all executors, from the resolved scenario or what Spark says."""
    local = _MASTER.fullmatch(record.scenario.spark.master)
    if local:
        return int(local[1])
    parallelism = record.spark_conf.get("spark.default.parallelism", "")
    return int(parallelism) if parallelism.isdecimal() and int(parallelism) else 2


def _size(text: str) -> float:
    """Bytes of Spark's `10485760`, `10MB`, `-1`."""
    match = _SIZE.fullmatch(text.strip())
    return float(match[1]) * _UNITS[match[2].lower()] if match else float(10 << 20)
