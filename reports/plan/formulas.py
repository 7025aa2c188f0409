"""The cost model: for each index and quantity, the amounts of work that its time is made of.

A time is the sum of amounts, each times a constant that calibration runs tell (`fit.py`). What the
amounts are follows from what the code does; docs/cost_model.md derives them. What is an index's own
is in its spec; here is what all indexes have in common. Sources: UpsertPartitioner of Hudi 0.15;
the modules `table/write`.

An equation's name is `<quantity>/<family>`: `tag/bloom` is of all indexes that ask filters. It
covers both modes: `tasks`, where Spark does the work, and `threads`, where it stays in the writer's
process. What is done to a row or a key is the same in both, so they share its constant; what
starting costs is each mode's own (`once_tasks`, `once_threads`).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType

from keymark.indexes.installed import specs
from keymark.indexes.spec import TASKS, THREADS, Equation, IndexCost, IndexSpec
from keymark.indexes.workload import SMALL_FILE_BYTES, Workload, touched

QUANTITIES = (
    *("tag", "lookup", "index", "write", "around", "shuffle", "index_bytes", "bootstrap"),
)
"""What is predicted of an index, in the order of the equations."""
IN_BYTES = ("shuffle", "index_bytes")
"""Those that are bytes; the others are seconds."""

_JOIN_ROW_BYTES = 36
_RESULT_BYTES = 60
_NEW_ROW_BYTES = 100


def rewritten(at: Workload) -> float:
    """Base files that an upsert rewrites: F*(1 - e^(-u/F)), and those that take its new rows."""
    if at.changed_files is not None:
        return at.changed_files
    updated = touched(at.files, at.updates) if at.updates else 0.0
    if not at.inserts or at.file_bytes >= SMALL_FILE_BYTES:
        return updated
    chosen = min(touched(at.partitions, at.inserts), at.files)
    return updated + chosen * (1 - updated / at.files)


def write(at: Workload, mode: str) -> dict[str, float]:
    """Copy on write: all rows of a file for the first one that changes in it.

    Every file costs its filter besides, however few its rows are.
    """
    return _copied(at, mode, files=rewritten(at), of=at.files)


def write_laid_out(at: Workload, mode: str) -> dict[str, float]:
    """The same where the key says the file: new rows, too, go where their hash says."""
    changed = touched(at.buckets, at.batch) if at.changed_files is None else at.changed_files
    return _copied(at, mode, files=changed, of=at.buckets)


def _copied(at: Workload, mode: str, *, files: float, of: float) -> dict[str, float]:
    return {
        f"once_{mode}": 1.0,
        "files": files / at.cores,
        "row_mb": files * at.rows / of * at.row_bytes / at.cores / 1e6,
        "keys": at.batch,
    }


def around(at: Workload, mode: str) -> dict[str, float]:
    """The rest of a write: read the table's state, combine the batch, commit, clean."""
    return {f"once_{mode}": 1.0, "files": at.files, "keys": at.batch}


_WRITE, _WRITE_LAID_OUT = Equation("write/all", write), Equation("write/all", write_laid_out)
_AROUND = Equation("around/all", around)


@functools.cache
def known() -> Mapping[str, IndexSpec]:
    """The installed indexes whose cost somebody knows, in their order."""
    return MappingProxyType({name: spec for name, spec in specs().items() if spec.cost})


def cost_of(index: str) -> IndexCost:
    """What is an index's own."""
    cost = known()[index].cost
    assert cost is not None
    return cost


@functools.cache
def equation(quantity: str, index: str) -> Equation | None:
    """What says a quantity of an index; None where it is nothing."""
    spec = known().get(index)
    if spec is None or spec.cost is None:
        return None
    if quantity == "write":
        return _WRITE_LAID_OUT if spec.owns_layout else _WRITE
    return _AROUND if quantity == "around" else spec.cost.equations.get(quantity)


def name_of(quantity: str, index: str) -> str | None:
    """The name of that equation; None where it is nothing."""
    found = equation(quantity, index)
    return None if found is None else found.name


def amounts(quantity: str, index: str, at: Workload, mode: str) -> dict[str, float]:
    """The amounts of a quantity of an index; none where it is nothing."""
    found = equation(quantity, index)
    return found.formula(at, mode) if found else {}


@functools.cache
def equation_names() -> tuple[str, ...]:
    """The names of all equations."""
    found = (name_of(quantity, index) for quantity in QUANTITIES for index in known())
    return tuple(dict.fromkeys(name for name in found if name))


@functools.cache
def scans() -> tuple[str, ...]:
    """The equations whose amount `rows` is reading rows of key columns."""
    found = (equation(quantity, index) for quantity in QUANTITIES for index in known())
    return tuple(dict.fromkeys(each.name for each in found if each and each.scans))


@functools.cache
def indexes_of(name: str) -> tuple[str, ...]:
    """The indexes that share an equation."""
    pairs = ((quantity, index) for quantity in QUANTITIES for index in known())
    return tuple(dict.fromkeys(pair[1] for pair in pairs if name_of(*pair) == name))


def other(mode: str) -> str:
    """The other mode."""
    return THREADS if mode == TASKS else TASKS


def mode_of(quantity: str, index: str, at: Workload) -> str:
    """Who does a piece of work: Spark from `keymark.local.bytes` on, as the product decides."""
    return TASKS if weight(quantity, index, at) >= at.local_bytes else THREADS


def weight(quantity: str, index: str, at: Workload) -> float:
    """Bytes of work, as the table's runner counts them."""
    if quantity == "index":
        return at.inserts * (at.key_bytes + _RESULT_BYTES)
    if quantity in ("write", "around"):
        return rewritten(at) * at.file_bytes + at.batch * _NEW_ROW_BYTES
    if quantity == "bootstrap":
        return at.rows * at.row_bytes
    return cost_of(index).weight(at) if index in known() else 0.0


def is_broadcast(at: Workload) -> bool:
    """Whether Spark sends the keys asked to all tasks instead of shuffling the table's keys."""
    return at.batch * _JOIN_ROW_BYTES < at.broadcast_bytes
