"""Builds of metadata partitions that were scheduled, and how dead ones end; dropping a partition.

.hoodie/<I>.indexing.requested, .inflight    from the schedule to the end of the build
.hoodie/.keymark/build/<partition>           files of the build
.hoodie/.keymark/pins/<partition>/<instant>  snapshots whose files cleaning leaves
"""

from __future__ import annotations

from dataclasses import dataclass

from keymark.table.errors import InputError, StorageError, UnsupportedTableError
from keymark.table.layout.naming import BUILD, METADATA, PINS, RESHARD
from keymark.table.metadata.partitions import FILES
from keymark.table.metadata.reader import is_initial, slice_of
from keymark.table.metadata.reshard_plan import (
    INDEXING,
    ReshardPlan,
    end_switch,
    is_switching,
    load_plan,
    refuse_while_resharding,
)
from keymark.table.metadata.writer import take_back_delta
from keymark.table.properties.config import TableConfig, load_config, save_config
from keymark.table.properties.seal import BUILDING_PARTITIONS, METADATA_PARTITIONS
from keymark.table.storage.storage import Storage
from keymark.table.timeline.index_plan import (
    IndexedPartition,
    decode_index_plan,
    encode_index_commit,
)
from keymark.table.timeline.instant_name import REQUESTED
from keymark.table.timeline.timeline import Timeline


def refuse_while_building(storage: Storage, config: TableConfig) -> None:
    """InputError while an index is being built, or the record index re-sharded."""
    if config.building:
        names = ", ".join(config.building)
        raise InputError(f"{names} is being built: finish or abort that first")
    refuse_while_resharding(storage)


@dataclass(frozen=True, slots=True)
class Build:
    """A build that was scheduled: its instant, and the instant whose snapshot it starts from."""

    partition: str
    instant: str
    upto: str


def scheduled(storage: Storage, partition: str) -> Build:
    """The pending build of a partition; InputError if there is none."""
    for build in pending_builds(storage):
        if build.partition == partition:
            if partition not in load_config(storage).building:
                break
            return build
    raise InputError(f"no build of {partition} is scheduled: `table index schedule` does that")


def is_scheduled(storage: Storage, build: Build) -> bool:
    """Whether that build is neither finished nor given up."""
    if build.partition not in load_config(storage).building:
        return False
    return build in pending_builds(storage)


def pending_builds(storage: Storage) -> list[Build]:
    """The builds that were scheduled and neither finished nor aborted."""
    timeline = Timeline.load(storage)
    found = []
    for instant in timeline.pending():
        if instant.action == "indexing":
            path = timeline.path(instant.time, "indexing", REQUESTED)
            data = storage.read(path)
            planned = decode_index_plan(data, path) if data else ()
            found += [Build(item.partition, instant.time, item.upto) for item in planned]
    return found


def settle_builds(storage: Storage) -> None:
    """Finish the bookkeeping of builds whose process died at one of its ends.

    Call it under the lease: builds commit under it, so that a delta commit of theirs which is
    pending now is a dead one's.
    """
    config = load_config(storage)
    plan = load_plan(storage)
    metadata = Timeline.load(storage, METADATA)
    for instant in metadata.pending():
        if instant.action == INDEXING:
            _settle_resharding(metadata, config, plan, instant.time)
        elif instant.action == "deltacommit" and is_initial(instant.time):
            take_back_build(storage, config, instant.time)
    builds = pending_builds(storage)
    for partition in set(config.building) - {build.partition for build in builds}:
        raise UnsupportedTableError(
            f"the metadata partition {partition} is being built: let Apache Hudi finish it first"
        )
    for build in builds:
        timeline = Timeline.load(storage)
        if build.partition in config.metadata_partitions:
            done = [IndexedPartition(partition=build.partition, upto=build.upto)]
            timeline.ensure_started(build.instant, "indexing", b"")
            forget_build(storage, build.partition)
            timeline.complete(build.instant, "indexing", encode_index_commit(done))
        elif build.partition not in config.building:
            storage.delete_tree(f"{METADATA}/{build.partition}")
            forget_build(storage, build.partition)
            timeline.remove(build.instant, "indexing")


def _settle_resharding(
    metadata: Timeline, config: TableConfig, plan: ReshardPlan | None, instant: str
) -> None:
    """End a re-sharding that died in its switch; one that did not come so far continues later."""
    storage = metadata.storage
    if plan is None or plan.instant != instant:
        metadata.remove(instant, INDEXING)
    elif any(i.time == instant for i in metadata.completed({plan.action})):
        end_switch(storage, plan)
    elif is_switching(storage):
        take_back_build(storage, config, instant, INDEXING)
        storage.delete_tree(RESHARD)


def forget_build(storage: Storage, partition: str) -> None:
    """Delete the files of a build, and let cleaning have the files that it read.

    What says that there is such a build goes after it: so the next writer knows if this dies.
    """
    storage.delete_tree(f"{BUILD}/{partition}")
    storage.delete_tree(f"{PINS}/{partition}")


def take_back_build(
    storage: Storage, config: TableConfig, instant: str, action: str = "deltacommit"
) -> None:
    """Take back the commit of a build, a repair or a re-sharding that was not completed.

    In a partition in use its slices are a repair's or a re-sharding's, and are deleted with the
    files of the repair. A build continues with its own.
    """
    for partition in config.metadata_partitions:
        storage.delete_tree(f"{BUILD}/{partition}")
        for status in storage.list(f"{METADATA}/{partition}"):
            owner = slice_of(partition, status.name)
            if owner is not None and owner[1] == instant:
                storage.delete(status.path)
    take_back_delta(storage, instant)
    if action != "deltacommit":
        Timeline.load(storage, METADATA).remove(instant, action)


def take_back_base_files(storage: Storage, partition: str) -> None:
    """Take back the commit that names the base files of a partition which was not put to use.

    The build that made it died right after. It starts over, and what a commit names must be there.
    The commits of an index that was dropped stay: a build of the same instant would be taken for
    them by tables that are open.
    """
    present = {status.path for status in storage.list(f"{METADATA}/{partition}")}
    timeline = Timeline.load(storage, METADATA)
    for instant in timeline.completed({"deltacommit"}):
        if is_initial(instant.time):
            named = (
                path for folder, path, _ in timeline.commit(instant).files if folder == partition
            )
            if any(p.endswith(".hfile") and f"{METADATA}/{p}" in present for p in named):
                timeline.remove(instant.time, "deltacommit")


def drop_remains(storage: Storage, partition: str) -> None:
    """Delete what is there of a partition that is neither in use nor being built.

    A build at once, or a drop, died. The write at hand changes what such a build started from.
    """
    for path in (f"{METADATA}/{partition}", f"{BUILD}/{partition}"):
        if storage.exists(path):
            take_back_base_files(storage, partition)
            storage.delete_tree(path)


def partitions_without_files(storage: Storage, config: TableConfig) -> tuple[str, ...]:
    """The partitions that hoodie.properties names and that have no file.

    On a store a writer that lost the table may still put hoodie.properties once, and name what its
    successor has deleted.
    """
    named = (name for name in config.metadata_partitions if name != FILES)
    return tuple(name for name in named if not storage.list(f"{METADATA}/{name}"))


def drop_partition(storage: Storage, config: TableConfig, partition: str) -> None:
    """Take a partition out of use and delete its files.

    Raises:
        StorageError: a file cannot be deleted. If none was, the partition stays in use.
    """
    folder = METADATA if partition == FILES else f"{METADATA}/{partition}"
    before = list(storage.survey(folder))
    save_partitions(storage, partition, live=None)
    try:
        storage.delete_tree(folder)
    except StorageError as error:
        if list(storage.survey(folder)) == before:
            save_config(storage, config.properties)
            raise
        raise StorageError(
            f"{partition} is dropped, but some of its files are left: {error}; the next write "
            "deletes them"
        ) from error


def save_partitions(storage: Storage, partition: str, *, live: bool | None) -> None:
    """Note that a partition is in use, being built, or gone (None)."""
    config = load_config(storage)
    names = {
        METADATA_PARTITIONS: set(config.metadata_partitions) - {partition},
        BUILDING_PARTITIONS: set(config.building) - {partition},
    }
    if live is not None:
        names[METADATA_PARTITIONS if live else BUILDING_PARTITIONS].add(partition)
    properties = dict(config.properties)
    properties |= {option: ",".join(sorted(listed)) for option, listed in names.items()}
    save_config(storage, properties)
