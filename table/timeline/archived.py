"""The archived timeline of layout 1: log files of AVRO_DATA blocks of HoodieArchivedMetaEntry.

Files are `.hoodie/archived/.commits_.archive.<N>_1-0-1`; the greater N, the later the instants. A
block carries one header, SCHEMA. Every file of an instant (requested, inflight, completed) becomes
one entry, whose payload holds what the file held: Avro files as they are, a commit's JSON turned
into Avro's HoodieCommitMetadata. See `docs/formats/timeline.md`. Source: HoodieTimelineArchiver,
MetadataConversionUtils.createMetaWrapper and HoodieArchivedTimeline of Hudi 0.15.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from keymark.table.errors import CorruptFileError
from keymark.table.format.coding import ByteCursor, encode_int32
from keymark.table.format.log.block import BlockType, HeaderKey, LogBlock
from keymark.table.format.log.reader import read_blocks
from keymark.table.format.log.writer import encode_block
from keymark.table.layout.model import Instant
from keymark.table.storage.storage import RangeReader
from keymark.table.timeline.avro_file import (
    RecordReader,
    decode_container,
    encode_record,
    load_schema,
)
from keymark.table.timeline.commit_record import commit_record, replace_commit_record
from keymark.table.timeline.instant_name import COMPLETED, INFLIGHT, REQUESTED

_ENTRY = "archived_meta_entry"
_CONTENT_VERSION = 3
_NAME = re.compile(r"^\.commits_\.archive\.(\d{1,9})(?:_\d+-\d+-\d+)?$")
_COMMIT, _REPLACE = "hoodieCommitMetadata", "hoodieReplaceCommitMetadata"
_INFLIGHT_REPLACE = "HoodieInflightReplaceMetadata"
# (action, state) -> field of the payload and schema of the file; what is missing has no payload:
# Hudi keeps no plan of a rollback, and its entry has no place for a restore.
_AVRO = {
    ("clean", REQUESTED): ("hoodieCleanerPlan", "clean_plan"),
    ("clean", INFLIGHT): ("hoodieCleanerPlan", "clean_plan"),
    ("clean", COMPLETED): ("hoodieCleanMetadata", "clean_metadata"),
    ("rollback", COMPLETED): ("hoodieRollbackMetadata", "rollback_metadata"),
    ("savepoint", COMPLETED): ("hoodieSavePointMetadata", "savepoint_metadata"),
    ("compaction", REQUESTED): ("hoodieCompactionPlan", "compaction_plan"),
    ("logcompaction", REQUESTED): ("hoodieCompactionPlan", "compaction_plan"),
    ("indexing", COMPLETED): ("hoodieIndexCommitMetadata", "index_commit_metadata"),
    ("replacecommit", REQUESTED): (
        "hoodieRequestedReplaceMetadata",
        "requested_replace_metadata",
    ),
}
_JSON = {
    ("replacecommit", INFLIGHT): (_INFLIGHT_REPLACE, commit_record),
    ("replacecommit", COMPLETED): (_REPLACE, replace_commit_record),
} | {
    (action, state): (_COMMIT, commit_record)
    for action in ("commit", "deltacommit")
    for state in (REQUESTED, INFLIGHT, COMPLETED)
}
_FIELDS = {key: value[0] for key, value in (_AVRO | _JSON).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedInstant:
    """One entry: one state of one instant.

    Attributes:
        time: the instant.
        action: its action; a compaction's completed state is a commit.
        state: requested, inflight or completed.
        changed: when it came to this state, as an instant time of 17 digits; None in archives of
            Hudi before 0.14.
        payload: values of the Avro record that the (action, state) has; None if it has none.
    """

    time: str
    action: str
    state: str
    changed: str | None
    payload: Mapping[str, Any] | None


def archive_name(number: int) -> str:
    """The name of an archive file."""
    return f".commits_.archive.{number}_1-0-1"


def archive_number(name: str) -> int | None:
    """The number of an archive file; None where the name is no archive's."""
    match = _NAME.match(name)
    return None if match is None else int(match.group(1))


def archived_instant(
    instant: Instant, content: bytes, *, changed: str, name: str
) -> ArchivedInstant:
    """The entry of one file of the active timeline.

    Args:
        instant: time, action and state that the file's name says.
        content: the file.
        changed: when it was written, as an instant time of 17 digits.
        name: the file, for errors.

    Raises:
        CorruptFileError: the content is not what an instant of this action and state holds.
    """
    return ArchivedInstant(
        time=instant.time,
        action=instant.action,
        state=instant.state,
        changed=changed,
        payload=_payload(instant, content, name),
    )


def _payload(instant: Instant, content: bytes, name: str) -> Mapping[str, Any] | None:
    key = (instant.action, instant.state)
    # Hudi archives an empty file by its name alone, even a completed one; only a commit that was
    # begun is then a commit of nothing.
    begun = instant.action in ("commit", "deltacommit") and not instant.completed
    if not content and not begun:
        return None
    if key in _AVRO:
        return decode_container(content, name, load_schema(_AVRO[key][1]))
    if key in _JSON:
        return _JSON[key][1](content, name)
    return None


def encode_archive(entries: Iterable[ArchivedInstant]) -> bytes:
    """A log file of one block that holds the entries in their order."""
    schema = load_schema(_ENTRY)
    records = [encode_record(schema, _record(entry)) for entry in entries]
    parts = [encode_int32(_CONTENT_VERSION), encode_int32(len(records))]
    for record in records:
        parts += (encode_int32(len(record)), record)
    return encode_block(BlockType.AVRO_DATA, {HeaderKey.SCHEMA: schema.text}, b"".join(parts))


def _record(entry: ArchivedInstant) -> dict[str, Any]:
    record: dict[str, Any] = {
        "commitTime": entry.time,
        "actionType": entry.action,
        "version": None,
        "actionState": entry.state.upper(),
        "stateTransitionTime": entry.changed,
    }
    if entry.payload is not None:
        record[_FIELDS[entry.action, entry.state]] = entry.payload
    return record


def decode_archive(source: RangeReader) -> list[ArchivedInstant]:
    """The entries of an archive file in their order.

    Raises:
        CorruptFileError: the file is no such log file; Hudi replaces archives as a whole and an
            archiver of ours publishes them as a whole, so that nothing of it may be torn.
    """
    entries: list[ArchivedInstant] = []
    for block in read_blocks(source, complete=True):
        if block.type is not BlockType.AVRO_DATA:
            detail = f"a {block.type.name} block in an archived timeline"
            raise CorruptFileError(source.name, block.content_offset, detail)
        entries.extend(_block_entries(block))
    return entries


def _block_entries(block: LogBlock) -> list[ArchivedInstant]:
    name, origin = block.source.name, block.content_offset
    text = block.headers.get(HeaderKey.SCHEMA, "")
    reader = RecordReader(text, load_schema(_ENTRY), name)
    cursor = ByteCursor(block.content(), name, origin)
    version, count = cursor.int32(), cursor.int32()
    if version != _CONTENT_VERSION:
        cursor.fail(f"Avro block version {version}, expected {_CONTENT_VERSION}")
    if not 0 <= count <= cursor.remaining // 4:
        cursor.fail(f"{count} records in {cursor.remaining} bytes")
    entries = []
    for _ in range(count):
        encoded = cursor.take(cursor.int32())
        offset = origin + cursor.position - len(encoded)
        entries.append(_entry(reader.decode(encoded, offset), name, offset))
    if cursor.remaining:
        cursor.fail(f"{cursor.remaining} bytes behind the last record")
    return entries


def _entry(record: Mapping[str, Any], name: str, offset: int) -> ArchivedInstant:
    time, action, state = (record[f] for f in ("commitTime", "actionType", "actionState"))
    if not time or not action or not state:
        raise CorruptFileError(name, offset, "an entry without time, action or state")
    state = state.lower()
    if state not in (REQUESTED, INFLIGHT, COMPLETED):
        raise CorruptFileError(name, offset, f"an entry in state {state!r}")
    field = _FIELDS.get((action, state))
    return ArchivedInstant(
        time=time,
        action=action,
        state=state,
        changed=record["stateTransitionTime"],
        payload=None if field is None else record[field],
    )
