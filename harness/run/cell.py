"""One cell: its loaded table kept as a snapshot, and one repetition on a copy of it.

A bulk load is a trial of its own: it is measured, verified, and its table is what every later
repetition of the cell starts from. Repetitions link to the snapshot's immutable files.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from keymark.harness.engines import is_native, table_version
from keymark.harness.engines.base import MeasuredTable, scannable
from keymark.harness.errors import CellError
from keymark.harness.run import outside_entries, workload
from keymark.harness.run.context import SNAPSHOT, RunContext
from keymark.harness.run.step import (
    BUILD_ON_LOAD,
    LOAD,
    WHOLE,
    Step,
    StepResult,
    StepRun,
    first_line,
)
from keymark.harness.scenario.matrix import Cell, Trial
from keymark.harness.store.results import Sample
from keymark.harness.store.units import METRICS
from keymark.harness.tables import independent, verify
from keymark.harness.tables.probes import Listing
from keymark.indexes.installed import measured_specs


def snapshot_path(context: RunContext, cell: Cell) -> Path:
    """Where the loaded table of a cell, and of those that share it, is kept."""
    return context.work / cell.table_id / SNAPSHOT


def is_kept(context: RunContext, cell: Cell) -> bool:
    """Whether the loaded table of a cell is there, verified, with each file as it was then.

    A resumed run loads no such table again. What its files hold is read as they are first needed.
    Entries outside of a table are not kept.
    """
    if outside_entries.entries_of(cell.index) is not None:
        return False
    path = snapshot_path(context, cell)
    try:
        seal = json.loads(_seal(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(seal == _sealed(path))


def _keep(context: RunContext, cell: Cell) -> None:
    """Note that the loaded table of a cell was verified."""
    path = snapshot_path(context, cell)
    _seal(path).write_text(json.dumps(_sealed(path)), encoding="utf-8")


def _seal(snapshot: Path) -> Path:
    return snapshot.with_name("verified.json")


def _sealed(snapshot: Path) -> dict[str, list[int]]:
    """Size and time of the last change of each file."""
    found = {}
    for name in Listing.of(snapshot).sizes:
        stat = (snapshot / name).lstat()
        found[name] = [stat.st_size, stat.st_mtime_ns]
    return found


def _table_path(context: RunContext, cell: Cell, name: str) -> Path:
    """A path that no other trial of the run has.

    JVMs remember by path what they read (Hudi 1.1: blocks of HFiles by path, offset and size, and
    its log files have the same names in each repetition).
    """
    return context.work / cell.cell_id / f"table-{name}"


def warm_load(
    context: RunContext,
    cell: Cell,
    loader: Cell | None,
    *,
    builds: bool = False,
    all_steps: bool = False,
) -> None:
    """Load a small throw-away table, so that the measured load does not pay for a cold start.

    If the cell's table starts from the loader's, it is what the cell builds on it, if it does, that
    is warmed.
    With all steps the table is also written to and asked, as a warm-up does with a loaded one.
    """
    path = _table_path(context, cell, "warm")
    loading = loader or cell
    table = _create(context, loading, path)
    with _limited(context, loading):
        table.bulk_insert(context.engines[loading.engine].hold_rows(context.inputs.warm_up()))
    engine = context.engines[cell.engine]
    if loader is not None:
        table = engine.adopt(path, index=cell.index, options=cell.options)
        if builds:
            with _limited(context, cell):
                table.build_index()
    if all_steps:
        table = engine.open(path, index=cell.index, options=cell.options)
        with _limited(context, cell):
            table.upsert(engine.hold_rows(context.inputs.warm_up()))
            keys = context.inputs.lookup_keys().column("record_key").combine_chunks()
            engine.answer(table.lookup(engine.hold_keys(keys, table)), keys)
            table.read(keys=[context.inputs.point_key(0)]).collect()
            if is_native(cell.engine):
                scannable(table).scan(keys=[context.inputs.point_key(0)]).to_arrow()
    context.tables.remove(path)


def _limited(context: RunContext, cell: Cell) -> AbstractContextManager[None]:
    """Let what the cell's engine does in the block fail once it takes longer than a load may."""
    limit = context.trial_limit_s
    return nullcontext() if limit is None else context.engines[cell.engine].limited(limit)


def _deadline(context: RunContext) -> float | None:
    """When a load or a repetition that begins now is ended; None for never."""
    limit = context.trial_limit_s
    return None if limit is None else context.clock() + limit


def load(context: RunContext, trial: Trial) -> StepResult:
    """Create a table, load it on the clock, verify it; the first one is kept as the snapshot."""
    keep = trial.repetition == 0
    again = _table_path(context, trial.cell, f"load{trial.repetition}")
    path = snapshot_path(context, trial.cell) if keep else again
    try:
        if keep:
            _seal(path).unlink(missing_ok=True)
        table = _create(context, trial.cell, path)
        run = StepRun(
            context=context,
            trial=trial,
            step=LOAD,
            path=path,
            table=table,
            deadline=_deadline(context),
        )
        result = workload.take(run)
        mistake = result.mistake
        if mistake is None and not result.ended:
            mistake = verify.index_mistake(table.info(), trial.cell.index)
    except Exception as error:
        raise CellError(f"failed: {first_line(error)}") from error
    finally:
        if not keep:
            context.tables.remove(path)
            outside_entries.refill(trial.cell, snapshot_path(context, trial.cell))
    if keep and mistake is None and not result.ended:
        _keep(context, trial.cell)
    return replace(result, mistake=mistake)


def start(context: RunContext, trial: Trial, loader: Cell, *, builds: bool) -> StepResult | None:
    """Start a cell's table from the loaded one of another cell: same base files, maybe own index.

    They are links to the loaded files where links are possible. On the clock is what the cell's
    engine builds upon them; nothing is loaded, so a cell has no load time.

    Args:
        context: what to run with.
        trial: the load.
        loader: the cell that has the loaded table.
        builds: whether an index is built upon the files; see `Schedule.builds`.

    Returns:
        What building the index took; None where there is nothing to build.

    Raises:
        CellError: the table does not hold the loaded rows or does not use the cell's index.
    """
    cell, keep = trial.cell, trial.repetition == 0
    if not keep and not builds:
        return None
    again = _table_path(context, cell, f"load{trial.repetition}")
    path = snapshot_path(context, cell) if keep else again
    engine, result = context.engines[cell.engine], None
    try:
        if keep:
            _seal(path).unlink(missing_ok=True)
        context.tables.restore(snapshot_path(context, loader), path)
        table = engine.adopt(path, index=cell.index, options=cell.options)
        if builds:
            run = StepRun(
                context=context,
                trial=trial,
                step=BUILD_ON_LOAD,
                path=path,
                table=table,
                deadline=_deadline(context),
            )
            result = workload.take(run)
            if result.ended:
                return result
            mistake = result.mistake
        else:
            mistake = workload.verify_rows(context, cell, LOAD, path=path)
        mistake = mistake or verify.index_mistake(table.info(), cell.index)
    except Exception as error:
        reason = first_line(error)
        raise CellError(f"cannot start from the table of {loader.cell_id}: {reason}") from error
    finally:
        if not keep:
            context.tables.remove(path)
    if mistake is not None and result is None:
        raise CellError(f"cannot start from the table of {loader.cell_id}: {mistake}")
    if keep and mistake is None:
        _keep(context, cell)
    return result and replace(result, mistake=mistake)


def adopt(context: RunContext, cell: Cell, source: Path) -> str | None:
    """Start the cell from an existing table, off the clock; a note where it had to be re-written.

    A table cannot be given another layout, so for an index that has a layout of its own, and for
    one in a partition of the metadata table that the source lacks, the same rows are bulk-inserted
    into a new table. So they are for every index where the source spells a key of one column in
    Hudi's other way: all cells are asked for the same keys.

    Raises:
        CellError: the copy does not hold the source's rows or does not use the cell's index.
    """
    path = snapshot_path(context, cell)
    note = _rewrite_note(cell, source)
    try:
        if note is None:
            context.tables.copy(source, path)
            outside_entries.refill(cell, path)
            table = context.engines[cell.engine].adopt(path, index=cell.index, options=cell.options)
            if is_native(cell.engine) and measured_specs()[cell.index].key_runs:
                table.build_index()
        else:
            table = _create(context, cell, path)
            table.bulk_insert(context.engines[cell.engine].hold_rows(context.inputs.load()))
        mistake = verify.index_mistake(table.info(), cell.index)
        mistake = mistake or workload.verify_rows(context, cell, LOAD, path=path)
    except Exception as error:
        reason = first_line(error)
        raise CellError(f"cannot start from {source.name}: {reason}") from error
    if mistake is not None:
        raise CellError(f"cannot start from {source.name}: {mistake}")
    return note


def _rewrite_note(cell: Cell, source: Path) -> str | None:
    spec = measured_specs()[cell.index]
    partition = spec.partition_in(table_version(cell.engine))
    if (named := independent.named_key(source)) is not None:
        reason = f"the source's keys name their only column ({named!r}), which not all releases do"
    elif spec.owns_layout:
        reason = f"a {spec.name} index needs a table laid out by {spec.name}s"
    elif partition is not None:
        if partition in independent.facts(source).partitions_of_metadata:
            return None
        reason = f"the source has no {partition.replace('_', ' ')}"
    else:
        return None
    return (
        f"{cell.cell_id}: {reason}, so the source's rows were first bulk-inserted into a new "
        "table, off the clock"
    )


def repeat(
    context: RunContext, trial: Trial, steps: Sequence[Step], *, reads_whole: bool = False
) -> list[StepResult]:
    """One repetition on a fresh copy of the loaded table.

    It ends with the first wrong step, or with the one during which its time was over. A table that
    cannot be opened is a first step that failed.

    Args:
        context: what to run with.
        trial: the repetition.
        steps: that it takes.
        reads_whole: whether its last change is verified by reading the whole table.
    """
    cell = trial.cell
    last_change = [step for step in steps if step.changes_rows][-1:]
    deadline = _deadline(context)
    path = _table_path(context, cell, trial.name)
    results: list[StepResult] = []
    try:
        context.tables.restore(snapshot_path(context, cell), path)
        try:
            table = context.engines[cell.engine].open(path, index=cell.index, options=cell.options)
        except Exception as error:  # noqa: BLE001 - whatever an engine raises fails its cell only
            # Opening is on no clock: of the step nothing was taken.
            return [workload.failure(context, steps[0], context.clock(), error, deadline=deadline)]
        for step in steps:
            run = StepRun(
                context=context,
                trial=trial,
                step=step,
                path=path,
                table=table,
                reads_whole=reads_whole and [step] == last_change,
                deadline=deadline,
            )
            results += workload.take_points(run) if step.points else [workload.take(run)]
            if results[-1].mistake is not None or results[-1].ended:
                break
    finally:
        context.tables.remove(path)
        outside_entries.restore(cell, snapshot_path(context, cell), context.inputs, steps)
    return results


def samples(run_id: str, trial: Trial, results: Sequence[StepResult]) -> list[Sample]:
    """The results of a trial as lines of `samples.jsonl`.

    The whole time of a step comes last: a trial that has it for its last step was written whole,
    wherever a kill may have cut.
    """
    return [
        Sample(
            run_id=run_id,
            cell=trial.cell.cell_id,
            engine=trial.cell.engine,
            index=trial.cell.index,
            step=result.step.name,
            round=result.step.round,
            repetition=trial.repetition,
            warmup=trial.warmup,
            phase=phase,
            metric=metric,
            unit=METRICS[metric].unit,
            value=value,
            verified=result.mistake is None,
            valid=not result.failed,
            reason=result.mistake or result.ended,
        )
        for result in results
        for (phase, metric), value in sorted(
            result.values.items(), key=lambda each: each[0] == WHOLE
        )
    ]


def _create(context: RunContext, cell: Cell, path: Path) -> MeasuredTable:
    context.tables.remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    outside_entries.renew(cell)
    engine = context.engines[cell.engine]
    return engine.create(path, context.inputs.layout, index=cell.index, options=cell.options)
