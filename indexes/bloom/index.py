"""The bloom indexes: key ranges, then bloom filters, then the keys of the files left.

    1  smallest and largest key of each file      ->  candidates among the keys asked
    2  bloom filter of each file with candidates  ->  keys that may be there
    3  key column, where such keys are left       ->  keys that are there

Ranges and filters are in the footers of base files and, where the table keeps them and the options
say so, in the metadata table. A file without range or without filter, as other writers leave them,
is a candidate for every key. Source: HoodieBloomIndex, HoodieGlobalBloomIndex of Hudi 0.15.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.indexes.bloom.cost import (
    BLOOM_BUCKETIZED,
    BLOOM_KEYS_PER_BUCKET,
    BLOOM_PRUNE,
    BLOOM_TREE,
    BLOOM_USE_METADATA,
    FOOTER_WEIGHT,
)
from keymark.indexes.bloom.key_ranges import (
    Candidate,
    Range,
    SortedKeys,
    Spans,
    count_of,
    keys_in,
    parts,
    places_in,
)
from keymark.indexes.bloom.metadata import filter_by_metadata, ranges_in_metadata
from keymark.indexes.bloom.spec import SPEC
from keymark.indexes.shared.cost import KEY_WEIGHT
from keymark.indexes.shared.key_proof import KeyCandidates, prove
from keymark.indexes.shared.key_scan import (
    ABSENT,
    file_weight,
    locations,
    positions_in,
    stored_keys,
)
from keymark.indexes.shared.lookup_index import LookupIndex
from keymark.indexes.shared.scope import Scope, scopes
from keymark.indexes.spec import IndexSpec
from keymark.table.format.bloom.text import BloomText
from keymark.table.format.parquet.footer_keys import read_footer_keys
from keymark.table.index.protocol import IndexContext
from keymark.table.layout.model import BaseFile
from keymark.table.properties.config import TableConfig
from keymark.table.read.arrow import reading_base
from keymark.table.storage.storage import RangeReader, Storage

_Numbers = npt.NDArray[np.int64]


class BloomIndex(LookupIndex):
    """Partition-local and exact; needs nothing but the base files."""

    spec: ClassVar[IndexSpec] = SPEC
    name: ClassVar[str] = SPEC.name

    def lookup(
        self, keys: pa.Array, context: IndexContext, partitions: pa.Array | None = None
    ) -> pa.Table:
        """Locate keys by ranges, filters and key columns of the files that may hold them."""
        asked = scopes(len(keys), context.snapshot, None if self.is_global else partitions)
        candidates = _candidates(keys, asked, context)
        context.stats.candidates += sum(candidate.count for candidate in candidates)
        found: list[tuple[Candidate, _Numbers]] = []
        if context.options.flag(BLOOM_USE_METADATA) and not context.config.virtual_keys:
            passed, candidates = filter_by_metadata(candidates, context)
            found += _check_keys(keys, passed, context)
        found += _check_by_footers(candidates, context)
        numbers = np.full(len(keys), ABSENT, np.int64)
        # A key that is in several files belongs to the first: it is assigned last.
        for candidate, places in sorted(found, key=lambda answer: -answer[0].number):
            numbers[candidate.asked.rows[places]] = candidate.number
        return locations(numbers, context)


@dataclass(frozen=True, slots=True)
class RangeProbe:
    """A file whose range is asked for."""

    storage: Storage
    file: BaseFile


@dataclass(frozen=True, slots=True)
class FooterProbe:
    """A file, and some of its candidates among sorted keys.

    The keys are the same object in all probes of a partition, so a Spark task gets them once.
    """

    storage: Storage
    config: TableConfig
    file: BaseFile
    keys: pa.Array
    spans: Spans


@dataclass(frozen=True, slots=True)
class BloomAnswer:
    """Places of the keys that the file holds; how many passed its filter, whether it has one."""

    places: _Numbers
    passed: int
    filtered: bool


def probe_range(work: RangeProbe) -> Range:
    """The key range in a footer; a task that a runner distributes."""
    with reading_base(work.storage, work.file) as source:
        known = read_footer_keys(source, bloom=False)
    return known.min_key, known.max_key


def probe_footer(work: FooterProbe) -> BloomAnswer:
    """Find the candidates that a file holds; a task that a runner distributes."""
    with reading_base(work.storage, work.file) as source:
        return _probe(work, source)


def _probe(work: FooterProbe, source: RangeReader) -> BloomAnswer:
    places, keys = places_in(work.spans), keys_in(work.keys, work.spans)
    # With virtual keys a filter is of keys that are ignored.
    known = None if work.config.virtual_keys else read_footer_keys(source)
    filtered = known is not None and known.bloom_text is not None
    if known is not None and known.bloom_text is not None:
        bloom = BloomText.parse(known.bloom_text, known.bloom_type, work.file.path)
        may = bloom.contains(keys)
        places, keys = places[may], keys.filter(pa.array(may))
    if not len(places):
        return BloomAnswer(places, 0, filtered)
    held = positions_in(stored_keys(source, work.config), keys)
    return BloomAnswer(places[held], len(places), filtered)


def _candidates(keys: pa.Array, asked: Sequence[Scope], context: IndexContext) -> list[Candidate]:
    """The keys that each file may hold by its range; files with none are left out."""
    by_search = context.options.flag(BLOOM_TREE)
    ranges = _ranges([number for scope in asked for number in scope.files], context)
    found = []
    for scope in asked:
        wanted = SortedKeys.of(keys, scope.rows)
        within = wanted.within([ranges[number] for number in scope.files], by_search=by_search)
        found += [
            Candidate(number, wanted, spans)
            for number, spans in zip(scope.files, within, strict=True)
            if spans
        ]
    return found


def _ranges(numbers: Sequence[int], context: IndexContext) -> dict[int, Range]:
    """The range of each file, by its number."""
    if not context.options.flag(BLOOM_PRUNE) or context.config.virtual_keys:
        return dict.fromkeys(numbers, (None, None))
    files = context.snapshot.files
    known: dict[int, Range] = {}
    if context.options.flag(BLOOM_USE_METADATA):
        known = ranges_in_metadata(numbers, context)
    left = [number for number in numbers if number not in known]
    probes = [RangeProbe(context.storage, files[number]) for number in left]
    weights = [FOOTER_WEIGHT] * len(probes)
    read = context.runner.run(probe_range, probes, weights=weights)
    context.stats.ranges_from_metadata += len(known)
    context.stats.ranges_from_footers += len(left)
    return known | dict(zip(left, read, strict=True))


def _check_by_footers(
    candidates: Sequence[Candidate], context: IndexContext
) -> list[tuple[Candidate, _Numbers]]:
    """The places of the candidates that are there, found by filters in footers.

    A file with very many candidates is checked in parts, so that no task lasts much longer than
    the others (BucketizedBloomCheckPartitioner of Hudi).
    """
    options, files = context.options, context.snapshot.files
    size = sys.maxsize
    if options.flag(BLOOM_BUCKETIZED):
        size = options.integer(BLOOM_KEYS_PER_BUCKET)
    checks = [(each, spans) for each in candidates for spans in parts(each.spans, size)]
    probes = [
        FooterProbe(
            storage=context.storage,
            config=context.config,
            file=files[candidate.number],
            keys=candidate.asked.keys,
            spans=spans,
        )
        for candidate, spans in checks
    ]
    weights = [
        FOOTER_WEIGHT + file_weight(probe.file) + KEY_WEIGHT * count_of(probe.spans)
        for probe in probes
    ]
    answers = context.runner.run(probe_footer, probes, weights=weights)
    stats = context.stats
    stats.false_positives += sum(answer.passed - len(answer.places) for answer in answers)
    owners = [candidate.number for candidate, _ in checks]
    stats.files_read += _distinct(owners, [answer.passed > 0 for answer in answers])
    stats.filters_from_footers += _distinct(owners, [answer.filtered for answer in answers])
    return [
        (candidate, answer.places) for (candidate, _), answer in zip(checks, answers, strict=True)
    ]


def _distinct(numbers: Sequence[int], chosen: Sequence[bool]) -> int:
    return len({number for number, taken in zip(numbers, chosen, strict=True) if taken})


def _check_keys(
    keys: pa.Array, passed: Sequence[tuple[Candidate, _Numbers]], context: IndexContext
) -> list[tuple[Candidate, _Numbers]]:
    """The places that passed a filter and whose keys the file really has."""
    if not passed:
        return []
    counts = [len(places) for _, places in passed]
    rows = [candidate.asked.rows[places] for candidate, places in passed]
    numbers = np.repeat(np.array([each.number for each, _ in passed], np.int64), counts)
    asked = KeyCandidates.anywhere(np.concatenate(rows), numbers)
    held = prove(keys, asked, context).held
    parts = np.split(held, np.cumsum(counts)[:-1])
    return [
        (candidate, places[part]) for (candidate, places), part in zip(passed, parts, strict=True)
    ]
