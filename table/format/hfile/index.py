"""Index blocks: which data block holds which keys. See `docs/formats/hfile.md`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from keymark.table.errors import CorruptFileError
from keymark.table.format.coding import encode_hadoop_vint, encode_int32, encode_int64
from keymark.table.format.hfile import kernels
from keymark.table.format.hfile.block import BlockKind, BlockReader
from keymark.table.format.hfile.cells import Strings
from keymark.table.format.hfile.trailer import Trailer

_ROOT_ENTRY_BYTES_MIN = 15
_LEAF_ENTRY_BYTES_MIN = 18
_MID_KEY_BYTES = 16


def encode_entry(offset: int, size: int, key: bytes) -> bytes:
    """One entry of a root index: offset and size on disk of a block, its first key."""
    return encode_int64(offset) + encode_int32(size) + encode_hadoop_vint(len(key)) + key


@dataclass(frozen=True, slots=True)
class DataBlockRef:
    """A data block as the index describes it.

    Attributes:
        at: its offset.
        size: its bytes on disk.
        row: not above any of its rows.
        upper: above all of its rows; None for the last block.
        first: number of the first of the sought keys that it can hold.
        last: number of the first sought key behind those.
    """

    at: int
    size: int
    row: bytes
    upper: bytes | None
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class IndexNode:
    """The parsed entries of one index block, rows ascending.

    Attributes:
        payload: the block's bytes.
        entries: 4 x count: block offset, block size, row start, row length.
        below: levels of index blocks under this one; 0 if the entries are data blocks.
    """

    payload: npt.NDArray[np.uint8]
    entries: npt.NDArray[np.int64]
    below: int

    def row(self, entry: int) -> bytes:
        """The row of an entry; not above any row of its block, above all rows before that."""
        start, length = self.entries[2:, entry]
        return bytes(self.payload[start : start + length].tobytes())

    def spread(self, keys: Strings) -> npt.NDArray[np.int64]:
        """Which keys belong to which entry: see `kernels.spread_keys`."""
        bounds = np.empty(self.entries.shape[1] + 1, np.int64)
        kernels.spread_keys(keys, self.payload, self.entries, bounds)
        return bounds


def read_root(blocks: BlockReader, trailer: Trailer) -> IndexNode:
    """The root of the data index."""
    at = trailer.load_on_open_offset
    payload = np.frombuffer(blocks.read(at, BlockKind.ROOT_INDEX), np.uint8)
    count = trailer.data_index_count
    if count * _ROOT_ENTRY_BYTES_MIN > payload.size:
        _fail(blocks, at, f"{count} index entries in {payload.size} bytes")
    entries = np.empty((4, count), np.int64)
    end = kernels.split_root_index(payload, entries)
    # HBase puts the place of the middle key behind the entries of an index of several levels.
    rest = payload.size - end
    if end < 0 or (rest != 0 and (rest != _MID_KEY_BYTES or trailer.index_levels == 1)):
        _fail(blocks, at, f"{count} index entries end at {end} of {payload.size} bytes")
    return _node(blocks, at, payload, entries, trailer.index_levels - 1)


def data_blocks(
    blocks: BlockReader, node: IndexNode, keys: Strings | None, upper: bytes | None = None
) -> Iterator[DataBlockRef]:
    """The data blocks that can hold any of the keys, in order, each once.

    Args:
        blocks: where index blocks below `node` are read from.
        node: an index block.
        keys: sorted and unique; None for all blocks.
        upper: above all rows of the blocks under `node`; None if there are none behind them.
    """
    count = node.entries.shape[1]
    bounds = np.zeros(count + 1, np.int64) if keys is None else node.spread(keys)
    wanted = range(count) if keys is None else np.flatnonzero(np.diff(bounds)).tolist()
    for entry in wanted:
        at, size = (int(number) for number in node.entries[:2, entry])
        row = node.row(entry)
        limit = node.row(entry + 1) if entry + 1 < count else upper
        first, last = int(bounds[entry]), int(bounds[entry + 1])
        if not node.below:
            yield DataBlockRef(at, size, row, limit, first, last)
            continue
        child = _read_child(blocks, node, entry, limit)
        part = None if keys is None else keys.part(first, last)
        for ref in data_blocks(blocks, child, part, limit):
            yield replace(ref, first=ref.first + first, last=ref.last + first)


def _read_child(
    blocks: BlockReader, parent: IndexNode, entry: int, upper: bytes | None
) -> IndexNode:
    at, size = (int(number) for number in parent.entries[:2, entry])
    kind = BlockKind.LEAF_INDEX if parent.below == 1 else BlockKind.INTERMEDIATE_INDEX
    payload = np.frombuffer(blocks.read(at, kind, size), np.uint8)
    count = int.from_bytes(payload[:4].tobytes(), "big")
    if not 1 <= count <= payload.size // _LEAF_ENTRY_BYTES_MIN:
        _fail(blocks, at, f"{count} index entries in {payload.size} bytes")
    entries = np.empty((4, count), np.int64)
    end = kernels.split_leaf_index(payload, entries)
    if end != payload.size:
        _fail(blocks, at, f"{count} index entries end at {end} of {payload.size} bytes")
    node = _node(blocks, at, payload, entries, parent.below - 1)
    # Ranges of siblings are disjoint, so no block can hang below two entries.
    if node.row(0) < parent.row(entry) or (upper is not None and node.row(count - 1) >= upper):
        _fail(blocks, at, "the rows of an index block leave the range of its entry")
    return node


def _node(
    blocks: BlockReader,
    at: int,
    payload: npt.NDArray[np.uint8],
    entries: npt.NDArray[np.int64],
    below: int,
) -> IndexNode:
    fault = kernels.narrow_to_rows(payload, entries)
    if fault != kernels.NO_FAULT:
        _fail(blocks, at, f"index entry {fault} is malformed or out of order")
    entries.flags.writeable = False
    return IndexNode(payload, entries, below)


def _fail(blocks: BlockReader, at: int, detail: str) -> NoReturn:
    raise CorruptFileError(blocks.name, blocks.place(at), detail)
