"""A record index of keys without base files: built once for each cell, then asked.

Keys and places come from `datasets/generate/mappings.py`. There is no Spark: one process builds
with a thread for each core. A table stays until its cell is measured, so that a run that was cut
off, or had no room left, resumes with what is there.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark import Table
from keymark.datasets.generate.mappings import Mappings
from keymark.datasets.generate.rows import make_rows
from keymark.harness.errors import raise_interrupt
from keymark.harness.measure.build_progress import BuildProgress
from keymark.harness.measure.environment import peak_memory
from keymark.harness.run.cell import samples
from keymark.harness.run.runner import BetweenTrials, Progress, TrialKey
from keymark.harness.run.step import BUILD, LOOKUP, Step, StepResult
from keymark.harness.run.until import Until
from keymark.harness.scenario.matrix import Cell, Schedule, Trial, expand
from keymark.harness.scenario.scenario import Scenario
from keymark.harness.store.store import RunFolder
from keymark.harness.tables import verify
from keymark.harness.tables.key_text import encode_keys
from keymark.harness.tables.probes import Listing
from keymark.table.errors import CorruptFileError, InputError
from keymark.table.index.protocol import LookupStats
from keymark.table.keygen import partition_paths
from keymark.table.metadata.partitions import RECORD_INDEX

NOTES = (
    "The table has no base files: keys and places are functions of the row number, and every answer"
    " was compared with them. One process, a thread for each core, no Spark. Each lookup asked"
    " other keys, with a handle of its own; the system's cache held of the index what fitted."
)


@dataclass(frozen=True, slots=True)
class KeyTable:
    """The table of a cell: an index and nothing else.

    Attributes:
        cell: whose it is.
        mappings: keys and places.
        path: its folder.
    """

    cell: Cell
    mappings: Mappings
    path: Path

    def open(self) -> Table:
        """A handle of its own, which has looked nothing up; the table is made if need be."""
        if not self.path.exists():
            self._create()
        return Table.open(self.path, options=self.cell.options)

    def _create(self) -> None:
        """A table with one commit, of no rows, and without the index that new tables have."""
        new = self.path.with_name(f"{self.path.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        spec, none = self.mappings.spec, np.zeros(0, np.int64)
        table = Table.create(
            new,
            name=spec.name,
            record_key=spec.record_key,
            partition_path=spec.partition_path,
            ordering=spec.ordering,
            index=self.cell.index,
            options=self.cell.options,
        )
        table.bulk_insert(make_rows(spec, none, none))
        table.drop_index(RECORD_INDEX)
        new.rename(self.path)

    def asked(self, number: int, present: int, absent: int) -> tuple[pa.Table, pa.Table]:
        """Keys of a lookup, sorted so that present and absent ones mix, and their places.

        Returns:
            record_key, expect_present; and record_key, partition_path, file_id of the present.
        """
        live = self.mappings.sample(number, present)
        numbers = np.concatenate([live, self.mappings.absent(number, absent)])
        columns, groups = self.mappings.make(numbers)
        keys = encode_keys(columns)
        asked = pa.table(
            {"record_key": keys, "expect_present": pa.array(np.arange(len(numbers)) < len(live))}
        )
        return asked.sort_by("record_key"), self._places(keys.slice(0, len(live)), groups)

    def _places(self, keys: pa.Array, groups: npt.NDArray[np.int32]) -> pa.Table:
        columns, file_ids = self.mappings.places()
        paths = [""] * len(file_ids)
        if columns.num_columns:
            paths = partition_paths(columns, Table.open(self.path).config)
        every = pa.table({"partition_path": paths, "file_id": file_ids})
        found = every.take(pa.array(groups[: len(keys)]))
        return found.add_column(0, "record_key", keys)


@dataclass(slots=True, kw_only=True)
class MappingRun:
    """One run of mappings.

    Attributes:
        scenario: what to run.
        folder: where the samples go; trials that are already there are not taken again.
        work: folder for tables.
        run_id: written into every sample.
        clock: monotonic seconds.
        progress: receives what is done.
        between: works before each trial of lookups.
        failed: reasons by cell id; such cells are left out from there.
        notes: what a reader of the report must know.
    """

    scenario: Scenario
    folder: RunFolder
    work: Path
    run_id: str
    clock: Callable[[], float]
    progress: Progress
    between: BetweenTrials
    failed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=lambda: [NOTES])

    def measure(self, *, until: Until | None = None) -> int:
        """Build and ask the index of each cell; one that fails is left out from there.

        A table goes when its cell is measured. With `until` all tables stay to the end, and the
        lookups of all cells take turns: the intervals are looked at when all have as many.

        Args:
            until: when there are enough repetitions; None: the schedule says it.

        Returns:
            The repetitions that each cell has, unless it failed.

        Raises:
            TableError: the disk is full, say. What was built is still there.
        """
        cells, count = expand(self.scenario), self.scenario.schedule.repetitions
        taken = set(map(TrialKey.of_sample, self.folder.samples()))
        if until is not None:
            there = 1 + max((each.repetition for each in taken if not each.warmup), default=-1)
            count = until.first_look(there)
        schedule = replace(Schedule.of(cells, self.scenario), repetitions=count, warm=cells)
        self.progress.plan(schedule.size)
        for group in [(cell,) for cell in cells] if until is None else [cells]:
            trials = replace(schedule, cells=group, warm=group).trials()
            left = [trial for trial in trials if TrialKey.of(trial) not in taken]
            for _ in range(len(trials) - len(left)):
                self.progress.end()
            asked = {trial.cell.cell_id for trial in left}
            tables = {
                cell.cell_id: self._built(cell, taken, is_needed=cell.cell_id in asked)
                for cell in group
            }
            for trial in left:
                self._ask(trial, tables[trial.cell.cell_id])
            if until is not None:
                count = self._ask_until(until, schedule, tables)
            for table in tables.values():
                shutil.rmtree(table.path, ignore_errors=True)
        return count

    def _ask_until(self, until: Until, schedule: Schedule, tables: Mapping[str, KeyTable]) -> int:
        """Take further lookups of all cells until each interval is narrow; how many there are."""
        count = schedule.repetitions
        while until.unreached(count, self.notes, is_over=self.failed.keys() >= tables.keys()):
            self.progress.plan(replace(schedule, repetitions=count + 1).size)
            for trial in schedule.repetition_trials(count):
                self._ask(trial, tables[trial.cell.cell_id])
            count += 1
        return count

    def _built(self, cell: Cell, taken: Collection[TrialKey], *, is_needed: bool) -> KeyTable:
        """The table of a cell, built if it is needed, even if that was measured before."""
        mappings = Mappings(self.scenario.dataset.spec(cell.data), self.scenario.table.file_rows)
        table = KeyTable(cell, mappings, self.work / cell.cell_id / "table")
        progress = self._progress(cell)
        if is_needed:
            load = Trial(cell=cell, repetition=0, warmup=False)
            is_measured = TrialKey.of(load, is_load=True) in taken
            self._keep(load, self._build(table, progress), append=not is_measured)
        self.notes += _interruptions(cell, progress)
        self.progress.end()
        return table

    def _progress(self, cell: Cell) -> BuildProgress:
        def show(words: str) -> None:
            self.progress.begin(f"{cell.cell_id}: building, {words}")

        return BuildProgress(self.work / cell.cell_id / "pace.json", self.clock, show)

    def _ask(self, trial: Trial, table: KeyTable) -> None:
        """Take one trial of lookups, unless the cell has failed."""
        if trial.cell.cell_id not in self.failed:
            kind = "warm-up" if trial.warmup else "lookup"
            self.progress.begin(f"{trial.cell.cell_id}: {kind} {trial.repetition + 1}")
            self.between.beat(trial.label)
            self._keep(trial, self._lookup(table, trial), append=True)
        self.progress.end()

    def _build(self, table: KeyTable, progress: BuildProgress) -> StepResult:
        step = Step(name=BUILD, round=0)
        progress.begin()
        try:
            table.open().build_mappings(table.mappings, progress.show)
        except (CorruptFileError, InputError) as error:
            return StepResult.of_failure(step, progress.seconds, error)
        progress.end()
        size = Listing.of(table.path).index_bytes
        values = {
            ("total", "wall_s"): progress.seconds,
            ("total", "keys"): table.mappings.rows,
            ("total", "index_bytes"): size,
            ("total", "bytes_per_key"): size / table.mappings.rows,
            ("total", "peak_memory_bytes"): progress.peak,
        }
        return StepResult(step=step, values=values)

    def _lookup(self, table: KeyTable, trial: Trial) -> StepResult:
        step = Step(name=LOOKUP, round=0)
        work = self.scenario.workload
        # Warm-ups come before the trials that count, with keys of their own.
        number = trial.repetition + (0 if trial.warmup else self.scenario.schedule.warmups)
        start = self.clock()
        try:
            asked, places = table.asked(number, work.lookup_present, work.lookup_absent)
            handle, stats = table.open(), LookupStats()
            keys = asked.column("record_key").combine_chunks()
            start = self.clock()
            answer = handle.lookup(keys, stats=stats)
            wall = self.clock() - start
        except Exception as error:  # noqa: BLE001 - whatever is wrong fails its cell only
            raise_interrupt(error)
            return StepResult.of_failure(step, self.clock() - start, error)
        values = {
            ("total", "wall_s"): wall,
            ("total", "keys"): len(keys),
            ("total", "keys_per_s"): len(keys) / wall,
            ("total", "shards_read"): stats.shards_read,
            ("total", "blocks_decoded"): stats.blocks_decoded,
            ("total", "peak_memory_bytes"): peak_memory(),
        }
        wrong = verify.lookup_mistake(answer, asked=asked, located=places)
        return StepResult(step=step, values=values, mistake=wrong)

    def _keep(self, trial: Trial, result: StepResult, *, append: bool) -> None:
        if append:
            self.folder.append(samples(self.run_id, trial, [result]))
        if result.mistake is not None:
            reason = f"{result.step.name}: {result.mistake}"
            self.failed.setdefault(trial.cell.cell_id, reason)


def _interruptions(cell: Cell, progress: BuildProgress) -> list[str]:
    """What must be known of the time of a build that did not run in one go."""
    if progress.starts < 2:
        return []
    times = "once" if progress.starts == 2 else f"{progress.starts - 1} times"
    note = f"{cell.cell_id}: the build was cut off {times} and went on"
    return [f"{note}; its time leaves out what was under way then."]
