"""Stacks as Hudi 0.15.0 and 1.1.1 leave them in an event log, cut to the frames that count."""

from __future__ import annotations

import json

import pytest

from keymark.harness.engines.hudi_phases import phase_of
from keymark.harness.errors import RunFolderError
from keymark.harness.measure import event_log
from keymark.harness.measure.counters import counter_samples
from keymark.harness.measure.event_log import StepCounters

RDD = "org.apache.hudi.data.HoodieJavaRDD"
CONTEXT = "org.apache.hudi.client.common.HoodieSparkEngineContext"
COMMIT = "org.apache.hudi.table.action.commit"
DELTA = "org.apache.hudi.table.action.deltacommit"
MARKERS = "org.apache.hudi.table.marker.DirectWriteMarkers"
META = "org.apache.hudi.metadata"
TAGGING = "Building workload profile:trips"

STAGES = [
    ("prepare", f"{RDD}.mapToPair(\n{COMMIT}.HoodieWriteHelper.deduplicateRecords(", TAGGING),
    ("prepare", f"{RDD}.distinct(\n{COMMIT}.HoodieDeleteHelper.deduplicateKeys(", TAGGING),
    (
        "tag",
        (
            "org.apache.hudi.data.HoodieJavaPairRDD.countByKey(\n"
            "org.apache.hudi.index.bloom.HoodieBloomIndex.lookupIndex(\n"
            f"{COMMIT}.HoodieWriteHelper.tag("
        ),
        "Tagging: trips",
    ),
    (
        "tag",
        (
            f"{CONTEXT}.map(\norg.apache.hudi.index.bloom.HoodieBloomIndex"
            ".loadColumnRangesFromFiles("
        ),
        "Obtain key ranges for file slices (range pruning=on): trips",
    ),
    (
        "tag",
        ("org.apache.hudi.index.bloom.SparkHoodieBloomIndexHelper.computeComparisonsPerFileGroup("),
        "Compute all comparisons needed between records and files: trips",
    ),
    (
        "tag",
        (
            f"{RDD}.distinct(\norg.apache.hudi.index.simple.HoodieSimpleIndex"
            ".fetchRecordLocationsForAffectedPartitions("
        ),
        "Tagging: trips",
    ),
    (
        "tag",
        (
            "org.apache.hudi.data.HoodieJavaPairRDD.countByKey(\n"
            f"{COMMIT}.BaseSparkCommitActionExecutor.buildProfile(\n"
            f"{COMMIT}.SparkUpsertCommitActionExecutor.execute("
        ),
        TAGGING,
    ),
    (
        "write",
        (
            "org.apache.hudi.execution.bulkinsert.BucketIndexBulkInsertPartitionerWithRows"
            ".repartitionRecords(\norg.apache.hudi.commit.DatasetBulkInsertCommitActionExecutor"
            ".doExecute("
        ),
        "",
    ),
    (
        "tag",
        (
            "org.apache.hudi.index.SparkMetadataTableRecordIndex.tagLocation(\n"
            f"{COMMIT}.HoodieWriteHelper.tag("
        ),
        TAGGING,
    ),
    (
        "tag",
        f"{CONTEXT}.flatMap(\norg.apache.hudi.index.HoodieIndexUtils.getLatestBaseFiles(",
        "Bulk inserting at 00000000000000010 into metadata table trips_metadata",
    ),
    ("tag", f"org.x.countByKey(\n{COMMIT}.BaseSparkCommitActionExecutor.buildProfile(", TAGGING),
    (
        "tag",
        f"{RDD}.isEmpty(HoodieJavaRDD.java:110)\n{COMMIT}.HoodieDeleteHelper.execute(",
        "Load latest base files from all partitions: trips",
    ),
    (
        "index",
        (
            f"org.x.countByKey(\n{COMMIT}.BaseSparkCommitActionExecutor.buildProfile(\n"
            f"{META}.HoodieBackedTableMetadataWriter.commitInternal("
        ),
        "Building workload profile:trips_metadata",
    ),
    # A merge-on-read table of the user's own, and the metadata table, which is one, too.
    (
        "tag",
        (
            f"org.x.countByKey(\n{COMMIT}.BaseSparkCommitActionExecutor.buildProfile(\n"
            f"{DELTA}.SparkUpsertDeltaCommitActionExecutor.execute("
        ),
        TAGGING,
    ),
    (
        "write",
        (
            f"{RDD}.mapToPair(\n{COMMIT}.BaseSparkCommitActionExecutor.mapPartitionsAsRDD(\n"
            f"{DELTA}.SparkUpsertDeltaCommitActionExecutor.execute("
        ),
        "",
    ),
    (
        "index",
        (
            f"org.x.countByKey(\n{COMMIT}.BaseSparkCommitActionExecutor.buildProfile(\n"
            f"{DELTA}.SparkUpsertPreppedDeltaCommitActionExecutor.execute("
        ),
        "",
    ),
    ("write", f"{CONTEXT}.mapToPair(\n{COMMIT}.UpsertPartitioner.getSmallFilesForPartitions(", ""),
    (
        "write",
        (
            f"{RDD}.mapToPair(\n{COMMIT}.BaseSparkCommitActionExecutor.mapPartitionsAsRDD(\n"
            f"{COMMIT}.HoodieDeleteHelper.execute("
        ),
        "Doing partition and writing data: trips",
    ),
    (
        "write",
        "org.apache.hudi.HoodieSparkSqlWriterInternal.commitAndPerformPostOperations(",
        "Doing partition and writing data: trips",
    ),
    (
        "write",
        "org.apache.hudi.client.SparkRDDWriteClient$SlimWriteStats.from(",
        "SparkRDDWriteClient:Committing stats: trips",
    ),
    ("write", "org.apache.hudi.commit.DatasetBulkInsertCommitActionExecutor.doExecute(", ""),
    (
        "index",
        "org.apache.hudi.client.SparkRDDMetadataWriteClient.commit(",
        "SparkRDDMetadataWriteClient:Committing stats: trips_metadata",
    ),
    (
        "index",
        (
            f"{CONTEXT}.flatMap(\n{MARKERS}.createdAndMergedDataPaths(\n"
            f"{META}.HoodieBackedTableMetadataWriter.commitInternal("
        ),
        "Obtaining marker files for all created, merged paths",
    ),
    ("index", "", "Doing partition and writing data: trips_metadata"),
    ("commit", "org.apache.hudi.client.SparkRDDWriteClient.commit(", "Committing stats: trips"),
    ("commit", f"{CONTEXT}.flatMap(\n{MARKERS}.createdAndMergedDataPaths(", ""),
    ("commit", "", "Parallel listing paths file:/x/trips/.hoodie/.temp/2026/MARKERS15"),
    ("services", "org.apache.hudi.table.action.clean.CleanPlanner.getPartitionPathsToClean(", ""),
    (None, "org.apache.spark.sql.Dataset.count(", "hudi@0.15.0/record|r0|upsert_1"),
]


HANDLER = "org.apache.hudi.client.{}StreamingMetadataWriteHandler.streamWriteToMetadataTable("
MAP = "org.apache.spark.api.java.AbstractJavaRDDLike.mapToPair("
TO_METADATA = "SparkMetadataTableFirstDeltaCommitActionExecutor:Doing partition: trips_metadata"


@pytest.mark.parametrize("release", ["", "Spark"])
def test_rows_that_a_streaming_write_asks_for_are_of_the_data(release):
    """Hudi 1.1's handler, and 1.2's: the metadata table's own stages are made under it, too."""
    handler = HANDLER.format(release)
    data = f"{MAP}JavaRDDLike.scala:45)\n{handler}A.java:61)\n"
    metadata = (
        f"{MAP}JavaRDDLike.scala:45)\n{RDD}.mapToPair(HoodieJavaRDD.java:177)\n"
        f"{DELTA}.SparkUpsertPreppedDeltaCommitActionExecutor.execute(A.java:44)\n"
        f"{META}.SparkHoodieBackedTableMetadataWriter.streamWriteToMetadataTable(A.java:1)\n"
        f"{handler}A.java:52)\n"
    )
    assert phase_of(details=data, description=TO_METADATA) == "write"
    assert phase_of(details=metadata, description="") == "index"


@pytest.mark.parametrize("turn", [1, -1])
def test_the_first_stage_of_a_streaming_write_writes_its_rows(tmp_path, turn):
    """Spark submits the two in either order; which of them reads a row is a race."""
    handler = f"{MAP}A:45)\n{HANDLER.format('Spark')}A.java:61)\n"
    metadata = f"{MAP}A:45)\n{META}.BackedTableMetadataWriter.x(\n{HANDLER.format('')}A.java:52)\n"
    first, second = [handler, metadata][::turn]
    job = {"Event": "SparkListenerJobStart", "Job ID": 7}
    job["Stage Infos"] = [{"Stage ID": number} for number in (1, 2)]
    events = [job, *stage(1, 1000, 5000, first), *stage(2, 1000, 5500, second, launch=5000)]
    (tmp_path / "app").write_text("".join(json.dumps(event) + "\n" for event in events))
    step = event_log.read(tmp_path / "app")["hudi@1.1.1/record|r0|upsert_1"]
    times = {name: step.seconds(name) for name in step.spans}
    assert times == ({"write": 4.0, "index": 0.5} if turn == 1 else {"write": 4.5})
    assert {name: counters.tasks for name, counters in step.phases.items()} == {
        "total": 2,
        "write": 2,
    }
    assert {phase for phase, _ in step.stages} == {"write"}


def test_stages_that_write_rows_at_the_same_time_write_until_the_first_has_ended(tmp_path):
    """As a log of Hudi 1.2.0 has it: each of two stages had one of two cores."""
    handler = f"{MAP}A:45)\n{HANDLER.format('Spark')}A.java:61)\n"
    metadata = f"{MAP}A:45)\n{META}.BackedTableMetadataWriter.x(\n{HANDLER.format('')}A.java:52)\n"
    job = {"Event": "SparkListenerJobStart", "Job ID": 7}
    job["Stage Infos"] = [{"Stage ID": number} for number in (1, 2)]
    begun = [*stage(1, 1000, 5000, handler)[:2], *stage(2, 1000, 5400, metadata)[:2]]
    ended = [stage(1, 1000, 5000, handler)[2], stage(2, 1000, 5400, metadata)[2]]
    assert seconds(tmp_path, [job, *begun, *ended]) == {"write": 4.0, "index": 0.4}


def test_with_a_partitioned_record_index_an_earlier_job_writes_the_rows(tmp_path):
    """Hudi 1.2.0 collects the write statuses to make file groups for new partitions."""
    under = f"{META}.HoodieBackedTableMetadataWriter.maybeInitializeNewFileGroupsForPartitionedRLI("
    collect = (
        f"org.apache.spark.api.java.AbstractJavaRDDLike.collect(A:45)\n{RDD}.x(A:1)\n{under}A:2)"
    )
    metadata = f"{MAP}A:45)\n{META}.BackedTableMetadataWriter.x(\n{HANDLER.format('')}A.java:52)\n"
    execution = {"spark.sql.execution.id": "5"}
    jobs = [
        {
            "Event": "SparkListenerJobStart",
            "Job ID": number,
            "Stage Infos": [{"Stage ID": number}],
            "Properties": execution,
        }
        for number in (1, 2)
    ]
    first, second = stage(1, 1000, 5000, collect), stage(2, 5100, 5500, metadata)
    found = seconds(tmp_path, [jobs[0], *first, jobs[1], *second])
    assert found == {"write": 4.0, "index": 0.4}
    assert phase_of(details=collect, description="Committing stats: trips") == "write"


def seconds(folder, events):
    """What a log says about the times of phases."""
    (folder / "app").write_text("".join(json.dumps(event) + "\n" for event in events))
    step = event_log.read(folder / "app")["hudi@1.1.1/record|r0|upsert_1"]
    return {name: step.seconds(name) for name in step.spans}


@pytest.mark.parametrize(("operators", "phase"), [({"union", "flatMap"}, "index"), ((), "write")])
def test_statuses_of_a_streaming_write_come_with_the_metadata_table(operators, phase):
    details = "org.apache.hudi.client.SparkRDDWriteClient$SlimWriteStats.from("
    assert phase_of(details=details, description="", operators=operators) == phase


@pytest.mark.parametrize(("phase", "details", "description"), STAGES)
def test_stages_are_told_apart(phase, details, description):
    assert phase_of(details=details, description=description) == phase


def stage(number, start, stop, details, launch=None):
    key = {"Stage ID": number, "Stage Attempt ID": 0}
    properties = {"keymark.step": "hudi@1.1.1/record|r0|upsert_1", "spark.job.description": "x"}
    metrics = {"Shuffle Write Metrics": {"Shuffle Bytes Written": 10}}
    return [
        {
            "Event": "SparkListenerStageSubmitted",
            "Stage Info": {**key, "Details": details},
            "Properties": properties,
        },
        {
            "Event": "SparkListenerTaskEnd",
            **key,
            "Task Info": {"Launch Time": launch or start},
            "Task Metrics": metrics,
        },
        {
            "Event": "SparkListenerStageCompleted",
            "Stage Info": {**key, "Submission Time": start, "Completion Time": stop},
        },
    ]


def test_phases_last_while_one_of_their_stages_runs(tmp_path):
    tag = "org.apache.hudi.index.X.tag("
    events = [
        *stage(1, 1000, 2000, tag),
        *stage(2, 1500, 2500, tag),
        *stage(3, 4000, 4500, tag),
        *stage(4, 1100, 1200, tag),
        *stage(5, 5000, 9000, "unknown"),
    ]
    (tmp_path / "app").write_text("".join(json.dumps(event) + "\n" for event in events))
    step = event_log.read(tmp_path / "app")["hudi@1.1.1/record|r0|upsert_1"]
    assert list(step.spans) == ["tag"]
    assert step.seconds("tag") == 2.0
    assert step.phases["tag"].tasks == 4
    assert step.phases["total"].shuffle_write_bytes == 50


def test_a_stage_begins_with_its_first_task(tmp_path):
    """It was submitted with another one, whose tasks held all cores until 3000."""
    tag = "org.apache.hudi.index.X.tag("
    first, second, end = stage(1, 1000, 3500, tag, launch=3200)
    earlier = {**second, "Task Info": {"Launch Time": 3000}}
    untold = {**second, "Task Info": None}
    events = [first, second, earlier, untold, end]
    (tmp_path / "app").write_text("".join(json.dumps(event) + "\n" for event in events))
    step = event_log.read(tmp_path / "app")["hudi@1.1.1/record|r0|upsert_1"]
    assert step.spans == {"tag": [(3000, 3500)]}
    assert [each.seconds for each in step.stages.values()] == [0.5]


def test_phases_that_the_engine_does_not_time_are_timed_by_the_log():
    from dataclasses import replace

    from harness_fakes import SAMPLE

    total = replace(SAMPLE, cell="hudi@1.1.1/record", engine="hudi@1.1.1")
    step = StepCounters(spans={"tag": [(0, 250)], "write": [(300, 1300)]})
    logged = {"hudi@1.1.1/record|r0|upsert_1": step}
    found = list(counter_samples([total], logged))
    times = {each.phase: each.value for each in found if each.metric == "wall_s"}
    assert times == {"tag": 0.25, "write": 1.0}
    assert {each.phase for each in found if each.metric == "tasks"} == {"total", "tag", "write"}
    assert list(counter_samples([total, *found], logged)) == []


@pytest.mark.parametrize("parts", [1, 3])
def test_a_log_that_no_harness_labelled_is_one_step(tmp_path, parts):
    """In one file, or rolled into numbered parts that do not sort by their names."""
    tag = "org.apache.hudi.index.X.tag("
    events = [
        *stage(1, 1000, 2000, tag),
        *stage(2, 3000, 3500, "unknown"),
        *stage(3, 4000, 4250, tag),
    ]
    for event in events:
        event.get("Properties", {}).pop("keymark.step", None)
    lines = [json.dumps(event) + "\n" for event in events]
    log = tmp_path / "eventlog_v2_app"
    if parts == 1:
        log.write_text("".join(lines))
    else:
        log.mkdir()
        for number, name in enumerate(("events_2_app", "events_9_app", "events_10_app")):
            (log / name).write_text("".join(lines[3 * number : 3 * number + 3]))
    step = event_log.read_whole(log)
    assert step.seconds("tag") == 1.25
    assert step.phases["tag"].shuffle_write_bytes == 20
    assert [sums.seconds for (phase, _), sums in step.stages.items() if phase == "total"] == [0.5]


def test_a_folder_without_a_log(tmp_path):
    with pytest.raises(RunFolderError, match="no event log of Spark"):
        event_log.read_whole(tmp_path)
