"""The cost model: for each index and quantity, the amounts of work that its time is made of.

A time is the sum of amounts, each times a constant that calibration runs tell (`fit.py`). What the
amounts are follows from what the code does; docs/cost_model.md derives them. What is an index's own
is in its spec, for Keymark (`cost`) and for Apache Hudi (`hudi_cost`); here is what all indexes
have in common. Sources: UpsertPartitioner of Hudi 0.15; the modules `table/write`.

An equation's name is `<quantity>/<family>`: `tag/bloom` is of all indexes that ask filters. It
covers both modes: `tasks`, where Spark does the work, and `threads`, where it stays in the writer's
process. What is done to a row or a key is the same in both, so they share its constant; what
starting costs is each mode's own (`once_tasks`, `once_threads`). Hudi's work is always in tasks.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from keymark.harness.engines import hudi_name, hudi_order, hudi_version
from keymark.harness.store.units import REQUEST_COUNTS, Unit
from keymark.indexes.installed import specs
from keymark.indexes.shared.cost import every_file
from keymark.indexes.shared.hudi_cost import DESCRIBED
from keymark.indexes.spec import TASKS, THREADS, Equation, IndexCost, IndexSpec
from keymark.indexes.workload import (
    Workload,
    has_pages,
    rewritten,
    touched,
    updated_pages,
)

POINT_QUERY = "point_query"
POINT_QUERIES = (POINT_QUERY, "point_query_spark")
"""One record read by its key, as steps are named: as an engine's user reads it, and by Spark where
that is another way."""
WHOLE = "whole"
"""The latency of a write, the sum of its parts: it has no equation."""
SHUFFLE_REST = "shuffle_rest"
"""What a write shuffles beside tagging: Hudi combines rows, and deals them out to files, so."""
QUANTITIES = (
    *("tag", "lookup", "index", "write", "around", "shuffle", SHUFFLE_REST),
    *("index_bytes", "bootstrap"),
    *POINT_QUERIES,
    *REQUEST_COUNTS,
)
"""What is predicted of an index, in the order of the equations."""
IN_BYTES = ("shuffle", SHUFFLE_REST, "index_bytes")
"""Predicted quantities in bytes; requests are counts, and all others are seconds."""

_ASKED = ("files", "footers", "shards", "groups")
"""What tagging reads on storage, as its amounts are named."""

_JOIN_ROW_BYTES = 36
_RESULT_BYTES = 60
_NEW_ROW_BYTES = 100


def write(
    at: Workload, mode: str, *, by_hash: bool = False, by_page: bool = False
) -> dict[str, float]:
    """Copy on write: all rows of a file for the first one that changes in it.

    Every file costs its filter besides, however few its rows are.

    Args:
        at: the workload.
        mode: who does the work.
        by_hash: the hash of a key says its file, that of a new row as well.
        by_page: only pages with an updated row are encoded, as Keymark does; the others are copied.
    """
    files, of = rewritten(at), at.files
    if by_hash:
        of = at.buckets
        files = touched(of, at.batch) if at.changed_files is None else at.changed_files
    row_mb = files * at.rows / of * at.row_bytes / at.cores / 1e6
    amounts = {f"once_{mode}": 1.0, "row_mb": row_mb, "keys": at.batch}
    if not by_page:
        return {**amounts, "files": files / at.cores, "keys": at.batch / at.cores}
    share = updated_pages(at.rows / of, at.updates / files if files else 0.0)
    return {
        **amounts,
        # Threads take turns at what is done for each file: it holds the interpreter's lock.
        f"files_{mode}": files / at.cores,
        "paged": files / at.cores if has_pages(at.rows / of) else 0.0,
        "row_mb": row_mb * share,
        "copied_mb": row_mb * (1 - share),
    }


def around(at: Workload, mode: str) -> dict[str, float]:
    """The rest of a write: read the table's state, combine the batch, commit, clean."""
    return {f"once_{mode}": 1.0, "files": at.files, "keys": at.batch}


def dealt_out(at: Workload, _mode: str) -> dict[str, float]:
    """All rows of a batch, more than once; with the record index its new entries as well."""
    return {"once": 1.0, "batch_mb": at.batch * at.row_bytes / 1e6}


_AROUND = Equation("around/all", around)
_OPENED = Equation("point_query/all", lambda at, _mode: every_file(at))


@dataclass(frozen=True, slots=True)
class CostModel:
    """The equations of Keymark's own engine, or those of Apache Hudi.

    Attributes:
        of_hudi: whose they are.
        release: of Hudi, as a number; None: the newest one.
    """

    of_hudi: bool
    release: tuple[int, int, int] | None = None

    @property
    def known(self) -> Mapping[str, IndexSpec]:
        """The installed indexes whose cost somebody knows, in their order."""
        return _known(self.of_hudi)

    def cost(self, index: str) -> IndexCost:
        """What is an index's own.

        Raises:
            KeyError: it is not known.
        """
        spec = self.known[index]
        cost = spec.hudi_cost if self.of_hudi else spec.cost
        assert cost is not None
        return cost

    def equation(self, quantity: str, index: str) -> Equation | None:
        """What says a quantity of an index; None where it is nothing."""
        return _equations(self.of_hudi).get((quantity, index))

    def name_of(self, quantity: str, index: str) -> str | None:
        """The name of that equation; None where it is nothing."""
        found = self.equation(quantity, index)
        return None if found is None else found.name

    def amounts(self, quantity: str, index: str, at: Workload, mode: str) -> dict[str, float]:
        """The amounts of a quantity of an index; none where it is nothing."""
        found = self.equation(quantity, index)
        work = found.formula(at, mode) if found else {}
        later = _later_amounts(self.release) if self.release else frozenset()
        return (
            {name: amount for name, amount in work.items() if name not in later} if later else work
        )

    def equations(self) -> tuple[tuple[str, Equation], ...]:
        """Every index with each of its equations, in the order of the quantities."""
        found = _equations(self.of_hudi).items()
        return tuple((index, equation) for (_, index), equation in found)

    def equation_names(self) -> tuple[str, ...]:
        """The names of all equations."""
        return tuple(dict.fromkeys(found.name for _, found in self.equations()))

    def scans(self) -> tuple[str, ...]:
        """The equations whose amount `rows` is reading rows of key columns."""
        return tuple(dict.fromkeys(found.name for _, found in self.equations() if found.scans))

    def indexes_of(self, name: str) -> tuple[str, ...]:
        """The indexes that share an equation."""
        return _sharing(self.of_hudi).get(name, ())

    def mode_of(self, quantity: str, index: str, at: Workload) -> str:
        """Who does a piece of work: Spark from `keymark.local.bytes` on, as the product decides."""
        if self.of_hudi:
            return TASKS
        return TASKS if self.weight(quantity, index, at) >= at.local_bytes else THREADS

    def weight(self, quantity: str, index: str, at: Workload) -> float:
        """Bytes of work, as the table's runner counts them."""
        if quantity == "index":
            return at.inserts * (at.key_bytes + _RESULT_BYTES)
        if quantity in ("write", "around"):
            return rewritten(at) * at.file_bytes + at.batch * _NEW_ROW_BYTES
        if quantity == "bootstrap":
            return at.rows * at.row_bytes
        return self.cost(index).weight(at) if index in self.known else 0.0

    def shuffles(self, index: str, at: Workload) -> bool:
        """Whether tagging shuffles at all: Spark may send the keys asked to all tasks instead."""
        if self.of_hudi:
            return True
        return not is_broadcast(at) and self.mode_of("tag", index, at) == TASKS

    def equation_of(self, quantity: str, index: str, at: Workload) -> str | None:
        """The name of a quantity's equation there; a join that Spark broadcasts has no shuffle."""
        if quantity == "shuffle" and not self.shuffles(index, at):
            return None
        return self.name_of(quantity, index)


KEYMARK, HUDI = CostModel(of_hudi=False), CostModel(of_hudi=True)


def cost_model(engine: str) -> CostModel:
    """The cost model of an engine, by its name."""
    if hudi_version(engine) is None:
        return KEYMARK
    return CostModel(of_hudi=True, release=hudi_order(engine)[0]) if hudi_name(engine) else HUDI


@functools.cache
def _later_amounts(release: tuple[int, int, int]) -> frozenset[str]:
    """Amounts of work that releases of Hudi after this one began."""
    costs = [spec.hudi_cost for spec in specs().values() if spec.hudi_cost is not None]
    since = {name: version for cost in costs for name, version in cost.since.items()}
    return frozenset(
        name for name, first in since.items() if hudi_order(f"hudi@{first}")[0] > release
    )


@functools.cache
def _known(of_hudi: bool) -> Mapping[str, IndexSpec]:  # noqa: FBT001
    found = {
        name: spec
        for name, spec in specs().items()
        if (spec.hudi_cost if of_hudi else spec.cost) is not None
    }
    return MappingProxyType(found)


@functools.cache
def _equations(of_hudi: bool) -> Mapping[tuple[str, str], Equation]:  # noqa: FBT001
    """By quantity and index, in the order of the quantities; made once, for predictions ask often.

    A quantity that is nothing for an index is left out.
    """
    found: dict[tuple[str, str], Equation] = {}
    for quantity in QUANTITIES:
        for index, spec in _known(of_hudi).items():
            cost = spec.hudi_cost if of_hudi else spec.cost
            assert cost is not None
            # Hudi's users read by Spark; Keymark's writes shuffle to tag, and in large batches.
            if quantity in (POINT_QUERIES[1:] if of_hudi else (SHUFFLE_REST,)):
                continue
            if quantity == "write":
                found[quantity, index] = _written(spec, cost, by_page=not of_hudi)
                continue
            equation = _equation(quantity, spec, cost)
            if equation is None and quantity == "index" and of_hudi:
                equation = DESCRIBED
            if equation is not None:
                found[quantity, index] = equation
    return MappingProxyType(found)


def _equation(quantity: str, spec: IndexSpec, cost: IndexCost) -> Equation | None:
    if quantity == "around":
        return _AROUND
    if quantity == SHUFFLE_REST:
        return Equation(f"{quantity}/{spec.name}", dealt_out)
    if quantity in POINT_QUERIES:
        own = cost.equations.get(POINT_QUERY, _OPENED)
        return replace(own, name=own.name.replace(POINT_QUERY, quantity, 1))
    if quantity in REQUEST_COUNTS:
        return Equation(f"{quantity}/{spec.name}", lambda at, _mode: _requested(cost, at))
    return cost.equations.get(quantity)


def _written(spec: IndexSpec, cost: IndexCost, *, by_page: bool) -> Equation:
    common = functools.partial(write, by_hash=spec.owns_layout, by_page=by_page)
    own = cost.written
    if own is None:
        return Equation("write/all", common)
    return Equation(f"write/{spec.name}", lambda at, mode: {**common(at, mode), **own(at)})


def _requested(cost: IndexCost, at: Workload) -> dict[str, float]:
    """What the requests of a write grow with: files that it writes, and what tagging reads."""
    tag = cost.equations.get("tag")
    read = tag.formula(replace(at, cores=1), TASKS) if tag else {}
    return {"once": 1.0, "written": rewritten(at), "asked": asked(read)}


def asked(tag: Mapping[str, float]) -> float:
    """The files, footers and file groups among the amounts of tagging."""
    return sum(value for name, value in tag.items() if name.startswith(_ASKED))


@functools.cache
def _sharing(of_hudi: bool) -> Mapping[str, tuple[str, ...]]:  # noqa: FBT001
    """The indexes that share an equation, by its name."""
    found: dict[str, dict[str, None]] = {}
    for (_, index), equation in _equations(of_hudi).items():
        found.setdefault(equation.name, {})[index] = None
    return MappingProxyType({name: tuple(indexes) for name, indexes in found.items()})


def unit_of(quantity: str) -> Unit:
    """The base unit of a quantity."""
    if quantity in REQUEST_COUNTS:
        return Unit.COUNT
    return Unit.BYTES if quantity in IN_BYTES else Unit.SECONDS


def other(mode: str) -> str:
    """The other mode."""
    return THREADS if mode == TASKS else TASKS


def is_broadcast(at: Workload) -> bool:
    """Whether Spark sends the keys asked to all tasks instead of shuffling the table's keys."""
    return at.batch * _JOIN_ROW_BYTES < at.broadcast_bytes
