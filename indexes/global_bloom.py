"""The global bloom index: key ranges, then bloom filters, then the keys of the files left.

    1  footer of every file: its smallest and largest key  ->  candidate pairs (key, file)
    2  bloom filter of each candidate file                 ->  pairs that may be
    3  key column of the files that still have pairs       ->  pairs that are

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
import pyarrow.compute as pc

from indexes.key_scan import first_files, locations, positions_in, probe_weight, read_keys
from table.config import TableConfig
from table.format.bloom import BloomFilter
from table.format.hashing import string_buffers
from table.format.parquet import read_footer
from table.model import BaseFile
from table.options import Options
from table.read.arrow import open_base
from table.storage import Storage
from table.write.index import IndexContext

_Numbers = npt.NDArray[np.int64]

# A footer with a filter of Hudi's default size takes the time in which so many bytes are written.
_FOOTER_WEIGHT = 1 << 15
# UTF-8 bytes from here on begin a character on which the orders of UTF-8 and UTF-16 disagree.
_FIRST_DISPUTED = 0xEE


@dataclass(frozen=True, slots=True)
class FooterRead:
    """A base file whose key range is wanted."""

    storage: Storage
    file: BaseFile


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Smallest and largest key of a file; None where the footer does not say."""

    low: str | None
    high: str | None


@dataclass(frozen=True, slots=True)
class SortedKeys:
    """The keys asked (pa.Array of string), in byte order up to `ordered`.

    The keys from `ordered` on are ranked differently by Java's strings, which is how Hudi's Avro
    writer finds the range in a footer: no range excludes them.
    """

    keys: Any
    ordered: int

    def range_of(self, bounds: KeyRange) -> tuple[int, int]:
        """Start and end of the ordered keys within the bounds."""
        rows = range(self.ordered)

        def text(row: int) -> str:
            key: str = self.keys[row].as_py()
            return key

        start = 0 if bounds.low is None else bisect_left(rows, bounds.low, key=text)
        end = len(rows) if bounds.high is None else bisect_right(rows, bounds.high, key=text)
        return start, max(start, end)


@dataclass(frozen=True, slots=True)
class BloomProbe:
    """A file, and its candidates among the keys: rows `start` to `end`, and all disputed ones.

    All probes hold the same `asked`, so that a Spark task receives it once.
    """

    storage: Storage
    file: BaseFile
    asked: SortedKeys
    start: int
    end: int

    @property
    def candidates(self) -> int:
        """Number of candidates."""
        return self.end - self.start + len(self.asked.keys) - self.asked.ordered


@dataclass(frozen=True, slots=True)
class BloomAnswer:
    """Rows of the keys that the file holds, and how many the filter let pass."""

    rows: _Numbers
    passed: int


def read_range(work: FooterRead) -> KeyRange:
    """Step 1 for one file; a task that a runner distributes."""
    footer = read_footer(open_base(work.storage, work.file))
    return KeyRange(footer.min_key, footer.max_key)


def probe_bloom(work: BloomProbe) -> BloomAnswer:
    """Steps 2 and 3 for one file; a task that a runner distributes."""
    asked = work.asked
    rows = np.concatenate(
        [np.arange(work.start, work.end), np.arange(asked.ordered, len(asked.keys))]
    )
    candidates = asked.keys.take(pa.array(rows))
    footer = read_footer(open_base(work.storage, work.file))
    if footer.bloom_text is not None:
        bloom = BloomFilter.parse(footer.bloom_text, footer.bloom_type, work.file.path)
        may = bloom.contains(candidates)
        rows, candidates = rows[may], candidates.filter(pa.array(may))
    if not len(rows):
        return BloomAnswer(rows, 0)
    held = positions_in(read_keys(work.storage, work.file), candidates)
    return BloomAnswer(rows[held], len(rows))


class GlobalBloomIndex:
    """Global and exact; needs nothing but the base files."""

    name: ClassVar[str] = "global_bloom"
    is_global: ClassVar[bool] = True
    is_exact: ClassVar[bool] = True

    def tag(self, keys: Any, partitions: Any, context: IndexContext) -> Any:
        """Locate distinct keys; see table.write.index.Index."""
        return self.lookup(keys, context, partitions)

    def lookup(self, keys: Any, context: IndexContext, partitions: Any = None) -> Any:
        """Locate keys by ranges, filters and key columns."""
        del partitions
        order, asked = _sorted_keys(keys)
        files = context.snapshot.files if len(order) else ()
        footers = [FooterRead(context.storage, file) for file in files]
        ranges = context.runner.run(read_range, footers, weights=[_FOOTER_WEIGHT] * len(files))
        probes, numbers = [], []
        for number, (file, bounds) in enumerate(zip(files, ranges, strict=True)):
            probe = BloomProbe(context.storage, file, asked, *asked.range_of(bounds))
            if probe.candidates:
                probes.append(probe)
                numbers.append(number)
        weights = [_FOOTER_WEIGHT + probe_weight(p.file, p.candidates) for p in probes]
        answers = context.runner.run(probe_bloom, probes, weights=weights)
        stats = context.stats
        stats.candidates += sum(probe.candidates for probe in probes)
        stats.false_positives += sum(answer.passed - len(answer.rows) for answer in answers)
        stats.files_read += sum(answer.passed > 0 for answer in answers)
        found = [(n, order[a.rows]) for n, a in zip(numbers, answers, strict=True)]
        return locations(first_files(len(keys), found), context)

    def buckets(self, keys: Any, config: TableConfig, options: Options) -> None:
        """Any file group will do."""
        del keys, config, options


def _sorted_keys(keys: Any) -> tuple[_Numbers, SortedKeys]:
    """The keys as they are searched, and the row of each in `keys`; empty keys, never there, go."""
    offsets, text = string_buffers(keys)
    disputed = np.concatenate([[0], np.cumsum(text[: offsets[-1]] >= _FIRST_DISPUTED)])
    is_disputed = disputed[offsets[1:]] > disputed[offsets[:-1]]
    order = pc.sort_indices(keys).to_numpy().astype(np.int64)
    order = order[(offsets[1:] > offsets[:-1])[order]]
    flags = is_disputed[order]
    order = np.concatenate([order[~flags], order[flags]])
    return order, SortedKeys(keys.take(pa.array(order)), int((~flags).sum()))
