"""Pages of a Parquet file as a file of their own, inflated, which Arrow decodes.

    file            gzip page | gzip page | gzip page | ...
    what is read    page | page | footer

ISA-L inflates gzip in half of the time that Arrow takes. Page headers and footer get the sizes and
offsets of the inflated pages; a column that is not wanted has no pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet.bounds import MOST_BYTES, MOST_RATIO, check_size
from keymark.table.format.parquet.column_chunks import column_chunks
from keymark.table.format.parquet.file_body import MAGIC, ROW_GROUPS, ROWS, FileBody, end_of_file
from keymark.table.format.parquet.footer_groups import (
    CHUNK_OFFSET,
    CODEC,
    COMPRESSED,
    DATA_PAGE,
    DICTIONARY_PAGE,
    FIRST_CHUNK,
    GROUP_ROWS,
    UNCOMPRESSED,
    VALUES,
    sizes_of_groups,
)
from keymark.table.format.parquet.page_scan import DATA_PAGE as OF_DATA
from keymark.table.format.parquet.page_scan import DICTIONARY_PAGE as OF_DICTIONARY
from keymark.table.format.parquet.page_scan import Page, scan_pages
from keymark.table.format.parquet.pages import inflate
from keymark.table.format.parquet.thrift import I64, LIST
from keymark.table.format.parquet.thrift_scan import RawFields, integer
from keymark.table.storage.storage import BytesReader

_CODEC_UNCOMPRESSED, _CODEC_GZIP = 0, 2
# Bytes that are inflated and decoded at a time, in whole columns.
_AT_ONCE = 64 << 20
# With Arrow's schema in the entries of a footer, columns are not of the types that Parquet tells.
_ARROW_SCHEMA = b"ARROW:schema"


@dataclass(frozen=True, slots=True)
class SomePages:
    """Pages of a file.

    Attributes:
        body: the file.
        pages: data pages of version 1 and dictionaries, those of a chunk beside each other, a
            dictionary before its data.
        chunks: for each value of `Page.chunk` the number of that column chunk in the footer.
        rows: how many rows of each row group they have, by its number; None for all.
    """

    body: FileBody
    pages: Sequence[Page]
    chunks: Sequence[int]
    rows: dict[int, int] | None = None

    @property
    def size(self) -> int:
        """Bytes of the pages, inflated."""
        return sum(page.uncompressed for page in self.pages)

    @property
    def too_large(self) -> bool:
        """Whether a file of its size cannot hold so much, so that its sizes are false."""
        return self.size > max(MOST_BYTES, MOST_RATIO * len(self.body.data))

    def column_of(self, page: Page) -> int:
        """The number of the leaf column of a page."""
        return self.chunks[page.chunk] % self.body.groups.shape[1]

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Their rows.

        Args:
            columns: the columns that they are of, by name.

        Raises:
            CorruptFileError: the pages are damaged, or too large.
        """
        name = self.body.name
        if self.too_large:
            detail = f"pages of {', '.join(columns)} would become {self.size:,} bytes in memory"
            raise CorruptFileError(name, self.pages[0].start, detail)
        data = self._inflated()
        try:
            file = pq.ParquetFile(
                pa.BufferReader(data), coerce_int96_timestamp_unit="us", pre_buffer=False
            )
            columns_of_file = self.body.groups.shape[1]
            groups = sorted({self.chunks[page.chunk] // columns_of_file for page in self.pages})
            check_size(BytesReader(name=name, data=data), file.metadata, columns, groups=groups)
            table = file.read_row_groups(groups, columns=list(columns), use_threads=False)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise CorruptFileError(name, 0, f"damaged Parquet: {error}") from error
        return table.select(columns)

    def _inflated(self) -> bytes:
        """The file of these pages."""
        body, groups = self.body, self.body.groups
        codecs = groups.of_chunks(CODEC)
        is_gzip = (codecs == _CODEC_GZIP).tolist()
        pieces: list[bytes | memoryview] = [MAGIC]
        at = len(MAGIC)
        sizes = np.zeros(len(codecs), np.int64)
        # By type of page, for each chunk the place of its first page; 0 where it has none.
        first = {kind: np.zeros(len(codecs), np.int64) for kind in (OF_DATA, OF_DICTIONARY)}
        for page in self.pages:
            chunk = self.chunks[page.chunk]
            parts = self._page(page) if is_gzip[chunk] else [body.data[page.start : page.end]]
            size = sum(map(len, parts))
            first[page.kind][chunk] = first[page.kind][chunk] or at
            sizes[chunk] += size
            pieces += parts
            at += size
        end = end_of_file(
            {**body.fields, **self._fields(first, sizes)}, {}, path=None, checksums=None
        )
        return b"".join([*pieces, end])

    def _page(self, page: Page) -> list[bytes | memoryview]:
        """A page with its header, inflated."""
        data = self.body.data
        zipped = data[page.page : page.end]
        raw = inflate(zipped, page.uncompressed, (self.body.name, page.page))
        head, rest = data[page.start : page.size_start], data[page.size_end : page.page]
        return [head, integer(len(raw)), rest, raw]

    def _fields(
        self, first: dict[int, npt.NDArray[np.int64]], sizes: npt.NDArray[np.int64]
    ) -> RawFields:
        """The fields of the footer that tell where pages are and how many rows they have."""
        groups, (count, columns) = self.body.groups, self.body.groups.shape
        codecs = groups.of_chunks(CODEC)
        chunks = {
            CODEC: np.where(codecs == _CODEC_GZIP, _CODEC_UNCOMPRESSED, codecs),
            UNCOMPRESSED: sizes,
            COMPRESSED: sizes,
            DATA_PAGE: np.maximum(first[OF_DATA], FIRST_CHUNK),
            DICTIONARY_PAGE: first[OF_DICTIONARY],
            CHUNK_OFFSET: np.zeros(count * columns, np.int64),
        }
        by_group = sizes.reshape(count, columns)
        totals = sizes_of_groups(by_group, by_group)
        fields: dict[int, tuple[int, bytes]] = {}
        if self.rows is not None:
            rows = np.array([self.rows.get(group, 0) for group in range(count)], np.int64)
            totals[GROUP_ROWS] = rows
            chunks[VALUES] = np.repeat(rows, columns)
            fields[ROWS] = (I64, integer(int(rows.sum())))
        data = groups.with_numbers(chunks, totals).data
        return {**fields, ROW_GROUPS: (LIST, data.tobytes())}


def read_inflated(
    source: BytesReader,
    metadata: pq.FileMetaData,
    columns: Sequence[str],
    groups: Sequence[int] | None,
) -> pa.Table | None:
    """Columns of a file whose pages are gzip.

    Args:
        source: the file, whose footer and column chunks were checked.
        metadata: of its footer.
        columns: names of top-level columns that it has.
        groups: numbers of row groups; None for all.

    Returns:
        The rows; None where only Arrow can read them: from pages of version 2 of the format, with
        checksums or in another codec.

    Raises:
        CorruptFileError: pages are damaged.
    """
    found = _wanted(source, metadata, columns, groups)
    if found is None or not found.pages or found.too_large:
        return None
    group = metadata.row_group(0)
    # The top-level column of each leaf.
    paths = [group.column(number).path_in_schema for number in range(metadata.num_columns)]
    owners = [path.partition(".")[0] for path in paths]
    parts = []
    for batch in _batches(found, columns, owners):
        pages = [page for page in found.pages if owners[found.column_of(page)] in batch]
        parts.append(replace(found, pages=pages).read([n for n in columns if n in batch]))
    if len(parts) == 1:
        return parts[0]
    by_name = {item.name: (item, part[item.name]) for part in parts for item in part.schema}
    schema = pa.schema([by_name[name][0] for name in columns])
    return pa.Table.from_arrays([by_name[name][1] for name in columns], schema=schema)


def _wanted(
    source: BytesReader,
    metadata: pq.FileMetaData,
    columns: Sequence[str],
    groups: Sequence[int] | None,
) -> SomePages | None:
    """The pages of columns; None if there is one that Arrow has to inflate."""
    # A name with a dot may be the path of a member of another column.
    doubtful = len(set(columns)) < len(columns) or any("." in name for name in columns)
    if doubtful or _ARROW_SCHEMA in (metadata.metadata or {}):
        return None
    chunks = list(column_chunks(metadata, columns, groups))
    if any(chunk.metadata.compression != "GZIP" for chunk in chunks):
        return None
    try:
        body = FileBody.of(source.data, source.name)
    except CorruptFileError:
        # Arrow says what is wrong, or knows better.
        return None
    starts = np.array([chunk.start for chunk in chunks], np.int64)
    ends = starts + np.array([chunk.size for chunk in chunks], np.int64)
    data = np.frombuffer(source.data, np.uint8)
    pages = scan_pages(data, starts, ends=ends, name=source.name)
    numbers = [chunk.number for chunk in chunks]
    has_dictionary = (body.groups.of_chunks(DICTIONARY_PAGE)[numbers] > 0).tolist()
    for page in pages:
        known = page.kind == OF_DATA or (page.kind == OF_DICTIONARY and has_dictionary[page.chunk])
        if not known or page.has_checksum:
            return None
    return SomePages(body, pages, numbers) if body.groups.movable else None


def _batches(found: SomePages, columns: Sequence[str], owners: Sequence[str]) -> Iterator[set[str]]:
    """Columns that are inflated at once."""
    sizes = dict.fromkeys(columns, 0)
    for page in found.pages:
        sizes[owners[found.column_of(page)]] += page.uncompressed
    batch: set[str] = set()
    total = 0
    for name, size in sizes.items():
        if batch and total + size > _AT_ONCE:
            yield batch
            batch, total = set(), 0
        batch.add(name)
        total += size
    yield batch
