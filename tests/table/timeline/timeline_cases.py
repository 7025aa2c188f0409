"""What the tests of timeline files share: files that Hudi 0.15.0 wrote, and what reads them."""

from __future__ import annotations

import json
import re
import tarfile
from functools import partial
from pathlib import Path

from keymark.table.storage.storage import BytesReader
from keymark.table.timeline.archived import decode_archive
from keymark.table.timeline.avro_file import decode_container, load_schema
from keymark.table.timeline.clean_metadata import decode_clean, decode_clean_plan
from keymark.table.timeline.commit_record import commit_record, replace_commit_record
from keymark.table.timeline.index_plan import decode_index_plan
from keymark.table.timeline.restore_metadata import decode_restore_plan, restored
from keymark.table.timeline.rollback_metadata import decode_plan, rolled_back
from keymark.table.timeline.savepoint_metadata import decode_savepoint

ARCHIVE = Path(__file__).parents[2] / "data" / "hudi-0.15.0-timeline.tar.gz"


def _unpacked() -> dict[str, bytes]:
    with tarfile.open(ARCHIVE) as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
        return {member.name: archive.extractfile(member).read() for member in members}


FILES = _unpacked()
"""data/<file> and metadata/<file>, files of the data table's and the metadata table's timeline."""

ENTRIES = json.loads(FILES.pop("entries.json"))
"""file -> what Hudi's MetadataConversionUtils.createMetaWrapper makes of it, without the nulls."""


def archived(data: bytes, name: str):
    return decode_archive(BytesReader(name=name, data=data))


def record_of(schema: str):
    """A reader of records that Keymark writes and never reads."""
    return partial(decode_container, schema=load_schema(schema))


# ending of a file's name -> what reads it
DECODERS = {
    ".clean.requested": (decode_clean_plan,),
    ".clean": (decode_clean,),
    ".rollback.requested": (decode_plan,),
    ".rollback": (rolled_back,),
    ".savepoint": (decode_savepoint,),
    ".restore.requested": (decode_restore_plan,),
    ".restore": (restored,),
    ".compaction.requested": (record_of("compaction_plan"),),
    ".indexing.requested": (decode_index_plan,),
    ".indexing": (record_of("index_commit_metadata"),),
    ".commit": (commit_record,),
    ".replacecommit": (replace_commit_record,),
    ".commits_.archive.1_1-0-1": (archived,),
    ".commits_.archive.3_1-0-1": (archived,),
}


def ending(path: str) -> str:
    """What follows the instant in a file's name."""
    return re.sub(r"^(data|metadata)/\d*", "", path)


def hudis(kind: str) -> list[tuple[str, bytes]]:
    """(path, content) of Hudi's files whose names end so; the data table's come first."""
    return [(path, data) for path, data in sorted(FILES.items()) if ending(path) == kind]


READERS = [
    (path, decode)
    for kind, decoders in DECODERS.items()
    for path, _ in hudis(kind)
    for decode in decoders
]
