"""HFile bytes -> values of many keys at once, or all entries. See `docs/formats/hfile.md`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.errors import CorruptFileError
from keymark.table.format.coding import encode_int32
from keymark.table.format.hashes.hashing import shards
from keymark.table.format.hfile import kernels
from keymark.table.format.hfile.block import BlockKind, BlockReader
from keymark.table.format.hfile.cache import BlockCache, Part
from keymark.table.format.hfile.file_info import IDENTITY, decode_file_info, identity
from keymark.table.format.hfile.index import DataBlockRef, IndexNode, data_blocks, read_root
from keymark.table.format.hfile.strings import concat, from_arrow, to_arrow
from keymark.table.format.hfile.trailer import TRAILER_SIZE, read_trailer
from keymark.table.storage.storage import RangeReader

_KEY_VALUE_VERSION_WITH_MVCC = encode_int32(1)
_CELL_BYTES_MIN = 20
_ROW_LENGTH_AT = 8
_ROW_AT = 10
_LAYOUT = "layout"
_LAST_KEY = "hfile.LASTKEY"


@dataclass(frozen=True, slots=True)
class _Layout:
    """What must be known of a file to read its cells.

    Attributes:
        root: the root of its index.
        mvcc: bytes at the end of each cell.
    """

    root: IndexNode
    mvcc: int

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return int(self.root.payload.nbytes + self.root.entries.nbytes)


@dataclass(frozen=True, slots=True)
class Owner:
    """The file group that an HFile was found in, the n-th of `groups`, and its instant."""

    file_id: str
    instant: str
    number: int
    groups: int


class HFileReader:
    """One HFile, read by ranges: the trailer on construction, everything else when it is needed.

    Args:
        source: the file; a log file if the HFile is the content of a log block.
        offset: where the HFile starts in it.
        length: its length; by default up to the end of the file.
        cache: keeps what lookups decode, once it was checked; a scan leaves it alone.
        scope: what tells the file from others of its path in that cache, the table it belongs to
            and the instant that wrote it.
        owner: what the file must belong to.

    Attributes:
        entry_count: how many keys there are.
        blocks_decoded: how many data blocks were read and decompressed so far.

    Raises:
        CorruptFileError: bytes are not as the format wants them; from every method.
        UnsupportedTableError: compressed by a codec that is not read.
    """

    def __init__(  # noqa: PLR0913  a part of a file, what keeps it, and what must be in it
        self,
        source: RangeReader,
        *,
        offset: int = 0,
        length: int | None = None,
        cache: BlockCache | None = None,
        scope: str = "",
        owner: Owner | None = None,
    ) -> None:
        self._blocks = BlockReader(source, offset, length)
        self._trailer = read_trailer(self._blocks)
        self._blocks.codec = self._trailer.codec
        self.entry_count = self._trailer.entry_count
        self.blocks_decoded = 0
        self._cache = cache
        self._owner = owner
        self._identity = (scope, *self._blocks.identity) if cache is not None else ()

    @cached_property
    def file_info(self) -> Mapping[str, bytes]:
        """What the file says about itself: `schema`, `minRecordKey`, `hfile.LASTKEY`, ..."""
        at = self._trailer.file_info_offset
        payload = self._blocks.read(at, BlockKind.FILE_INFO)
        return decode_file_info(payload, self._blocks.name, self._blocks.place(at))

    @cached_property
    def _layout(self) -> _Layout:
        # HBase expects an MVCC byte at the end of each cell only if the file announces it.
        mvcc = self.file_info.get("KEY_VALUE_VERSION") == _KEY_VALUE_VERSION_WITH_MVCC
        layout = _Layout(read_root(self._blocks, self._trailer), int(mvcc))
        if self._owner is not None:
            self._check_owner(self._owner, layout.root)
        return layout

    def _check_owner(self, owner: Owner, root: IndexNode) -> None:
        """Refuse the HFile of another file group or instant.

        Files of ours name theirs. Of other files the first and last key must have the hash of their
        file group.
        """
        named = self.file_info.get(IDENTITY)
        if named is not None and named != identity(owner.file_id, owner.instant):
            self._fail(0, f"this is {named.decode(errors='replace')}, in the wrong place")
        if named is not None or owner.groups == 1 or not root.entries.shape[1]:
            return
        last = self.file_info.get(_LAST_KEY, b"")
        # Two bytes of length, the row, and what releases of Hudi put behind it or not.
        ends = [root.row(0), last[2 : 2 + int.from_bytes(last[:2], "big")]]
        try:
            keys = pa.array([end.decode() for end in ends if end], pa.string())
        except UnicodeDecodeError:
            self._fail(0, "a key that is not UTF-8")
        if (shards(keys, owner.groups) != owner.number).any():
            self._fail(0, f"its keys do not belong to file group {owner.file_id}")

    def _recall(self, at: int | str) -> Any:
        """The part of the file at `at` that an earlier lookup kept, None if there is none."""
        return None if self._cache is None else self._cache.get((*self._identity, at))

    def _keep(self, at: int | str, part: Part) -> None:
        if self._cache is not None:
            self._cache.put((*self._identity, at), part)

    def _recalled_layout(self) -> _Layout:
        layout: _Layout | None = self._recall(_LAYOUT)
        if layout is None:
            layout = self._layout
            self._keep(_LAYOUT, layout)
        return layout

    def lookup(self, keys: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
        """Find many keys; only blocks that can hold one are read, each once.

        Args:
            keys: pa.string() or pa.binary() or their large variants, sorted by UTF-8 bytes,
                unique, without nulls.

        Returns:
            Which keys were found, as positions in `keys`, and their values as a pa.binary() array
            in the same order.
        """
        wanted = from_arrow(keys, "key")
        if kernels.check_order(wanted) != kernels.NO_FAULT:
            raise ValueError("keys must be sorted by UTF-8 bytes and unique")
        found: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]
        values: list[pa.Array] = [pa.array([], pa.binary())]
        layout = self._recalled_layout()
        refs = list(data_blocks(self._blocks, layout.root, wanted))
        recalled = [self._recall(ref.at) for ref in refs]
        self._blocks.expect(
            (ref.at, ref.size) for ref, kept in zip(refs, recalled, strict=True) if kept is None
        )
        for ref, kept in zip(refs, recalled, strict=True):
            block = self._data_block(ref) if kept is None else kept
            hits = np.empty((3, ref.last - ref.first), np.int64)
            part = wanted.part(ref.first, ref.last)
            fault, count, row, row_length = kernels.join_cells(
                block, layout.mvcc, part, hits, kept is None
            )
            if kept is None:
                self._check_rows(ref, block, fault, slice(row, row + row_length))
                self._keep(ref.at, block)
            found.append(hits[0, :count] + ref.first)
            values.append(to_arrow(block, hits[1, :count], hits[2, :count]))
        # What was fetched together is not needed any more.
        self._blocks.expect(())
        return np.concatenate(found), concat(values)

    def cuts(self, keys: pa.Array, parts: int) -> list[int]:
        """Where keys are cut into parts that are in as many blocks each.

        Args:
            keys: as `lookup` takes them.
            parts: the most parts.

        Returns:
            Ascending positions between 0 and the number of keys; no block has keys of two parts, as
            far as the root of the index names blocks.
        """
        bounds = self._recalled_layout().root.spread(from_arrow(keys, "key"))
        asked = np.flatnonzero(np.diff(bounds))
        parts = min(parts, len(asked))
        return [int(bounds[asked[len(asked) * part // parts]]) for part in range(1, parts)]

    def scan(self) -> Iterator[tuple[pa.Array, pa.Array]]:
        """All entries in key order: per data block its keys and values, both pa.binary()."""
        for block, cells in self.cells():
            yield to_arrow(block, cells[0], cells[1]), to_arrow(block, cells[2], cells[3])

    def cells(
        self, part: int = 0, parts: int = 1
    ) -> Iterator[tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]]:
        """All entries in key order, where they lie.

        Args:
            part: which of the file's parts to read, from 0 on.
            parts: into how many it is cut, each of about as many blocks.

        Yields:
            Per data block its payload, and four rows: where each key starts, its length, where its
            value starts, its length.
        """
        total = 0
        refs = list(data_blocks(self._blocks, self._layout.root, None))
        for ref in refs[len(refs) * part // parts : len(refs) * (part + 1) // parts]:
            block = self._data_block(ref)
            cells = np.empty((4, block.size // _CELL_BYTES_MIN), np.int64)
            fault, count = kernels.split_cells(block, self._layout.mvcc, cells)
            row, row_length = cells[:2, count - 1] if count else (0, 0)
            self._check_rows(ref, block, fault, slice(row, row + row_length))
            total += count
            yield block, cells[:, :count]
        if parts == 1 and total != self.entry_count:
            detail = f"{total} entries, the trailer says {self.entry_count}"
            self._fail(self._trailer.load_on_open_offset, detail)

    def index_keys(self) -> Iterator[bytes]:
        """The key in each data block's index entry: its first, or one made up below that."""
        for ref in data_blocks(self._blocks, self._layout.root, None):
            yield ref.row

    def payloads(self) -> Iterator[bytes]:
        """The uncompressed bytes of every block, of whatever kind, in the order of the file."""
        yield from self._blocks.walk(self._blocks.length - TRAILER_SIZE)

    def _data_block(self, ref: DataBlockRef) -> npt.NDArray[np.uint8]:
        """The payload of a data block, a read-only array."""
        self.blocks_decoded += 1
        payload = self._blocks.read(ref.at, BlockKind.DATA, ref.size)
        if len(payload) < _CELL_BYTES_MIN:
            self._fail(ref.at, f"a data block of {len(payload)} bytes holds no cell")
        return np.frombuffer(payload, np.uint8)

    def _check_rows(
        self, ref: DataBlockRef, block: npt.NDArray[np.uint8], fault: int, last: slice
    ) -> None:
        """Refuse a block whose cells do not parse, do not ascend, or belong elsewhere."""
        if fault != kernels.NO_FAULT:
            self._fail(ref.at, f"the cell at byte {fault} is malformed or out of order")
        length = int(block[_ROW_LENGTH_AT]) << 8 | int(block[_ROW_LENGTH_AT + 1])
        first_row = block[_ROW_AT : _ROW_AT + length].tobytes()
        if first_row < ref.row or (ref.upper is not None and block[last].tobytes() >= ref.upper):
            self._fail(ref.at, "rows of the block leave the range that the index gives it")

    def _fail(self, at: int, detail: str) -> NoReturn:
        raise CorruptFileError(self._blocks.name, self._blocks.place(at), detail)
