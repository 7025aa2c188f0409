"""The global bloom index: key ranges, then bloom filters, then the keys of the files left.

    for each file, in one task:
    1  smallest and largest key in the footer   ->  candidates among the keys asked
    2  bloom filter in the footer               ->  keys that may be there
    3  key column, where such keys are left     ->  keys that are there

A file without range or without filter, as other writers leave them, is a candidate for every key.
Source: HoodieGlobalBloomIndex, HoodieBloomIndex of Hudi 0.15.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indexes.global_index import GlobalIndex
from indexes.key_scan import file_weight, first_files, locations, positions_in, read_keys
from table.config import TableConfig
from table.format.bloom import BloomFilter
from table.format.hashing import string_buffers
from table.format.order import key_order
from table.format.parquet import read_footer
from table.model import BaseFile
from table.read.arrow import open_base
from table.storage import Storage
from table.write.index import IndexContext

_Numbers = npt.NDArray[np.int64]

# A footer with a filter of Hudi's default size takes the time in which so many bytes are written.
_FOOTER_WEIGHT = 1 << 15
# UTF-8 bytes from here on begin a character on which the orders of UTF-8 and UTF-16 disagree.
_FIRST_DISPUTED = 0xEE


@dataclass(frozen=True, slots=True)
class SortedKeys:
    """The keys asked (pa.Array of string), in byte order up to `ordered`.

    The keys from `ordered` on are ranked differently by Java's strings, which is how Hudi's Avro
    writer finds the range in a footer: no range excludes them.
    """

    keys: Any
    ordered: int

    def between(self, low: str | None, high: str | None) -> _Numbers:
        """Rows of the keys that a file with that range may hold; None for a bound not known."""
        rows = range(self.ordered)

        def text(row: int) -> str:
            key: str = self.keys[row].as_py()
            return key

        start = 0 if low is None else bisect_left(rows, low, key=text)
        end = len(rows) if high is None else bisect_right(rows, high, key=text)
        return np.concatenate([np.arange(start, end), np.arange(self.ordered, len(self.keys))])


@dataclass(frozen=True, slots=True)
class BloomProbe:
    """A file, and the keys asked: the same object in all probes, so a Spark task gets it once."""

    storage: Storage
    config: TableConfig
    file: BaseFile
    asked: SortedKeys


@dataclass(frozen=True, slots=True)
class BloomAnswer:
    """Rows of the keys that the file holds; how many were candidates, and passed the filter."""

    rows: _Numbers
    candidates: int
    passed: int


def probe_bloom(work: BloomProbe) -> BloomAnswer:
    """Find the keys of one file; a task that a runner distributes."""
    footer = read_footer(open_base(work.storage, work.file))
    rows = work.asked.between(footer.min_key, footer.max_key)
    candidates = len(rows)
    keys = work.asked.keys.take(pa.array(rows))
    if candidates and footer.bloom_text is not None:
        bloom = BloomFilter.parse(footer.bloom_text, footer.bloom_type, work.file.path)
        may = bloom.contains(keys)
        rows, keys = rows[may], keys.filter(pa.array(may))
    if not len(rows):
        return BloomAnswer(rows, candidates, 0)
    held = positions_in(read_keys(work.storage, work.config, work.file), keys)
    return BloomAnswer(rows[held], candidates, len(rows))


class GlobalBloomIndex(GlobalIndex):
    """Global and exact; needs nothing but the base files."""

    name: ClassVar[str] = "global_bloom"

    def lookup(self, keys: Any, context: IndexContext, partitions: Any = None) -> Any:
        """Locate keys by ranges, filters and key columns."""
        del partitions
        order, asked = _sorted_keys(keys)
        files = context.snapshot.files if len(order) else ()
        probes = [BloomProbe(context.storage, context.config, file, asked) for file in files]
        weights = [_FOOTER_WEIGHT + file_weight(file) + 16 * len(order) for file in files]
        answers = context.runner.run(probe_bloom, probes, weights=weights)
        stats = context.stats
        stats.candidates += sum(answer.candidates for answer in answers)
        stats.false_positives += sum(answer.passed - len(answer.rows) for answer in answers)
        stats.files_read += sum(answer.passed > 0 for answer in answers)
        found = [(number, order[answer.rows]) for number, answer in enumerate(answers)]
        return locations(first_files(len(keys), found), context)


def _sorted_keys(keys: Any) -> tuple[_Numbers, SortedKeys]:
    """The keys as they are searched, and the row of each in `keys`; empty keys, never there, go."""
    offsets, text = string_buffers(keys)
    disputed = np.concatenate([[0], np.cumsum(text[: offsets[-1]] >= _FIRST_DISPUTED)])
    is_disputed = disputed[offsets[1:]] > disputed[offsets[:-1]]
    order = key_order(keys)
    order = order[(offsets[1:] > offsets[:-1])[order]]
    flags = is_disputed[order]
    order = np.concatenate([order[~flags], order[flags]])
    return order, SortedKeys(keys.take(pa.array(order)), int((~flags).sum()))
