"""Runs of ascending keys, merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from keymark.table.format.hfile.kernels import compare
from keymark.table.format.kernels.compiled import kernel, maker

if TYPE_CHECKING:
    from keymark.table.format.hfile.cells import Strings


@kernel
def _before(keys: Strings, left: int, right: int) -> Any:
    """Whether one key is below another; of equal keys, the one that comes first in `keys`."""
    data, offsets = keys
    start, other = offsets[left], offsets[right]
    order = compare(data, start, offsets[left + 1] - start, data, other, offsets[right + 1] - other)
    return order < 0 or (order == 0 and left < right)


@kernel
def _sift(keys: Strings, heap: npt.NDArray[np.int64], root: int) -> None:
    """Let a row sink in a heap of rows until none below it comes before it."""
    row = heap[root, 0]
    run = heap[root, 1]
    while 2 * root + 1 < len(heap):
        child = 2 * root + 1
        if child + 1 < len(heap) and _before(keys, heap[child + 1, 0], heap[child, 0]):
            child += 1
        if not _before(keys, heap[child, 0], row):
            break
        heap[root, 0] = heap[child, 0]
        heap[root, 1] = heap[child, 1]
        root = child
    heap[root, 0] = row
    heap[root, 1] = run


@maker
def merge_runs(
    keys: Strings,
    bounds: npt.NDArray[np.int64],
    live: npt.NDArray[np.bool_],
    chosen: npt.NDArray[np.int64],
) -> int:
    """Merge ascending runs of keys; of equal keys the first run's one decides.

    Args:
        keys: the runs, one behind the other.
        bounds: where each run starts and where the last one ends; no run is empty.
        live: whether the keys of each run are wanted in the result.
        chosen: out, as many as keys: rows of the result, by key.

    Returns:
        How many rows were chosen.
    """
    data, offsets = keys
    heap = np.empty((bounds.size - 1, 2), np.int64)
    for run in range(len(heap)):
        heap[run, 0] = bounds[run]
        heap[run, 1] = run
    for root in range(len(heap) // 2 - 1, -1, -1):
        _sift(keys, heap, root)
    count = 0
    last = -1
    while len(heap):
        row, run = heap[0]
        start = offsets[row]
        length = offsets[row + 1] - start
        if last < 0 or compare(
            data, offsets[last], offsets[last + 1] - offsets[last], data, start, length
        ):
            last = row
            if live[run]:
                chosen[count] = row
                count += 1
        heap[0, 0] += 1
        if heap[0, 0] == bounds[run + 1]:
            heap[0] = heap[len(heap) - 1]
            heap = heap[: len(heap) - 1]
        if len(heap):
            _sift(keys, heap, 0)
    return count
