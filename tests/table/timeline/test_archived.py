"""The archived timeline: entries as Hudi makes them, its archives to the byte, damage found."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timeline_cases import ENTRIES, FILES, archived, hudis

from keymark.table.errors import CorruptFileError
from keymark.table.format.coding import encode_int32
from keymark.table.format.log.block import BlockType, HeaderKey
from keymark.table.format.log.writer import encode_block
from keymark.table.layout.model import Instant
from keymark.table.storage.storage import BytesReader
from keymark.table.timeline.archived import (
    ArchivedInstant,
    archive_name,
    archive_number,
    archived_instant,
    decode_archive,
    encode_archive,
)
from keymark.table.timeline.avro_file import load_schema
from keymark.table.timeline.commit_metadata import encode_commit
from keymark.table.timeline.instant_name import instant_file, parse_instant

PAYLOADS = {
    "hoodieCommitMetadata",
    "hoodieCleanMetadata",
    "hoodieRollbackMetadata",
    "hoodieSavePointMetadata",
    "hoodieCompactionPlan",
    "hoodieCleanerPlan",
    "hoodieReplaceCommitMetadata",
    "hoodieRequestedReplaceMetadata",
    "HoodieInflightReplaceMetadata",
    "hoodieIndexCommitMetadata",
}
CHANGED = "20261121222423999"
ARCHIVES = [path for path in FILES if ".commits_" in path]


def entry_of(path: str, changed: str = CHANGED) -> ArchivedInstant:
    """Our entry of one of Hudi's files."""
    instant = parse_instant(path.partition("/")[2])
    return archived_instant(instant, FILES[path], changed=changed, name=path)


def read(data: bytes) -> list[ArchivedInstant]:
    return archived(data, "x")


@pytest.mark.parametrize("path", sorted(ENTRIES))
def test_an_entry_is_what_hudi_makes_of_the_file(path):
    hudi = ENTRIES[path]
    entry = entry_of(path, hudi["stateTransitionTime"])
    assert (entry.time, entry.action) == (hudi["commitTime"], hudi["actionType"])
    assert (entry.state.upper(), entry.changed) == (
        hudi["actionState"],
        hudi["stateTransitionTime"],
    )
    payloads = [hudi[field] for field in PAYLOADS & hudi.keys()]
    assert payloads == ([] if entry.payload is None else [entry.payload])
    (back,) = read(encode_archive([entry]))
    assert back == entry


def test_hudi_made_entries_of_all_it_archives():
    kinds = {(entry["actionType"], entry["actionState"]) for entry in ENTRIES.values()}
    assert {action for action, _ in kinds} == {
        "clean",
        "commit",
        "compaction",
        "deltacommit",
        "replacecommit",
        "rollback",
        "savepoint",
    }
    assert len(kinds) == 17


@pytest.mark.parametrize("path", ARCHIVES)
def test_archives_of_hudi_are_read_and_made_byte_for_byte(path):
    entries = read(FILES[path])
    folder = path.partition("/")[0]
    made = []
    for entry in entries:
        name = instant_file(entry.time, entry.action, entry.state)
        made.append(entry_of(f"{folder}/{name}", entry.changed))
    assert made == entries
    assert len(made) in (3, 6)
    again = encode_archive(made)
    assert read(again) == entries
    assert len(again) == len(FILES[path])
    if folder == "data":  # the metadata table's has a map whose order Java chose
        assert again == FILES[path]


def test_blocks_follow_each_other():
    first, second = (read(FILES[path]) for path in ARCHIVES[:2])
    assert read(encode_archive(first) + encode_archive(second)) == [*first, *second]
    assert read(encode_archive([])) == []


@pytest.mark.parametrize(
    ("action", "state"),
    [
        ("restore", "requested"),
        ("restore", "inflight"),
        ("restore", "completed"),
        ("rollback", "requested"),
        ("indexing", "requested"),
    ],
)
def test_what_hudi_has_no_place_for_is_archived_by_name(action, state):
    instant = Instant(time="1", action=action, state=state)
    entry = archived_instant(instant, b"whatever", changed=CHANGED, name="x")
    assert entry.payload is None
    assert read(encode_archive([entry])) == [entry]


def test_an_index_build_is_archived_with_its_result():
    path, _ = hudis(".indexing")[0]
    entry = entry_of(path)
    (info,) = entry.payload["indexPartitionInfos"]
    assert info["metadataPartitionPath"] == "column_stats"
    assert read(encode_archive([entry])) == [entry]


@pytest.mark.parametrize("action", ["clean", "commit", "deltacommit", "replacecommit", "rollback"])
def test_an_empty_completed_file_is_archived_by_name(action):
    instant = Instant(time="1", action=action, state="completed")
    assert archived_instant(instant, b"", changed=CHANGED, name="x").payload is None


def test_a_commit_of_ours_is_archived_with_zeros_for_what_it_does_not_count():
    content = encode_commit([], schema="{}", operation="UPSERT")
    instant = Instant(time="1", action="commit", state="completed")
    document = json.loads(content)
    stat = {"fileId": "f", "path": "p/f", "numWrites": 3, "partitionPath": "p", "unknown": 1}
    document["partitionToWriteStats"] = {"p": [stat]}
    document["extraMetadata"]["none"] = None
    content = json.dumps(document).encode()
    record = archived_instant(instant, content, changed=CHANGED, name="x").payload
    assert record["extraMetadata"] == {"schema": "{}", "ROLLING_STAT": ""}
    assert record["operationType"] == "UPSERT"
    (written,) = record["partitionToWriteStats"]["p"]
    assert written["numWrites"] == 3
    assert written["fileSizeInBytes"] == 0
    assert (written["totalLogFiles"], written["prevCommit"]) == (None, None)
    assert "unknown" not in written


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b"[" * 100_000,
        b'{"partitionToWriteStats": {"p": 7}}',
        b'{"partitionToWriteStats": {"p": [null]}}',
        b'{"partitionToWriteStats": {"p": [{"numWrites": "many"}]}}',
        b'{"partitionToWriteStats": {"p": [{"numWrites": 9223372036854775808}]}}',
        b'{"extraMetadata": {"schema": "\\ud800"}}',
        b'{"extraMetadata": []} trailing',
    ],
)
@pytest.mark.parametrize("action", ["commit", "replacecommit"])
def test_a_commit_that_is_none_is_damaged(action, content):
    instant = Instant(time="1", action=action, state="completed")
    with pytest.raises(CorruptFileError, match="not the JSON"):
        archived_instant(instant, content, changed=CHANGED, name="x")


def test_another_actions_file_is_damaged():
    _, savepoint = hudis(".savepoint")[0]
    instant = Instant(time="1", action="clean", state="completed")
    with pytest.raises(CorruptFileError):
        archived_instant(instant, savepoint, changed=CHANGED, name="x")


def block(content: bytes, schema: str | None = None) -> bytes:
    text = load_schema("archived_meta_entry").text if schema is None else schema
    return encode_block(BlockType.AVRO_DATA, {HeaderKey.SCHEMA: text}, content)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "empty"),
        (encode_block(BlockType.COMMAND, {HeaderKey.INSTANT_TIME: "2"}, b""), "COMMAND"),
        (block(encode_int32(3) + encode_int32(0), "{"), "schema"),
        (block(encode_int32(2) + encode_int32(0)), "version 2"),
        (block(encode_int32(3) + encode_int32(1 << 30)), "1073741824 records"),
        (block(encode_int32(3) + encode_int32(-1)), "-1 records"),
        (block(encode_int32(3) + encode_int32(0) + b"\0"), "behind the last"),
        (block(encode_int32(3) + encode_int32(1) + encode_int32(9)), "9 bytes expected"),
    ],
)
def test_blocks_that_no_archiver_writes_are_damaged(data, what):
    with pytest.raises(CorruptFileError, match=what):
        decode_archive(BytesReader(name="x", data=data))


@pytest.mark.parametrize(
    "change", [{"time": ""}, {"action": ""}, {"state": "lost"}, {"state": ""}], ids=str
)
def test_entries_of_no_instant_are_damaged(change):
    values = {"time": "1", "action": "restore", "state": "completed"} | change
    with pytest.raises(CorruptFileError, match="an entry"):
        read(encode_archive([ArchivedInstant(changed=None, payload=None, **values)]))


@settings(max_examples=100, deadline=None)
@given(at=st.integers(0, 20_000), byte=st.integers(0, 255), path=st.sampled_from(ARCHIVES))
def test_a_byte_changed_is_found_or_gives_entries(at, byte, path):
    data = bytearray(FILES[path])
    data[at % len(data)] = byte
    try:
        entries = read(bytes(data))
    except CorruptFileError:
        return
    assert len(entries) == len(read(FILES[path]))


def test_names():
    assert archive_name(7) == ".commits_.archive.7_1-0-1"
    assert archive_number(archive_name(123)) == 123
    assert archive_number(".commits_.archive.7") == 7
    for name in ("commits_.archive.7_1-0-1", ".commits_.archive.x_1-0-1", "mergeArchivePlan"):
        assert archive_number(name) is None
