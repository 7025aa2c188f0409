"""What is checked before a run starts Spark or writes anything."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pyarrow.parquet as pq

from keymark.datasets.changes.stream import Stream
from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.generated import GeneratedDataset
from keymark.datasets.generate.rows import make_rows
from keymark.harness.engines import BARE, NATIVE
from keymark.harness.errors import HarnessError
from keymark.harness.run.request import Request, past_run
from keymark.harness.run.time_left import duration
from keymark.harness.scenario.matrix import Schedule, expand
from keymark.harness.scenario.scenario import Scenario
from keymark.indexes.installed import measured_specs

_SAMPLE_ROWS = 20_000
_ENTRY_BYTES = 30
"""Bytes of a key in a record index on disk; Hudi's own needs 27."""


def check(request: Request) -> str:
    """Check what can be checked of a run at once.

    Returns:
        What the run begins with, in words: about how much disk and time it needs, as far as known.

    Raises:
        DatasetError: a round updates or deletes more rows than are left.
        HarnessError: a load cannot be made as the scenario says, or the disk has no room.
    """
    scenario = request.scenario
    _check_rounds(scenario)
    check_loads(scenario)
    if request.resume:
        return "going on with the run"
    if scenario.dataset.source or scenario.table.source:
        return "starting from rows that exist"
    folder, need = request.folder.absolute(), disk_bytes(scenario)
    there = next(each for each in (folder, *folder.parents) if each.exists())
    free = shutil.disk_usage(there).free
    if need > free:
        raise HarnessError(
            f"{request.folder}: the run needs about {_gigabytes(need)} of disk, and "
            f"{_gigabytes(free)} are free; take fewer rows (dataset.rows), share loads "
            "(table.shared_load), make loads without files (dataset.load_files=false), or write "
            "to another disk (--out)"
        )
    past = None if request.budget_s or request.half_width else past_run(request)
    time = "" if past is None else f", about {duration(past.seconds)} as the last time"
    return f"needs about {_gigabytes(need)} of disk, {_gigabytes(free)} are free{time}"


def disk_bytes(scenario: Scenario) -> int:
    """About how many bytes a run of generated rows takes on the disk of its folder.

    These are the rows as files, each loaded table with its record index, and one trial that
    rewrites the largest table. Tables of other trials are links to loaded files, and each goes
    before the next.
    """
    dataset = scenario.dataset
    sizes = {}
    for data in {data.loaded for data in dataset.points}:
        made, sampled = GeneratedDataset(dataset.spec(data)), min(_SAMPLE_ROWS, data.rows)
        file = pa.BufferOutputStream()
        pq.write_table(make_rows(made.spec, *made.batch_slice(0, 0, sampled)), file)
        sizes[data] = file.tell() * data.rows // max(sampled, 1)
    need = sum(sizes.values()) if dataset.load_files else 0
    if scenario.table.location is None:
        schedule = Schedule.of(expand(scenario), scenario)
        loaded = [cell for cell in schedule.tables if cell.table_id not in schedule.loaders]
        need += sum(sizes[cell.data.loaded] for cell in loaded) + max(sizes.values())
        indexed = [
            cell.data.rows * _ENTRY_BYTES
            for cell in schedule.tables
            if measured_specs()[cell.index].is_built
            and (cell.table_id not in schedule.loaders or schedule.builds(cell))
        ]
        need += sum(indexed) + max(indexed, default=0)
    return need


def _check_rounds(scenario: Scenario) -> None:
    """Check that a generated dataset has rows for all rounds.

    Raises:
        DatasetError: a round updates or deletes more rows than are left.
    """
    section, work = scenario.dataset, scenario.workload
    if section.source is not None or scenario.table.source is not None:
        return
    for data in section.points:
        try:
            stream = Stream(section.spec(data))
            for round_ in range(1, work.rounds + 1):
                stream.before(round_)  # a later round meets more rows, those inserted since
            stream.after(work.rounds, deleted=bool(work.delete))
        except DatasetError as error:
            keys = "dataset.batch_rows and dataset.delete_rows"
            raise DatasetError(f"{error}; {keys} say how many") from error


def check_loads(scenario: Scenario) -> None:
    """Check that rows which no file holds are loaded by Keymark in the run's own session.

    Raises:
        HarnessError: another engine would load a table from files, or the rows are not generated.
    """
    if scenario.dataset.load_files:
        return
    if scenario.dataset.source or scenario.table.source:
        raise HarnessError("dataset.load_files=false needs rows that are generated")
    schedule = Schedule.of(expand(scenario), scenario)
    for cell in schedule.tables:
        if cell.table_id not in schedule.loaders and cell.engine not in (NATIVE, BARE):
            raise HarnessError(
                f"dataset.load_files: {cell.table_id} is loaded from files; with table.shared_load "
                "it can start from a table that Keymark loads, if its index allows it"
            )


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:,.0f} GB" if count >= 1e10 else f"{count / 1e9:.1f} GB"
