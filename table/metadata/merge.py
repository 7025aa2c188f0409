"""The cells of a file group, merged from its sources while these stream by.

Newer replaces older: of each key the newest source decides, and a delete there takes the key away.
That is the rule of the record index (HoodieMetadataPayload.preCombine of two record-index records);
records of `files` and `column_stats` combine in ways of their own.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.format.hfile.reader import HFileReader
from keymark.table.format.hfile.runs import merge_runs
from keymark.table.format.hfile.strings import from_arrow
from keymark.table.format.kernels.order import key_order


def merged(sources: Sequence[HFileReader | pa.Array]) -> Iterator[tuple[pa.Array, pa.Array]]:
    """The live cells of a file group, in key order.

    About one block of each source is in memory. Every step takes all cells up to the smallest key
    that ends one of these blocks, so that no key is still to come below it.

    Args:
        sources: newest first: puts (HFiles) and deletes (in any order).

    Yields:
        Keys and their values, both binary, never empty.
    """
    return merged_batches(
        [(_sorted_batches(source), isinstance(source, HFileReader)) for source in sources]
    )


Batches = Iterator[tuple[pa.Array, pa.Array]]
"""Keys (pa.binary), ascending and each once, and a value for each; no batch is empty."""


def merged_batches(sources: Sequence[tuple[Batches, bool]]) -> Batches:
    """The cells of several sources in key order; of equal keys the first source's one decides.

    Args:
        sources: of each its batches, and whether these are puts, else deletes. All values are of
            one type.

    Yields:
        Keys and their values, never empty.
    """
    heads = [_Head(batches, puts) for batches, puts in sources]
    heads = [head for head in heads if head.advance()]
    while heads:
        bound = min(head.last for head in heads)
        keys, values = _newest([head.take(bound) for head in heads])
        if len(keys):
            yield keys, values
        heads = [head for head in heads if head.taken < len(head.keys) or head.advance()]


def side_by_side(left: Batches, right: Batches) -> Iterator[tuple[Cells, Cells]]:
    """The cells of two sources step by step: of both, all cells up to the same key.

    Yields:
        Cells of either, one of which may be none.
    """
    heads = [_Head(left, puts=True), _Head(right, puts=True)]
    more = [head.advance() for head in heads]
    while any(more):
        bound = min(head.last for head, left_over in zip(heads, more, strict=True) if left_over)
        first, second = (
            head.take(bound) if left_over else _NO_CELLS
            for head, left_over in zip(heads, more, strict=True)
        )
        yield first, second
        more = [
            left_over and (head.taken < len(head.keys) or head.advance())
            for head, left_over in zip(heads, more, strict=True)
        ]


def _sorted_batches(source: HFileReader | pa.Array) -> Iterator[tuple[pa.Array, pa.Array]]:
    if isinstance(source, HFileReader):
        yield from source.scan()
    elif len(source):
        unique = pc.unique(source.cast(pa.binary()))
        keys = unique.take(pa.array(key_order(unique)))
        yield keys, pa.nulls(len(keys), pa.binary())


@dataclass(slots=True)
class _Head:
    """The batch of a source that is being merged.

    Attributes:
        batches: those after it.
        puts: whether its cells are puts, else deletes.
        keys: its keys, ascending.
        values: its values.
        last: the last of its keys.
        taken: how many of its cells went into the merge.
    """

    batches: Iterator[tuple[pa.Array, pa.Array]]
    puts: bool
    keys: Any = None
    values: Any = None
    last: bytes = b""
    taken: int = 0

    def advance(self) -> bool:
        """Go to the next batch; False at the end."""
        self.keys, self.values = next(self.batches, (None, None))
        if self.keys is None:
            return False
        self.last, self.taken = self.keys[-1].as_py(), 0
        return True

    def take(self, bound: bytes) -> Cells:
        """The next cells with keys up to `bound`."""
        start = self.taken
        if self.last <= bound:
            self.taken = len(self.keys)
        else:
            self.taken = bisect.bisect_right(self.keys, bound, start, key=lambda key: key.as_py())
        count = self.taken - start
        return Cells(self.puts, self.keys.slice(start, count), self.values.slice(start, count))


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells of one source, ascending: all puts or all deletes."""

    puts: bool
    keys: pa.Array
    values: pa.Array


_NO_CELLS = Cells(True, pa.array([], pa.binary()), pa.array([], pa.binary()))  # noqa: FBT003


def _newest(runs: list[Cells]) -> tuple[pa.Array, pa.Array]:
    """The cell of each key from the first run that has it, without the deletes."""
    runs = [run for run in runs if len(run.keys)]
    if len(runs) == 1 and runs[0].puts:
        return runs[0].keys, runs[0].values
    keys = pa.concat_arrays([run.keys for run in runs])
    values = pa.concat_arrays([run.values for run in runs])
    bounds = np.cumsum([0, *(len(run.keys) for run in runs)], dtype=np.int64)
    puts = np.array([run.puts for run in runs])
    chosen = np.empty(len(keys), np.int64)
    count = merge_runs(from_arrow(keys, "key"), bounds, puts, chosen)
    rows = pa.array(chosen[:count])
    return keys.take(rows), values.take(rows)
