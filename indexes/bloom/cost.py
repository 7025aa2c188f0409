"""What both bloom indexes have in common: options, counters, and the cost of asking filters."""

from __future__ import annotations

from keymark.indexes.shared.cost import scan_memory, scan_weight
from keymark.indexes.spec import Equation, IndexCost, IndexOption, LookupCounter
from keymark.indexes.workload import FILTER_BYTES, Workload, touched

BLOOM_PRUNE = "hoodie.bloom.index.prune.by.ranges"
BLOOM_TREE = "hoodie.bloom.index.use.treebased.filter"
BLOOM_USE_METADATA = "hoodie.bloom.index.use.metadata"
BLOOM_BUCKETIZED = "hoodie.bloom.index.bucketized.checking"
BLOOM_KEYS_PER_BUCKET = "hoodie.bloom.index.keys.per.bucket"

OPTIONS = (
    IndexOption(name=BLOOM_PRUNE, default="true"),
    IndexOption(name=BLOOM_TREE, default="true"),
    IndexOption(name=BLOOM_USE_METADATA, default="false"),
    IndexOption(name=BLOOM_BUCKETIZED, default="true"),
    IndexOption(name=BLOOM_KEYS_PER_BUCKET, default="10000000", positive=True),
)
COUNTERS = (
    LookupCounter(name="files_read", title="base files read"),
    LookupCounter(name="candidates", title="pairs of key and file checked by filters"),
    LookupCounter(name="false_positives", title="filters that let a key pass for nothing"),
)
FOOTER_WEIGHT = 1 << 15
"""Bytes that are written in the time of a footer with a filter of Hudi's default size."""


def bloom_tag(at: Workload, mode: str, *, files: float) -> dict[str, float]:
    """Ranges of all files, filters of those with candidates, keys of those that hold some.

    `files` are those whose ranges are asked for a key.
    """
    pairs = candidates(at, files)
    held = touched(at.files, at.updates) if at.updates else 0.0
    return {
        f"once_{mode}": 1.0,
        "footers": (at.files + touched(at.files, pairs)) / at.cores,
        "pairs": pairs / at.cores,
        "rows": held / at.files * at.rows / at.cores,
        "keys": at.batch,
    }


def candidates(at: Workload, files: float) -> float:
    """Pairs of key and file whose range holds the key.

    Keys without order are in the range of every file. Keys that grow with time are in that of
    one file of each partition path; new ones are beyond all.
    """
    if at.ordered:
        return at.updates * min(files, at.partitions)
    return at.batch * files


def bloom_cost(*, is_global: bool) -> IndexCost:
    """The cost of the bloom index that asks all files, or those of a key's partition path."""

    def files(at: Workload) -> float:
        return at.files if is_global else at.files / at.partitions

    return IndexCost(
        equations={
            "tag": Equation(
                "tag/bloom", lambda at, mode: bloom_tag(at, mode, files=files(at)), scans=True
            ),
            # A key alone names no partition path.
            "lookup": Equation(
                "tag/bloom", lambda at, mode: bloom_tag(at, mode, files=at.files), scans=True
            ),
        },
        weight=lambda at: scan_weight(at) + at.files * FOOTER_WEIGHT,
        # A file's keys and its filter, as text and decoded.
        memory=lambda at: scan_memory(at) + 2 * FILTER_BYTES,
        index_bytes=lambda at: at.files * FILTER_BYTES,
    )
