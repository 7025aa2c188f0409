"""`table recover`: back to the last commit up to which a table is whole.

    keymark.table.recovery in hoodie.properties: from here on writes are refused
    commits after the target, the latest first: instants and base files are moved aside
    other torn instants and torn older slices are moved aside
    the metadata table: what it says about those commits is moved aside; where it is torn itself, it
        is built anew from the data
    a clean that names the older slices that are gone, so that no reader reads as of them
    the entry in hoodie.properties goes
    indexes of values whose runs are torn, or wrong, are built anew

Nothing that is torn is deleted: it is moved to `.hoodie/.keymark/torn/<time>/`, under its path in
the table. A recovery that dies is finished by another one, which finds its entry.
"""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC

from keymark.table.errors import CorruptFileError, DuplicateKeyError, TableError, TableWarning
from keymark.table.format.log.reader import read_blocks
from keymark.table.format.parquet.base_file import read_metadata
from keymark.table.index.choice import choose_index, table_options
from keymark.table.index.external import distrust
from keymark.table.index.protocol import index_name, spec_of
from keymark.table.layout.model import Instant
from keymark.table.layout.naming import (
    BUILD,
    HOODIE,
    METADATA,
    PARTITION_METADATA,
    PINS,
    TEMP,
    TORN,
    check_relative,
    parse_base_file,
    parse_log_file,
)
from keymark.table.layout.view import snapshot
from keymark.table.metadata.partitions import BLOOM_FILTERS, COLUMN_STATS, FILES, RECORD_INDEX
from keymark.table.metadata.writer import partition_metadata
from keymark.table.properties.config import load_config, restore_properties, save_config
from keymark.table.properties.options import INDEX_TYPE, Options
from keymark.table.properties.seal import BUILDING_PARTITIONS, METADATA_PARTITIONS, RECOVERY
from keymark.table.runtime.clock import Clock, SystemClock
from keymark.table.runtime.runner import LocalRunner, Progress, TaskRunner, no_progress
from keymark.table.services.check.check import check_table
from keymark.table.services.clean import Cleaner
from keymark.table.services.compact import files_of_compaction, pending_compactions
from keymark.table.services.index.builds import drop_remains
from keymark.table.services.index.indexing import Indexer
from keymark.table.services.recover.judge import is_in_step, is_of_data, wrong_indexes
from keymark.table.services.recover.plan import Plan
from keymark.table.services.recover.torn import COMMITS, Survey, Torn, survey
from keymark.table.services.rewrite import declare_keys, lacks_keys
from keymark.table.state.table_state import TableState, list_storage
from keymark.table.storage.lease import Lease, LeaseTerms, hold
from keymark.table.storage.storage import FileStatus, Storage
from keymark.table.timeline.instant_name import COMPLETED, INFLIGHT, REQUESTED, format_instant
from keymark.table.timeline.timeline import COMMIT_ACTIONS, Timeline
from keymark.table.values.indexed import Indexed
from keymark.table.values.upkeep import ValueIndexes
from keymark.table.write.undo import clear_failed

# In the order in which a table gets them.
_PARTITIONS = (RECORD_INDEX, COLUMN_STATS, BLOOM_FILTERS)
_STATES = (COMPLETED, INFLIGHT, REQUESTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """A commit that is not in the table any more.

    Attributes:
        instant: its time.
        files: the base files that were moved aside for it.
        rows: the rows in those files; None where the commit cannot be read.
    """

    instant: str
    files: int
    rows: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverReport:
    """What a recovery found and did.

    Attributes:
        torn: the torn files, each with what is wrong with it.
        commit: the commit that the table is at; "" before the first.
        given_up: the commits after it.
        other_instants: other instants that were moved aside, such as savepoints of those commits.
        older_files: older base files that are lost: instants that need them cannot be read.
        metadata: what became of the metadata table: "kept" or "built anew".
        moved_to: the folder of what was moved aside; "" where nothing was.
        done: whether anything was changed.
    """

    torn: tuple[str, ...]
    commit: str
    given_up: tuple[GivenUp, ...]
    other_instants: tuple[str, ...]
    older_files: tuple[str, ...]
    metadata: str
    moved_to: str
    done: bool


@dataclass(frozen=True, slots=True)
class Recoverer:
    """Recovers one table; it need not be possible to open that."""

    storage: Storage
    given: Mapping[str, str]
    clock: Clock = field(default_factory=SystemClock)
    runner: TaskRunner = field(default_factory=LocalRunner)
    progress: Progress = no_progress

    def run(self, *, dry_run: bool) -> RecoverReport:
        """Go back to the last whole commit, or only say what that is.

        Raises:
            CorruptFileError: no commit is whole, or hoodie.properties and its backup are torn.
        """
        with hold(self.storage, self.clock, LeaseTerms.of(Options(self.given))) as lease:
            return replace(self, storage=lease.storage).under(lease, dry_run=dry_run)

    def under(self, lease: Lease, *, dry_run: bool) -> RecoverReport:
        """The same under the lease of the table."""
        config = load_config(self.storage)
        plan = Plan.of(config)
        found = survey(self.storage, plan.target if plan else None)
        metadata = self._metadata_faults(found) if plan is None else ()
        properties = _properties_fault(self.storage)
        torn = (*found.torn, *metadata, *properties, *self._partition_faults())
        if plan is None and not torn and not found.commits:
            return self._with_whole_commits(found, lease, dry_run=dry_run)
        if dry_run:
            return _report(found, torn, "built anew" if metadata else "kept", "", done=False)
        restore_properties(self.storage)
        if plan is None:
            partitions = tuple(p for p in config.maintained if p != FILES)
            plan = Plan(
                time=self._now(),
                target=found.target,
                partitions=(FILES, *partitions) if config.maintained else (),
                rebuild=bool(metadata),
            )
            self._note(plan)
        plan = replace(plan, target=min(plan.target, found.target))
        given_up = self._give_up(plan, found)
        how = self._settle(plan, found, lease)
        self._mend_values(plan, lease)
        report = _report(found, torn, how, f"{TORN}/{plan.time}", done=True)
        return replace(report, given_up=given_up)

    def _now(self) -> str:
        return format_instant(self.clock.millis(), UTC)

    def _with_whole_commits(self, found: Survey, lease: Lease, *, dry_run: bool) -> RecoverReport:
        """A table that stays as it is, but for indexes of values."""
        torn = tuple(why for _, why in self._wrong_indexes())
        if dry_run or not torn:
            return _report(found, torn, "kept", "", done=False)
        plan = Plan(time=self._now(), target=found.target, partitions=())
        self._mend_values(plan, lease)
        return _report(found, torn, "kept", f"{TORN}/{plan.time}", done=True)

    def _note(self, plan: Plan | None) -> None:
        """Store what is going on, or that it is done."""
        properties = dict(load_config(self.storage).properties)
        properties.pop(RECOVERY, None)
        if plan is not None:
            properties[RECOVERY] = plan.text()
        save_config(self.storage, properties)

    def _give_up(self, plan: Plan, found: Survey) -> tuple[GivenUp, ...]:
        """Move the commits after the target aside, and other instants that are torn."""
        timeline = Timeline.load(self.storage)
        self._distrust_entries(found)
        given: list[GivenUp] = []
        rows: dict[str, int | None] = {}
        for commit in found.commits:
            try:
                rows[commit.time] = timeline.commit(commit).rows
            except TableError:
                rows[commit.time] = None
        for instant in (*reversed(found.commits), *found.others):
            self._move_instant(timeline, instant, plan)
        kept = {i.time for i in timeline.completed(COMMITS)} - {c.time for c in found.commits}
        moved: dict[str, int] = {}
        for status in list(self.storage.walk("")):
            folder, _, name = status.path.rpartition("/")
            file = parse_base_file(folder, name, status.size)
            if file is None or status.path.startswith(f"{HOODIE}/"):
                continue
            if file.instant_time > plan.target and file.instant_time not in kept:
                self._move(status.path, plan)
                moved[file.instant_time] = moved.get(file.instant_time, 0) + 1
        for commit in found.commits:
            self.storage.delete_tree(f"{TEMP}/{commit.time}")
            files = moved.get(commit.time, 0)
            given.append(GivenUp(instant=commit.time, files=files, rows=rows[commit.time]))
        for partition, names in found.slices.items():
            for name in names:
                self._move(f"{partition}/{name}" if partition else name, plan)
        return tuple(given)

    def _distrust_entries(self, found: Survey) -> None:
        """Let nobody believe entries outside of the table: lost commits may have changed any."""
        named = load_config(self.storage).index_type or self.given.get(INDEX_TYPE)
        if found.commits and named is not None and spec_of(index_name(named)).entries:
            distrust(self.storage)
            self.storage.sync()

    def _move_instant(self, timeline: Timeline, instant: Instant, plan: Plan) -> None:
        """Move the files of an instant aside, the completed one first."""
        for state in _STATES:
            self._move(timeline.path(instant.time, instant.action, state), plan)

    def _move(self, path: str, plan: Plan) -> None:
        """Move a file aside, if it is there."""
        try:
            data = self.storage.read(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        self.storage.replace(f"{TORN}/{plan.time}/{check_relative(path, TORN)}", data)
        self.storage.delete(path)

    def _metadata_faults(self, found: Survey) -> tuple[Torn, ...]:
        """What keeps the metadata table from saying what the table is at the target."""
        if not load_config(self.storage).maintained:
            return ()
        timeline = Timeline.load(self.storage, METADATA)
        given = {instant.time for instant in (*found.commits, *found.others)}
        faults = []
        for instant in timeline.completed(COMMIT_ACTIONS):
            path = timeline.path(instant.time, instant.action, COMPLETED)
            if instant.time[:17] in given:
                if instant.action == "commit":
                    faults.append(Torn(path, "it merges what the given up commits say"))
                continue
            try:
                timeline.commit(instant)
            except TableError as error:
                faults.append(Torn(path, str(error)))
        for instant in pending_compactions(timeline):
            known = instant.time[:17] in given
            if not known and files_of_compaction(self.storage, instant) is None:
                path = timeline.path(instant.time, instant.action, INFLIGHT)
                faults.append(Torn(path, "it never completed, and was written on"))
        if faults or given:
            # Without those commits it cannot be read before they are moved.
            return tuple(faults)
        return self._difference()

    def _difference(self) -> tuple[Torn, ...]:
        """What of the metadata table is damaged, or differs from the data, if anything does.

        Raises:
            CorruptFileError: a base file of the data is damaged.
        """
        try:
            self._compare()
        except TableError as error:
            if isinstance(error, CorruptFileError) and is_of_data(error):
                raise
            name = error.name if isinstance(error, CorruptFileError) else METADATA
            return (Torn(name, str(error)),)
        return ()

    def _settle(self, plan: Plan, found: Survey, lease: Lease) -> str:
        """Bring the metadata table in step, finish what is pending, and look at it all."""
        rebuild = plan.rebuild
        self._declare_keys(lease)
        if plan.partitions and not rebuild:
            self._cut_metadata(plan, found)
            try:
                self._finish(plan, lease)
                self._compare()
            except CorruptFileError as error:
                # A damaged page of a base file stays so, whatever is built anew.
                rebuild = not is_of_data(error)
            except FileNotFoundError:
                rebuild = True
        if plan.partitions and rebuild:
            self._note(replace(plan, rebuild=True))
            self._rebuild(plan, lease)
        if rebuild or not plan.partitions:
            self._finish(plan, lease)
            self._compare()
        self._note(None)
        return "built anew" if rebuild else "kept"

    def _declare_keys(self, lease: Lease) -> None:
        """Let readers make the keys again, if files from before a rewrite have come back."""
        config = load_config(self.storage)
        if not config.stores_meta:
            return
        files = snapshot(list_storage(self.storage), Timeline.load(self.storage)).files
        if any(lacks_keys(read_metadata(self.storage.open(file.path))) for file in files):
            declare_keys(config, lease, stores=False, ignored=False)

    def _cut_metadata(self, plan: Plan, found: Survey) -> None:
        """Move aside what the metadata table says about instants that were given up."""
        timeline = Timeline.load(self.storage, METADATA)
        kept = {instant.time for instant in Timeline.load(self.storage).instants}
        given = {instant.time for instant in (*found.commits, *found.others)}
        named: set[str] = set()
        dead: list[Instant] = []
        for instant in timeline.instants:
            base = instant.time[:17]
            if base in given or (base > plan.target and plan.target and base not in kept):
                dead.append(instant)
            elif instant.completed and instant.action in COMMIT_ACTIONS:
                with contextlib.suppress(TableError):
                    named |= {path for _, path, _ in timeline.commit(instant).files}
        times = {instant.time for instant in dead}
        for status in list(self.storage.walk(METADATA)):
            path = status.path.removeprefix(f"{METADATA}/")
            if path not in named and self._wrote(status, times):
                self._move(status.path, plan)
        for instant in reversed(dead):
            self._move_instant(timeline, instant, plan)

    def _wrote(self, status: FileStatus, times: Collection[str]) -> bool:
        """Whether only some instants wrote a file of the metadata table, as far as it tells."""
        partition, _, name = status.path.removeprefix(f"{METADATA}/").rpartition("/")
        base = parse_base_file(partition, name, status.size)
        if base is not None:
            return base.instant_time in times
        if parse_log_file(partition, name, status.size) is None:
            return False
        blocks = read_blocks(self.storage.open(status.path), complete=False)
        return all(block.instant_time in times for block in blocks)

    def _rebuild(self, plan: Plan, lease: Lease) -> None:
        """Build the metadata table anew from the data; its timeline and torn files are kept."""
        for status in list(self.storage.walk(f"{METADATA}/{HOODIE}")):
            self._move(status.path, plan)
        for torn in [s for s in self.storage.walk(METADATA) if not s.size]:
            self._move(torn.path, plan)
        properties = dict(load_config(self.storage).properties)
        for entry in (METADATA_PARTITIONS, BUILDING_PARTITIONS):
            properties[entry] = ""
        save_config(self.storage, properties)
        for folder in (METADATA, BUILD, PINS):
            self.storage.delete_tree(folder)
        timeline = Timeline.load(self.storage)
        for instant in timeline.pending():
            if instant.action == "indexing":
                self._move_instant(timeline, instant, plan)
        clear_failed(self.storage)
        indexer = Indexer(
            storage=self.storage,
            clock=self.clock,
            runner=self.runner,
            options=Options(self.given),
            progress=self.progress,
        )
        indexer.build(FILES, lease)
        for partition in _PARTITIONS:
            if partition in plan.partitions:
                self._build(indexer, partition, lease)

    def _build(self, indexer: Indexer, partition: str, lease: Lease) -> None:
        """Build a partition anew, unless the data's own keys are in its way."""
        try:
            indexer.build(partition, lease)
        except DuplicateKeyError as error:
            # The table would stay closed, and nobody could delete a row.
            drop_remains(self.storage, partition)
            text = f"{self.storage.root} is without {partition} now: {error}"
            warnings.warn(text, TableWarning, stacklevel=2)

    def _wrong_indexes(self) -> list[tuple[Indexed, Torn]]:
        config = load_config(self.storage)
        if not (config.secondary_columns or config.key_runs):
            return []
        return wrong_indexes(TableState.load(self.storage), self.runner)

    def _mend_values(self, plan: Plan, lease: Lease) -> None:
        """Build indexes of values anew that are torn or wrong; their runs are moved aside."""
        values = ValueIndexes(lease=lease, runner=self.runner, progress=self.progress)
        for indexed, _ in self._wrong_indexes():
            for status in self.storage.list(indexed.folder):
                self._move(status.path, plan)
            if indexed.keys is None:
                values.build(indexed.column)
            else:
                values.build_keys(load_config(self.storage).key_runs)

    def _finish(self, plan: Plan, lease: Lease) -> None:
        """Take dead writes back, record lost slices as cleaned, mend the partitions' own files."""
        clear_failed(self.storage)
        cleaner = Cleaner(self.storage, self.clock, lease)
        cleaner.resume()
        state = TableState.load(self.storage)
        slices = survey(self.storage).slices
        if cleaner.clean(state, slices, None):
            state = TableState.load(self.storage)
        self._mend_partitions(state, plan)

    def _mend_partitions(self, state: TableState, plan: Plan) -> None:
        """Write torn files of partitions anew; those of partitions that are not there any more go.

        Apache Hudi finds partitions by them where it does without the metadata table.
        """
        kept = state.snapshot.partition_paths()
        for status in list(self.storage.walk("")):
            folder = status.path.rpartition("/")[0]
            if status.name != PARTITION_METADATA or status.path.startswith(f"{HOODIE}/"):
                continue
            if folder not in kept and self._opened_after(status.path, plan.target):
                self._move(status.path, plan)
        for partition in state.snapshot.partition_paths():
            path = f"{partition}/{PARTITION_METADATA}" if partition else PARTITION_METADATA
            if self._is_torn_partition(path):
                first = min(f.instant_time for f in state.snapshot.files)
                self.storage.replace(path, partition_metadata(first, partition))

    def _opened_after(self, path: str, target: str) -> bool:
        """Whether the file of a partition is torn, or of a commit after the target."""
        found = re.search(rb"commitTime=(\d+)", self.storage.read(path))
        return found is None or found[1].decode() > target

    def _is_torn_partition(self, path: str) -> bool:
        try:
            return b"partitionDepth=" not in self.storage.read(path)
        except FileNotFoundError:
            return False

    def _partition_faults(self) -> tuple[Torn, ...]:
        """The partitions' own files that are torn: Apache Hudi reads them."""
        return tuple(
            Torn(status.path, "it does not say how deep the partition lies")
            for status in self.storage.walk("")
            if status.name == PARTITION_METADATA
            and not status.path.startswith(f"{HOODIE}/")
            and self._is_torn_partition(status.path)
        )

    def _compare(self) -> None:
        """Compare the metadata table with the data: whether the data is right is not asked.

        Raises:
            CorruptFileError: they differ.
        """
        state = TableState.load(self.storage)
        if state.metadata is None:
            return
        for partition in state.config.maintained:
            for shard in state.metadata.shards(partition):
                for _ in shard.batches():
                    pass
        index = choose_index(state.config, self.given, self.storage).name
        options = table_options(state.config, index, self.given)
        checked = check_table(
            self.storage, index, options, self.runner, self.progress, values=False
        )
        if not is_in_step(checked):
            raise CorruptFileError(METADATA, 0, f"it differs from the data: {checked}")


def _properties_fault(storage: Storage) -> tuple[Torn, ...]:
    """Whether hoodie.properties has a backup beside it, which is taken where it is torn."""
    path = f"{HOODIE}/hoodie.properties"
    if not storage.exists(f"{path}.backup"):
        return ()
    return (Torn(path, "its rewriting was cut off; the backup stands beside it"),)


def _report(
    found: Survey, torn: tuple[Torn, ...], metadata: str, moved_to: str, *, done: bool
) -> RecoverReport:
    older = [f"{p}/{name}" if p else name for p, names in found.slices.items() for name in names]
    return RecoverReport(
        torn=tuple(f"{item.path}: {item.reason}" for item in torn),
        commit=found.target,
        given_up=tuple(GivenUp(instant=c.time, files=0, rows=None) for c in found.commits),
        other_instants=tuple(f"{i.time}.{i.action}" for i in found.others),
        older_files=tuple(older),
        metadata=metadata,
        moved_to=moved_to,
        done=done,
    )
