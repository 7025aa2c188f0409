"""The footer of a Parquet file, checked before Arrow makes objects of it.

Arrow ends the process at some contradictions, so they must not reach it: what a footer says about
schema, column chunks, sizes and statistics has to agree with itself and with the file. And a file
says which one it is, so that one in the wrong place is found: by an entry of the footer if it is
ours, or else by the range of the file names in its rows.

One row group is held at a time. Source: parquet.thrift of Apache Parquet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from keymark.table.format.parquet.checksums import check_entries
from keymark.table.format.parquet.footer_entries import footer_entries
from keymark.table.format.parquet.thrift import BINARY, I32, I64, LIST, STRUCT, Fields, ThriftReader

FILE_NAME_COLUMN, PARTITION_COLUMN = "_hoodie_file_name", "_hoodie_partition_path"

_DEPTH_MAX = 64
# Field numbers of FileMetaData.
_SCHEMA, _NUM_ROWS, _ROW_GROUPS, _ENTRIES = 2, 3, 4, 5
_ENCRYPTION = (8, 9)
# Of SchemaElement, with the numbers of its types and repetitions.
_TYPE, _TYPE_LENGTH, _REPETITION, _NAME, _CHILDREN = 1, 2, 3, 4, 5
_TYPES, _BYTE_ARRAY, _FIXED_LENGTH = 8, 6, 7
_REQUIRED, _REPEATED = 0, 2
# Of RowGroup and ColumnChunk.
_COLUMNS, _GROUP_ROWS = 1, 3
_FILE_PATH, _META, _CRYPTO = 1, 3, (8, 9)
# Of ColumnMetaData.
_ENCODINGS, _PATH, _CODEC, _VALUES = 2, 3, 4, 5
_UNCOMPRESSED, _COMPRESSED, _DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE = 6, 7, 9, 10, 11
_STATISTICS, _SIZES = 12, 16
_CODECS, _ENCODINGS_MAX = 8, 16
# Of Statistics and SizeStatistics.
_NULLS, _DISTINCT, _MAX, _MIN = 3, 4, 5, 6
_ENDS = (1, 2, 5, 6)
_UNENCODED, _REPETITIONS, _DEFINITIONS = 1, 2, 3
# Bytes of a value by type; 0 for those of any length.
_WIDTHS = (1, 4, 8, 12, 4, 8, 0, 0)


def check_footer(footer: bytes, name: str, offset: int, *, misplaced: bool = False) -> None:
    """Check the footer of a base file; one with our checksum in it is as we wrote it.

    Args:
        footer: its bytes.
        name: the path under which the file was found.
        offset: of the footer in the file.
        misplaced: whether the file may be one that belongs elsewhere.

    Raises:
        CorruptFileError: it contradicts itself, or it is that of another file.
    """
    path = None if misplaced else name
    entries = footer_entries(footer)
    if entries is None or not check_entries(entries, footer, (name, offset), path):
        reader = ThriftReader(footer, name, origin=offset)
        _FooterCheck(reader, name, offset, path).run(footer)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A leaf of the schema, and the levels of its values."""

    path: tuple[bytes, ...]
    type: int
    length: int
    repetition: int
    definition: int


@dataclass(slots=True)
class _FooterCheck:
    """Reads the fields of FileMetaData one by one.

    Attributes:
        name: the file, for errors.
        end: the offset of the footer: what it describes comes before that.
        path: what the file must say about itself; None for anything.
    """

    reader: ThriftReader
    name: str
    end: int
    path: str | None
    leaves: list[_Leaf] | None = None
    rows: int | None = None
    group_rows: int = 0
    entries: dict[bytes, bytes | None] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)

    def run(self, footer: bytes) -> None:
        reader = self.reader
        kind, number = reader.field(0)
        while kind:
            if number in self.seen or number in _ENCRYPTION:
                reader.fail(f"a footer with field {number}, which is repeated or of encryption")
            self.seen.add(number)
            self._field(kind, number)
            kind, number = reader.field(number)
        if self.rows is None or not {_SCHEMA, _ROW_GROUPS} <= self.seen:
            reader.fail("a footer without schema, rows or row groups")
        if self.rows != self.group_rows:
            reader.fail(f"{self.rows} rows, {self.group_rows} in the row groups")
        if reader.at != len(footer):
            reader.fail(f"{len(footer) - reader.at} bytes follow the footer")
        check_entries(self.entries, footer, (self.name, self.end), self.path)

    def _field(self, kind: int, number: int) -> None:
        if number in (_SCHEMA, _ROW_GROUPS, _ENTRIES) and kind != LIST:
            self.reader.fail(f"a field of type {kind}, expected a list")
        if number == _SCHEMA:
            self.leaves = _leaves(self.reader, self._structs())
        elif number == _ROW_GROUPS:
            for _ in range(self.reader.count(STRUCT)):
                self._group(self.reader.struct())
        elif number == _ENTRIES:
            for entry in self._structs():
                key = _value(self.reader, entry, 1, BINARY)
                self.entries[key] = _value(self.reader, entry, 2, BINARY, None)
        elif number == _NUM_ROWS and kind == I64:
            self.rows = self.reader.integer()
        else:
            self.reader.value(kind)

    def _structs(self) -> list[Fields]:
        return [self.reader.struct() for _ in range(self.reader.count(STRUCT))]

    def _group(self, group: Fields) -> None:
        reader, leaves = self.reader, self.leaves
        if leaves is None:
            reader.fail("row groups before the schema")
        chunks = _list_of(reader, group, _COLUMNS, STRUCT)
        rows = _value(reader, group, _GROUP_ROWS, I64)
        if len(chunks) != len(leaves) or rows < 0:
            reader.fail(f"{rows} rows in {len(chunks)} chunks of {len(leaves)} columns")
        self.group_rows += rows
        for chunk, leaf in zip(chunks, leaves, strict=True):
            if chunk.keys() & {_FILE_PATH, *_CRYPTO}:
                reader.fail("a column chunk in another file, or an encrypted one")
            meta = _value(reader, chunk, _META, STRUCT)
            self._chunk(meta, leaf, rows)

    def _chunk(self, meta: Fields, leaf: _Leaf, rows: int) -> None:
        reader = self.reader
        path = tuple(_list_of(reader, meta, _PATH, BINARY))
        values = _value(reader, meta, _VALUES, I64)
        if _value(reader, meta, _TYPE, I32) != leaf.type or path != leaf.path:
            reader.fail(f"a chunk of {_text(path)} in the place of {_text(leaf.path)}")
        if values < rows or (values != rows and not leaf.repetition):
            reader.fail(f"{values} values of {_text(path)} in {rows} rows")
        encodings = _list_of(reader, meta, _ENCODINGS, I32)
        codec = _value(reader, meta, _CODEC, I32)
        if not 0 <= codec < _CODECS or not all(0 <= one < _ENCODINGS_MAX for one in encodings):
            reader.fail(f"encodings {encodings} and codec {codec} of {_text(path)}")
        self._place(meta, leaf)
        statistics = _value(reader, meta, _STATISTICS, STRUCT, {})
        _check_statistics(reader, statistics, leaf, values)
        sizes = _value(reader, meta, _SIZES, STRUCT, {})
        _check_sizes(reader, sizes, leaf, values)
        if self.path is not None and path == (FILE_NAME_COLUMN.encode(),):
            self._check_named(statistics, self.path.rpartition("/")[2])
        elif self.path is not None and path == (PARTITION_COLUMN.encode(),):
            self._check_named(statistics, self.path.rpartition("/")[0])

    def _place(self, meta: Fields, leaf: _Leaf) -> None:
        """The chunk must lie before the footer."""
        reader = self.reader
        start = _value(reader, meta, _DATA_PAGE, I64)
        size = _value(reader, meta, _COMPRESSED, I64)
        full = _value(reader, meta, _UNCOMPRESSED, I64)
        others = [_value(reader, meta, n, I64, 0) for n in (_DICTIONARY_PAGE, _INDEX_PAGE)]
        first = min([start, *(other for other in others if other > 0)])
        if min(first, size, full) < 0 or max(start, first + size, *others) > self.end:
            reader.fail(f"{_text(leaf.path)} lies at {first} with {size} bytes, behind its file")

    def _check_named(self, statistics: Fields, expected: str) -> None:
        """Rows that name their file or partition must name this one; virtual keys leave them empty.

        Files of ours say it by an entry, too.
        """
        for number in (_MIN, _MAX):
            found = _value(self.reader, statistics, number, BINARY, b"")
            if found and found != expected.encode():
                where = found.decode(errors="replace")
                self.reader.fail(f"its rows are those of {where}: the file is in the wrong place")


def _leaves(reader: ThriftReader, elements: Sequence[Fields]) -> list[_Leaf]:
    """The leaves of a schema, given as its elements, depth first."""
    found: list[_Leaf] = []
    # For each open group: how many children are left, its path and the levels in it.
    open_groups: list[list[Any]] = []
    for number, element in enumerate(elements):
        while open_groups and not open_groups[-1][0]:
            open_groups.pop()
        children = _value(reader, element, _CHILDREN, I32, 0)
        if not number:
            open_groups.append([children, (), 0, 0])
            continue
        if not open_groups or len(open_groups) > _DEPTH_MAX:
            reader.fail("a schema of more elements than its groups have, or nested too deeply")
        open_groups[-1][0] -= 1
        _, path, repetition, definition = open_groups[-1]
        path = (*path, _value(reader, element, _NAME, BINARY))
        kind = _value(reader, element, _REPETITION, I32)
        if not _REQUIRED <= kind <= _REPEATED or children < 0:
            reader.fail(f"{_text(path)} has repetition {kind} and {children} children")
        repetition, definition = repetition + (kind == _REPEATED), definition + (kind != _REQUIRED)
        if children:
            open_groups.append([children, path, repetition, definition])
            continue
        stored = _value(reader, element, _TYPE, I32)
        length = _value(reader, element, _TYPE_LENGTH, I32, 0)
        if not 0 <= stored < _TYPES or (stored == _FIXED_LENGTH and length < 1):
            reader.fail(f"{_text(path)} has type {stored} of length {length}")
        found.append(_Leaf(path, stored, length, repetition, definition))
    if any(group[0] for group in open_groups) or not elements:
        reader.fail("a schema of fewer elements than its groups have")
    return found


def _check_statistics(reader: ThriftReader, statistics: Fields, leaf: _Leaf, values: int) -> None:
    width = leaf.length if leaf.type == _FIXED_LENGTH else _WIDTHS[leaf.type]
    for number in _ENDS:
        end = _value(reader, statistics, number, BINARY, None)
        if end is not None and width and len(end) != width:
            reader.fail(f"statistics of {len(end)} bytes for {_text(leaf.path)}")
    for number in (_NULLS, _DISTINCT):
        if not 0 <= _value(reader, statistics, number, I64, 0) <= values:
            reader.fail(f"statistics count more than the {values} values of {_text(leaf.path)}")


def _check_sizes(reader: ThriftReader, sizes: Fields, leaf: _Leaf, values: int) -> None:
    """Arrow ends the process at size statistics that do not fit the levels of their column."""
    plain = _value(reader, sizes, _UNENCODED, I64, None)
    if plain is not None and (leaf.type != _BYTE_ARRAY or plain < 0):
        reader.fail(f"size statistics of {plain} bytes for {_text(leaf.path)}")
    for number, level in ((_REPETITIONS, leaf.repetition), (_DEFINITIONS, leaf.definition)):
        counts = _list_of(reader, sizes, number, I64) if number in sizes else []
        if counts and (len(counts) != level + 1 or min(counts) < 0 or sum(counts) != values):
            reader.fail(f"size statistics of {len(counts)} levels for {_text(leaf.path)}")


_MISSING: Any = object()


def _value(
    reader: ThriftReader, fields: Fields, number: int, kind: int, other: object = _MISSING
) -> Any:
    """A field of a type; `other` where it may be missing and is."""
    if number not in fields:
        if other is _MISSING:
            reader.fail(f"field {number} of a Thrift struct is missing")
        return other
    found, value = fields[number]
    # Arrow passes over a field of another type, as if it were missing.
    if found != kind:
        reader.fail(f"field {number} of a Thrift struct has type {found}, expected {kind}")
    return value


def _list_of(reader: ThriftReader, fields: Fields, number: int, member: int) -> list[Any]:
    kind, values = _value(reader, fields, number, LIST)
    if values and kind != member:
        reader.fail(f"field {number} of a Thrift struct is a list of type {kind}")
    found: list[Any] = values
    return found


def _text(path: Sequence[bytes]) -> str:
    return b".".join(path).decode(errors="replace")
