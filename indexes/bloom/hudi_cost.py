"""What both bloom indexes cost in Apache Hudi.

Key ranges are read from the footers of all files in reach. Every pair of a key and a file whose
range holds it is made twice, once to be counted, and shuffled and sorted by file, before a filter
is asked. Then each file with candidates is opened, its filter asked, and the keys that pass looked
for.
Source: HoodieBloomIndex, SparkHoodieBloomIndexHelper, HoodieKeyLookupHandle.
"""

from __future__ import annotations

from keymark.indexes.bloom.cost import bloom_tag, candidates
from keymark.indexes.shared.hudi_cost import key_heap, looked_up
from keymark.indexes.spec import TASKS, Equation, IndexCost
from keymark.indexes.workload import FILTER_BYTES, Workload, touched

RANGE_HEAP = 150
"""Bytes of a `BloomIndexFileInfo` in a JVM's heap, with the file's id, beside its two keys."""


def hudi_bloom_cost(*, is_global: bool) -> IndexCost:
    """The cost of the bloom index that asks all files, or those of a key's partition path."""

    def files(at: Workload) -> float:
        return at.files if is_global else at.files / at.partitions

    def tag(at: Workload, _mode: str) -> dict[str, float]:
        return bloom_tag(at, TASKS, files=files(at))

    def shuffle(at: Workload, _mode: str) -> dict[str, float]:
        pairs = candidates(at, files(at))
        return {"once": 1.0, "pairs": pairs, "keys": at.batch, "found": at.updates}

    def memory(at: Workload) -> float:
        """The ranges of all files in reach; a filter, as text and decoded; a file's own keys.

        Pairs that are shuffled are left out: Spark spills them.
        """
        reach = 1.0 if is_global else at.reach
        held = at.updates / max(touched(at.files, at.updates), 1.0)
        ranges = reach * at.files * (2 * key_heap(at) + RANGE_HEAP)
        return ranges + 2 * FILTER_BYTES + held * key_heap(at)

    return IndexCost(
        equations={
            "tag": Equation("tag/bloom", tag),
            "lookup": Equation("tag/bloom", lambda at, mode: looked_up(tag(at, mode))),
            "shuffle": Equation("shuffle/bloom", shuffle),
        },
        memory=memory,
        index_bytes=lambda at: at.files * FILTER_BYTES,
    )
