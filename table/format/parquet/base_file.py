"""Base files: Parquet whose footer carries Hudi's bloom filter and key range.

    org.apache.hudi.bloomfilter       text form of the bloom filter over the record keys
    hoodie_bloom_filter_type_code     DYNAMIC_V0; absent for SIMPLE
    hoodie_min_record_key, hoodie_max_record_key     in the order of their UTF-8 bytes
    parquet.avro.schema, writer.model.name           the schema that Hudi's Avro readers take

(HoodieBloomFilterWriteSupport, HoodieAvroWriteSupport.) Files of ours have two entries more, by
which damage and misplacement are found (`parquet_checksums.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from keymark.table.errors import CorruptFileError, InvalidOptionError
from keymark.table.format.bloom.filter import DYNAMIC, SIMPLE, BloomFilter
from keymark.table.format.parquet.bounds import check_size
from keymark.table.format.parquet.checksums import Checksums
from keymark.table.format.parquet.column_choice import (
    dictionary_columns,
    leaves_of,
    ordered_columns,
)
from keymark.table.format.parquet.column_chunks import (
    CheckedFile,
    HeldChunks,
    check_chunk,
    column_chunks,
)
from keymark.table.format.parquet.file_body import FileBody
from keymark.table.format.parquet.footer_check import FILE_NAME_COLUMN, check_footer
from keymark.table.format.parquet.footer_place import find_footer
from keymark.table.format.parquet.inflated import read_inflated
from keymark.table.format.parquet.parquet_gzip import gzip_pages, gzipped
from keymark.table.storage.storage import BytesReader, RangeReader

BLOOM_ENTRY = b"org.apache.hudi.bloomfilter"
OLD_BLOOM_ENTRY = b"com.uber.hoodie.bloomfilter"
BLOOM_TYPE_ENTRY = b"hoodie_bloom_filter_type_code"
MIN_KEY = b"hoodie_min_record_key"
"""In the footers of files whose rows have stored keys"""
MAX_KEY = b"hoodie_max_record_key"

_RECORD_KEY = "_hoodie_record_key"
# Level 1 of Arrow's gzip comes within 2 % of the size of Hudi's files, at a third of the time.
_CODECS: dict[str, tuple[str, int | None]] = {
    "gzip": ("gzip", 1),
    "snappy": ("snappy", None),
    "zstd": ("zstd", 1),
    "uncompressed": ("none", None),
}
# Pages end at numbers of rows alone: not at numbers of bytes, nor where a dictionary is given up.
_PAGES = {"data_page_size": 1 << 30, "dictionary_pagesize_limit": 1 << 25}
_NEW = "a file that was just written"
# Files up to this size are read whole: one request instead of one per column.
_WHOLE_READ = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterOptions:
    """The bloom filter of new base files; the defaults are Hudi's.

    `bloom_entries` and `bloom_max_entries` count keys, `bloom_fpp` is the false-positive rate of
    a full filter. Without bloom filter a footer has no key range either, as with virtual keys.
    """

    bloom_enabled: bool = True
    bloom_type: str = DYNAMIC
    bloom_entries: int = 60000
    bloom_fpp: float = 1e-9
    bloom_max_entries: int = 100000


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseFileOptions:
    """How base files are written.

    `codec` is hoodie.parquet.compression.codec, `block_size` hoodie.parquet.block.size: bytes of
    a row group in memory. `page_rows` are the rows of each page in all columns; None leaves that to
    Arrow. `avro_schema` is the Avro JSON of all columns, for the footer.
    """

    codec: str = "gzip"
    block_size: int = 125829120
    page_rows: int | None = None
    avro_schema: str | None = None
    footer: FooterOptions = field(default_factory=FooterOptions)

    def __post_init__(self) -> None:
        if self.codec.lower() not in _CODECS:
            raise InvalidOptionError(
                f"hoodie.parquet.compression.codec is {self.codec!r}, not one of {sorted(_CODECS)}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseFileFooter:
    """What the footer of a base file says; `metadata` is all of it.

    Files of ours have checksums.
    """

    bloom_text: bytes | None
    bloom_type: str
    min_key: str | None
    max_key: str | None
    num_rows: int
    metadata: pq.FileMetaData
    checksums: Checksums | None = None


def write_base_file(
    table: pa.Table,
    *,
    options: BaseFileOptions,
    previous: BaseFileFooter | None = None,
    inserted: pa.Array | None = None,
    path: str | None = None,
) -> bytes:
    """Write a base file into memory.

    Args:
        table: the rows, the five meta columns first.
        options: codec, row groups and footer.
        previous: footer of the file that this one replaces, if no key of that file is gone: its
            bloom filter is taken over instead of being built anew.
        inserted: the keys that the file has and the previous one had not; all others
            are in the previous file.
        path: of the file in its table. The footer gets it, and checksums. None for a file that is
            in no table.

    Returns:
        The file.
    """
    entries = hudi_entries(lambda: table.column(_RECORD_KEY), options, previous, inserted)
    step = max(1, options.block_size * table.num_rows // max(1, table.nbytes))
    # Readers stumble over a row group without rows: an emptied file has no row group.
    sizes = [min(step, table.num_rows - at) for at in range(0, table.num_rows, step)]
    return encode(table, sizes, options).closed(entries, path)


@functools.lru_cache(maxsize=16)
def empty_body(schema: pa.Schema, options: BaseFileOptions) -> FileBody:
    """A file without rows, for its schema and what else a footer says about a file as a whole."""
    return encode(schema.empty_table(), [], options)


def encode(table: pa.Table, sizes: Sequence[int], options: BaseFileOptions) -> FileBody:
    """Rows as a Parquet file in memory that is not closed yet.

    Args:
        table: the rows.
        sizes: rows of each row group.
        options: codec and pages.
    """
    leaves = leaves_of(table)
    pages = {"max_rows_per_page": options.page_rows, **_PAGES} if options.page_rows else {}
    return _encode(
        table,
        sizes,
        options.codec,
        use_dictionary=dictionary_columns(table, leaves),
        write_statistics=ordered_columns(leaves),
        **pages,
    )


def encode_pages(table: pa.Table, runs: Sequence[Sequence[int]]) -> FileBody:
    """Rows as plain pages that are not compressed, a row group for each run of pages.

    Args:
        table: the rows; no column is nested.
        runs: rows of each page; within a run all are as long as the longest of all pages, but for
            the last one.
    """
    return _encode(
        table,
        [sum(run) for run in runs],
        "uncompressed",
        use_dictionary=False,
        write_statistics=ordered_columns(leaves_of(table)),
        max_rows_per_page=max((max(run) for run in runs), default=1),
        **_PAGES,
    )


def compressed(page: bytes | memoryview, options: BaseFileOptions) -> bytes:
    """A page in the codec of new files."""
    name, level = _CODECS[options.codec.lower()]
    if name == "gzip":
        return gzipped(page)
    if name == "none":
        return bytes(page)
    found: bytes = pa.Codec(name, compression_level=level).compress(page, asbytes=True)
    return found


def _encode(table: pa.Table, sizes: Sequence[int], codec: str, **properties: Any) -> FileBody:
    # Metadata of the schema would be repeated beside the footer's own keys.
    table = table.replace_schema_metadata(None)
    codec = codec.lower()
    if codec == "gzip":
        plain = _write(table, sizes, "uncompressed", **properties)
        zipped = gzip_pages(FileBody.of(plain, _NEW))
        if zipped is not None:
            return zipped
    return FileBody.of(_write(table, sizes, codec, **properties), _NEW)


def _write(table: pa.Table, sizes: Sequence[int], codec: str, **properties: Any) -> pa.Buffer:
    name, level = _CODECS[codec]
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        table.schema,
        compression=name,
        compression_level=level,
        store_schema=False,
        coerce_timestamps="us",
        version="2.6",
        **properties,
    ) as writer:
        start = 0
        for rows in sizes:
            writer.write_table(table.slice(start, rows), row_group_size=rows)
            start += rows
    return sink.getvalue()


def hudi_entries(
    keys: Callable[[], pa.ChunkedArray],
    options: BaseFileOptions,
    previous: BaseFileFooter | None,
    inserted: pa.Array | None,
) -> dict[bytes, bytes]:
    """The key-value entries of a base file's footer, without checksums.

    Args:
        keys: makes those of all its rows; not called where `previous` and `inserted` tell enough.
        options: how it is written.
        previous: as `write_base_file` takes it.
        inserted: likewise.
    """
    entries = {}
    if options.footer.bloom_enabled:
        type_code, text = _bloom_text(keys, options.footer, previous, inserted)
        entries[BLOOM_ENTRY] = text
        if type_code != SIMPLE:
            entries[BLOOM_TYPE_ENTRY] = type_code.encode()
        ends = _key_range(keys, previous, inserted)
        # Hudi's bloom indexes take a missing range for all keys, and fail without the filter.
        if ends:
            entries[MIN_KEY], entries[MAX_KEY] = (end.encode() for end in ends)
    if options.avro_schema is not None:
        entries[b"parquet.avro.schema"] = options.avro_schema.encode()
        entries[b"writer.model.name"] = b"avro"
    return entries


def _bloom_text(
    keys: Callable[[], pa.ChunkedArray],
    options: FooterOptions,
    previous: BaseFileFooter | None,
    inserted: pa.Array | None,
) -> tuple[str, bytes]:
    """Type code and text of the bloom filter."""
    if previous is not None and previous.bloom_text is not None:
        if inserted is None or len(inserted) == 0:
            return previous.bloom_type, previous.bloom_text
        bloom = BloomFilter.parse(
            previous.bloom_text,
            previous.bloom_type,
            "the base file",
            max_entries=options.bloom_max_entries,
        )
        bloom.add(inserted)
        return bloom.type_code, bloom.serialize()
    bloom = BloomFilter.create(
        type_code=options.bloom_type,
        entries=options.bloom_entries,
        fpp=options.bloom_fpp,
        max_entries=options.bloom_max_entries,
    )
    bloom.add(keys())
    return bloom.type_code, bloom.serialize()


def _key_range(
    keys: Callable[[], pa.ChunkedArray],
    previous: BaseFileFooter | None,
    inserted: pa.Array | None,
) -> tuple[str, str] | None:
    """The least and the greatest key of a file, in the order of their bytes; None without keys."""
    low = high = None
    # Other writers have ranges in other orders: Java compares the halves of surrogate pairs.
    if previous is not None and previous.checksums is not None:
        low, high = previous.min_key, previous.max_key
    if low is None or high is None:
        ends = pc.min_max(keys()).as_py()
        return None if ends["min"] is None else (ends["min"], ends["max"])
    if inserted is None or len(inserted) == 0:
        return low, high
    # Python compares texts by code points, which is the order of their bytes.
    ends = pc.min_max(inserted).as_py()
    return min(low, ends["min"]), max(high, ends["max"])


def read_footer(source: RangeReader, *, misplaced: bool = False) -> BaseFileFooter:
    """Read what the footer of a base file says.

    Args:
        source: the file.
        misplaced: whether it may be a file that belongs elsewhere.

    Raises:
        CorruptFileError: no Parquet file, a damaged footer, or that of another file.
    """
    metadata = read_metadata(source, misplaced=misplaced)
    try:
        entries = metadata.metadata or {}
        return BaseFileFooter(
            bloom_text=entries.get(BLOOM_ENTRY, entries.get(OLD_BLOOM_ENTRY)),
            bloom_type=entries.get(BLOOM_TYPE_ENTRY, SIMPLE.encode()).decode(),
            min_key=_text(entries.get(MIN_KEY)),
            max_key=_text(entries.get(MAX_KEY)),
            num_rows=metadata.num_rows,
            metadata=metadata,
            checksums=Checksums.of(entries),
        )
    except UnicodeDecodeError as error:
        raise CorruptFileError(source.name, source.size, f"damaged footer: {error}") from error


def read_metadata(source: RangeReader, *, misplaced: bool = False) -> pq.FileMetaData:
    """What the footer of a base file says, without a look at Hudi's entries in it.

    Args:
        source: the file.
        misplaced: whether it may be a file that belongs elsewhere.

    Raises:
        CorruptFileError: no Parquet file, a damaged footer, or that of another file.
    """
    start, length = find_footer(source)
    # Four bytes more stand in for the magic at the start of a file.
    data = source.read(start - 4, length + 12)
    check_footer(data[4:-8], source.name, start, misplaced=misplaced)
    try:
        return pq.read_metadata(pa.BufferReader(data))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CorruptFileError(source.name, start, f"damaged footer: {error}") from error


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def read_base_file(
    source: RangeReader,
    columns: Sequence[str] | None = None,
    *,
    footer: BaseFileFooter | None = None,
) -> pa.Table:
    """Read a base file.

    Args:
        source: the file.
        columns: names of the columns to read, in this order; those that the file does not have
            are left out. None for all.
        footer: the file's footer, if it was read before.

    Returns:
        The table with the types that the file stores, without metadata.

    Raises:
        CorruptFileError: the file is damaged.
    """
    if footer is None:
        footer = read_footer(source)
    table = read_columns(source, footer.metadata, columns)
    _check_names(table, source.name)
    return table


def read_columns(
    source: RangeReader,
    metadata: pq.FileMetaData,
    columns: Sequence[str] | None,
    groups: Sequence[int] | None = None,
) -> pa.Table:
    """Read a base file whose footer was read before.

    Args:
        source: the file.
        metadata: of its footer.
        columns: as `read_base_file` takes them.
        groups: numbers of the row groups to read; None for all.

    Raises:
        CorruptFileError: the file is damaged.
    """
    data = _checked(source, metadata, columns, groups)
    held: RangeReader
    if isinstance(data, bytes):
        held = BytesReader(name=source.name, data=data)
    else:
        held = HeldChunks(source, data.chunks)
    try:
        file = pq.ParquetFile(
            data if isinstance(data, CheckedFile) else pa.BufferReader(data),
            metadata=metadata,
            coerce_int96_timestamp_unit="us",
            pre_buffer=False,
        )
        known = file.schema_arrow.names
        if columns is not None:
            columns = [name for name in columns if name in known]
        wanted = known if columns is None else columns
        check_size(held, metadata, wanted, groups=groups)
        table = None
        if isinstance(held, BytesReader):
            table = read_inflated(held, metadata, wanted, groups)
        if table is None and groups is None:
            table = file.read(columns=columns, use_threads=False)
        elif table is None:
            table = file.read_row_groups(groups, columns=columns, use_threads=False)
    except FileNotFoundError:
        # It is gone, which the caller knows the reason of, and not damaged.
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CorruptFileError(source.name, 0, f"damaged Parquet: {error}") from error
    if columns is not None:
        table = table.select(columns)
    return table.cast(pa.schema([item.remove_metadata() for item in table.schema]))


def _checked(
    source: RangeReader,
    metadata: pq.FileMetaData,
    columns: Sequence[str] | None,
    groups: Sequence[int] | None,
) -> bytes | CheckedFile:
    """The file, or a file object for Arrow, whose column chunks were checked."""
    checksums = Checksums.of(metadata.metadata)
    chunks = column_chunks(metadata, columns, groups)
    in_memory = isinstance(source, BytesReader)
    if in_memory or (columns is None and groups is None) or source.size <= _WHOLE_READ:
        data = source.read(0, source.size)
        whole = memoryview(data)
        for chunk in chunks:
            bytes_ = whole[chunk.start : chunk.start + chunk.size]
            check_chunk(chunk, bytes_, checksums, source.name)
        return bytes(data)
    file = CheckedFile(source)
    for chunk in chunks:
        data = source.read(chunk.start, chunk.size)
        check_chunk(chunk, data, checksums, source.name)
        file.chunks[chunk.start] = data
    return file


def _check_names(table: pa.Table, name: str) -> None:
    """The first and last row must name the file; with virtual keys they may name none.

    A footer without statistics does not say it.
    """
    if FILE_NAME_COLUMN not in table.column_names or not table.num_rows:
        return
    column = table[FILE_NAME_COLUMN]
    for row in (0, table.num_rows - 1):
        try:
            found = column[row].as_py()
        except UnicodeDecodeError as error:
            raise CorruptFileError(name, 0, "its rows name a file by no UTF-8") from error
        if found and found != name.rpartition("/")[2]:
            detail = f"its rows are those of {found}: the file is in the wrong place"
            raise CorruptFileError(name, 0, detail)
