"""Plans and results on the timeline: what Hudi wrote into them, and ours read back."""

from __future__ import annotations

import io

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from timeline_cases import hudis

from keymark.table.errors import CorruptFileError, UnsupportedTableError
from keymark.table.layout.model import Instant
from keymark.table.timeline.avro_file import decode_container, encode_container, load_schema
from keymark.table.timeline.clean_metadata import (
    Clean,
    CleanPlan,
    decode_clean,
    decode_clean_plan,
    encode_clean,
    encode_clean_plan,
)
from keymark.table.timeline.compaction_plan import (
    CompactionOperation,
    encode_compaction_plan,
    slice_metrics,
)
from keymark.table.timeline.index_plan import (
    IndexedPartition,
    decode_index_plan,
    encode_index_commit,
    encode_index_plan,
)
from keymark.table.timeline.restore_metadata import (
    RestorePlan,
    decode_restore_plan,
    encode_restore,
    encode_restore_plan,
    restored,
)
from keymark.table.timeline.rollback_metadata import (
    Rollback,
    decode_plan,
    encode_metadata,
    encode_plan,
    rolled_back,
)
from keymark.table.timeline.savepoint_metadata import Savepoint, decode_savepoint, encode_savepoint

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
NAMES = TEXTS.filter(lambda text: "/" not in text)
LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
FILES_BY_PARTITION = st.dictionaries(TEXTS, st.lists(NAMES, min_size=1).map(tuple), max_size=3)
PATHS_BY_PARTITION = st.dictionaries(
    TEXTS, st.lists(NAMES.map("/lake/{}".format), min_size=1).map(tuple), max_size=3
)
INSTANTS = st.builds(
    Instant,
    time=TEXTS,
    action=st.sampled_from(("commit", "replacecommit")),
    state=st.sampled_from(("requested", "inflight", "completed")),
)


def only(kind: str) -> tuple[bytes, str]:
    """The data table's file of a kind, and its name."""
    path, data = hudis(kind)[0]
    assert path.startswith("data/")
    return data, path


def avro(data: bytes) -> dict:
    """What the file says, read without this package."""
    (record,) = fastavro.reader(io.BytesIO(data))
    return record


DROPPED = "f9c2a6ee-5c25-439e-a150-829524e3e414-2_0-7-0_20261121222354222.parquet"


def test_the_clean_of_hudi_is_read_and_made():
    plan = CleanPlan(
        earliest=Instant(time="20261121222416446", action="commit", state="completed"),
        last_completed="20261121222421087",
        files={"p9": (f"/lake/t/p9/{DROPPED}",)},
        partitions=("p9",),
    )
    data, name = only(".clean.requested")
    assert decode_clean_plan(data, name) == plan
    assert avro(only(".clean.inflight")[0]) == avro(data)
    assert avro(encode_clean_plan(plan)) == avro(data)

    clean = Clean(
        time="20261121222423717",
        earliest="20261121222416446",
        last_completed="20261121222421087",
        files={"p9": (DROPPED,)},
        partitions=("p9",),
        millis=216,
    )
    data, name = only(".clean")
    assert decode_clean(data, name) == clean
    assert avro(encode_clean(clean)) == avro(data)


def test_plans_that_hudi_can_leave_incomplete():
    plan = CleanPlan(earliest=None, last_completed="", files={}, policy="KEEP_LATEST_FILE_VERSIONS")
    assert decode_clean_plan(encode_clean_plan(plan), "x") == plan
    schema = load_schema("clean_plan")
    record = avro(encode_clean_plan(plan))
    bare = record | {"filePathsToBeDeletedPerPartition": None, "partitionsToBeDeleted": None}
    assert decode_clean_plan(encode_container(schema, bare), "x") == plan
    with pytest.raises(UnsupportedTableError, match="version 1"):
        decode_clean_plan(encode_container(schema, record | {"version": 1}), "x")


def test_a_clean_of_version_1_names_paths():
    record = avro(
        encode_clean(Clean(time="1", earliest="", last_completed="", files={"p": ("a",)}))
    )
    record["version"] = 1
    record["partitionMetadata"]["p"]["successDeleteFiles"] = ["s3://lake/t/p/a", "b"]
    data = encode_container(load_schema("clean_metadata"), record)
    assert decode_clean(data, "x").files == {"p": ("a", "b")}


@given(
    earliest=st.none() | INSTANTS,
    last=TEXTS,
    files=PATHS_BY_PARTITION,
    partitions=st.lists(TEXTS).map(tuple),
)
def test_a_clean_plan_comes_back(earliest, last, files, partitions):
    plan = CleanPlan(earliest=earliest, last_completed=last, files=files, partitions=partitions)
    assert decode_clean_plan(encode_clean_plan(plan), "x") == plan


@given(files=FILES_BY_PARTITION, millis=LONGS, data=st.data())
def test_a_clean_comes_back(files, millis, data):
    partitions = data.draw(st.lists(st.sampled_from([*files]), unique=True)) if files else []
    failed = dict.fromkeys(partitions, ("left",))
    clean = Clean(
        time="1",
        earliest="2",
        last_completed="3",
        files=files,
        partitions=tuple(p for p in files if p in partitions),
        millis=millis,
        failed=failed,
    )
    encoded = encode_clean(clean)
    assert decode_clean(encoded, "x") == clean
    assert avro(encoded)["totalFilesDeleted"] == sum(map(len, files.values()))


def test_the_rollbacks_of_hudi_are_read():
    data, name = only(".rollback.requested")
    plan = decode_plan(data, name)
    assert (plan.action, plan.log_files) == ("commit", {})
    assert {p: len(paths) for p, paths in plan.files.items()} == {"p0": 1, "p1": 1}
    assert all(
        path.startswith(f"/lake/t/{partition}/") and plan.time in path
        for partition, paths in plan.files.items()
        for path in paths
    )
    assert rolled_back(*only(".rollback")) == (plan.time,)
    assert avro(encode_plan(plan.time, plan.action, plan.files)) == avro(data)
    made = encode_metadata("20261121222436320", plan.time, plan.action, plan.files)
    assert avro(made) | {"timeTakenInMillis": 0} == avro(only(".rollback")[0]) | {
        "timeTakenInMillis": 0
    }


def test_a_rollback_of_the_metadata_table_names_log_files():
    path, data = hudis(".rollback.requested")[1]
    plan = decode_plan(data, path)
    assert plan.action == "deltacommit"
    assert plan.files == {"files": ()}
    ((log, size),) = plan.log_files.items()
    assert log.startswith("/lake/t/.hoodie/metadata/files/.files-0000-0_")
    assert size > 10_000


def test_a_rollback_plan_without_an_instant_is_damaged():
    record = {"instantToRollback": None, "RollbackRequests": None, "version": 1}
    data = encode_container(load_schema("rollback_plan"), record)
    with pytest.raises(CorruptFileError, match="no instant"):
        decode_plan(data, "x")


@given(files=PATHS_BY_PARTITION)
def test_a_rollback_plan_comes_back(files):
    plan = decode_plan(encode_plan("1", "commit", files), "x")
    assert (plan.time, plan.action, plan.files) == ("1", "commit", files)


def test_the_savepoint_of_hudi_is_read_and_made():
    data, name = only(".savepoint")
    savepoint = decode_savepoint(data, name)
    assert (savepoint.user, savepoint.comments) == ("user", "a comment")
    assert savepoint.millis // 60_000 == 1795299879588 // 60_000
    assert {p: [n[-25:] for n in names] for p, names in savepoint.files.items()} == {
        "p0": ["20261121222439653.parquet"],
        "p1": ["20261121222439653.parquet"],
    }
    assert avro(encode_savepoint(savepoint)) == avro(data)


@given(user=TEXTS, millis=LONGS, comments=TEXTS, files=FILES_BY_PARTITION)
def test_a_savepoint_comes_back(user, millis, comments, files):
    savepoint = Savepoint(user=user, millis=millis, comments=comments, files=files)
    assert decode_savepoint(encode_savepoint(savepoint), "x") == savepoint


def test_the_restore_of_hudi_is_read_and_made():
    data, name = only(".restore.requested")
    plan = decode_restore_plan(data, name)
    assert plan.savepoint == "20261121222439653"
    assert [action for _, action in plan.instants] == ["commit", "commit"]
    times = [time for time, _ in plan.instants]
    assert times == sorted(times, reverse=True)
    assert times[-1] > plan.savepoint
    assert avro(encode_restore_plan(plan)) == avro(data)

    data, name = only(".restore")
    assert restored(data, name) == tuple(times)
    hudi = avro(data)
    rollbacks = [
        Rollback(
            start=result["startRollbackTime"],
            time=time,
            action="commit",
            files={
                p: tuple(values["successDeleteFiles"])
                for p, values in result["partitionMetadata"].items()
            },
            millis=result["timeTakenInMillis"],
        )
        for time in times
        for result in hudi["hoodieRestoreMetadata"][time]
    ]
    made = encode_restore(hudi["startRestoreTime"], rollbacks, millis=hudi["timeTakenInMillis"])
    assert avro(made) == hudi


def test_a_restore_of_the_metadata_table_took_back_delta_commits():
    path, data = hudis(".restore")[1]
    planned = decode_restore_plan(hudis(".restore.requested")[1][1], path)
    assert restored(data, path) == tuple(time for time, _ in planned.instants)
    assert {action for _, action in planned.instants} == {"deltacommit"}


def test_an_instant_that_only_a_rollback_names_is_restored_all_the_same():
    schema = load_schema("restore_metadata")
    rollback = Rollback(start="9", time="3", action="commit")
    record = decode_container(encode_restore("8", [rollback]), "x", schema)
    record["instantsToRollback"] = ["4"]
    record["hoodieRestoreMetadata"]["4"] = [None]
    assert restored(encode_container(schema, record), "x") == ("4", "3")


@given(times=st.lists(TEXTS, unique=True), savepoint=st.none() | TEXTS)
def test_a_restore_comes_back(times, savepoint):
    plan = RestorePlan(instants=tuple((time, "commit") for time in times), savepoint=savepoint)
    assert decode_restore_plan(encode_restore_plan(plan), "x") == plan
    rollbacks = [Rollback(start="9", time=time, action="commit") for time in times]
    assert restored(encode_restore("8", rollbacks), "x") == tuple(times)


def operations_of(data: bytes) -> tuple[CompactionOperation, ...]:
    """What a plan says, as Hudi's reader would find it."""
    return tuple(
        CompactionOperation(
            partition_path=values["partitionPath"],
            file_id=values["fileId"],
            base_instant_time=values["baseInstantTime"],
            base_file=values["dataFilePath"],
            log_files=tuple(values["deltaFilePaths"]),
            metrics=values["metrics"],
        )
        for values in avro(data)["operations"]
    )


def test_the_compaction_of_hudi_is_read_and_made():
    _, data = hudis(".compaction.requested")[0]
    (operation,) = operations_of(data)
    assert (operation.partition_path, operation.file_id) == ("files", "files-0000-0")
    assert operation.base_file.endswith(f"_{operation.base_instant_time}.hfile")
    prefix = f".files-0000-0_{operation.base_instant_time}.log."
    assert [log.removeprefix(prefix)[:2] for log in operation.log_files] == ["1_", "2_", "3_"]
    sizes = (int(operation.metrics["TOTAL_LOG_FILES_SIZE"]) - 2, 1, 1)
    assert operation.metrics == slice_metrics(5_000, sizes)
    assert avro(encode_compaction_plan([operation])) == avro(data)


@given(base=st.none() | NAMES.filter(bool), logs=st.lists(NAMES).map(tuple), instant=TEXTS)
def test_a_compaction_plan_comes_back(base, logs, instant):
    operations = tuple(
        CompactionOperation(
            partition_path="record_index",
            file_id=f"record-index-000{number}-0",
            base_instant_time=instant,
            base_file=base,
            log_files=logs,
            metrics=slice_metrics(number << 21, [3 << 20] * number),
        )
        for number in range(2)
    )
    assert operations_of(encode_compaction_plan(operations)) == operations


def test_metrics_of_a_slice_are_whole_megabytes():
    assert slice_metrics((2 << 20) + 1, [(1 << 20) - 1, 5]) == {
        "TOTAL_LOG_FILES": 2.0,
        "TOTAL_IO_MB": 5.0,
        "TOTAL_IO_READ_MB": 3.0,
        "TOTAL_LOG_FILES_SIZE": float((1 << 20) + 4),
        "TOTAL_IO_WRITE_MB": 2.0,
    }


def test_the_index_build_of_hudi_is_read_and_made():
    data, name = only(".indexing.requested")
    partitions = decode_index_plan(data, name)
    assert partitions == (IndexedPartition(partition="column_stats", upto="20261121222503460"),)
    assert avro(encode_index_plan(partitions)) == avro(data)
    data, _ = only(".indexing")
    assert avro(encode_index_commit(partitions)) == avro(data)


def test_an_index_build_of_nothing():
    assert decode_index_plan(encode_index_plan([]), "x") == ()
    assert avro(encode_index_commit([]))["indexPartitionInfos"] == []
    record = {"version": 1, "indexPartitionInfos": [{"metadataPartitionPath": None}]}
    with pytest.raises(CorruptFileError, match="without path"):
        decode_index_plan(encode_container(load_schema("index_plan"), record), "x")
