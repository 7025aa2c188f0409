"""Event logs as Spark leaves them: compressed, rolled into parts, cut off, of other versions."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest

from keymark.harness.errors import RunFolderError
from keymark.harness.measure import log_files
from keymark.harness.measure.event_log import read_application

TASK = {
    "Shuffle Write Metrics": {"Shuffle Bytes Written": 70, "Shuffle Records Written": 7},
    "Output Metrics": {"Bytes Written": 30, "Records Written": 3},
    "Disk Bytes Spilled": 11,
    "Executor CPU Time": 5,
}


def padding(number):
    """What does not compress, so that a log has several blocks."""
    return {"Task ID": number, "Host": random.Random(number).randbytes(300).hex()}


def events(tasks=3, spark="3.5.3", ended=True):
    stage = {"Stage ID": 4, "Stage Attempt ID": 0, "Stage Name": "save at x.py:1"}
    begun = {"Event": "SparkListenerApplicationStart", "App Name": "etl", "Timestamp": 1000}
    task = {"Event": "SparkListenerTaskEnd", "Stage ID": 4, "Stage Attempt ID": 0}
    return [
        {"Event": "SparkListenerLogStart", "Spark Version": spark},
        begun,
        {"Event": "SparkListenerStageSubmitted", "Stage Info": stage},
        *({**task, "Task Metrics": TASK, "Task Info": padding(n)} for n in range(tasks)),
        *[{"Event": "SparkListenerApplicationEnd", "Timestamp": 9000}] * ended,
    ]


def plain(found):
    return "".join(json.dumps(event) + "\n" for event in found).encode()


def lz4_blocks(data, size=700):
    """As LZ4BlockOutputStream of lz4-java writes them; every third block is not compressed."""
    made = b""
    for number, at in enumerate(range(0, len(data), size)):
        block = data[at : at + size]
        packed = pa.Codec("lz4_raw").compress(block, asbytes=True)
        method = 0x20
        if number % 3 == 2:
            packed, method = block, 0x10
        lengths = (len(packed), len(block), 0)
        words = b"".join(each.to_bytes(4, "little") for each in lengths)
        made += b"LZ4Block" + bytes([method | 6]) + words + packed
    return made + b"LZ4Block" + bytes([0x16]) + bytes(12)


def snappy_blocks(data, size=700):
    """As SnappyOutputStream of snappy-java writes them; a second stream begins in the middle."""
    head = b"\x82SNAPPY\0" + bytes([0, 0, 0, 1, 0, 0, 0, 1])
    made = head
    for at in range(0, len(data), size):
        packed = pa.Codec("snappy").compress(data[at : at + size], asbytes=True)
        made += (head if at == size else b"") + len(packed).to_bytes(4, "big") + packed
    return made


def zstd(data):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


PACKED = {"": bytes, ".zstd": zstd, ".lz4": lz4_blocks, ".snappy": snappy_blocks}


@pytest.mark.parametrize("ending", PACKED)
def test_a_log_is_read_however_it_is_compressed(tmp_path, ending):
    path = tmp_path / f"app-1{ending}"
    path.write_bytes(PACKED[ending](plain(events(tasks=40))))
    found = read_application(path)
    assert (found.name, found.spark, found.began, found.ended) == ("etl", "3.5.3", 1000, 9000)
    assert (found.missing, found.notes) == ("", ())
    total = found.counters.phases["total"]
    assert (total.tasks, total.shuffle_write_bytes, total.output_bytes) == (40, 2800, 1200)
    assert (total.output_records, total.spill_bytes, total.cpu_ns) == (120, 440, 200)


@pytest.mark.parametrize("ending", PACKED)
def test_of_a_log_that_was_cut_off_what_is_complete_is_kept(tmp_path, ending):
    whole = PACKED[ending](plain(events(tasks=800)))
    path = tmp_path / f"app-1{ending}.inprogress"
    counted = []
    for share in (0, 3, 5, 8, 9.9):
        path.write_bytes(whole[: int(len(whole) * share / 10)])
        found = read_application(path)
        assert "is cut off" in found.missing
        counted.append(found.counters.phases["total"].tasks if found.counters.phases else 0)
    assert counted == sorted(counted)
    assert 400 < counted[-1] <= 800


@pytest.mark.parametrize("ending", [".lz4", ".snappy"])
def test_damaged_blocks_end_a_log(tmp_path, ending):
    whole = bytearray(PACKED[ending](plain(events(tasks=4))))
    path = tmp_path / f"app-1{ending}"
    for at in range(0, len(whole), 3):
        whole[at] ^= 0xFF
        path.write_bytes(whole)
        read_application(path)
        whole[at] ^= 0xFF


def test_parts_are_read_in_their_order(tmp_path):
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    (folder / "appstatus_app-1").touch()
    found = events(tasks=30)
    for number, part in ((2, found[10:20]), (10, found[20:]), (1, found[:10])):
        (folder / f"events_{number}_app-1.zstd").write_bytes(zstd(plain(part)))
    read = read_application(folder)
    assert read.counters.phases["total"].tasks == 30
    assert read.missing == "eventlog_v2_app-1 has no part 3"
    (folder / "events_10_app-1.zstd").rename(folder / "events_3_app-1.zstd")
    assert read_application(folder).missing == ""
    (folder / "events_1_app-1.zstd").rename(folder / "events_1_app-1.zstd.compact")
    assert "was compacted" in read_application(folder).missing


def test_what_is_not_read_is_named(tmp_path):
    (tmp_path / "app-1.lzf").write_bytes(b"ZV")
    with pytest.raises(RunFolderError, match=r"app-1\.lzf is compressed with lzf, which is not"):
        read_application(tmp_path / "app-1.lzf")
    with pytest.raises(RunFolderError, match="is no event log of Spark"):
        read_application(tmp_path)


@pytest.mark.parametrize(
    ("spark", "said"),
    [
        ("2.4.8", "app was written by Spark 2.4.8; it is read as a log of Spark 3 and 4"),
        ("", "app does not say which Spark wrote it"),
        ("4.1.0", None),
    ],
)
def test_other_versions_of_spark_are_named(tmp_path, spark, said):
    (tmp_path / "app").write_bytes(plain(events(spark=spark)))
    assert read_application(tmp_path / "app").notes == ((said,) if said else ())


def test_events_that_spark_never_wrote_are_left_out(tmp_path):
    bad = [
        {"Event": "SparkListenerStageSubmitted"},
        {"Event": "SparkListenerTaskEnd", "Stage ID": 4, "Stage Attempt ID": 0,
         "Task Metrics": {"Input Metrics": {"Bytes Read": "many"}}},
        {"Event": "SparkListenerTaskEnd", "Stage ID": [], "Stage Attempt ID": {}},
        {"Event": "SparkListenerStageCompleted", "Stage Info": 3},
        {"Event": []}, [], 3,
    ]  # fmt: skip
    found = events()
    (tmp_path / "app").write_bytes(plain([*found[:3], *bad, *found[3:]]))
    read = read_application(tmp_path / "app")
    assert read.counters.phases["total"].shuffle_write_bytes == 210
    assert read.missing == ""


def test_a_block_that_claims_to_be_huge_is_not_believed(tmp_path):
    words = (12).to_bytes(4, "little") + (2**31).to_bytes(4, "little") + bytes(4)
    path = tmp_path / "app.lz4"
    path.write_bytes(b"LZ4Block" + bytes([0x26]) + words + b"x" * 12)
    assert list(log_files.lines(path)) == [b""]
