"""Keys that come more than once: the last of them counts, as the later row does."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def last_of_each(keys: pa.Array) -> npt.NDArray[np.int64]:
    """Positions (ascending) of the last of each key."""
    codes = keys.dictionary_encode().indices.to_numpy()
    last = np.zeros(len(keys), np.int64)
    last[codes] = np.arange(len(keys))
    return np.unique(last[codes])


def without(keys: pa.Array, others: pa.Array) -> pa.Array:
    """The keys, or values, that are not among the others."""
    return keys.filter(pc.invert(pc.is_in(keys, value_set=others)))


def sorted_last(keys: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Distinct keys in order, and the position of each's last."""
    order = pc.sort_indices(
        pa.table({"k": keys, "n": np.arange(len(keys))}),
        sort_keys=[("k", "ascending"), ("n", "ascending")],
    )
    in_order, positions = keys.take(order), order.to_numpy().astype(np.int64)
    last = np.ones(len(keys), bool)
    last[:-1] = pc.not_equal(in_order[1:], in_order[:-1]).to_numpy(zero_copy_only=False)
    if last.all():
        return in_order, positions
    return in_order.filter(pa.array(last)), positions[last]
