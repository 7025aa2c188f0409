"""Where keys are in the files of a table: one file decoded whole, every value and every byte.

base file    keys in the key columns, all other texts, footer; bytes of the file and of its pages
metadata     keys of cells and index, delete lists, ranges of columns; bytes of file and blocks
runs         hashes of keys in compact index files
other files  their bytes; Parquet files, HFiles, logs and gzip streams under any name are decoded

Bytes are searched for keys of eight bytes and more only: shorter ones occur by chance. Beside its
UTF-8 form a key is searched as JSON and Java's properties escape it. A file that cannot be read is
evidence of nothing: it says so.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from keymark.table.errors import CorruptFileError, InputError, StorageError, UnsupportedTableError
from keymark.table.format.bloom.filter import BloomFilter
from keymark.table.format.compact.reader import CompactFile
from keymark.table.format.compact.writer import COMPACT, hashes_of
from keymark.table.format.compact.writer import MAGIC as COMPACT_MAGIC
from keymark.table.format.hashes.hashing import string_buffers
from keymark.table.format.hfile.reader import HFileReader
from keymark.table.format.hfile.trailer import MAGIC as TRAILER_MAGIC
from keymark.table.format.hfile.trailer import TRAILER_SIZE
from keymark.table.format.kernels.needles import LENGTH_MIN, Needles
from keymark.table.format.kernels.order import key_order
from keymark.table.format.log.block import MAGIC as LOG_MAGIC
from keymark.table.format.log.block import BlockType, LogBlock
from keymark.table.format.log.deletes import decode_deletes
from keymark.table.format.log.reader import read_blocks
from keymark.table.format.parquet.base_file import BaseFileFooter, read_footer
from keymark.table.format.parquet.pages import pages
from keymark.table.keygen import record_keys
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.naming import HOODIE, METADATA, parse_base_file, parse_log_file
from keymark.table.metadata.column_ranges import range_texts
from keymark.table.metadata.partitions import COLUMN_STATS, FILES, RECORD_INDEX
from keymark.table.properties.config import KEY_COLUMN, KEY_TYPES, TableConfig
from keymark.table.storage.storage import BytesReader, RangeReader, Storage

_ROWS_AT_ONCE = 1 << 16
_BYTES_AT_ONCE = 1 << 26
_NONE: frozenset[int] = frozenset()
_INFLATED_BYTES_MAX = 1 << 30
_INFLATED_AT_ONCE = 1 << 24
# A gzip stream is read in parts that grow: most places that look like one are none.
_DEFLATED_FIRST, _DEFLATED_AT_ONCE = 1 << 16, 1 << 24
_GZIP, _GZIP_WBITS, _PARQUET = b"\x1f\x8b\x08", 31, b"PAR1"


@dataclass(frozen=True, slots=True)
class KeySet:
    """The keys to search for, by the rows that have them.

    Attributes:
        texts: sorted by bytes, distinct.
        needles: those of them that are searched as bytes.
    """

    texts: pa.Array
    needles: Needles

    @classmethod
    def of(cls, keys: pa.Array) -> Self:
        """Prepare a search for keys (without nulls)."""
        distinct = pc.unique(keys)
        texts = distinct.take(pa.array(key_order(distinct)))
        long = np.flatnonzero(pc.binary_length(texts).to_numpy(zero_copy_only=False) >= LENGTH_MIN)
        plain = texts.take(pa.array(long))
        rows, escaped = [], []
        for row, text in zip(long.tolist(), plain.to_pylist(), strict=True):
            other = json.dumps(text)[1:-1]
            if other != text:
                rows.append(row)
                escaped.append(other)
        forms = pa.concat_arrays([plain, pa.array(escaped, pa.string())])
        owners = np.concatenate([long, np.array(rows, np.int64)])
        return cls(texts, Needles.of(forms, owners))

    def among(self, values: pa.Array | Iterable[str | bytes]) -> frozenset[int]:
        """Which keys are among values (an array of a string or binary type, or an iterable)."""
        if not isinstance(values, pa.Array):
            encoded = [each.encode() if isinstance(each, str) else each for each in values]
            values = pa.array(encoded, pa.binary())
        kind = pa.large_binary()
        rows = pc.unique(pc.index_in(values.cast(kind), value_set=self.texts.cast(kind)))
        return frozenset(row for row in rows.to_pylist() if row is not None)

    def inside(self, data: bytes | npt.NDArray[np.uint8]) -> frozenset[int]:
        """Which keys occur anywhere in bytes."""
        whole, part = self.needles.search(data)
        return whole | part


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyMatches:
    """The keys (rows of the key set) that one file holds, by how it does.

    Attributes:
        path: the file.
        size: its bytes.
        keys: as record key: in the key columns, as key of a cell or of an index, deleted.
        values: in a value that is no record key, or within a longer one.
        marks: in what describes other bytes: statistics of footers and columns, other cells' keys.
        bytes: somewhere in the bytes.
        names: as the name of a partition, or within it.
        unread: why the file could not be searched; empty if it was.
    """

    path: str
    size: int
    keys: frozenset[int] = _NONE
    values: frozenset[int] = _NONE
    marks: frozenset[int] = _NONE
    bytes: frozenset[int] = _NONE
    names: frozenset[int] = _NONE
    unread: str = ""

    def beside(self, exempt: frozenset[int]) -> frozenset[int]:
        """What it holds that it must not hold, if the values of other keys hold `exempt`."""
        return self.keys | ((self.values | self.marks | self.bytes | self.names) - exempt)


@dataclass(slots=True)
class _Found:
    """The matches of a file that is being searched."""

    asked: KeySet
    config: TableConfig
    keys: set[int] = field(default_factory=set)
    values: set[int] = field(default_factory=set)
    marks: set[int] = field(default_factory=set)
    bytes: set[int] = field(default_factory=set)
    names: set[int] = field(default_factory=set)

    def of(self, path: str, size: int) -> KeyMatches:
        return KeyMatches(
            path=path,
            size=size,
            keys=frozenset(self.keys),
            values=frozenset(self.values),
            marks=frozenset(self.marks),
            bytes=frozenset(self.bytes),
            names=frozenset(self.names),
        )


@dataclass(frozen=True, slots=True)
class FileSearch:
    """A file to be searched. Runs on its own, anywhere."""

    storage: Storage
    path: str
    asked: KeySet
    config: TableConfig


def search_file(work: FileSearch) -> KeyMatches:
    """Search a file through and through; a file that is gone holds nothing. A task for a runner.

    Raises:
        CorruptFileError: a file of the table is damaged, so its content is unknown.
    """
    try:
        return _search(work)
    except FileNotFoundError:
        return KeyMatches(path=work.path, size=0)
    except StorageError as error:
        reason = str(error).removeprefix(f"cannot read {work.path}: ")
        return KeyMatches(path=work.path, size=0, unread=reason)


def _search(work: FileSearch) -> KeyMatches:
    source = work.storage.open(work.path)
    found = _Found(work.asked, work.config)
    found.bytes |= work.asked.inside(work.path.encode(errors="surrogateescape"))
    for stretch in _stretches(source, work.asked.needles.longest):
        found.bytes |= work.asked.inside(stretch)
    if is_base_file(work.path):
        found.names |= _in_names(found, [work.path.rpartition("/")[0]])
        _search_base(work, found)
    elif (partition := metadata_partition(work.path)) is not None:
        if parse_base_file(partition, work.path.rpartition("/")[2], 0):
            _search_hfile(HFileReader(source), partition, work.path, found)
        else:
            for block in read_blocks(source, complete=True):
                _search_block(block, partition, found)
    else:
        try:
            _search_other(work, source, found)
        except (CorruptFileError, UnsupportedTableError) as error:
            return KeyMatches(path=work.path, size=source.size, unread=str(error))
    return found.of(work.path, source.size)


def is_base_file(path: str) -> bool:
    """Whether a path relative to the table is that of a base file of the data."""
    folder, _, name = path.rpartition("/")
    inside = folder == HOODIE or folder.startswith(f"{HOODIE}/")
    return not inside and parse_base_file(folder, name, 0) is not None


def metadata_partition(path: str) -> str | None:
    """The partition of the metadata table whose base or log file has that path; None for others."""
    partition, _, name = path.removeprefix(f"{METADATA}/").rpartition("/")
    of_slice = parse_base_file(partition, name, 0) or parse_log_file(partition, name, 0)
    return partition if path.startswith(f"{METADATA}/") and of_slice else None


def _stretches(source: RangeReader, longest: int) -> Iterator[bytes]:
    """A file's bytes, a bounded part at a time, each beginning with the end of the one before."""
    for start in range(0, source.size, _BYTES_AT_ONCE):
        first = max(0, start - longest)
        yield source.read(first, start + _BYTES_AT_ONCE - first)


def _search_base(work: FileSearch, found: _Found) -> None:
    data = work.storage.read(work.path)
    footer = read_footer(BytesReader(name=work.path, data=data), misplaced=True)
    found.marks |= _footer_marks(footer, work)
    for page in pages(data, footer.metadata, work.path):
        found.bytes |= work.asked.inside(page)
    try:
        file = pq.ParquetFile(pa.BufferReader(data), metadata=footer.metadata, pre_buffer=False)
        columns = [f.name for f in file.schema_arrow if _has_text(f.type)]
        keys = [name for name in work.config.record_key if name in file.schema_arrow.names]
        columns += [name for name in keys if name not in columns]
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=columns, use_threads=False):
            _search_rows(work, pa.Table.from_batches([batch]), found)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CorruptFileError(work.path, 0, f"damaged Parquet: {error}") from error


def _footer_marks(footer: BaseFileFooter, work: FileSearch) -> frozenset[int]:
    """The keys among the smallest and largest values that a footer names."""
    ends: list[str | bytes] = [end for end in (footer.min_key, footer.max_key) if end is not None]
    for group in range(footer.metadata.num_row_groups):
        for column in range(footer.metadata.num_columns):
            chunk = footer.metadata.row_group(group).column(column)
            stats = chunk.statistics
            if stats is None or not stats.has_min_max:
                continue
            if chunk.physical_type == "BYTE_ARRAY":
                ends += [stats.min_raw, stats.max_raw]
            elif (chunk.path_in_schema,) == work.config.record_key:
                ends += [str(stats.min_raw), str(stats.max_raw)]
    return work.asked.among(ends)


def _search_rows(work: FileSearch, rows: pa.Table, found: _Found) -> None:
    """Search rows: all columns with texts, and the key columns."""
    asked, fields = work.asked, work.config.record_key
    if KEY_COLUMN in rows.column_names:
        found.keys |= asked.among(rows[KEY_COLUMN].combine_chunks())
    if fields and rows.num_rows and set(fields) <= set(rows.column_names):
        found.keys |= asked.among(_made_keys(rows, work))
    own = {KEY_COLUMN, *(fields if len(fields) == 1 else ())}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        for chunk in column.chunks:
            for texts in _texts(chunk):
                if found.bytes:
                    # Tell the key's own text from a part of another value.
                    offsets, data = string_buffers(texts)
                    found.values |= asked.needles.search(data, offsets)[1]
                if name not in own:
                    found.values |= asked.among(texts)


def _made_keys(rows: pa.Table, work: FileSearch) -> pa.Array:
    """The record keys that the key columns of rows make."""
    try:
        return record_keys(rows.select(work.config.record_key), work.config)
    except InputError as error:
        raise CorruptFileError(work.path, 0, str(error)) from error


def _has_text(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_text(kind.field(i).type) for i in range(kind.num_fields))
    return _is_text(kind.value_type if pa.types.is_dictionary(kind) else kind)


def _is_text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())


def _texts(array: pa.Array) -> Iterator[pa.Array]:
    """All texts and byte strings (without nulls) in an array, however deep."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        yield from _texts(array.dictionary)
    elif pa.types.is_struct(kind):
        for i in range(kind.num_fields):
            yield from _texts(array.field(i))
    elif pa.types.is_map(kind):
        yield from _texts(array.keys)
        yield from _texts(array.items)
    elif pa.types.is_nested(kind):
        yield from _texts(array.flatten())
    elif _is_text(kind):
        yield array.drop_null()


def _search_other(work: FileSearch, source: RangeReader, found: _Found) -> None:
    """Search a file that is no base or log file by its name, but may be a copy of one.

    Raises:
        CorruptFileError, UnsupportedTableError: it begins like one and cannot be decoded.
    """
    size = source.size
    end = source.read(max(0, size - len(COMPACT_MAGIC)), len(COMPACT_MAGIC))
    if end == COMPACT_MAGIC or work.path.endswith(COMPACT):
        with CompactFile.open(source) as file:
            found.keys |= set(file.find(hashes_of(found.asked.texts)).rows.tolist())
        return
    start = source.read(0, len(LOG_MAGIC))
    if start.startswith(_PARQUET):
        _search_base(work, found)
    elif source.read(max(0, size - TRAILER_SIZE), len(TRAILER_MAGIC)) == TRAILER_MAGIC:
        _search_hfile(HFileReader(source), RECORD_INDEX, work.path, found)
    elif start == LOG_MAGIC:
        for block in read_blocks(source, complete=True):
            if block.type in (BlockType.HFILE_DATA, BlockType.DELETE):
                _search_block(block, RECORD_INDEX, found)
    else:
        _search_gzip(work, source, found)


def _search_gzip(work: FileSearch, source: RangeReader, found: _Found) -> None:
    """Search the gzip streams in a file, wherever they begin."""
    left = _INFLATED_BYTES_MAX
    for at in _gzip_places(source):
        tail = b""
        with contextlib.suppress(zlib.error):
            for part in _inflated(source, at):
                left -= len(part)
                if left < 0:
                    detail = f"more than {_INFLATED_BYTES_MAX} bytes when inflated"
                    raise CorruptFileError(work.path, at, detail)
                found.bytes |= work.asked.inside(tail + part)
                tail = (tail + part)[-max(1, work.asked.needles.longest) :]


def _gzip_places(source: RangeReader) -> Iterator[int]:
    """Where gzip streams may begin in a file."""
    overlap = len(_GZIP) - 1
    for start in range(0, source.size, _BYTES_AT_ONCE):
        first = max(0, start - overlap)
        data = source.read(first, start + _BYTES_AT_ONCE - first)
        at = data.find(_GZIP)
        while at >= 0:
            yield first + at
            at = data.find(_GZIP, at + 1)


def _inflated(source: RangeReader, at: int) -> Iterator[bytes]:
    """The content of the gzip stream at an offset, in parts.

    Raises:
        zlib.error: it is none, or is damaged from here on.
    """
    stream, size = zlib.decompressobj(_GZIP_WBITS), _DEFLATED_FIRST
    while at < source.size and not stream.eof:
        rest = source.read(at, size)
        at, size = at + len(rest), min(2 * size, _DEFLATED_AT_ONCE)
        while rest and not stream.eof:
            yield stream.decompress(rest, _INFLATED_AT_ONCE)
            rest = stream.unconsumed_tail
    yield stream.flush()


def _search_block(block: LogBlock, partition: str, found: _Found) -> None:
    name = block.source.name
    if block.type is BlockType.HFILE_DATA:
        reader = HFileReader(block.source, offset=block.content_offset, length=block.content_length)
        _search_hfile(reader, partition, name, found)
    elif block.type is BlockType.DELETE:
        found.keys |= found.asked.among(decode_deletes(block.content(), name))
    elif block.type is not BlockType.COMMAND:
        detail = f"a block of type {block.type.name} has no place in the metadata table"
        raise CorruptFileError(name, block.content_offset, detail)


def _search_hfile(reader: HFileReader, partition: str, name: str, found: _Found) -> None:
    """Search cells, index and file info.

    In the record index the cells' keys are record keys, in `files` they are names of partitions.
    """
    asked = found.asked
    into = {RECORD_INDEX: found.keys, FILES: found.names}.get(partition, found.marks)
    into |= asked.among(reader.index_keys())
    # hfile.LASTKEY is a whole key of a cell: two bytes of length, the row, ten bytes more.
    info = list(reader.file_info.values())
    into |= asked.among([*info, *(value[2:-10] for value in info)])
    for keys, values in reader.scan():
        into |= asked.among(keys)
        if partition == FILES:
            found.names |= _in_names(found, keys.cast(pa.string()).to_pylist())
        if partition == COLUMN_STATS:
            found.marks |= asked.among(range_texts(values, name))
    for payload in reader.payloads():
        found.bytes |= asked.inside(payload)


def _in_names(found: _Found, names: list[str]) -> frozenset[int]:
    """The keys that are names of partitions, or parts of such names.

    Where names are made from a key column, each level of a path is read as the value that it was
    made from: without the field's name, and without escapes (PartitionPathEncodeUtils).
    """
    asked = found.asked
    texts = names
    if names_hold_keys(found.config):
        levels = {level for name in names for level in name.split("/")}
        levels |= {value for level in levels if (value := level.partition("=")[2])}
        texts = [*names, *levels, *map(unquote, names), *map(unquote, levels)]
    return asked.among(texts) | asked.inside("\0".join(texts).encode())


def names_hold_keys(config: TableConfig) -> bool:
    """Whether the name of a partition may be made from a column of the record key."""
    known = config.key_generator in KEY_TYPES.values()
    return not known or bool(set(config.record_key) & set(config.partition_fields))


@dataclass(frozen=True, slots=True)
class QuickSearch:
    """A base file to be searched for record keys alone."""

    storage: Storage
    path: str
    asked: KeySet
    stored: StoredKeys


def record_keys_in(work: QuickSearch) -> frozenset[int]:
    """Rows of the keys that a base file holds as record keys; a task for a runner.

    The bloom filter of its footer leaves most files unread. Ranges of keys are not asked: Java
    orders characters beyond U+FFFF in another way.
    """
    source = work.storage.open(work.path)
    footer = read_footer(source, misplaced=True)
    keys = work.asked.texts
    if footer.bloom_text is not None and not work.stored.virtual:
        bloom = BloomFilter.parse(footer.bloom_text, footer.bloom_type, work.path)
        keys = keys.filter(pa.array(bloom.contains(keys)))
    if not len(keys):
        return _NONE
    return work.asked.among(work.stored.read(source, footer.metadata))


def union(rows: Iterable[frozenset[int]]) -> frozenset[int]:
    """All rows of several matches."""
    return _NONE.union(*rows)
