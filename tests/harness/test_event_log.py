from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from keymark.harness.errors import RunFolderError
from keymark.harness.measure import event_log
from keymark.harness.measure.event_log import Counters

LOG = Path(__file__).parents[1] / "data" / "event_log" / "spark-3.5.9.zstd"

# Written down when the log was made, see the README beside it.
TAG = Counters(
    tasks=6,
    shuffle_write_bytes=507,
    shuffle_write_records=1003,
    shuffle_read_bytes=507,
    shuffle_read_records=1003,
    task_records_max=500,
)
WRITE = Counters(
    tasks=4,
    shuffle_write_bytes=292,
    shuffle_write_records=4,
    shuffle_read_bytes=292,
    shuffle_read_records=4,
    task_records_max=500,
)
LOOKUP = Counters(
    tasks=3,
    shuffle_write_bytes=118,
    shuffle_write_records=2,
    shuffle_read_bytes=118,
    shuffle_read_records=2,
    task_records_max=5,
)


def test_tasks_are_summed_by_step_and_phase():
    found = event_log.read(LOG)
    assert set(found) == {"native/record|r0|upsert_1", "native/record|r0|lookup"}
    upsert = found["native/record|r0|upsert_1"].phases
    assert upsert["tag"] == TAG
    assert upsert["write"] == WRITE
    assert upsert["total"].tasks == 10
    counted = found["native/record|r0|upsert_1"]
    of_stages = [each.counters.task_records_max for each in counted.stages.values()]
    assert counted.counters("total").largest_tasks_records == sum(of_stages) > max(of_stages)
    assert upsert["total"].shuffle_write_bytes == 799
    assert found["native/record|r0|lookup"].phases == {"total": LOOKUP}


def test_the_log_of_a_killed_process_gives_what_is_complete(tmp_path):
    content = LOG.read_bytes()
    cut = tmp_path / "app.zstd.inprogress"
    for length in range(0, len(content), 97):
        cut.write_bytes(content[:length])
        event_log.read(cut)
    cut.write_bytes(content[: len(content) * 9 // 10])
    assert event_log.read(cut)["native/record|r0|upsert_1"].phases["tag"] == TAG


def test_an_uncompressed_log_with_a_cut_last_line(tmp_path):
    lines = b'{"Event":"SparkListenerLogStart"}\n{"Event":"SparkListen'
    (tmp_path / "app").write_bytes(lines)
    assert event_log.read(tmp_path / "app") == {}


def test_a_step_taken_again_counts_once(tmp_path):
    shutil.copy(LOG, tmp_path / "a.zstd")
    shutil.copy(LOG, tmp_path / "b.zstd")
    found = event_log.read_all(tmp_path)
    assert found["native/record|r0|lookup"].phases["total"] == LOOKUP


def test_failed_tasks_are_counted(tmp_path):
    (tmp_path / "app").write_text(
        '{"Event":"SparkListenerStageSubmitted","Stage Info":{"Stage ID":1,"Stage Attempt ID":0},'
        '"Properties":{"keymark.step":"c|r0|lookup","spark.jobGroup.id":"mine"}}\n'
        '{"Event":"SparkListenerTaskEnd","Stage ID":1,"Stage Attempt ID":0,'
        '"Task End Reason":{"Reason":"ExceptionFailure"},"Task Metrics":null}\n'
    )
    total = event_log.read(tmp_path / "app")["c|r0|lookup"].phases["total"]
    assert (total.tasks, total.failed_tasks) == (1, 1)


def test_a_line_without_end_is_refused_and_deep_nesting_passed_over(tmp_path):
    path = tmp_path / "app-1.zstd"
    with pa.CompressedOutputStream(str(path), "zstd") as stream:
        stream.write(b'{"Event":' * 100_000 + b"\n")
    assert event_log.read(path) == {}
    with pa.CompressedOutputStream(str(path), "zstd") as stream:
        for _ in range(100):
            stream.write(b"x" * (1 << 20))
    with pytest.raises(RunFolderError, match="has a line of more than"):
        event_log.read(path)
