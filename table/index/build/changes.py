"""Which record keys a file slice has and its predecessor has not, and the other way round."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.index.build.scan import record_keys
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.model import BaseFile
from keymark.table.storage.storage import Storage


def key_changes(
    storage: Storage, old: BaseFile | None, new: BaseFile | None, stored: StoredKeys
) -> tuple[pa.Array, pa.Array]:
    """The record keys that came and those that went between two slices of a file group.

    Args:
        storage: the table's storage.
        old: the earlier slice; None for none, so that all keys came.
        new: the later slice; None for none, so that all keys went.
        stored: how to get the keys of stored rows.

    Returns:
        Keys in `new` but not in `old`, and keys in `old` but not in `new`, in the order of their
        files.

    Raises:
        CorruptFileError: a file is damaged, or a row in it has no key.
    """
    before, after = _keys(storage, old, stored), _keys(storage, new, stored)
    return _without(after, before), _without(before, after)


def _keys(storage: Storage, file: BaseFile | None, stored: StoredKeys) -> pa.ChunkedArray:
    chunks = [] if file is None else list(record_keys(storage, file, stored))
    return pa.chunked_array(chunks, pa.string())


def _without(keys: pa.ChunkedArray, others: pa.ChunkedArray) -> pa.Array:
    """Keys that are not among the others."""
    kept = keys.filter(pc.invert(pc.is_in(keys, value_set=others)))
    return pa.concat_arrays(kept.chunks or [pa.array([], pa.string())])
