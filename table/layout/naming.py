"""Every file name of a table, made and parsed on one page.

    base file     <fileId>_<writeToken>_<instant>.<parquet|hfile>
    log file      .<fileId>_<baseInstant>.log.<version>_<writeToken>
    marker        .hoodie/.temp/<instant>/<partition>/<base file name>.marker.<CREATE|MERGE|APPEND>
    write token   <task partition>-<stage>-<attempt>, three integers, unique per writing attempt
    file id       <uuid>-<n>, or for a bucket <8 digits><uuid from its 9th character>-<n>

Sources: FSUtils.makeBaseFileName, FSUtils.makeLogFileName, BucketIdentifier of Hudi 0.15.
"""

from __future__ import annotations

import re
import secrets
import zlib

from keymark.table.errors import CorruptFileError
from keymark.table.layout.model import BaseFile, LogFile
from keymark.table.storage.spool import Content, pieces

HOODIE = ".hoodie"
TEMP = f"{HOODIE}/.temp"
STAGING = f"{TEMP}/.put"
METADATA = f"{HOODIE}/metadata"
KEYMARK = f"{HOODIE}/.keymark"
LEASE = f"{KEYMARK}/lease"
BUILD = f"{KEYMARK}/build"
RESHARD = f"{BUILD}/reshard"
"""Files of a re-sharding, those of the new file groups among them."""
PINS = f"{KEYMARK}/pins"
ENTRIES = f"{KEYMARK}/entries"
FENCED = f"{KEYMARK}/fenced"
TORN = f"{KEYMARK}/torn"
SECONDARY = f"{KEYMARK}/secondary"
KEY_RUNS = f"{KEYMARK}/keys"
HASH_RUNS = f"{KEYMARK}/hashes"
PROPERTIES = f"{HOODIE}/hoodie.properties"
PROPERTIES_BACKUP = f"{HOODIE}/hoodie.properties.backup"
PARTITION_METADATA = ".hoodie_partition_metadata"
BOOTSTRAPPED = "00000000000001"
"""The instant of base files with meta columns alone: the rows are in files outside of the table.

Source: HoodieTimeline.METADATA_BOOTSTRAP_INSTANT_TS.
"""

# Numbers of tokens: ten digits, and at most what Java's int holds.
_TOKEN_FIRST = 10**9
_TOKENS = (1 << 31) - _TOKEN_FIRST

_BASE = re.compile(r"^([^_]+)_(\d+-\d+-\d+)_(\d+)\.(parquet|hfile)$")
_LOG = re.compile(r"^\.([^_]+)_(\d+)\.log\.(\d{1,9})(?:_(\d+-\d+-\d+))?$")
_BUCKET = re.compile(r"^\d{8}-")


def parse_base_file(partition_path: str, name: str, size: int) -> BaseFile | None:
    """The base file of that name, or None where the name is no base file's."""
    match = _BASE.match(name)
    if match is None:
        return None
    file_id, token, instant, extension = match.groups()
    return BaseFile(
        partition_path=partition_path,
        file_id=file_id,
        write_token=token,
        instant_time=instant,
        size=size,
        extension=extension,
    )


def parse_log_file(partition_path: str, name: str, size: int) -> LogFile | None:
    """The log file of that name, or None where the name is no log file's."""
    match = _LOG.match(name)
    if match is None:
        return None
    file_id, instant, version, token = match.groups()
    return LogFile(
        partition_path=partition_path,
        file_id=file_id,
        base_instant_time=instant,
        version=int(version),
        write_token=token or "",
        size=size,
    )


def marker_path(instant: str, base_file: BaseFile, kind: str) -> str:
    """Hudi's DIRECT marker of a base file; kind is CREATE or MERGE."""
    return f"{TEMP}/{instant}/{base_file.path}.marker.{kind}"


def marked_file(path: str, instant: str) -> str | None:
    """The table-relative path that a marker names, None where the path is no marker."""
    target, mark, kind = path.removeprefix(f"{TEMP}/{instant}/").rpartition(".marker.")
    return target if mark and kind in ("CREATE", "MERGE", "APPEND") else None


def numbered_file_id(name: str, number: int = 0) -> str:
    """The file id `<uuid>-<number>`; files of one bulk insert task share their UUID."""
    return f"{name}-{number}"


def bucket_file_id(bucket: int, name: str) -> str:
    """The file id that carries a bucket number in its first eight digits, then of a UUID."""
    return f"{bucket:08d}{name[8:]}-0"


def write_token(task: int) -> str:
    """The token of one writing attempt: random, so that no two attempts meet.

    Its length is not left to chance, nor is that of names, then.
    """
    return f"{task}-0-{_TOKEN_FIRST + secrets.randbelow(_TOKENS)}"


def content_token(data: Content) -> str:
    """The token of a file that every attempt makes alike: by its bytes, so that one file is left.

    Files of one name never differ, then; its length is that of the other tokens.
    """
    checksum = 0
    for piece in pieces(data):
        checksum = zlib.crc32(piece, checksum)
    return f"0-0-{_TOKEN_FIRST + checksum % _TOKENS}"


def bucket_of(file_id: str) -> int:
    """The bucket number in a file id."""
    if not _BUCKET.match(file_id):
        raise CorruptFileError(file_id, 0, "the file id does not start with a bucket number")
    return int(file_id[:8])


def is_bucket_file_id(file_id: str) -> bool:
    """Whether a file id starts with eight digits, as a bucket's does."""
    return _BUCKET.match(file_id) is not None


def check_name(name: str, source: str) -> str:
    """A file name read from the table, refused if it is a path."""
    if "/" in name:
        raise CorruptFileError(source, 0, f"file name {name!r} leads to another folder")
    return name


def check_relative(path: str, source: str) -> str:
    """A path read from the table, refused if it could lead out of it."""
    parts = path.split("/")
    if path.startswith("/") or "\0" in path or any(part in ("..", ".") for part in parts):
        raise CorruptFileError(source, 0, f"path {path!r} leaves the table")
    return path
