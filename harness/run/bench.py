"""One run from a resolved scenario to a complete run folder."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from keymark.harness.engines.engine_pool import Demands, EnginePool, missing, unordered
from keymark.harness.engines.locations import unreached
from keymark.harness.errors import HarnessError
from keymark.harness.measure import environment
from keymark.harness.measure.canary import Canary
from keymark.harness.measure.counters import write_counters
from keymark.harness.measure.session import cores
from keymark.harness.run import outside_entries
from keymark.harness.run.checks import check
from keymark.harness.run.inputs import measured_sizes, write_inputs
from keymark.harness.run.mappings import MappingRun
from keymark.harness.run.notes import notes
from keymark.harness.run.request import Request, begin, past_samples, unmeasured_removed
from keymark.harness.run.runner import Progress, Runner
from keymark.harness.run.target import now
from keymark.harness.run.workload import steps
from keymark.harness.run.workspace import Workspace, work_folder
from keymark.harness.scenario.matrix import Schedule, expand, neighbours
from keymark.harness.store.run_record import MeasuredRecord
from keymark.harness.store.store import RunFolder
from keymark.harness.tables import page_cache
from keymark.harness.tables.independent import source_facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A run that came to its end.

    Attributes:
        folder: where its numbers are.
        failed: reasons by cell id.
        ended: the same of cells that ended at a limit of memory or time, which is a result.
        skipped: engines, and indexes and variants of engines, that could not be measured, with how
            to get them or what to do instead.
    """

    folder: RunFolder
    failed: Mapping[str, str]
    ended: Mapping[str, str]
    skipped: Mapping[str, str]


def run(request: Request, progress: Progress) -> Finished:
    """Measure a scenario into a run folder; what it needs on storage is removed at the end.

    Raises:
        RunFolderError: the folder is taken, or does not fit the scenario that is resumed.
        HarnessError: none of the engines is there with one of the indexes.
    """
    if request.scenario.table.mappings:
        return run_mappings(request, progress)
    scenario = request.scenario
    progress.begin(check(request))
    source = scenario.table.source
    skipped = missing(
        scenario.engines,
        scenario.indexes,
        only=scenario.engine_indexes,
        demands=Demands(
            absent_keys=scenario.workload.lookup_absent, refused=scenario.table.ask_refused
        ),
        source=source_facts(Path(source)) if source else None,
    )
    skipped |= unreached(scenario.engines, scenario.table.location, skipped)
    skipped |= unordered(expand(scenario), skipped)
    folder, record = begin(request, skipped)
    run_id = str(record.run_id)
    with (
        unmeasured_removed(folder),
        _counted_if_interrupted(folder),
        Workspace.of(folder, scenario, run_id) as work,
    ):
        if scenario.workload.cold:
            page_cache.check(folder.path)
        record = request.begin_when_quiet(record, progress, threads=cores(scenario.spark.master))
        began = time.perf_counter()
        progress.begin("starting Spark")
        with EnginePool(scenario, folder.events, work.path, tables=work.tables) as pool:
            progress.begin("writing the batches")
            inputs = write_inputs(pool.spark, scenario, work.path / "data")
            for name in (name for name in scenario.engines if name not in skipped):
                progress.begin(f"starting {name}")
                pool.start(name)
            record = record.but(**pool.described(), measured=measured_sizes(inputs))
            folder.write_record(record)
            planned = neighbours(expand(scenario))
            with outside_entries.prepared(pool.able(planned, skipped), run_id) as cells:
                runner = Runner(
                    contexts=work.contexts(inputs, pool.engines, scenario),
                    steps=steps(scenario.workload),
                    folder=folder,
                    run_id=run_id,
                    progress=progress,
                    between=_canary(request, folder),
                    earlier=past_samples(request),
                )
                repetitions = runner.measure(
                    Schedule.of(cells, scenario),
                    deadline=request.deadline(began),
                    until=request.until(folder.path),
                )
    write_counters(folder)
    failed = runner.failed | pool.broken_cells(planned)
    run_notes = [*notes(scenario, skipped), *runner.notes, *work.notes]
    # A run that had ended before may have more of them than this process was asked for.
    repetitions = max(record.repetitions, repetitions)
    done = {"finished": now(), "repetitions": repetitions, "notes": run_notes, "failed": failed}
    folder.finish(record.but(**done, ended=runner.ended))
    return Finished(folder=folder, failed=failed, ended=runner.ended, skipped=skipped)


def run_mappings(request: Request, progress: Progress) -> Finished:
    """Build and ask indexes of keys alone, without Spark.

    What is built stays until it is measured, since the run may be resumed.
    """
    scenario, work = request.scenario, request.scenario.workload
    if request.budget_s is not None:
        raise HarnessError(
            "--budget is not for mappings: give schedule.repetitions or --until for their lookups"
        )
    skipped = missing(scenario.engines, scenario.indexes)
    folder, record = begin(request, skipped)
    with unmeasured_removed(folder):
        record = request.begin_when_quiet(record, progress, threads=cores(scenario.spark.master))
    record = record.but(
        versions=environment.versions(None),
        measured=MeasuredRecord(
            # Of several sizes, the largest.
            rows=scenario.dataset.points[-1].rows,
            batch_updates=0,
            batch_inserts=0,
            deletes=0,
            lookup_keys=work.lookup_present + work.lookup_absent,
        ),
        seeded_ids=list(scenario.engines),
    )
    folder.write_record(record)
    runner = MappingRun(
        scenario=scenario,
        folder=folder,
        work=work_folder(folder) / "tables",
        run_id=str(record.run_id),
        clock=time.perf_counter,
        progress=progress,
        between=_canary(request, folder),
    )
    repetitions = runner.measure(until=request.until(folder.path))
    shutil.rmtree(work_folder(folder), ignore_errors=True)
    # A run that had ended before may have more of them than this process was asked for.
    done = {"finished": now(), "repetitions": max(record.repetitions, repetitions)}
    folder.finish(record.but(**done, notes=runner.notes, failed=runner.failed))
    return Finished(folder=folder, failed=runner.failed, ended={}, skipped=skipped)


@contextlib.contextmanager
def _counted_if_interrupted(folder: RunFolder) -> Iterator[None]:
    """Ctrl-C leaves the counters of all steps that were measured: Spark has closed its logs."""
    try:
        yield
    except KeyboardInterrupt:
        write_counters(folder)
        raise


def _canary(request: Request, folder: RunFolder) -> Canary:
    threads = cores(request.scenario.spark.master)
    scratch = work_folder(folder) / "canary"
    return Canary(folder, scratch, threads=threads, clock=time.perf_counter)
