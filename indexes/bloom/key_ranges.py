"""Which of the keys asked lie within the key range of which file.

All ends of ranges are sorted among the keys once. The keys within a range are then neighbours:

    asked, sorted     a    c    f    k    m    x
    file 1 [b, g]          |-------|               keys 1 to 3
    file 2 [g, n]                  |---------|     keys 3 to 5

n files and m keys take O((n + m) log (n + m)) time, and at most two numbers for each file.
Hudi's IntervalTreeBasedIndexFileFilter searches a tree of the ranges for each key, which ends in
the same pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.format.hashes.hashing import string_buffers
from keymark.table.format.kernels.order import key_order

_Numbers = npt.NDArray[np.int64]
Range = tuple[str | None, str | None]
"""Smallest and largest key of a file; None where it is not known."""

Spans = tuple[tuple[int, int], ...]
"""Stretches of sorted keys, first and behind the last."""

# UTF-8 bytes from here on begin a character on which the orders of UTF-8 and UTF-16 disagree.
_FIRST_DISPUTED = 0xEE


@dataclass(frozen=True, slots=True)
class SortedKeys:
    """Keys asked, in byte order up to `ordered`.

    The keys from `ordered` on are ranked differently by Java's strings, which is how Hudi's Avro
    writer finds the range in a footer: no range excludes them.

    Attributes:
        keys: the keys, without empty ones, which no file holds.
        rows: the place of each among the keys asked.
    """

    keys: pa.Array
    rows: _Numbers
    ordered: int

    @classmethod
    def of(cls, keys: pa.Array, rows: _Numbers) -> SortedKeys:
        """Sort those of the keys asked that are in some rows."""
        asked = keys.take(pa.array(rows))
        offsets, text = string_buffers(asked)
        disputed = np.concatenate([[0], np.cumsum(text[: offsets[-1]] >= _FIRST_DISPUTED)])
        is_disputed = disputed[offsets[1:]] > disputed[offsets[:-1]]
        order = key_order(asked)
        order = order[(offsets[1:] > offsets[:-1])[order]]
        flags = is_disputed[order]
        order = np.concatenate([order[~flags], order[flags]])
        return cls(asked.take(pa.array(order)), rows[order], int((~flags).sum()))

    def within(self, ranges: Sequence[Range], *, by_search: bool) -> list[Spans]:
        """Which keys may be in a file of each range.

        Args:
            ranges: those of some files.
            by_search: whether to sort the ends among the keys, or to compare each range with all
                keys (hoodie.bloom.index.use.treebased.filter); the answers are the same.
        """
        keys = self.keys.slice(0, self.ordered)
        lows = pa.array([low or "" for low, _ in ranges], pa.string())
        highs = pa.array([high or "" for _, high in ranges], pa.string())
        count = _by_search if by_search else _by_list
        starts, stops = count(keys, lows, highs)
        stops[[high is None for _, high in ranges]] = self.ordered
        tail = (self.ordered, len(self.keys))
        return [
            tuple(span for span in (inside, tail) if span[0] < span[1])
            for inside in zip(starts.tolist(), stops.tolist(), strict=True)
        ]


def _by_search(keys: pa.Array, lows: pa.Array, highs: pa.Array) -> tuple[_Numbers, _Numbers]:
    """How many keys are below each low end, and not above each high end."""
    # Equal texts stay in this order: a key is within a range that begins or ends with it.
    order = key_order(pa.concat_arrays([lows, keys, highs]))
    is_key = (order >= len(lows)) & (order < len(lows) + len(keys))
    before = np.empty(len(order), np.int64)
    before[order] = np.cumsum(is_key)
    return before[: len(lows)], before[len(lows) + len(keys) :]


def _by_list(keys: pa.Array, lows: pa.Array, highs: pa.Array) -> tuple[_Numbers, _Numbers]:
    """The same, by comparing each end with each key."""
    below = [pc.sum(pc.less(keys, low), min_count=0).as_py() for low in lows]
    reached = [pc.sum(pc.less_equal(keys, high), min_count=0).as_py() for high in highs]
    return np.array(below, np.int64), np.array(reached, np.int64)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file, by its number in the snapshot, and the keys that it may hold."""

    number: int
    asked: SortedKeys
    spans: Spans

    @property
    def count(self) -> int:
        """How many keys."""
        return count_of(self.spans)


def count_of(spans: Spans) -> int:
    """How many keys are in some spans."""
    return sum(stop - start for start, stop in spans)


def parts(spans: Spans, size: int) -> list[Spans]:
    """Spans cut into pieces that have at most a given number of keys."""
    if count_of(spans) <= size:
        return [spans]
    return [
        ((at, min(at + size, stop)),) for start, stop in spans for at in range(start, stop, size)
    ]


def keys_in(keys: pa.Array, spans: Spans) -> pa.Array:
    """The keys of some spans."""
    slices = [keys.slice(start, stop - start) for start, stop in spans]
    return slices[0] if len(slices) == 1 else pa.concat_arrays(slices)


def places_in(spans: Spans) -> _Numbers:
    """The places of the keys of some spans, in the same order."""
    return np.concatenate([np.arange(start, stop) for start, stop in spans])
