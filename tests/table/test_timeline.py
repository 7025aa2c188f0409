"""Instants and the timeline: names, times, order, states, and what is visible."""

from __future__ import annotations

import json
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keymark.table.errors import CommitConflictError, CorruptFileError
from keymark.table.layout.model import Instant, WriteStat
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.timeline.commit_metadata import DeltaStat, decode_commit, encode_commit
from keymark.table.timeline.instant_name import (
    COMPLETED,
    INFLIGHT,
    REQUESTED,
    format_instant,
    instant_file,
    instant_millis,
    parse_instant,
)
from keymark.table.timeline.rollback_metadata import encode_metadata, encode_plan, rolled_back
from keymark.table.timeline.timeline import Timeline, next_instant

ACTIONS = ("commit", "deltacommit", "replacecommit", "clean", "rollback", "restore", "indexing")
# A storage without files.
EMPTY = LocalStorage("/nonexistent")


class FixedClock:
    def __init__(self, millis):
        self._millis = millis

    def millis(self):
        return self._millis

    def seconds(self):
        return 0.0


@given(
    time=st.text("0123456789", min_size=14, max_size=23),
    action=st.sampled_from((*ACTIONS, "compaction", "logcompaction", "savepoint")),
    state=st.sampled_from([REQUESTED, INFLIGHT, COMPLETED]),
)
def test_a_printed_instant_is_parsed(time, action, state):
    assert parse_instant(instant_file(time, action, state)) == Instant(
        time=time, action=action, state=state
    )


@pytest.mark.parametrize(
    "name",
    [
        "hoodie.properties",
        "2024.commit.requested.crc",
        ".2024.commit.crc",
        "2024.nonsense",
        "2024",
        "2024.commit.done",
        "x2024.commit",
        "2024.inflight.requested",
        "archived",
        "",
    ],
)
def test_other_names_are_no_instants(name):
    assert parse_instant(name) is None


@given(st.integers(0, 4_102_444_800_000))
def test_times_and_millis(millis):
    text = format_instant(millis, UTC)
    assert len(text) == 17
    assert instant_millis(text, UTC) == millis
    assert instant_millis(text + "010", UTC) == millis
    assert format_instant(millis + 1, UTC) > text


def test_vectors_of_times():
    assert format_instant(1_795_283_493_262, UTC) == "20261121175133262"
    assert instant_millis("20261121175133262", UTC) == 1_795_283_493_262
    assert instant_millis("20261121175133", UTC) == 1_795_283_493_999


@pytest.mark.parametrize("time", ["", "2024", "20241301000000000", "99999999999999999", "2024x"])
def test_what_is_no_time(time):
    with pytest.raises(CorruptFileError):
        instant_millis(time, UTC)


def _timeline(tmp_path, *names):
    folder = tmp_path / ".hoodie"
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"{}")
    return Timeline.load(LocalStorage.at(str(tmp_path)))


def test_each_instant_once_in_its_furthest_state(tmp_path):
    timeline = _timeline(
        tmp_path,
        *("3.commit.requested", "3.inflight", "3.commit"),
        *("1.clean.requested", "1.clean.inflight"),
        *("2.compaction.requested", "2.compaction.inflight", "2.commit"),
        *("4.commit.requested", "4.inflight"),
        *("hoodie.properties", ".4.inflight.crc", "archived"),
    )
    found = [(i.time, i.action, i.state) for i in timeline.instants]
    assert found == [
        ("1", "clean", INFLIGHT),
        ("2", "commit", COMPLETED),
        ("3", "commit", COMPLETED),
        ("4", "commit", INFLIGHT),
    ]
    assert [i.time for i in timeline.pending()] == ["1", "4"]
    assert timeline.commit_times() == {"2", "3"}


def test_what_is_visible(tmp_path):
    timeline = _timeline(tmp_path, "1.clean", "3.commit", "5.replacecommit", "6.inflight")
    times = {"0", "1", "2", "3", "4", "5", "6", "7"}
    # Before the first commit lies what was archived.
    assert timeline.visible(times) == {"0", "1", "2", "3", "5"}
    new = tmp_path / "new"
    new.mkdir()
    assert _timeline(new).visible(times) == frozenset()


def test_states_follow_each_other_and_nobody_else_can(tmp_path):
    timeline = _timeline(tmp_path)
    timeline.begin("7", "commit")
    timeline.start("7", "commit")
    timeline.complete("7", "commit", b"{}")
    names = sorted(path.name for path in (tmp_path / ".hoodie").iterdir() if path.is_file())
    assert names == ["7.commit", "7.commit.requested", "7.inflight"]
    for again in (timeline.begin, timeline.start):
        with pytest.raises(CommitConflictError, match="another writer won"):
            again("7", "commit")
    with pytest.raises(CommitConflictError, match=r"7\.commit exists"):
        timeline.complete("7", "commit", b"other")
    assert (tmp_path / ".hoodie/7.commit").read_bytes() == b"{}"
    timeline.remove("7", "commit")
    assert not [path for path in (tmp_path / ".hoodie").iterdir() if path.is_file()]


@given(
    known=st.lists(st.integers(0, 2_000_000_000_000), max_size=5), now=st.integers(0, 2 * 10**12)
)
def test_the_next_instant_is_above_all(known, now):
    instants = tuple(
        Instant(time=format_instant(millis, UTC), action="commit", state=COMPLETED)
        for millis in sorted(known)
    )
    timeline = Timeline(storage=EMPTY, base="", instants=instants)
    following = next_instant(FixedClock(now), UTC, timeline)
    assert all(following > instant.time for instant in instants)
    assert following == format_instant(max([now, *(millis + 1 for millis in known)]), UTC)


def test_the_next_instant_knows_suffixes_and_short_times():
    def after(time):
        held = Timeline(EMPTY, "", (Instant(time=time, action="commit", state=COMPLETED),))
        return next_instant(FixedClock(0), UTC, held)

    assert after("20261121165816130012001") == "20261121165816131"
    assert after("20261121165816") == "20261121165817000"
    assert after("00000000000000010") == "19700101000000000"


# ---------------------------------------------------------------- contents


def _stat(**changes):
    values = {
        "file_id": "f-0",
        "path": "p/f-0_1-0-1_2.parquet",
        "partition_path": "p",
        "prev_commit": "null",
        "num_writes": 5,
        "num_inserts": 4,
        "num_updates": 1,
        "num_deletes": 2,
        "size": 100,
    }
    return WriteStat(**{**values, **changes})


def test_a_commit_comes_back():
    data = encode_commit([_stat(), _stat(partition_path="")], schema="{}", operation="UPSERT")
    commit = decode_commit(data, "c")
    assert (commit.operation, commit.schema) == ("UPSERT", "{}")
    assert commit.files == (("p", _stat().path, 100), ("", _stat().path, 100))
    assert (commit.rows, commit.bytes_written) == (10, 200)
    assert not commit.replaced


def test_fields_of_a_write_stat_are_hudis_in_hudis_order():
    data = json.loads(encode_commit([_stat()], schema=None, operation="INSERT"))
    assert list(data) == ["partitionToWriteStats", "compacted", "extraMetadata", "operationType"]
    (stat,) = data["partitionToWriteStats"]["p"]
    assert list(stat)[:8] == [
        "fileId",
        "path",
        "cdcStats",
        "prevCommit",
        "numWrites",
        "numDeletes",
        "numUpdateWrites",
        "numInserts",
    ]
    assert stat["prevCommit"] == "null"
    assert (stat["totalWriteBytes"], stat["fileSizeInBytes"]) == (100, 100)
    assert data["extraMetadata"] == {}


def test_a_delta_stat_names_its_logs():
    stat = DeltaStat(
        file_id="files-0000-0",
        path="files/.files-0000-0_1.log.2_0-0-0",
        partition_path="files",
        base_instant_time="1",
        base_file="b",
        log_files=("a", "b"),
        log_version=2,
        records=3,
        size=9,
    )
    data = json.loads(encode_commit([stat], schema=None, operation="UPSERT_PREPPED"))
    (found,) = data["partitionToWriteStats"]["files"]
    assert (found["prevCommit"], found["logVersion"], found["logFiles"]) == ("1", 2, ["a", "b"])
    assert (found["numWrites"], found["numUpdateWrites"], found["numInserts"]) == (3, 3, 0)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b"null",
        b'"x"',
        b"\xff",
        b'{"partitionToWriteStats": 7}',
        b'{"partitionToWriteStats": {"p": 7}}',
        b'{"partitionToWriteStats": {"p": [7]}}',
        b'{"partitionToWriteStats": {"p": [{"path": "a", "numWrites": "x"}]}}',
        b'{"partitionToWriteStats": {"p": [{"path": "a", "fileSizeInBytes": Infinity}]}}',
        b'{"partitionToWriteStats": {"p": [{"path": "a", "fileSizeInBytes": NaN}]}}',
        b'{"partitionToWriteStats": {"p": [{"path": "a", "fileSizeInBytes": [1]}]}}',
        b'{"extraMetadata": 7}',
        b'{"partitionToReplaceFileIds": {"p": 7}}',
        b"[" * 100_000,
        b'{"a": ' * 100_000,
    ],
)
def test_what_is_no_commit(data):
    with pytest.raises(CorruptFileError, match="name-of-it"):
        decode_commit(data, "name-of-it")


def test_a_commit_of_little_is_one():
    for data in (b"{}", b'{"partitionToWriteStats": null, "extraMetadata": null}'):
        assert decode_commit(data, "c").files == ()


def test_rollbacks_come_back():
    files = {"p": ["/t/p/a"], "": ["/t/b"]}
    data = encode_metadata("9", "7", "commit", files)
    assert rolled_back(data, "r") == ("7",)
    assert encode_plan("7", "commit", files).startswith(b"Obj\x01")
    for cut in range(len(data)):
        with pytest.raises(CorruptFileError, match="name-of-it"):
            rolled_back(data[:cut], "name-of-it")
