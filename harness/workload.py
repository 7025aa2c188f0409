"""The steps of a repetition and the clock around each of them.

On the clock is only the engine's own call: input data frames are made before it, listings,
translations and verification come after it. `total` is the harness's own measurement; the other
phases are what the engine reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from harness import hbase_cells, independent, processor_time, upkeep, verify
from harness.engines import is_native
from harness.engines.base import MeasuredTable, Rows, WriteOutcome
from harness.kit import RunContext
from harness.log_cost import StepCost
from harness.lookup_model import COMPACTED, LOGS, Point, lookups, points
from harness.lookup_model import values as point_values
from harness.matrix import Cell, Trial
from harness.probes import Listing, Written, rows_written, written
from harness.scenario import WorkloadSection
from table.index.protocol import LookupStats

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

BULK_INSERT = "bulk_insert"
BUILD = "build"
BUILD_INDEX = "build_index"
NULL_COLUMNS = "null_columns"
DELETE = "delete"
PURGE = "purge"
LOOKUP = "lookup"
LOOKUP_AGAIN = "lookup_again"
POINT_QUERY = "point_query"
COMPACT = "compact"

_FILTERED = ("files_read", "candidates", "false_positives")
_TOLD = {
    "record": ("shards_read", "blocks_decoded"),
    "global_simple": ("files_read",),
    "simple": ("files_read",),
    "global_bloom": _FILTERED,
    "bloom": _FILTERED,
    "bucket": ("files_read",),
}
"""What a lookup of `native` tells of itself, by index: fields of `LookupStats`."""

Answer = TypeVar("Answer")

Values = dict[tuple[str, str], float]
"""Numbers of a step by (phase, metric), in base units."""

WHOLE = ("total", "wall_s")
"""The number that every step has: its time on the harness's own clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a repetition.

    Attributes:
        name: its name.
        round: number of change batches applied when it ends.
        deleted: whether the delete step was taken before.
        points: what a step of the lookup model measures, each under a name of its own.
    """

    name: str
    round: int
    deleted: bool = False
    points: tuple[Point, ...] = ()

    @property
    def measured(self) -> tuple[str, ...]:
        """The names under which its numbers are kept."""
        return tuple(point.step for point in self.points) or (self.name,)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What came of a step.

    Attributes:
        step: the step.
        values: its numbers; of a failed step only the time until it failed.
        mistake: why the result is wrong; None if it was verified.
        failed: the step raised instead of ending.
    """

    step: Step
    values: Values
    mistake: str | None = None
    failed: bool = False


LOAD = Step(name=BULK_INSERT, round=0)


def steps(workload: WorkloadSection) -> tuple[Step, ...]:
    """The steps that every repetition takes, in order."""
    built = [Step(name=BUILD_INDEX, round=0)] if workload.build_index else []
    upserts = [Step(name=f"upsert_{n}", round=n) for n in range(1, workload.rounds + 1)]
    last = workload.rounds
    nulled = [Step(name=NULL_COLUMNS, round=last)] if workload.null_columns else []
    ends = [
        Step(name=name, round=last, deleted=workload.delete, points=measured)
        for name, wanted, measured in (
            (DELETE, workload.delete, ()),
            (PURGE, workload.purge, ()),
            (LOOKUP, workload.lookup_present + workload.lookup_absent > 0, ()),
            (LOOKUP_AGAIN, workload.lookup_again, ()),
            (POINT_QUERY, workload.point_query, ()),
            (f"{LOOKUP}_{LOGS}", workload.model_keys, points(LOGS, workload.model_keys)),
            (COMPACT, workload.model_keys, ()),
            (f"{LOOKUP}_{COMPACTED}", workload.model_keys, points(COMPACTED, workload.model_keys)),
        )
        if wanted
    ]
    return (*built, *upserts, *nulled, *ends)


def label(trial: Trial, step: Step) -> str:
    """Name of a step in Spark's event log."""
    return f"{trial.label}|{step.name}"


def _step(context: RunContext, trial: Trial, step: Step) -> AbstractContextManager[StepCost | None]:
    return context.engines[trial.cell.engine].step(label(trial, step))


def take(
    context: RunContext, trial: Trial, step: Step, *, path: Path, table: MeasuredTable
) -> StepResult:
    """Do one step, measure it, verify it; an engine's failure becomes the step's result."""
    timed = partial(_timed, context, trial, step)

    def work() -> tuple[Values, str | None]:
        match step.name:
            case "lookup" | "lookup_again":
                return _lookup(context, trial, step, path=path, table=table)
            case "point_query":
                return _point_query(context, trial, step, path=path, table=table)
            case "compact":
                return _compact(context, trial, step, path=path, table=table)
            case "build_index":
                values, mistake = (
                    upkeep.build_index(context, path=path, table=table, timed=timed),
                    None,
                )
            case "purge":
                values, mistake = upkeep.purge(
                    context, trial.cell.engine, path=path, table=table, timed=timed
                )
            case _:
                values, mistake = _write(context, trial, step, path=path, table=table), None
        return values, mistake or verify_rows(context, trial.cell, step, path=path)

    return _guarded(context, step, work)


def take_points(context: RunContext, trial: Trial, step: Step, *, path: Path) -> list[StepResult]:
    """Measure the points of the lookup model on a table as it is, up to the first wrong one."""
    located = cache(lambda: _pool_locations(context, path))
    results: list[StepResult] = []
    for point in step.points:
        named = Step(name=point.step, round=step.round, deleted=step.deleted)
        work = partial(_point, context, trial, named, point=point, path=path, located=located)
        results.append(_guarded(context, named, work))
        if results[-1].mistake is not None:
            break
    return results


def _guarded(
    context: RunContext, step: Step, work: Callable[[], tuple[Values, str | None]]
) -> StepResult:
    start = context.clock()
    try:
        values, mistake = work()
    except Exception as error:  # noqa: BLE001 - whatever an engine raises fails its cell only
        return StepResult(
            step=step,
            values={WHOLE: context.clock() - start},
            mistake=f"failed: {first_line(error)}",
            failed=True,
        )
    return StepResult(step=step, values=values, mistake=mistake)


def _pool_locations(context: RunContext, path: Path) -> pa.Table:
    """Where the keys of the lookup model are, as an independent reading of the storage says."""
    pool = context.inputs.model_keys().column("record_key")
    located = independent.locations(context.tables.seen(path))
    return located.filter(pc.is_in(located.column("record_key"), value_set=pool))


def _point(  # noqa: PLR0913  a measurement and its surroundings
    context: RunContext,
    trial: Trial,
    step: Step,
    *,
    point: Point,
    path: Path,
    located: Callable[[], pa.Table],
) -> tuple[Values, str | None]:
    with _step(context, trial, step):
        found = lookups(context, trial, point, path)
    mistakes = (verify.lookup_mistake(f.answer, asked=f.asked, located=located()) for f in found)
    return point_values(point, found), next((text for text in mistakes if text), None)


def verify_rows(context: RunContext, cell: Cell, step: Step, *, path: Path) -> str | None:
    """Compare the rows of the table, opened anew, with the truth, and the index with its data."""
    engine = context.engines[cell.engine]
    table = engine.open(path, index=cell.index, options=cell.options)
    nulled = step.name == NULL_COLUMNS
    expected = (
        context.inputs.nulled_truth(step.round)
        if nulled
        else context.inputs.truth(step.round, deleted=step.deleted)
    )
    found = engine.digest(table.read(), context.inputs.columns)
    mistake = verify.rows_mistake(found, expected)
    if mistake is None and cell.index == "record":
        mistake = verify.check_mistake(table.check())
    return mistake


def _timed(
    context: RunContext, trial: Trial, step: Step, call: Callable[[], Answer]
) -> tuple[Answer, Values]:
    """Call an engine on the clock; the answer, and what it took."""
    before = processor_time.spent()
    with _step(context, trial, step) as cost:
        start = context.clock()
        answer = call()
        wall = context.clock() - start
    values: Values = {WHOLE: wall}
    if cost is not None and cost.seconds is not None:
        values["total", "measuring_s"] = cost.seconds
    after = processor_time.spent()
    if before is not None and after is not None:
        spent = after.since(before)
        values["total", "cpu_s"] = spent.total
        values["total", "python_worker_s"] = spent.workers
    return answer, values


def _write(
    context: RunContext, trial: Trial, step: Step, *, path: Path, table: MeasuredTable
) -> Values:
    call, df = _call(context, step, table)
    rows = context.engines[trial.cell.engine].hold_rows(df)
    before = Listing.of(context.tables.seen(path))
    outcome, timed = _timed(context, trial, step, lambda: call(rows))
    after = Listing.of(context.tables.seen(path))
    values = _write_values(outcome, written(before, after)) | timed
    values["total", "rows_written"] = rows_written(path, before, after)
    values["total", "index_bytes"] = hbase_cells.index_bytes(trial.cell, after.index_bytes)
    values["total", "keys"] = context.inputs.size(step.name)
    return values


def _call(
    context: RunContext, step: Step, table: MeasuredTable
) -> tuple[Callable[[Any], WriteOutcome], DataFrame]:
    if step.name == BULK_INSERT:
        return table.bulk_insert, context.inputs.load()
    if step.name == DELETE:
        return table.delete, context.inputs.deletes()
    if step.name == NULL_COLUMNS:
        return table.upsert, context.inputs.nulled()
    return table.upsert, context.inputs.batch(step.round)


def _write_values(outcome: WriteOutcome, added: Written) -> Values:
    phases: Mapping[str, float] = outcome.phases
    values: Values = {(phase, "wall_s"): seconds for phase, seconds in phases.items()}
    values["total", "files_written"] = outcome.files_written
    values["write", "bytes_written"] = added.data_bytes
    values["index", "bytes_written"] = added.index_bytes
    values["commit", "bytes_written"] = added.commit_bytes
    values["total", "bytes_written"] = added.total_bytes
    return values


def _lookup(
    context: RunContext, trial: Trial, step: Step, *, path: Path, table: MeasuredTable
) -> tuple[Values, str | None]:
    asked = context.inputs.lookup_keys()
    keys = asked.column("record_key").combine_chunks()
    engine = context.engines[trial.cell.engine]
    held = engine.hold_keys(keys, table)
    stats = LookupStats()
    found, timed = _timed(context, trial, step, lambda: table.lookup(held, stats=stats))
    answer = engine.answer(found, keys)
    located = independent.locations(context.tables.seen(path))
    mistake = verify.lookup_mistake(answer, asked=asked, located=located)
    values = timed | {("total", "keys"): len(keys)}
    told = _TOLD.get(trial.cell.index, ()) if is_native(trial.cell.engine) else ()
    return values | {("total", name): getattr(stats, name) for name in told}, mistake


def _compact(
    context: RunContext, trial: Trial, step: Step, *, path: Path, table: MeasuredTable
) -> tuple[Values, str | None]:
    instant, values = _timed(context, trial, step, table.compact)
    values["total", "index_bytes"] = Listing.of(context.tables.seen(path)).index_bytes
    if instant is None:
        return values, "there was nothing to compact"
    return values, verify.check_mistake(table.check())


def _point_query(
    context: RunContext, trial: Trial, step: Step, *, path: Path, table: MeasuredTable
) -> tuple[Values, str | None]:
    key = context.inputs.point_key(trial.repetition)

    def ask() -> tuple[Rows, list[Row]]:
        frame = table.read(keys=[key])
        return frame, frame.collect()

    (frame, found), values = _timed(context, trial, step, ask)
    rows = [row.asDict() for row in found]
    # Spark names the files that it reads itself; tasks that read from a store name none.
    if opened := len(frame.inputFiles()):
        values["total", "files_read"] = opened
    values["total", "keys"] = 1
    layout = context.inputs.layout
    columns = [*layout.record_key, *([layout.ordering] if layout.ordering else [])]
    expected = independent.find(context.tables.seen(path), key, columns)
    return values, verify.point_mistake(rows, expected)


def first_line(error: BaseException) -> str:
    """Kind and first line of an error; those of Spark carry pages of Java stack."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
