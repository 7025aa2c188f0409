"""Another way to read a table: list storage, open Parquet files; nothing of `table` is used.

What a run is verified against must not come from the code under test. Tables of version 8 and 9,
and merge-on-read ones, are listed by hudi-rs (`hudi_rs`), those of Delta and Iceberg by `formats`.
For copy-on-write tables of version 5 and 6 the rules are those of Hudi's file system view: a base
file is `<fileId>_<writeToken>_<instant>.parquet`; it counts if its instant completed (or is older
than the active timeline, hence archived); the latest per file id is the slice; file groups named by
`partitionToReplaceFileIds` of a completed replacecommit are gone. Keys that a table does not store
(`hoodie.populate.meta.fields=false`) are spelled by `keymark.harness.tables.key_text`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from os import cpu_count
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from keymark.harness.errors import HarnessError
from keymark.harness.tables import formats, hudi_rs, timelines
from keymark.harness.tables.key_text import encode_keys

KEY = "_hoodie_record_key"
PARTITION = "_hoodie_partition_path"
META_COLUMNS = ("_hoodie_commit_time", "_hoodie_commit_seqno", KEY, PARTITION, "_hoodie_file_name")

_STORED = "hoodie.populate.meta.fields"
_GENERATOR = "hoodie.table.keygenerator.class"
_HUDIS = tuple(
    f"org.apache.hudi.keygen.{name}KeyGenerator" for name in ("Simple", "Complex", "Nonpartitioned")
)
_LATER = ("8", "9")
"""Table versions whose timeline hudi-rs reads."""

OTHER_FORMAT = 0
"""Table version of what is no table of Hudi's."""

_LOG_FILE = re.compile(r"\.(?P<group>[^_]+)_(?P<instant>\d+)\.log\.(?P<version>\d+)_[^.]+")
_PARTITION_MARKER = ".hoodie_partition_metadata"
_Part = TypeVar("_Part")
_Read = TypeVar("_Read")

_FILES_TOGETHER = 8
"""How many files' keys are searched at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The latest slice of a file group.

    Attributes:
        partition_path: of the group.
        file_id: of the group.
        instant: that wrote the base file.
        path: of the base file; of a group that has none yet, of its first log file.
        logs: its log files, by their paths relative to the table; none of copy-on-write tables.
        table: the table's folder.
        has_base: whether there is a base file.
        of_format: what reads it, of a table of another format; its logs are files of deletes.
    """

    partition_path: str
    file_id: str
    instant: str
    path: Path
    logs: tuple[str, ...] = ()
    table: Path = Path()
    has_base: bool = True
    of_format: formats.FormatFile | None = None

    @property
    def group(self) -> tuple[str, str]:
        """What identifies the file group."""
        return self.partition_path, self.file_id

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that its rows are in."""
        logs = tuple(self.table / name for name in self.logs)
        return (self.path, *logs) if self.has_base else logs

    @property
    def is_plain(self) -> bool:
        """Whether its rows are those of the base file, no more and no fewer."""
        return not self.logs and self.of_format is None

    @property
    def mark(self) -> str:
        """What tells its state from others with the same files."""
        return self.of_format.mark if self.of_format else ""

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Some columns of its rows; with log files, memory is that of all columns."""
        if self.of_format is not None:
            return self.of_format.read(columns)
        if not self.logs:
            return pq.ParquetFile(self.path).read(list(columns))
        return self.read_all().select(list(columns))

    def read_all(self) -> pa.Table:
        """All columns of its rows."""
        if self.of_format is not None:
            return self.of_format.read()
        if not self.logs:
            return pq.ParquetFile(self.path).read()
        base = self.path.relative_to(self.table).as_posix() if self.has_base else ""
        return hudi_rs.merged(self.table, base, self.logs)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts:
    """What `hoodie.properties` says about rows: how they are keyed, laid out and ordered."""

    name: str
    version: int
    is_merge_on_read: bool
    record_key: tuple[str, ...]
    partition_path: tuple[str, ...]
    ordering: str | None
    partitions_of_metadata: tuple[str, ...]


def facts(table: Path) -> SourceFacts:
    """Read the facts of a table; HarnessError for tables whose version is not known."""
    reader = formats.reader_of(table)
    if reader is not None:
        found = reader.facts(table)
        return SourceFacts(
            name=found.name,
            version=OTHER_FORMAT,
            is_merge_on_read=False,
            record_key=found.record_key,
            partition_path=found.partition_path,
            ordering=found.ordering,
            partitions_of_metadata=(),
        )
    values = _properties(table / ".hoodie" / "hoodie.properties")
    version = values.get("hoodie.table.version", "")
    if version not in ("5", "6", *_LATER):
        raise HarnessError(f"{table} has table version {version}, which is not read")
    return SourceFacts(
        name=values.get("hoodie.table.name", table.name),
        version=int(version),
        is_merge_on_read=values.get("hoodie.table.type") == "MERGE_ON_READ",
        record_key=_names(values.get("hoodie.table.recordkey.fields")),
        partition_path=_names(values.get("hoodie.table.partition.fields")),
        ordering=_ordering(table, values),
        partitions_of_metadata=_names(values.get("hoodie.table.metadata.partitions")),
    )


def source_facts(table: Path) -> SourceFacts:
    """Read the facts of a table that a run is to start from.

    Raises:
        HarnessError: it is merge-on-read of version 6, of a version that is not read, stores no
            keys, or has a custom key generator whose fields carry a kind.
    """
    found = facts(table)
    if found.is_merge_on_read and str(found.version) not in _LATER:
        raise HarnessError(
            f"{table} is MERGE_ON_READ of version {found.version}; such tables are read from "
            f"version {_LATER[0]} on"
        )
    if _properties(table / ".hoodie" / "hoodie.properties").get(_STORED, "true") != "true":
        raise HarnessError(f"{table} has virtual keys; a run cannot start from it")
    if kinds := [name for name in found.partition_path if ":" in name]:
        raise HarnessError(
            f"{table} has partitions by {', '.join(kinds)}, of a custom key generator; a run "
            "cannot start from it"
        )
    return found


def _ordering(table: Path, values: Mapping[str, str]) -> str | None:
    """The ordering column; Hudi 1.1 names it in a list, releases before in a field of its own."""
    names = _names(values.get("hoodie.table.ordering.fields"))
    if len(names) > 1:
        raise HarnessError(f"{table} orders rows by {', '.join(names)}; one column is supported")
    return names[0] if names else values.get("hoodie.table.precombine.field") or None


def named_key(table: Path) -> str | None:
    """A stored key `column:value` of a table with one key column; None where it is `value`.

    Hudi's ComplexKeyGenerator wrote the one before 0.14.1 and writes it again since 1.1;
    no property tells.
    """
    fields = facts(table).record_key
    if len(fields) != 1:
        return None
    for found in slices(table):
        columns = [KEY, fields[0]]
        batches: Iterable[pa.RecordBatch] = (
            pq.ParquetFile(found.path).iter_batches(1, columns=columns)
            if found.has_base
            else found.read(columns).to_batches(1)
        )
        for batch in batches:
            key = batch[KEY][0].as_py()
            return key if key == f"{fields[0]}:{batch[fields[0]][0]}" else None
    return None


def slices(table: Path) -> tuple[Slice, ...]:
    """The latest slice of every live file group, by partition path and file id.

    Of another format each live data file is one.
    """
    reader = formats.reader_of(table)
    if reader is not None:
        live = [_slice_of_format(table, each) for each in reader.files(table)]
        return tuple(sorted(live, key=lambda each: each.group))
    if _needs_hudi_rs(table):
        return tuple(sorted(_later_slices(table), key=lambda each: each.group))
    return _latest(table, timelines.read(table))


def _latest(table: Path, instants: timelines.Instants) -> tuple[Slice, ...]:
    """The latest base file of every live file group, by partition path and file id."""
    latest: dict[tuple[str, str], Slice] = {}
    for found in _base_files(table):
        group = (found.partition_path, found.file_id)
        if not instants.has_completed(found.instant):
            continue
        if found.instant <= instants.replaced.get(group, ""):
            continue
        if group not in latest or latest[group].instant < found.instant:
            latest[group] = found
    return tuple(latest[group] for group in sorted(latest))


def _slice_of_format(table: Path, file: formats.FormatFile) -> Slice:
    return Slice(
        partition_path=file.partition_path,
        file_id=file.file_id,
        instant=file.commit,
        path=file.path,
        logs=tuple(path.relative_to(table).as_posix() for path in file.deletes),
        table=table,
        of_format=file,
    )


def _later_slices(table: Path) -> Sequence[Slice]:
    """By hudi-rs; of a copy-on-write table that it cannot list, by the names of the base files.

    After Hudi 1.2 wrote to a table of 1.0, the metadata table has records of two schemas, which
    hudi-rs 0.5 refuses.
    """
    try:
        return list(_slices_by_hudi_rs(table))
    except HarnessError:
        if facts(table).is_merge_on_read:
            raise
    return _latest(table, timelines.read_later(table))


def _slices_by_hudi_rs(table: Path) -> Iterator[Slice]:
    listed = set()
    for each in hudi_rs.slices(table):
        logs = tuple(each.log_files_relative_paths())
        has_base = bool(each.base_file_name)
        found = Slice(
            partition_path=each.partition_path,
            file_id=each.file_id,
            instant=each.creation_instant_time,
            path=table / (each.base_file_relative_path() if has_base else logs[0]),
            logs=logs,
            table=table,
            has_base=has_base,
        )
        listed.add(found.group)
        yield found
    if facts(table).is_merge_on_read:
        yield from _slices_without_base(table, listed)


def _slices_without_base(table: Path, listed: Collection[tuple[str, str]]) -> Iterator[Slice]:
    """The file groups of log files alone, which hudi-rs 0.5 leaves out in version 8 and 9.

    There a log file is named after the instant that wrote it.
    """
    instants = timelines.read_later(table)
    # It leaves out replaced groups, too, which have base files as a rule.
    based = {each.group for each in _base_files(table) if instants.has_completed(each.instant)}
    groups: dict[tuple[str, str], list[tuple[str, int, Path]]] = {}
    for path in table.rglob(".*.log.*"):
        folder, name = path.parent.relative_to(table), _LOG_FILE.fullmatch(path.name)
        if name is None or ".hoodie" in folder.parts:
            continue
        group = ("" if folder == Path() else folder.as_posix(), name["group"])
        if group in listed or group in based or not instants.has_completed(name["instant"]):
            continue
        if name["instant"] > instants.replaced.get(group, ""):
            groups.setdefault(group, []).append((name["instant"], int(name["version"]), path))
    for (partition, file_id), files in groups.items():
        ordered = [path.relative_to(table).as_posix() for _, _, path in sorted(files)]
        yield Slice(
            partition_path=partition,
            file_id=file_id,
            instant=min(files)[0],
            path=table / ordered[0],
            logs=tuple(ordered),
            table=table,
            has_base=False,
        )


def _needs_hudi_rs(table: Path) -> bool:
    properties = _properties(table / ".hoodie" / "hoodie.properties")
    is_later = properties.get("hoodie.table.version") in _LATER
    return is_later or properties.get("hoodie.table.type") == "MERGE_ON_READ"


def holding(table: Path, keys: pa.Array) -> list[str]:
    """Names of the base files, older slices included, that hold one of some record keys."""
    fields = _virtual_key(table)
    found = []
    for each in _base_files(table):
        held = _keys(each, fields)
        if pc.any(pc.is_in(held, value_set=keys)).as_py():
            found.append(each.path.name)
    return sorted(found)


def rows(table: Path) -> pa.Table:
    """All live rows with their meta columns, as stored."""
    parts = [found.read_all() for found in slices(table)]
    if not parts:
        raise HarnessError(f"{table} holds no rows")
    return pa.concat_tables(parts, promote_options="default")


def locations(table: Path, keys: pa.Array | None = None) -> pa.Table:
    """Where keys are: `record_key`, `partition_path`, `file_id`, one line per live row of them.

    The file id is that of the file in which the row was found, whatever the row says about itself.
    Memory is that of the answer and of the keys of a few base files. Without keys all are meant.
    """
    fields, parts = _virtual_key(table), slices(table)
    # A search begins with hashing all keys that are asked for, which takes longer than a file.
    groups = [parts[n : n + _FILES_TOGETHER] for n in range(0, len(parts), _FILES_TOGETHER)]
    located = each_read(groups, lambda group: _located(group, fields, keys))
    return pa.concat_tables([_SCHEMA.empty_table(), *located])


def find(
    table: Path, key: str, columns: Sequence[str], *, base_files_only: bool = False
) -> list[dict[str, Any]]:
    """The rows of one record key, wherever they are, cut to some columns.

    With `base_files_only` as they were before what log files say about them.
    """
    fields = _virtual_key(table)

    def read(part: Slice) -> list[dict[str, Any]]:
        is_key = pc.equal(_keys(part, fields), key)
        if not pc.any(is_key).as_py():
            return []
        return list(part.read(columns).filter(is_key).to_pylist())

    parts = slices(table)
    if base_files_only:
        parts = tuple(replace(part, logs=()) for part in parts if part.has_base)
    return [row for rows_of_key in each_read(parts, read) for row in rows_of_key]


def matching(
    table: Path, column: str, value: object, columns: Sequence[str]
) -> list[dict[str, Any]]:
    """The rows with a value in a column, cut to some columns; memory is that of a few files."""
    return _chosen(table, column, lambda values: pc.equal(values, value), columns=columns)


def between(
    table: Path, column: str, limits: tuple[float, float], columns: Sequence[str]
) -> list[dict[str, Any]]:
    """The rows whose value is at least the first limit and less than the second; as `matching`."""
    low, high = limits

    def is_within(values: pa.ChunkedArray) -> pa.ChunkedArray:
        return pc.and_(pc.greater_equal(values, low), pc.less(values, high))

    return _chosen(table, column, is_within, columns=columns)


def _chosen(
    table: Path,
    column: str,
    is_wanted: Callable[[pa.ChunkedArray], pa.ChunkedArray],
    *,
    columns: Sequence[str],
) -> list[dict[str, Any]]:
    def read(part: Slice) -> list[dict[str, Any]]:
        held = part.read([*dict.fromkeys([column, *columns])])
        return list(held.filter(is_wanted(held.column(column))).select(columns).to_pylist())

    return [row for rows_of_file in each_read(slices(table), read) for row in rows_of_file]


def each_read(parts: Sequence[_Part], read: Callable[[_Part], _Read]) -> Iterator[_Read]:
    """What reading each part gives, in order; as many parts at a time as there are cores."""
    with ThreadPoolExecutor(cpu_count() or 1) as pool:
        yield from pool.map(read, parts)


_SCHEMA = pa.schema([("record_key", pa.string()), ("partition_path", pa.string())]).append(
    pa.field("file_id", pa.string())
)


def _located(group: Sequence[Slice], fields: Sequence[str], keys: pa.Array | None) -> pa.Table:
    """The keys of some slices with their places; of the keys that are asked for, where given."""
    tables = []
    for part in group:
        held = _keys(part, fields)
        places = (pa.repeat(name, len(held)) for name in part.group)
        tables.append(pa.table([held, *places], schema=_SCHEMA))
    located = pa.concat_tables(tables)
    if keys is None:
        return located
    return located.filter(pc.is_in(located.column("record_key"), value_set=keys))


def _keys(part: Slice, fields: Sequence[str]) -> pa.Array | pa.ChunkedArray:
    """The record keys of a slice, as text.

    Args:
        part: the slice.
        fields: what the keys are made of; empty where they are stored.

    Raises:
        HarnessError: a key is null, or a column is missing or has no spelling that is certain.
    """
    if not fields:
        return part.read([KEY]).column(KEY).cast(pa.string())
    held, path = part.read(fields), part.path
    for name in fields:
        if name not in held.column_names:
            raise HarnessError(f"{path.name} has no column {name}, which its keys are made of")
        column = held.column(name)
        if not (pa.types.is_string(column.type) or pa.types.is_integer(column.type)):
            raise HarnessError(f"column {name} is {column.type}; only texts and integers are keys")
        if column.null_count:
            raise HarnessError(f"{path.name}: column {name} is null, so that rows have no key")
    return encode_keys(held.select(list(fields)))


def _virtual_key(table: Path) -> tuple[str, ...]:
    """The fields that keys are made of; empty where they are stored.

    Raises:
        HarnessError: they are not made as Hudi's generators of plain fields make them.
    """
    if formats.reader_of(table) is not None:
        return facts(table).record_key
    values = _properties(table / ".hoodie" / "hoodie.properties")
    if values.get(_STORED, "true") == "true":
        return ()
    generator = values.get(_GENERATOR, _HUDIS[0])
    fields = _names(values.get("hoodie.table.recordkey.fields"))
    if not fields or generator not in _HUDIS:
        raise HarnessError(f"{table} has virtual keys that {generator} makes, not Hudi's own")
    if len(fields) == 1 and values.get("keymark.recordkey.encoding") == "named":
        raise HarnessError(f"{table} names its single key field; such virtual keys are not made")
    return fields


def _base_files(table: Path) -> Iterator[Slice]:
    for marker in sorted(table.rglob(_PARTITION_MARKER)):
        folder = marker.parent
        if ".hoodie" in folder.relative_to(table).parts:
            continue
        partition = "" if folder == table else folder.relative_to(table).as_posix()
        for path in sorted(folder.glob("*.parquet")):
            parts = path.stem.split("_")
            if len(parts) == 3:
                group, _, instant = parts
                yield Slice(partition_path=partition, file_id=group, instant=instant, path=path)


def _properties(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {key.strip(): value.replace("\\:", ":").strip() for key, _, value in pairs}


def _names(value: str | None) -> tuple[str, ...]:
    names: Sequence[str] = (value or "").split(",")
    return tuple(name.strip() for name in names if name.strip())
