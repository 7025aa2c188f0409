"""The steps of a repetition: which there are, how each is taken, and how its result is verified.

`total` is the harness's own measurement (`StepRun.timed`); the other phases are what the engine
reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from keymark.harness.engines import NATIVE, is_native, table_version
from keymark.harness.engines.base import WriteOutcome, merge_on_read, scannable
from keymark.harness.engines.hudi_releases import BASE_VERSION
from keymark.harness.errors import CellError, LimitError, raise_interrupt
from keymark.harness.run import maintenance_steps, outside_entries
from keymark.harness.run.context import RunContext
from keymark.harness.run.lookup_model import COMPACTED, LOGS, lookups, points
from keymark.harness.run.lookup_model import values as point_values
from keymark.harness.run.step import (
    BUILD_INDEX,
    BUILD_ON_LOAD,
    BULK_INSERT,
    COLUMN_QUERY,
    COMPACT,
    COMPACT_ROWS,
    DELETE,
    LOAD,
    LOOKUP,
    LOOKUP_AGAIN,
    LOOKUP_FEW,
    NULL_COLUMNS,
    POINT_QUERY,
    POINT_QUERY_COLD,
    POINT_QUERY_OPTIMIZED,
    POINT_QUERY_SPARK,
    PURGE,
    RANGE_QUERY,
    RANGE_QUERY_COLD,
    SPREAD,
    WHOLE,
    Step,
    StepResult,
    StepRun,
    Values,
)
from keymark.harness.scenario.matrix import Cell
from keymark.harness.scenario.workload_section import WorkloadSection
from keymark.harness.sql_text import named, quoted
from keymark.harness.tables import independent, verify
from keymark.harness.tables.probes import rows_written, written
from keymark.indexes.installed import measured_specs
from keymark.table.index.protocol import LookupStats
from keymark.table.storage.durability import seconds_synced

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_OF_MERGE_ON_READ = (POINT_QUERY_OPTIMIZED, COMPACT_ROWS)
_POINT_QUERIES = (POINT_QUERY, POINT_QUERY_SPARK, POINT_QUERY_OPTIMIZED, POINT_QUERY_COLD)


def steps(workload: WorkloadSection) -> tuple[Step, ...]:
    """The steps of a repetition, in order; some are those of the first one only."""
    built = [Step(name=BUILD_INDEX, round=0)] if workload.build_index else []
    upserts = [
        step
        for n in range(1, workload.rounds + 1)
        for step in (Step(name=f"upsert_{n}", round=n), *_between(workload, n))
    ]
    last = workload.rounds
    queried = {COLUMN_QUERY: workload.column_query, RANGE_QUERY: workload.range_query}
    queried[RANGE_QUERY_COLD] = workload.range_query
    is_nulled = bool(workload.null_columns)
    nulled = [Step(name=NULL_COLUMNS, round=last, nulled=True)] if is_nulled else []
    ends = [
        Step(
            name=name,
            round=last,
            deleted=workload.delete is True or name == DELETE,
            nulled=is_nulled and not (workload.delete is True or name == DELETE),
            points=measured,
            is_once=workload.delete == "once" and name == DELETE,
            column=queried.get(name, ""),
            width=workload.range_width,
            variants=workload.merge_on_read if name in _OF_MERGE_ON_READ else (),
        )
        for name, wanted, measured in (
            (DELETE, workload.delete, ()),
            (PURGE, workload.purge, ()),
            (LOOKUP, workload.lookup_present + workload.lookup_absent > 0, ()),
            (LOOKUP_AGAIN, workload.lookup_again, ()),
            (POINT_QUERY, workload.point_query, ()),
            (POINT_QUERY_SPARK, workload.point_query, ()),
            (POINT_QUERY_OPTIMIZED, workload.point_query and workload.merge_on_read, ()),
            (COLUMN_QUERY, workload.column_query, ()),
            (RANGE_QUERY, workload.range_query, ()),
            (POINT_QUERY_COLD, workload.cold and workload.point_query, ()),
            (RANGE_QUERY_COLD, workload.cold and workload.range_query, ()),
            # Behind the queries of one key: no block of the index is kept for these.
            (LOOKUP_FEW, workload.lookup_few, ()),
            (COMPACT_ROWS, workload.merge_on_read, ()),
            (f"{LOOKUP}_{LOGS}", workload.model_keys, points(LOGS, workload.model_keys)),
            (COMPACT, workload.model_keys, ()),
            (f"{LOOKUP}_{COMPACTED}", workload.model_keys, points(COMPACTED, workload.model_keys)),
        )
        if wanted
    ]
    spread = Step(
        name=SPREAD,
        round=last,
        deleted=bool(workload.delete),
        is_once=True,
        engines=workload.spread_batch,
    )
    ends = [*sorted(ends, key=lambda step: step.is_once), *([spread] if spread.engines else [])]
    return (*built, *upserts, *nulled, *ends)


def _between(workload: WorkloadSection, round_: int) -> Iterator[Step]:
    """The steps between a round and the next one: queries, then what keeps tables in order."""
    if round_ == workload.rounds:
        return
    if workload.read_every and round_ % workload.read_every == 0:
        if workload.point_query:
            yield Step(name=f"{POINT_QUERY}_{round_}", round=round_)
        if workload.range_query:
            yield Step(
                name=f"{RANGE_QUERY}_{round_}",
                round=round_,
                column=workload.range_query,
                width=workload.range_width,
            )
    if workload.upkeep and workload.upkeep_every and round_ % workload.upkeep_every == 0:
        yield Step(name=f"{COMPACT_ROWS}_{round_}", round=round_, variants=workload.upkeep)


def take(run: StepRun) -> StepResult:
    """Do one step, measure it, verify it; an engine's failure becomes the step's result."""
    start = run.context.clock()
    try:
        values, mistake = _taken(run)
    except Exception as error:  # noqa: BLE001 - whatever an engine raises fails its cell only
        return failure(run.context, run.step, start, error, deadline=run.deadline)
    return StepResult(step=run.step, values=values, mistake=mistake)


def failure(
    context: RunContext, step: Step, start: float, error: Exception, *, deadline: float | None
) -> StepResult:
    """The result of a step that raised: it failed, or ended at a limit of time or memory.

    Args:
        context: what the run works with.
        step: the step.
        start: time on the context's clock when it began.
        error: that was raised.
        deadline: time on that clock at which it is ended; None for never.

    Raises:
        KeyboardInterrupt: the error took the place of one.
    """
    raise_interrupt(error)
    now = context.clock()
    if deadline is not None and now >= deadline:
        limit = f"a load or a repetition takes at most {context.trial_limit_s:,.0f} s"
        why = f"ended after {now - start:,.0f} s at {_at(context)}: {limit}"
        why += " (schedule.trial_minutes)"
        return StepResult(step=step, values={WHOLE: now - start}, failed=True, ended=why)
    if isinstance(error, LimitError):
        why = f"out of memory at {_at(context)}: {error}"
        return StepResult(step=step, values={WHOLE: now - start}, failed=True, ended=why)
    return StepResult.of_failure(step, now - start, error)


def _at(context: RunContext) -> str:
    """The size at which a step was ended: the rows that the table was loaded with."""
    rows, _ = context.inputs.truth(0, deleted=False)
    return f"{rows:,} rows"


def _taken(run: StepRun) -> tuple[Values, str | None]:
    """The numbers of a step, and what is wrong with its result."""
    if run.step.name in (LOOKUP, LOOKUP_AGAIN, LOOKUP_FEW):
        return _lookup(run)
    if run.step.kind in _POINT_QUERIES:
        return _point_query(run)
    if run.step.name == COLUMN_QUERY:
        return _column_query(run)
    if run.step.kind in (RANGE_QUERY, RANGE_QUERY_COLD):
        return _range_query(run)
    if run.step.name == COMPACT:
        return maintenance_steps.compact(run)
    mistake = None
    if run.step.name == BUILD_INDEX:
        values = maintenance_steps.build_index(run)
    elif run.step.name == PURGE:
        values, mistake = maintenance_steps.purge(run)
    elif run.step.kind == COMPACT_ROWS:
        values, mistake = maintenance_steps.compact_rows(run)
    else:
        values = _write(run)
    mistake = mistake or verify_rows(
        run.context, run.cell, run.step, path=run.path, reads_whole=run.reads_whole
    )
    return values, mistake


def take_points(run: StepRun) -> list[StepResult]:
    """Measure the points of the lookup model on a table as it is, up to the first wrong one."""
    results: list[StepResult] = []
    located: pa.Table | None = None
    for point in run.step.points:
        named = replace(run, step=replace(run.step, name=point.step, points=()))
        start = run.context.clock()
        try:
            with run.engine.step(named.label):
                found = lookups(run.context, run.trial, point, run.path)
            if located is None:
                # An independent reading of the storage, of the model's keys only.
                asked = run.inputs.model_keys().column("record_key").combine_chunks()
                located = independent.locations(run.files(), asked)
            mistakes = [
                verify.lookup_mistake(each.answer, asked=each.asked, located=located)
                for each in found
            ]
            values, mistake = point_values(point, found), next(filter(None, mistakes), None)
            results.append(StepResult(step=named.step, values=values, mistake=mistake))
        except Exception as error:  # noqa: BLE001 - whatever an engine raises fails its cell only
            raise_interrupt(error)
            spent = run.context.clock() - start
            results.append(StepResult.of_failure(named.step, spent, error))
        if results[-1].mistake is not None:
            break
    return results


def verify_rows(
    context: RunContext, cell: Cell, step: Step, *, path: Path, reads_whole: bool = False
) -> str | None:
    """Compare the rows of the table with the truth, and the index with its data.

    A table is opened anew and read by the cell's engine. In a large table the files are read, each
    once, unless it is to be read whole; its index is compared when it was built, and then.
    """
    engine, inputs = context.engines[cell.engine], context.inputs
    table = engine.open(path, index=cell.index, options=cell.options)
    if step.nulled:
        expected = inputs.nulled_truth(step.round)
    elif step.name == SPREAD:
        expected = inputs.spread_truth(step.round, deleted=step.deleted)
    else:
        expected = inputs.truth(step.round, deleted=step.deleted)
    loaded_rows, _ = inputs.truth(0, deleted=False)
    is_whole = verify.is_whole(loaded_rows, once=reads_whole)
    mistake = None
    if is_whole:
        mistake = verify.rows_mistake(engine.digest(table.read(), inputs.columns), expected)
    # Other tables than those of version 6 only their own release reads whole: hudi-rs is the second
    # reader, and of other formats the harness itself.
    if mistake is None and (not is_whole or table_version(cell.engine) != BASE_VERSION):
        found = context.readings.digest(context.tables.seen(path), inputs.columns)
        mistake = verify.rows_mistake(found, expected)
    has_index = measured_specs()[cell.index].is_built
    if mistake is None and has_index and (is_whole or step in (LOAD, BUILD_ON_LOAD)):
        mistake = verify.check_mistake(table.check())
    return mistake


def _write(run: StepRun) -> Values:
    """Write a batch on the clock; what the engine reports and what it left on storage."""
    call, frame = _call(run)
    rows = run.engine.hold_rows(frame)
    before, synced = run.listing(), seconds_synced()
    with run.timed() as timed:
        outcome = call(rows)
    synced = seconds_synced() - synced
    after = run.listing()
    added, phases = written(before, after), outcome.phases
    values: Values = {(phase, "wall_s"): seconds for phase, seconds in phases.items()}
    values["total", "files_written"] = outcome.files_written
    values["write", "bytes_written"] = added.data_bytes
    values["index", "bytes_written"] = added.index_bytes
    values["commit", "bytes_written"] = added.commit_bytes
    values["total", "bytes_written"] = added.total_bytes
    values |= timed
    values["total", "rows_written"] = rows_written(run.path, before, after)
    values["total", "index_bytes"] = outside_entries.index_bytes(run.cell, after.index_bytes)
    values["total", "table_bytes"] = after.total_bytes
    values["total", "keys"] = run.inputs.size(run.step.name)
    if run.cell.engine == NATIVE:
        values["total", "sync_s"] = synced
    return values


def _call(run: StepRun) -> tuple[Callable[[Any], WriteOutcome], DataFrame]:
    """The engine's call of a writing step, and the rows that it takes."""
    if run.step.name == BULK_INSERT:
        return run.table.bulk_insert, run.inputs.load()
    if run.step.name == DELETE:
        return run.table.delete, run.inputs.deletes()
    if run.step.name == NULL_COLUMNS:
        return run.table.upsert, run.inputs.nulled()
    if run.step.name == SPREAD:
        return run.table.upsert, run.inputs.spread()
    return run.table.upsert, run.inputs.batch(run.step.round)


def _lookup(run: StepRun) -> tuple[Values, str | None]:
    is_few = run.step.name == LOOKUP_FEW
    asked = run.inputs.few_keys() if is_few else run.inputs.lookup_keys()
    keys = asked.column("record_key").combine_chunks()
    held = run.engine.hold_keys(keys, run.table)
    stats = LookupStats()
    with run.timed() as values:
        found = run.table.lookup(held, stats=stats)
    answer = run.engine.answer(found, keys)
    located = independent.locations(run.files(), keys)
    mistake = verify.lookup_mistake(answer, asked=asked, located=located)
    values["total", "keys"] = len(keys)
    if is_native(run.cell.engine):
        counted = measured_specs()[run.cell.index].counters
        values |= {("total", counter.name): stats.counted(counter.name) for counter in counted}
    return values, mistake


def _point_query(run: StepRun) -> tuple[Values, str | None]:
    """Read the row of a key: by a scan where Keymark's engines take it so, or by `read`."""
    key = run.inputs.point_key(run.trial.repetition)
    is_scan = run.step.kind in (POINT_QUERY, POINT_QUERY_COLD) and is_native(run.cell.engine)
    values, rows = _scanned(run, key) if is_scan else _read(run, key)
    values["total", "keys"] = 1
    is_optimized = run.step.name == POINT_QUERY_OPTIMIZED
    columns = _checked_columns(run)
    expected = independent.find(run.files(), key, columns, base_files_only=is_optimized)
    return values, verify.point_mistake(rows, expected)


def _scanned(run: StepRun, key: str) -> tuple[Values, list[Mapping[str, Any]]]:
    """Read the rows of a key without Spark, as a Python program does, on the clock."""
    table = scannable(run.table)
    with run.timed() as values:
        plan = table.scan(keys=[key])
        found = plan.to_arrow()
    values["total", "files_read"] = len(plan.files)
    return values, found.to_pylist()


def _read(run: StepRun, key: str) -> tuple[Values, list[Mapping[str, Any]]]:
    """Read the rows of a key by Spark, or by the library that an engine is, on the clock."""
    is_optimized = run.step.name == POINT_QUERY_OPTIMIZED
    read = merge_on_read(run.table).read_optimized if is_optimized else run.table.read
    with run.timed() as values:
        frame = read(keys=[key])
        found = frame.collect()
    # Spark names the files that it reads itself; tasks that read from a store name none.
    if opened := len(frame.inputFiles()):
        values["total", "files_read"] = opened
    return values, [row.asDict() for row in found]


def _column_query(run: StepRun) -> tuple[Values, str | None]:
    """Read the rows that have a column's value in common with the row of the point query's key."""
    column, value = run.step.column, _value_of_point(run)
    columns = _checked_columns(run)
    values, found = _queried(run, f"{named(column)} = {_literal(value)}")
    expected = independent.matching(run.files(), column, value, columns)
    return values, verify.query_mistake([row.asDict() for row in found], expected, columns)


def _range_query(run: StepRun) -> tuple[Values, str | None]:
    """Read the rows whose value of a column is near, and not below, that of the point query's."""
    column, low = run.step.column, _value_of_point(run)
    if not isinstance(low, int | float):
        raise CellError(f"workload.range_query: {column} is {low!r} in a row, which is no number")
    high, name = low + run.step.width, named(column)
    columns = _checked_columns(run)
    values, found = _queried(run, f"{name} >= {low!r} AND {name} < {high!r}")
    expected = independent.between(run.files(), column, (low, high), columns)
    return values, verify.query_mistake([row.asDict() for row in found], expected, columns)


def _value_of_point(run: StepRun) -> Any:
    """What the row of the point query's key has in the column of a query."""
    key = run.inputs.point_key(run.trial.repetition)
    found = independent.find(run.files(), key, [run.step.column])
    if len(found) != 1:
        raise CellError(f"{run.step.name}: key {key!r} is in {len(found)} rows, not in one")
    return found[0][run.step.column]


def _queried(run: StepRun, where: str) -> tuple[Values, list[Any]]:
    """Read the rows of a condition on the clock."""
    with run.timed() as values:
        frame = run.table.read(where=where)
        found = frame.collect()
    if opened := len(frame.inputFiles()):
        values["total", "files_read"] = opened
    values["total", "keys"] = len(found)
    return values, found


def _checked_columns(run: StepRun) -> list[str]:
    """The columns by which rows of a query are compared."""
    layout = run.inputs.layout
    return [*layout.record_key, *([layout.ordering] if layout.ordering else [])]


def _literal(value: object) -> str:
    """A number or text as Spark's SQL has it."""
    return str(value) if isinstance(value, int | float) else quoted(str(value))
