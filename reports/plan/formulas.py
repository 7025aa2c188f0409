"""The cost model: for each index and phase, the amounts of work that its time is made of.

A time is the sum of amounts, each times a constant that calibration runs tell (`fit.py`). What the
amounts are follows from what the code does; docs/cost_model.md derives them. Sources: RFC-8 (a
lookup of M keys in n shards takes K + (M/n)*c); HoodieGlobalSimpleIndex, HoodieBloomIndex,
BucketIdentifier and UpsertPartitioner of Hudi 0.15; the modules `indexes` and `table/write`.

An equation's name is `<quantity>/<family>`: `tag/bloom` is of all indexes that ask filters. It
covers both modes: `tasks`, where Spark does the work, and `threads`, where it stays in the writer's
process. What is done to a row or a key is the same in both, so they share its constant; what
starting costs is each mode's own (`once_tasks`, `once_threads`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from indexes.workload import FILTER_BYTES, SMALL_FILE_BYTES, Workload, touched

Amounts = Mapping[str, float]
Formula = Callable[[Workload, str, str], dict[str, float]]
"""Amounts of a workload, an index of the family, and a mode."""

TASKS, THREADS = "tasks", "threads"
BLOCK_BYTES = 1 << 20
"""`hoodie.hfile.block.size`."""
ENTRY_BYTES = 68
"""Of a decoded mapping beside its key (key 36 bytes: 104 in all; measured)."""
_SLOT_BYTES = 4
_PROBE_BYTES = 1 << 20
_PROBE_KEY_BYTES = 16
_KEY_SHARE = 8
_WORK_PER_KEY_BYTE = 8
_FOOTER_BYTES = 1 << 15
_JOIN_ROW_BYTES = 36
_RESULT_BYTES = 60
_NEW_ROW_BYTES = 100


def record_tag(at: Workload, index: str, mode: str) -> dict[str, float]:
    """RFC-8's K + (M/n)*c, with the blocks that n lookups of M/n keys decode at most once."""
    del index
    lanes = min(at.shards, at.cores)
    return {
        f"once_{mode}": 1.0,
        f"shards_{mode}": at.shards / lanes,
        "block_mb": decoded_bytes(at) / lanes / 1e6,
        "keys": at.batch / lanes,
    }


def decoded_bytes(at: Workload) -> float:
    """Bytes of index blocks that hold one of the keys: B*(1 - e^(-M/B)) blocks."""
    shard = at.rows / at.shards * (at.key_bytes + ENTRY_BYTES)
    blocks = max(1.0, shard / BLOCK_BYTES)
    asked = touched(at.shards, at.batch)
    return asked * touched(blocks, at.batch / asked) * min(shard, BLOCK_BYTES)


def simple_tag(at: Workload, index: str, mode: str) -> dict[str, float]:
    """Scan the key column of the files in reach, and join.

    Spark sorts both sides, N*log N. In threads every probe has a hash table of the keys asked.
    Opening a file by Spark's reader is other work than by a thread's.
    """
    reach = reach_of(at, index)
    rows = reach * at.rows / at.cores
    made = {f"once_{mode}": 1.0, f"files_{mode}": reach * at.files / at.cores}
    if mode == TASKS:
        return made | {"sorted": rows * math.log2(max(rows, 2.0)), "keys_tasks": at.batch}
    weight = reach * at.files * at.file_bytes / _KEY_SHARE
    probes = max(1.0, weight / max(_PROBE_BYTES, _PROBE_KEY_BYTES * at.batch))
    return made | {"rows": rows, "keys_threads": at.batch * max(1.0, probes / at.cores)}


def bloom_tag(at: Workload, index: str, mode: str) -> dict[str, float]:
    """Ranges of all files, filters of those with candidates, keys of those that hold some.

    Ranges leave for a random key all files (`global_bloom`), or those of its partition.
    """
    pairs = candidates(at, at.files if index == "global_bloom" else at.files / at.partitions)
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


def bucket_tag(at: Workload, index: str, mode: str) -> dict[str, float]:
    """A hash for each key, and a table of the file groups; always in the writer's process."""
    del index, mode
    return {"once": 1.0, "files": at.files, "keys": at.batch}


def hbase_tag(at: Workload, index: str, mode: str) -> dict[str, float]:
    """Round trips of `hoodie.index.hbase.get.batch.size` keys each; the server does the rest.

    A key that is there costs it an answer of three cells, one that is not ends at a row filter.
    """
    del index
    return {f"once_{mode}": 1.0, "found": at.updates, "absent": at.inserts}


def bucket_lookup(at: Workload, index: str, mode: str) -> dict[str, float]:
    """The key column of all files that a key's bucket has, in every partition path."""
    del index
    return {f"once_{mode}": 1.0, "files": at.buckets / at.cores, "rows": at.rows / at.cores}


def record_index(at: Workload, index: str, mode: str) -> dict[str, float]:
    """A log block for each shard that gets a new key."""
    del index
    hit = touched(at.shards, at.inserts) if at.inserts else 0.0
    lanes = min(at.shards, at.cores)
    return {f"once_{mode}": 1.0, f"shards_{mode}": hit / lanes, "keys": at.inserts}


def hbase_index(at: Workload, index: str, mode: str) -> dict[str, float]:
    """Puts of the new keys, as many a second as the options let pass."""
    del index
    return {f"once_{mode}": 1.0, "keys": at.inserts}


def rewritten(at: Workload) -> float:
    """Base files that an upsert rewrites: F*(1 - e^(-u/F)), and those that take its new rows."""
    updated = touched(at.files, at.updates) if at.updates else 0.0
    if not at.inserts or at.file_bytes >= SMALL_FILE_BYTES:
        return updated
    chosen = min(touched(at.partitions, at.inserts), at.files)
    return updated + chosen * (1 - updated / at.files)


def write(at: Workload, index: str, mode: str) -> dict[str, float]:
    """Copy on write: all rows of a file for the first one that changes in it.

    Every file costs its filter besides, however few its rows are. A bucket's new rows, too, go
    where their hash says.
    """
    by_hash = index == "bucket"
    files = touched(at.buckets, at.batch) if by_hash else rewritten(at)
    rows = files * at.rows / (at.buckets if by_hash else at.files)
    return {
        f"once_{mode}": 1.0,
        "files": files / at.cores,
        "row_mb": rows * at.row_bytes / at.cores / 1e6,
        "keys": at.batch,
    }


def around(at: Workload, index: str, mode: str) -> dict[str, float]:
    """The rest of a write: read the table's state, combine the batch, commit, clean."""
    del index
    return {f"once_{mode}": 1.0, "files": at.files, "keys": at.batch}


def join_shuffle(at: Workload, index: str, mode: str) -> dict[str, float]:
    """Bytes that a shuffled join moves: every key in reach and every key asked, once."""
    del mode
    kind = "ordered" if at.ordered else "random"
    scale = at.key_bytes / 36.0
    return {
        "once": 1.0,
        f"rows_{kind}": reach_of(at, index) * at.rows * scale,
        f"keys_{kind}": at.batch * scale,
    }


def record_bytes(at: Workload, index: str, mode: str) -> dict[str, float]:
    """The record index on storage."""
    del index, mode
    kind = "ordered" if at.ordered else "random"
    return {"shards": at.shards, f"rows_{kind}": at.rows * (at.key_bytes + 12) / 48}


def record_bootstrap(at: Workload, index: str, mode: str) -> dict[str, float]:
    """Every key is read once, sorted within its shard and written."""
    del index
    lanes = min(at.shards, at.cores)
    return {
        f"once_{mode}": 1.0,
        f"shards_{mode}": at.shards / lanes,
        "rows": at.rows / at.cores,
    }


def bucket_bootstrap(at: Workload, index: str, mode: str) -> dict[str, float]:
    """A table that is to be laid out by buckets is written anew."""
    del index
    return {f"once_{mode}": 1.0, "files": at.buckets / at.cores, "rows": at.rows / at.cores}


def reach_of(at: Workload, index: str) -> float:
    """Share of the files that an index without ranges has to look into."""
    return at.reach if index == "simple" else 1.0


_JOINED = ("global_simple", "simple")
_FILTERED = ("global_bloom", "bloom")
_ALL = ("record", *_JOINED, *_FILTERED, "bucket", "hbase")
_FAMILIES: Mapping[str, Mapping[str, tuple[Sequence[str], Formula]]] = {
    "tag": {
        "record": (("record",), record_tag),
        "simple": (_JOINED, simple_tag),
        "bloom": (_FILTERED, bloom_tag),
        "bucket": (("bucket",), bucket_tag),
        "hbase": (("hbase",), hbase_tag),
    },
    "lookup": {"bucket": (("bucket",), bucket_lookup)},
    "index": {"record": (("record",), record_index), "hbase": (("hbase",), hbase_index)},
    "write": {"all": (_ALL, write)},
    "around": {"all": (_ALL, around)},
    "shuffle": {"simple": (_JOINED, join_shuffle)},
    "index_bytes": {"record": (("record",), record_bytes)},
    "bootstrap": {
        "record": (("record",), record_bootstrap),
        "bucket": (("bucket",), bucket_bootstrap),
    },
}
"""Who shares the constants of a quantity."""

EQUATIONS: Mapping[str, Formula] = MappingProxyType(
    {
        f"{quantity}/{family}": formula
        for quantity, group in _FAMILIES.items()
        for family, (_, formula) in group.items()
    }
)
"""The formulas by name; each names its amounts."""

# A lookup is tagging's work; HBase's is fitted with it, as it asks another share of known keys.
_NAMES = {
    (quantity, index): f"{quantity}/{family}"
    for quantity, group in _FAMILIES.items()
    for family, (indexes, _) in group.items()
    for index in indexes
} | {("lookup", "hbase"): "tag/hbase"}


def name_of(quantity: str, index: str) -> str | None:
    """The equation that says a quantity of an index; None where it is nothing."""
    return _NAMES.get((quantity, index))


def indexes_of(equation: str) -> tuple[str, ...]:
    """The indexes that share an equation."""
    return tuple(dict.fromkeys(index for (_, index), name in _NAMES.items() if name == equation))


def other(mode: str) -> str:
    """The other mode."""
    return THREADS if mode == TASKS else TASKS


def mode_of(quantity: str, index: str, at: Workload) -> str:
    """Who does a piece of work: Spark from `keymark.local.bytes` on, as the product decides."""
    return TASKS if weight(quantity, index, at) >= at.local_bytes else THREADS


def weight(quantity: str, index: str, at: Workload) -> float:
    """Bytes of work, as the table's runner counts them (`table/write/runner.py`)."""
    if quantity == "index":
        return at.inserts * (at.key_bytes + _RESULT_BYTES)
    if quantity in ("write", "around"):
        return rewritten(at) * at.file_bytes + at.batch * _NEW_ROW_BYTES
    if quantity == "bootstrap":
        return at.rows * at.row_bytes
    scanned = at.files * at.file_bytes / _KEY_SHARE
    by_index = {
        "record": _WORK_PER_KEY_BYTE * at.batch * (at.key_bytes + _SLOT_BYTES),
        "global_simple": scanned,
        "simple": at.reach * scanned,
        "global_bloom": scanned + at.files * _FOOTER_BYTES,
        "bloom": scanned + at.files * _FOOTER_BYTES,
        "bucket": scanned,
        "hbase": at.batch * (at.key_bytes + _SLOT_BYTES),
    }
    return by_index.get(index, 0.0)


def is_broadcast(at: Workload) -> bool:
    """Whether Spark sends the keys asked to all tasks instead of shuffling the table's keys."""
    return at.batch * _JOIN_ROW_BYTES < at.broadcast_bytes


def memory_bytes(index: str, at: Workload) -> float:
    """What the largest task holds, from first principles: keys asked, and what they meet.

    record: a shard's keys and one block; simple: a sorted piece of the join, in threads a hash
    table; bloom: a file's keys and its filter, as text and
    decoded; bucket and HBase: the keys.
    """
    asked = at.batch * (at.key_bytes + 3 * _SLOT_BYTES)
    file_keys = at.rows / at.files * (at.key_bytes + 2 * _SLOT_BYTES)
    held = {
        "record": asked / at.shards + BLOCK_BYTES,
        "global_simple": asked + file_keys,
        "simple": asked + file_keys,
        "global_bloom": asked + file_keys + 2 * FILTER_BYTES,
        "bloom": asked + file_keys + 2 * FILTER_BYTES,
    }
    return held.get(index, asked)


def ceil_to(value: float, step: int) -> int:
    """The next multiple of `step`, at least one of them."""
    return max(1, math.ceil(value / step)) * step
