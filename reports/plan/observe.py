"""What runs have measured of the cost model's quantities, with the workload of each cell.

A value is the median of its repetitions: what its user will usually see. (The fastest is lower the
more repetitions there are.) Only first upserts of freshly loaded tables are observed:
later ones meet log blocks and files that the formulas leave out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import median

from keymark.harness.engines import NATIVE
from keymark.harness.store.run_record import CellRecord, RunRecord
from keymark.indexes.spec import Amounts
from keymark.indexes.workload import BLOCK_BYTES, FILTER_BYTES, LOCAL_BYTES, Workload
from keymark.reports.model.projection import CellView, Run
from keymark.reports.plan.formulas import IN_BYTES, REQUESTS, CostModel, cost_model

STEP = "upsert_1"
LOAD = "bulk_insert"
GROWING_KINDS = ("uuid7", "sequence", "ulid")
"""Kinds of keys that grow with time."""

_MASTER = re.compile(r"local\[(\d+)\]")
_SIZE = re.compile(r"(-?\d+)\s*([kmg]?)b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_PREFIX = "hoodie.metadata.record.index."


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One quantity of one cell.

    Attributes:
        cell: the cell's id.
        index: its index.
        quantity: `tag`, `write`, ...: the first part of an equation's name.
        equation: that says the quantity; None where it is nothing.
        at: the cell's workload.
        amounts: of the equation there.
        values: measured, in base units, by repetition; at least one.
    """

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
    views = {view.cell: view for view in run.cells if view.verified and view.engine == engine}
    loads = _loads(views)
    for cell, view in views.items():
        load = loads.get(_table(cell))
        if cell not in listed or load is None:
            continue
        at = workload(run.record, listed[cell], load)
        if at is not None:
            yield from _of_cell(model, view, at, load if cell == load.cell else None)
            yield from _of_lookup(model, view, asked(run.record, at))


def workload(record: RunRecord, cell: CellRecord, load: CellView) -> Workload | None:
    """The workload of a cell that run.json lists; None where it does not say enough."""
    data = record.scenario.dataset
    files = median(load.values(LOAD, "total", "files_written").values() or [0.0])
    batch = cell.batch or data.batch_rows
    if not cell.rows or not files or not batch:
        return None
    settings = data.settings_of(cell.shape)
    stored = median(load.values(LOAD, "write", "bytes_written").values() or [0.0])
    own = settings.get("date_partitions")
    partitions = own if isinstance(own, int) else data.partitions or 1
    share = 0.5 if data.update_share is None else data.update_share
    conf = record.spark_conf
    return Workload(
        rows=float(cell.rows),
        batch=float(batch),
        cores=_cores(record),
        partitions=partitions,
        files=files,
        shards=int(cell.options.get(f"{_PREFIX}min.filegroup.count", 10)),
        buckets=partitions * int(cell.options.get("hoodie.bucket.index.num.buckets", 256)),
        new_share=1.0 - share,
        row_bytes=max((stored - files * FILTER_BYTES) / cell.rows, 1.0),
        ordered=any(value in GROWING_KINDS for value in settings.values()),
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
    measured = {
        "tag": phases["tag"],
        "write": phases["write"],
        "index": phases["index"],
        "around": rest,
        "shuffle": view.values(STEP, "tag", "shuffle_write_bytes"),
        **{kind: view.values(STEP, "total", kind) for kind in REQUESTS},
    }
    if load is not None:
        laid_out = view.index in model.known and model.known[view.index].owns_layout
        measured["bootstrap"] = load.values(LOAD, "total" if laid_out else "index", "wall_s")
        measured["index_bytes"] = load.values(LOAD, "index", "bytes_written")
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
        cell=view.cell,
        index=view.index,
        quantity=quantity,
        equation=name,
        at=at,
        amounts=work,
        values=values,
    )


def _loads(views: Mapping[str, CellView]) -> dict[str, CellView]:
    """The cell that loaded each table: of those that share one, the one with the load's numbers."""
    return {
        _table(cell): view
        for cell, view in views.items()
        if view.values(LOAD, "total", "files_written")
    }


def _table(cell: str) -> str:
    """What cells with the same loaded table share of their ids."""
    return "/".join(part for part in cell.split("/") if not part.startswith("batch-"))


def _cores(record: RunRecord) -> int:
    """Cores of all executors, from the resolved scenario or what Spark says."""
    local = _MASTER.fullmatch(record.scenario.spark.master)
    if local:
        return int(local[1])
    said = record.spark_conf.get("spark.default.parallelism", "")
    return int(said) if said.isdecimal() and int(said) else 2


def _size(text: str) -> float:
    """Bytes of Spark's `10485760`, `10MB`, `-1`."""
    match = _SIZE.fullmatch(text.strip())
    return float(match[1]) * _UNITS[match[2].lower()] if match else float(10 << 20)
