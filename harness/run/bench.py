"""One run from a resolved scenario to a complete run folder: the parts put together."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from keymark.datasets.generate.dataset import Dataset
from keymark.datasets.generate.generated import GeneratedDataset
from keymark.datasets.generate.source import SourceDataset
from keymark.datasets.profiles.folders import session_conf
from keymark.harness.engines import BARE, NATIVE, is_native
from keymark.harness.engines.base import Layout
from keymark.harness.engines.lineup import EnginePool, missing
from keymark.harness.errors import HarnessError, RunFolderError
from keymark.harness.hbase import cells as hbase_cells
from keymark.harness.measure import environment, event_log
from keymark.harness.measure.canary import Canary
from keymark.harness.measure.counters import counter_samples, stage_lines, unfinished
from keymark.harness.measure.session import SparkRuntime, cores
from keymark.harness.redaction import redact, redact_arguments, redact_document
from keymark.harness.run import independent, own_data, workload
from keymark.harness.run.inputs import SparkInputs
from keymark.harness.run.kit import RunContext
from keymark.harness.run.mappings import MappingRun
from keymark.harness.run.runner import Outcome, Progress, Runner, complete_trials, trial_key
from keymark.harness.run_record import (
    COMPLETE,
    RUNNING,
    CellRecord,
    MachineRecord,
    MeasuredRecord,
    RunRecord,
    ScenarioRecord,
)
from keymark.harness.scenario.dataset_section import DataPoint, DatasetSection
from keymark.harness.scenario.matrix import expand, neighbours
from keymark.harness.scenario.scenario import Scenario
from keymark.harness.store.store import RunFolder, is_run_name, unwatched
from keymark.harness.store.table_places import LocalTables, RemoteTables, Tables
from keymark.indexes.installed import specs
from keymark.indexes.spec import spec_data
from keymark.table.errors import StorageError

SOURCE_CHANGE = 4
"""Divisor of a source's rows: no kind of change in a batch is greater than that share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked for on the command line.

    Attributes:
        scenario: resolved.
        out: the run folder; None for `runs/<run_id>`.
        budget_s: time that chooses the number of repetitions.
        resume: go on with the run that is in `out`.
        kept: called whenever the folder's files tell more than before.
    """

    scenario: Scenario
    out: Path | None = None
    budget_s: float | None = None
    resume: bool = False
    kept: Callable[[], None] = unwatched


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A run that came to its end.

    Attributes:
        folder: where its numbers are.
        failed: reasons by cell id.
        skipped: engines, and indexes of engines, that were not there, with how to get them.
    """

    folder: RunFolder
    failed: Mapping[str, str]
    skipped: Mapping[str, str]


def run(request: Request, progress: Progress) -> Finished:
    """Measure a scenario into a run folder; what it needs on storage is removed at the end.

    Raises:
        RunFolderError: the folder is taken, or does not fit the scenario that is resumed.
        HarnessError: none of the engines is there with one of the indexes.
    """
    skipped = missing(request.scenario.engines, request.scenario.indexes)
    folder, record = _folder(request)
    record = record.but(status=RUNNING, skipped=skipped)
    folder.write_record(record)
    work = _work(folder)
    if request.scenario.table.mappings:
        # What is built stays until it is measured: the run may be resumed.
        outcome = _measure_mappings(request, folder, work, record=record, progress=progress)
        shutil.rmtree(work, ignore_errors=True)
    else:
        tables = _tables(request.scenario, work / "tables", str(record.run_id))
        # What a run that was killed left there; a store that cannot be reached is told now.
        tables.clear()
        try:
            outcome = _measure(request, folder, tables, record=record, progress=progress)
        finally:
            shutil.rmtree(work, ignore_errors=True)
            left = _left(tables)
        _count(folder)
        outcome.notes = [*_notes(request.scenario, skipped), *outcome.notes, *left]
    folder.write_record(
        folder.read_record().but(
            status=COMPLETE,
            finished=_now(),
            repetitions=outcome.repetitions,
            notes=outcome.notes,
            failed=dict(outcome.failed),
        )
    )
    return Finished(folder=folder, failed=outcome.failed, skipped=skipped)


def _work(folder: RunFolder) -> Path:
    """What a run needs besides its results. Absolute: Hudi refuses a table at a relative path."""
    return folder.path.absolute() / "work"


def _tables(scenario: Scenario, work: Path, run_id: str) -> Tables:
    """Where the tables of a run are; at a URL in a folder of its own."""
    location = scenario.table.location
    if location is None:
        return LocalTables()
    url = f"{location.rstrip('/')}/{run_id}"
    return RemoteTables(url=url, work=work, options=scenario.table.options)


def _left(tables: Tables) -> list[str]:
    """Delete the tables; a note where the store did not let them go. What was measured stays."""
    try:
        tables.clear()
    except StorageError as error:
        return [f"Tables of this run are left on their store: {error}."]
    return []


def _folder(request: Request) -> tuple[RunFolder, RunRecord]:
    """A new folder with what is known so far, or the one to go on with."""
    described = describe(request.scenario)
    if request.resume and not (request.out and RunFolder(request.out).is_blank):
        return _resumed(request, described)
    run_id = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{request.scenario.name}"
    folder = RunFolder.create(request.out or Path("runs") / run_id, request.kept)
    return folder, RunRecord(
        run_id=run_id,
        started=_now(),
        command=redact_arguments(environment.command()),
        scenario=ScenarioRecord.model_validate(described),
        cells=[
            CellRecord(
                cell=cell.cell_id,
                index=cell.index,
                options=redact(cell.options),
                rows=cell.data.rows,
                shape=cell.data.shape,
                batch=cell.data.batch,
            )
            for cell in expand(request.scenario)
        ],
        indexes={name: spec_data(specs()[name]) for name in request.scenario.indexes},
        seeds={"dataset": request.scenario.dataset.seed},
        machine=MachineRecord.model_validate(environment.machine()),
    )


def _resumed(request: Request, described: Mapping[str, Any]) -> tuple[RunFolder, RunRecord]:
    if request.out is None:
        raise RunFolderError("--resume needs --out, the folder of the run to go on with")
    folder = RunFolder.open(request.out, request.kept)
    folder.refuse_links()
    record = folder.read_record()
    if record.scenario.document != described:
        raise RunFolderError(f"{request.out} holds a run of another scenario; it is not resumed")
    if not is_run_name(record.run_id):
        # It names the folder of the tables, which is deleted at the end.
        raise RunFolderError(f"{folder.info_file} has no run_id that can name a folder")
    steps = workload.steps(request.scenario.workload)
    names = [name for step in steps for name in step.measured]
    samples = folder.samples()
    done, torn = complete_trials(samples, names), unfinished(samples)
    folder.keep_only(lambda sample: trial_key(sample) in done and not torn(sample))
    return folder, record


def describe(scenario: Scenario) -> dict[str, Any]:
    """The scenario as run.json holds it: JSON types only, secrets left out."""
    return dict(redact_document(scenario.model_dump(mode="json")))


def _measure_mappings(
    request: Request, folder: RunFolder, work: Path, *, record: RunRecord, progress: Progress
) -> Outcome:
    """Build and ask indexes of keys alone, without Spark."""
    scenario = request.scenario
    if request.budget_s is not None:
        raise HarnessError("--budget: how often mappings are looked up is schedule.repetitions")
    asked = scenario.workload.lookup_present + scenario.workload.lookup_absent
    # Of several sizes, the largest.
    rows = scenario.dataset.points[-1].rows
    record = record.but(
        versions=environment.versions(None),
        measured=MeasuredRecord(
            rows=rows, batch_updates=0, batch_inserts=0, deletes=0, lookup_keys=asked
        ),
        seeded_ids=list(scenario.engines),
    )
    folder.write_record(record)
    run = MappingRun(
        scenario=scenario,
        folder=folder,
        work=work / "tables",
        run_id=str(record.run_id),
        clock=time.perf_counter,
        progress=progress,
        between=_canary(scenario, folder, work),
    )
    return run.measure()


def _measure(
    request: Request, folder: RunFolder, tables: Tables, *, record: RunRecord, progress: Progress
) -> Outcome:
    scenario, work = request.scenario, _work(folder)
    begin = time.monotonic()
    progress.begin("starting Spark")
    own = scenario.dataset.source
    reading = session_conf(own.resolved_format, scenario.spark.conf) if own else {}
    runtime = SparkRuntime(scenario.spark, folder.events, reading)
    try:
        with EnginePool(runtime, tables) as pool:
            progress.begin("writing the batches")
            source = Path(scenario.table.source) if scenario.table.source else None
            inputs = _inputs(runtime.spark, scenario, work / "data", source)
            # Of several sizes, the largest.
            measured = _measured(inputs[scenario.dataset.points[-1]])
            for name in scenario.engines:
                if name not in record.skipped:
                    progress.begin(f"starting {name}")
                    pool.start(name, scenario.spark, events=folder.events, work=work)
            record = record.but(
                versions=environment.versions(runtime.spark),
                synced={
                    name: environment.synced(
                        name, scenario.table.options, remote=isinstance(tables, RemoteTables)
                    )
                    for name in scenario.engines
                },
                spark_conf=runtime.conf(),
                measured=measured,
                processes=pool.told,
                seeded_ids=pool.seeded,
            )
            folder.write_record(record)
            contexts = {
                data: RunContext(
                    inputs=prepared,
                    engines=pool.engines,
                    work=work / "tables",
                    source=source,
                    clock=time.perf_counter,
                    tables=tables,
                )
                for data, prepared in inputs.items()
            }
            runner = Runner(
                scenario, contexts, folder, run_id=str(record.run_id), progress=progress
            )
            runner.between = _canary(scenario, folder, work)
            left = request.budget_s
            left = None if left is None else left - (time.monotonic() - begin)
            cells = neighbours(hbase_cells.settled(expand(scenario), str(record.run_id)))
            there = [
                cell
                for cell in cells
                if cell.engine in pool.engines
                and f"{cell.engine}/{cell.index}" not in record.skipped
            ]
            try:
                outcome = runner.run(there, budget_s=left)
            finally:
                hbase_cells.clear(there)
            outcome.failed |= {
                cell.cell_id: pool.broken[cell.engine]
                for cell in cells
                if cell.engine in pool.broken
            }
            return outcome
    finally:
        runtime.close()


def _canary(scenario: Scenario, folder: RunFolder, work: Path) -> Canary:
    threads = cores(scenario.spark.master)
    return Canary(folder, work / "canary", threads=threads, clock=time.perf_counter)


def _inputs(
    spark: SparkSession, scenario: Scenario, folder: Path, source: Path | None
) -> dict[DataPoint, SparkInputs]:
    """The rows of each point, written; points that differ in the batch share the load."""
    inputs: dict[DataPoint, SparkInputs] = {}
    for data in scenario.dataset.points:
        dataset = _dataset(spark, scenario, folder / "own", source=source, data=data)
        loaded = folder / f"{data.shape or 'rows'}-{data.rows}"
        made = SparkInputs(spark, dataset, scenario.workload, loaded, part=f"batch-{data.batch}")
        made.prepare(load=not any(other.loaded == data.loaded for other in inputs))
        inputs[data] = made
    return inputs


def _dataset(
    spark: SparkSession, scenario: Scenario, folder: Path, *, source: Path | None, data: DataPoint
) -> Dataset:
    """The rows of a scenario: generated ones, or those of a table that exists."""
    section = scenario.dataset
    if section.source is not None:
        return changing(section, *own_data.load(spark, section.source, folder))
    if source is None:
        return GeneratedDataset(section.spec(data))
    facts = independent.facts(source)
    layout = Layout(
        name=facts.name,
        record_key=facts.record_key,
        partition_path=facts.partition_path,
        ordering=facts.ordering,
    )
    return changing(section, independent.rows(source), layout)


def changing(section: DatasetSection, stored: pa.Table, layout: Layout) -> SourceDataset:
    """Rows that exist, and changes to them.

    Changes are as large as the scenario says, but each kind touches at most a fourth of the rows,
    so that a scenario for large tables also fits a small one.
    """
    most = stored.num_rows // SOURCE_CHANGE
    updates, inserts = section.changes()
    return SourceDataset(
        stored,
        name=layout.name,
        record_key=layout.record_key,
        partition_path=layout.partition_path,
        ordering=layout.ordering,
        seed=section.seed,
        updates=min(updates, most),
        inserts=min(inserts, most),
        deletes=min(section.delete_rows, most),
    )


def _measured(inputs: SparkInputs) -> MeasuredRecord:
    """The sizes that were really measured: those of a source are not the scenario's."""
    dataset = inputs.dataset
    updates, inserts = dataset.batch_counts(1)
    return MeasuredRecord(
        rows=inputs.truth(0, deleted=False)[0],
        batch_updates=updates,
        batch_inserts=inserts,
        deletes=dataset.delete_count,
        lookup_keys=inputs.lookup_keys().num_rows,
    )


def _notes(scenario: Scenario, skipped: Mapping[str, str]) -> list[str]:
    """What a reader must know to judge the numbers fairly."""
    shared = "All cells ran in one Spark session, interleaved with alternating direction."
    apart = [name for name in scenario.engines if name not in (NATIVE, BARE, *skipped)]
    if apart and all(map(is_native, apart)):
        shared = (
            "All cells ran interleaved with alternating direction. Each engine other than native "
            "had a process and a Spark session of its own with the same settings, but for the "
            "master where its name says one."
        )
    elif apart:
        shared = (
            "All cells ran interleaved with alternating direction. Each release of Hudi had a "
            "Spark session of its own with the settings of native's; docs/fair_play.md says what "
            "is equal, what is not, and what Hudi's phases contain."
        )
    notes = [
        shared,
        "Every repetition started from a copy of the cell's loaded table.",
        *(f"Not measured: {name}. {reason}." for name, reason in skipped.items()),
    ]
    if scenario.table.location is not None:
        notes.append(f"The tables were at {scenario.table.location}, their rows in the run folder.")
    own = scenario.dataset.source
    if own is not None:
        added = "" if own.ordering else f"; the column {own_data.ORDERING} was added"
        notes.append(
            f"The rows are those of {Path(own.path).name} ({own.resolved_format}), which was only "
            f"read{added}. Updates are samples of them, inserts copies with new keys."
        )
    if scenario.table.source is None:
        return notes
    notes.append(
        f"The tables started from copies of {Path(scenario.table.source).name}, which was only "
        "read; the truth started from an independent reading of its files."
    )
    others = [name for name in scenario.indexes if name not in ("record", "bucket")]
    held = independent.facts(Path(scenario.table.source)).partitions_of_metadata
    if others and "record_index" in held:
        notes.append(
            f"The source has a record index, which {' and '.join(others)} do not use but keep up "
            "to date: that is part of their phase `index`."
        )
    return notes


def _count(folder: RunFolder) -> None:
    """Add Spark's counters; the event log of this session is complete now."""
    logged = event_log.read_all(folder.events)
    folder.append(counter_samples(folder.samples(), logged))
    folder.write_stages(stage_lines(folder.samples(), logged))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
