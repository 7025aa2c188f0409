"""Another number of file groups for the record index, from the index alone while writers go on.

    plan      .hoodie/.keymark/build/reshard/plan.json: how many, the instant of the switch, what
              the present file groups are
    split     one task for each class of file groups: the index is read once, and written as base
              files of the plan's instant, in a folder beside the plan
    catch up  log blocks that writers have added since are dealt out among the new file groups
    switch    under the lease: the last of these blocks; all files are moved into the metadata
              table; a commit names them

    from 4 to 8    class n: old group n into new groups n and n + 4
    from 4 to 6    classes of gcd(4, 6) = 2: old 0, 2 into new 0, 2, 4 and old 1, 3 into new 1, 3, 5
    from 8 to 4    class n: old groups n and n + 4 into new group n

A key belongs to the group that its hash gives modulo their number. So the keys of old group n are
in new group m only where n and m are the same modulo the greatest common divisor of both numbers.
To a multiple of the present number every old group splits alone, and all of them at a time.

Readers count the file groups that the present instants opened: before the switch the old ones,
after it the new ones. Hudi's count those of a pending commit, too, so that the instant is none
before the switch (`metadata/reshard_plan.py`). To more, the switch is a delta commit. To fewer, it
is a replace commit that takes out the file groups beyond the new number; all old slices are deleted
right after it, still under the lease (`metadata/replaced.py`). What a death leaves of them, the
next write deletes.

What was done stays after a death, and is continued; `abort` removes it. After a death within
the switch it starts anew. A compaction by Apache Hudi meanwhile replaces the file groups: then the
work starts anew, too. What Hudi has pending at the switch postpones that.
Source: HoodieTableMetadataUtil.mapRecordKeyToFileGroupIndex, getPartitionLatestMergedFileSlices and
getValidInstantTimestamps of Hudi 0.15.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from keymark.table.errors import CorruptFileError, InputError, SnapshotExpiredError
from keymark.table.format.hashes.digest import Digest, total
from keymark.table.format.log.block import BlockType, LogBlock
from keymark.table.index.build.target import BuildTarget, open_groups, put_once
from keymark.table.index.stale_index import refuse_stale_index
from keymark.table.layout.model import WriteStat
from keymark.table.layout.naming import METADATA, RESHARD, parse_log_file
from keymark.table.metadata.partitions import RECORD_INDEX, file_id
from keymark.table.metadata.records import SCHEMA
from keymark.table.metadata.replaced import settle_replaced
from keymark.table.metadata.reshard_plan import (
    INDEXING,
    PLAN,
    ReshardPlan,
    end_switch,
    is_switching,
    load_plan,
    note_switching,
    resharding,
    save_plan,
    take_over,
)
from keymark.table.metadata.shard import Shard
from keymark.table.properties.config import load_config
from keymark.table.properties.options import RECORD_INDEX_GROUPS_MAX, TASK_MEMORY, Options
from keymark.table.runtime.clock import Clock
from keymark.table.runtime.runner import Progress, ProgressRunner, TaskRunner
from keymark.table.services.index.builds import take_back_build
from keymark.table.services.index.indexing import Hold
from keymark.table.services.index.split import (
    DealTask,
    MoveTask,
    SplitDone,
    SplitTask,
    deal,
    move,
    split,
)
from keymark.table.services.index.suitable_shards import suitable
from keymark.table.services.own_instants import free_instant, put_empty_delta
from keymark.table.state.table_state import TableState
from keymark.table.storage.storage import Storage
from keymark.table.timeline.commit_metadata import DeltaStat, encode_commit
from keymark.table.timeline.timeline import Timeline

_ROUNDS = 5
_ATTEMPTS = 3
_READERS_SECONDS = 2.0
"""How long the old shards stay after a switch to fewer, for readers that have just listed them."""
_GIVEN_UP = "another process gave this re-sharding up"
_OPENING = 1
"""Log version of the block that opens a file group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resharded:
    """What a re-sharding did.

    Attributes:
        before, after: numbers of file groups.
        instant: of the commit that switched; None where there was nothing to do.
        entries: of the index that was split; what writers changed meanwhile came on top.
        log_files: with changes that writers made meanwhile.
    """

    before: int
    after: int
    instant: str | None
    entries: int = 0
    log_files: int = 0


@dataclass(slots=True)
class _CaughtUp:
    """What the new file groups have of the present ones' log blocks, as it grows."""

    read: dict[str, set[str]]
    stats: list[DeltaStat]
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resharder:
    """Deals the record index of one table out to another number of file groups.

    `cores` are those that its writers have for the tasks of an upsert. A write's service holds the
    lease all the time: `hold` gives it again and again.
    """

    storage: Storage
    clock: Clock
    runner: TaskRunner
    options: Options
    progress: Progress
    hold: Hold
    cores: int
    by_service: bool = False

    def run(self, groups: int | None) -> Resharded:
        """Do it, or go on with what was begun.

        Args:
            groups: how many there are to be; None: as many as suit the index (`suitable`).

        Raises:
            InputError: there is no record index, a task has no memory for that many groups,
                another number is under way, another process gave this up, or Apache Hudi compacts
                the metadata table again and again.
            UnsupportedTableError: Apache Hudi has begun something and not ended it.
            LockHeldError: another process of this machine is at it.
            CorruptFileError: the index is damaged.
        """
        for _ in range(_ATTEMPTS):
            plan = self._planned(groups)
            if isinstance(plan, int):
                return Resharded(before=plan, after=plan, instant=None)
            target = self._target(plan)
            try:
                with self.storage.hold(PLAN):
                    switched = self._switch(plan, target, self._split(plan, target))
            except (CorruptFileError, FileNotFoundError):
                # To readers, files of a plan that is gone are damage.
                self._refuse_given_up(plan)
                raise
            except SnapshotExpiredError as error:
                # Only another re-sharding, to fewer, replaces what this one reads.
                self._refuse_given_up(plan)
                raise InputError(_GIVEN_UP) from error
            if switched is not None:
                return switched
            self._refuse_given_up(plan)
        raise InputError(
            "Apache Hudi compacted the metadata table each time: re-shard while it does not write"
        )

    def _planned(self, groups: int | None) -> ReshardPlan | int:
        """The plan that is there, if it still holds, or a new one; the number that needs none."""
        if groups is not None and not 1 <= groups <= RECORD_INDEX_GROUPS_MAX:
            raise InputError(f"{groups} file groups: 1 to {RECORD_INDEX_GROUPS_MAX} can be made")
        with self.hold() as lease:
            storage = lease.storage
            config = load_config(storage)
            if config.building:
                raise InputError(f"{', '.join(config.building)} is being built: end that first")
            if RECORD_INDEX not in config.metadata_partitions:
                raise InputError("the table has no record index to re-shard")
            plan = resharding(storage)
            if plan is not None and groups not in (None, plan.after):
                raise InputError(
                    f"a re-sharding to {plan.after} file groups is under way: go on with it, or "
                    "abort it first"
                )
            state = TableState.load(storage)
            refuse_stale_index(state)
            shards = _shards(state)
            if plan is not None and _still_holds(storage, plan, shards):
                return take_over(storage, plan, by_service=self.by_service)
            _discard(storage, plan)
            groups = groups or suitable(shards, self.options, self.cores)
            if len(shards) == groups:
                return groups
            self._refuse_many_at_once(len(shards), groups)
            plan = ReshardPlan(
                before=len(shards),
                after=groups,
                instant=free_instant(state),
                slices=_slices(shards),
                read={s.slice.file_id: _instants(s) for s in shards},
                folder=secrets.token_hex(8),
                by_service=self.by_service,
            )
            assert state.metadata is not None
            timeline = state.metadata.timeline
            with lease.fenced():
                save_plan(storage, plan)
                timeline.begin(plan.instant, INDEXING)
                timeline.start(plan.instant, INDEXING)
        return plan

    def _refuse_many_at_once(self, before: int, after: int) -> None:
        """InputError if a task would merge more file groups than it has memory for.

        It holds a block of each, as stored and as keys and values.
        """
        block_size = self.options.integer("hoodie.hfile.block.size")
        room = max(1, self.options.integer(TASK_MEMORY) // (4 * block_size))
        at_once = before // math.gcd(before, after)
        if at_once > room:
            raise InputError(
                f"from {before} to {after} file groups a task reads {at_once} at a time, and has "
                f"memory for {room} ({TASK_MEMORY}): take a number that has a larger divisor in "
                f"common with {before}"
            )

    def _refuse_given_up(self, plan: ReshardPlan) -> None:
        """InputError if another process gave this up; what was put since then is deleted."""
        with self.hold() as lease:
            storage = lease.storage
            times = {instant.time for instant in Timeline.load(storage, METADATA).instants}
            is_known = plan.instant in times or plan.instant < min(times, default="")
            if is_known or load_plan(storage) is not None:
                return
            _discard(storage, plan)
        raise InputError(_GIVEN_UP)

    def _target(self, plan: ReshardPlan) -> BuildTarget:
        return BuildTarget(
            storage=self.storage,
            folder=RESHARD,
            partition=RECORD_INDEX,
            instant=plan.instant,
            files=(),
            groups=plan.after,
            block_size=self.options.integer("hoodie.hfile.block.size"),
            memory=self.options.integer(TASK_MEMORY),
            place=plan.place,
        )

    def _split(self, plan: ReshardPlan, target: BuildTarget) -> list[SplitDone]:
        """The base files of all classes; those of an earlier attempt stay."""
        open_groups(target)
        # What writers have added since is dealt out in log blocks: so each attempt makes the same.
        shards = [
            replace(shard, only=frozenset(plan.read.get(shard.slice.file_id, ())))
            for shard in _shards(TableState.load(self.storage))
        ]
        count = math.gcd(plan.before, plan.after)
        known = {number: _load_done(self.storage, number) for number in range(count)}
        left = [number for number, done in known.items() if done is None]
        tasks = [
            SplitTask(
                target=target,
                sources=tuple(shards[number::count]),
                numbers=tuple(range(number, plan.after, count)),
            )
            for number in left
        ]
        weights = [sum(shard.slice.size for shard in task.sources) for task in tasks]
        steps = ProgressRunner(self.runner, self.progress, "classes of file groups")
        results = steps.run(split, tasks, weights=weights)
        # Who finds the note of a class does not put its files again, so they last before it.
        self.storage.sync()
        for number, done in zip(left, results, strict=True):
            _save_done(self.storage, number, done)
            known[number] = done
        return [done for done in known.values() if done is not None]

    def _switch(
        self, plan: ReshardPlan, target: BuildTarget, done: Sequence[SplitDone]
    ) -> Resharded | None:
        """Catch up, and make the new file groups count; None where the plan no longer holds."""
        with self.hold() as lease:
            if resharding(lease.storage) != plan:
                return None
            _delete_logs(lease.storage, plan)
        caught = _CaughtUp(
            read={name: set(times) for name, times in plan.read.items()},
            stats=[],
            version=_OPENING + 1,
        )
        for _ in range(_ROUNDS):
            shards = _shards(TableState.load(self.storage))
            if _slices(shards) != plan.slices or not self._catch_up(plan, target, caught, shards):
                break
        with self.hold() as lease:
            state = TableState.load(lease.storage)
            shards = _shards(state)
            is_on = resharding(lease.storage) == plan
            if not is_on or not _still_holds(lease.storage, plan, shards):
                return None
            self._catch_up(plan, replace(target, storage=lease.storage), caught, shards)
            bases = [stat for each in done for stat in each.stats]
            stats: list[WriteStat | DeltaStat] = [*bases, *caught.stats]
            assert state.metadata is not None
            lease.storage.sync()
            with lease.fenced():
                _put_later_delta(state, plan)
                note_switching(lease.storage)
                self._move(plan, lease.storage, {stat.path for stat in stats})
                content = _content(plan, stats)
                state.metadata.timeline.complete(plan.instant, plan.action, content)
                end_switch(lease.storage, plan)
            if plan.after < plan.before:
                self.clock.sleep(_READERS_SECONDS)
                settle_replaced(state.metadata.timeline.again())
        digest = total([each.digest for each in done])
        return Resharded(
            before=plan.before,
            after=plan.after,
            instant=plan.instant,
            entries=digest.count,
            log_files=len(caught.stats),
        )

    def _move(self, plan: ReshardPlan, storage: Storage, named: set[str]) -> None:
        """Move the files that a commit names, and those that open file groups, into their place."""
        tasks = []
        for status in storage.list(f"{plan.place}/{RECORD_INDEX}"):
            log = parse_log_file(RECORD_INDEX, status.name, status.size)
            path = status.path.removeprefix(f"{plan.place}/")
            if path in named or (log is not None and log.version == _OPENING):
                tasks.append(MoveTask(storage, status.path, f"{METADATA}/{path}"))
        self.runner.run(move, tasks, weights=[1] * len(tasks))

    def _catch_up(
        self, plan: ReshardPlan, target: BuildTarget, caught: _CaughtUp, shards: Sequence[Shard]
    ) -> bool:
        """Deal out the blocks that are new; whether there were any."""
        count = math.gcd(plan.before, plan.after)
        sources: dict[int, list[tuple[Shard, frozenset[str]]]] = {}
        for shard in shards:
            read = caught.read[shard.slice.file_id]
            unread = frozenset(_instants(shard)) - read
            if unread:
                sources.setdefault(shard.number % count, []).append((shard, unread))
                read |= unread
        tasks = [
            DealTask(
                target=target,
                sources=tuple(shards_of_class),
                numbers=tuple(range(number, plan.after, count)),
                version=caught.version,
            )
            for number, shards_of_class in sources.items()
        ]
        weights = [sum(shard.slice.size for shard, _ in task.sources) for task in tasks]
        for stats in self.runner.run(deal, tasks, weights=weights):
            caught.stats.extend(stats)
        caught.version += 1
        return bool(tasks)


def abort(storage: Storage) -> None:
    """Give a re-sharding up, and delete what it made; call it under the lease.

    Raises:
        InputError: there is none.
    """
    plan = resharding(storage)
    if plan is None:
        raise InputError("no re-sharding is under way")
    _discard(storage, plan)


def _discard(storage: Storage, plan: ReshardPlan | None) -> None:
    """Delete what a re-sharding has made, if one is under way, and what one that ended has left."""
    if plan is not None:
        take_back_build(storage, load_config(storage), plan.instant, INDEXING)
    storage.delete_tree(RESHARD)


def _put_later_delta(state: TableState, plan: ReshardPlan) -> None:
    """Have a delta commit after the switch, if it is a replace commit.

    Hudi's next compaction takes its instant from the latest delta commit, and must not find a later
    commit of another kind (ScheduleCompactionActionExecutor).
    """
    assert state.metadata is not None
    deltas = state.metadata.timeline.completed({"deltacommit"})
    if plan.after < plan.before and not any(delta.time > plan.instant for delta in deltas):
        put_empty_delta(state)


def _content(plan: ReshardPlan, stats: Sequence[WriteStat | DeltaStat]) -> bytes:
    """The commit that makes the new file groups count."""
    if plan.after > plan.before:
        return encode_commit(stats, schema=SCHEMA, operation="BULK_INSERT")
    replaced = [file_id(RECORD_INDEX, number) for number in range(plan.after, plan.before)]
    return encode_commit(
        stats, schema=SCHEMA, operation="INSERT_OVERWRITE", replaced={RECORD_INDEX: replaced}
    )


def _delete_logs(storage: Storage, plan: ReshardPlan) -> None:
    """Delete what an earlier attempt caught up with: by now there may be more."""
    for status in storage.list(f"{plan.place}/{RECORD_INDEX}"):
        log = parse_log_file(RECORD_INDEX, status.name, 0)
        if log is not None and log.version > _OPENING:
            storage.delete(status.path)


def _shards(state: TableState) -> tuple[Shard, ...]:
    assert state.metadata is not None
    return state.metadata.shards(RECORD_INDEX)


def _still_holds(storage: Storage, plan: ReshardPlan, shards: Sequence[Shard]) -> bool:
    """Whether the present file groups are those of the plan, and all that was made is there.

    Nor may a commit with an instant before the plan's have been completed since: archiving, which
    goes by the instant of the switch, could pass it while its blocks are still read.
    """
    if is_switching(storage) or _slices(shards) != plan.slices:
        return False
    unread = (set(_instants(shard)) - set(plan.read[shard.slice.file_id]) for shard in shards)
    if any(time < plan.instant for times in unread for time in times):
        return False
    done = (_load_done(storage, n) for n in range(math.gcd(plan.before, plan.after)))
    stats = [stat for each in done if each is not None for stat in each.stats]
    return all(storage.exists(f"{plan.place}/{stat.path}") for stat in stats)


def _slices(shards: Sequence[Shard]) -> dict[str, str]:
    """Base instant of each file group, by file id."""
    return {shard.slice.file_id: shard.slice.base_instant_time for shard in shards}


def _instants(shard: Shard) -> tuple[str, ...]:
    """Instants of the log blocks of a file group that count, but for the one that opened it."""
    return tuple(block.instant_time for block in shard.blocks if not _opens(block, shard))


def _opens(block: LogBlock, shard: Shard) -> bool:
    opened = shard.slice.base_instant_time
    return block.type is BlockType.DELETE and block.instant_time == opened


def _done_path(number: int) -> str:
    return f"{RESHARD}/class-{number}.json"


def _save_done(storage: Storage, number: int, done: SplitDone) -> None:
    put_once(storage, _done_path(number), json.dumps(asdict(done)).encode())


def _load_done(storage: Storage, number: int) -> SplitDone | None:
    """What an earlier attempt made of a class; None if it did not end."""
    path = _done_path(number)
    try:
        found = json.loads(storage.read(path))
        return SplitDone(
            stats=tuple(WriteStat(**stat) for stat in found["stats"]),
            digest=Digest(**found["digest"]),
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptFileError(path, 0, f"a file of a re-sharding: {error}") from error
