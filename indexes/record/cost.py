"""What the record index costs in Keymark: tables of the metadata table, in shards.

A lookup of M keys in n shards is n lookups of M/n sorted keys: K + (M/n)*c. Source: RFC-8.
"""

from __future__ import annotations

import math
from dataclasses import replace

from keymark.indexes.shared.cost import SLOT_BYTES, asked_bytes, one_file
from keymark.indexes.spec import Equation, IndexCost
from keymark.indexes.workload import BLOCK_BYTES, SHARD_BYTES, Workload, touched

WORK_PER_KEY_BYTE = 8
"""A lookup spends about this many bytes of work per byte of key.

Below the runner's limit it stays in the writer's process, where it costs less than the start of a
Spark job.
"""
ENTRY_BYTES = 68
"""Bytes of a decoded mapping beside its key (measured; with a key of 36 bytes 104 in all)."""
INFLATION = 4
"""A mapping has 26 bytes on storage, if few files are named, and 104 in a decoded block."""
WINDOW_MAPPINGS = 310
"""Mappings within gzip's window of 32 KiB, by their decoded bytes."""
FAR_SHARED, FAR_OWN = 0.4, 1.3
"""How much longer a mapping is if none in gzip's window names the same file, as a share of a short
one: file ids that share a UUID, as those of one bulk insert do, and ids with a UUID of their own
(docs/results/index_size.md, at_size.md, mappings.md: 23 and 27.5 bytes with 220 and 1,000 files of
one load, 46 with 2,000 ids of their own)."""
GROWTH = 2.0
HUDI_MAPPING = 48
"""Bytes of a mapping by which Hudi chooses the file groups of an index that it builds
(HoodieTableMetadataUtil.estimateFileGroupCount)."""
BLOCK_CHOICES = (1 << 16, 1 << 18, BLOCK_BYTES)
"""Sizes of data blocks that are weighed. Below 64 KiB, HBase's own, a lookup reads as many blocks
and waits as long for the disk (docs/results/key_stores.md)."""
BLOCK_START_BYTES = 24 << 10
"""Bytes that are decoded in the time in which a block is found, read and checked."""
BLOCK_GAIN = 1.25
"""Another size than Hudi's is recommended if it takes this many times less work."""
SHORT_MAPPING = 21.2
"""Bytes on storage of a mapping with a key of 36 bytes, if few files are named (measured)."""
BLOCK_ENDS, AGAIN = 190, 35
"""Bytes on storage of a block beside its mappings, and of a file id that the block before has, too:
each block is compressed alone (measured: docs/results/key_stores.md)."""

PREFIX = "hoodie.metadata.record.index"
BLOCK_SIZE = "hoodie.hfile.block.size"


def tag(at: Workload, mode: str) -> dict[str, float]:
    """RFC-8's K + (M/n)*c, with the blocks that n lookups of M/n keys decode at most once."""
    return {
        f"once_{mode}": 1.0,
        f"shards_{mode}": at.shards / at.lanes,
        "block_mb": decoded_bytes(at) / at.lanes / 1e6,
        "keys": at.batch / at.lanes,
    }


def decoded_bytes(at: Workload) -> float:
    """Bytes of index blocks that hold one of the keys."""
    return decoded_blocks(at) * min(_shard_bytes(at), at.block_bytes)


def decoded_blocks(at: Workload) -> float:
    """Blocks that hold one of the keys: B*(1 - e^(-M/B)) of those of a shard."""
    blocks = max(1.0, _shard_bytes(at) / at.block_bytes)
    asked = touched(at.shards, at.batch)
    return asked * touched(blocks, at.batch / asked)


def _shard_bytes(at: Workload) -> float:
    """Bytes of a shard's decoded mappings."""
    return at.rows / at.shards * (at.key_bytes + ENTRY_BYTES)


def block_bytes(at: Workload) -> int:
    """Small blocks where a batch has few keys of each, Hudi's where it has keys in all of them."""
    work = {}
    for size in BLOCK_CHOICES:
        sized = replace(at, block_bytes=size)
        work[size] = decoded_bytes(sized) + BLOCK_START_BYTES * decoded_blocks(sized)
    best = min(work, key=lambda size: work[size])
    return best if work[BLOCK_BYTES] > BLOCK_GAIN * work[best] else BLOCK_BYTES


def index(at: Workload, mode: str) -> dict[str, float]:
    """A log block for each shard that gets a new key."""
    hit = touched(at.shards, at.inserts) if at.inserts else 0.0
    return {f"once_{mode}": 1.0, f"shards_{mode}": hit / at.lanes, "keys": at.inserts}


def index_bytes(at: Workload, _mode: str) -> dict[str, float]:
    """The record index on storage."""
    kind = "ordered" if at.ordered else "random"
    rows = at.rows * (at.key_bytes + 12) / 48
    return {"shards": at.shards, f"rows_{kind}": rows * _stored(at)}


def _stored(at: Workload) -> float:
    """How many times as long a mapping is as in a table of few files and in blocks of 1 MiB."""
    larger = _block_share(at) - _block_share(replace(at, block_bytes=BLOCK_BYTES))
    return _stretched(at) + larger / SHORT_MAPPING


def _block_share(at: Workload) -> float:
    """Bytes of a block's ends and of the file ids that it repeats, for each of its mappings.

    A mapping repeats a file id if one of the W mappings before it, gzip's window, has the id, but
    none of them in the same block. F*(1 - e^(-J/F)) - J*e^(-W/F) of a block's first J mappings do.
    """
    mappings = at.block_bytes / (at.key_bytes + ENTRY_BYTES)
    start = min(WINDOW_MAPPINGS, mappings)
    repeating = touched(at.files, start) - start * math.exp(-WINDOW_MAPPINGS / at.files)
    # Keys that grow with time name a file many times in a row, so that a block names one or two.
    again = 0.0 if at.ordered else AGAIN * repeating
    return (BLOCK_ENDS + again) / mappings


def _stretched(at: Workload) -> float:
    """How many times as long a mapping is as in a table of few files.

    gzip leaves a file's id out if the same one stands within its window. Keys in random order name
    a file at random; keys that grow with time name it many times in a row.
    """
    if at.ordered:
        return 1.0
    far = (1 - 1 / max(1.0, at.files)) ** WINDOW_MAPPINGS
    return 1 + far * (FAR_SHARED if at.one_load else FAR_OWN)


def bootstrap(at: Workload, mode: str) -> dict[str, float]:
    """Every key is read once, sorted within its shard and written."""
    return {
        f"once_{mode}": 1.0,
        f"shards_{mode}": at.shards / at.lanes,
        "rows": at.rows / at.cores,
    }


def weight(at: Workload) -> float:
    """Bytes of work of a lookup."""
    return WORK_PER_KEY_BYTE * at.batch * (at.key_bytes + SLOT_BYTES)


def memory(at: Workload) -> float:
    """A shard's keys and one block."""
    return asked_bytes(at) / at.shards + at.block_bytes


def options(at: Workload) -> dict[str, str]:
    """As many shards as were predicted, and blocks of that size if it is not Hudi's."""
    blocks = {} if at.block_bytes == BLOCK_BYTES else {BLOCK_SIZE: str(int(at.block_bytes))}
    # What is built has more shards than the least, where Hudi thinks that its keys need them.
    is_least = GROWTH * at.rows / (SHARD_BYTES // HUDI_MAPPING) < at.shards
    most = max(at.shards, 10_000) if is_least else at.shards
    return {
        f"{PREFIX}.enable": "true",
        f"{PREFIX}.min.filegroup.count": str(at.shards),
        f"{PREFIX}.max.filegroup.count": str(most),
        **blocks,
    }


def fewest_shards(at: Workload) -> int:
    """Room for the table to double: a file group holds 1 GiB at most."""
    stored = at.rows * (at.key_bytes + ENTRY_BYTES) / INFLATION * _stretched(at)
    return max(1, math.ceil(GROWTH * stored / SHARD_BYTES))


COST = IndexCost(
    equations={
        "tag": Equation("tag/record", tag),
        "index": Equation("index/record", index),
        "index_bytes": Equation("index_bytes/record", index_bytes),
        "bootstrap": Equation("bootstrap/record", bootstrap),
        "point_query": Equation("point_query/record", lambda at, _mode: one_file(at)),
    },
    weight=weight,
    memory=memory,
    options=options,
    fewest_shards=fewest_shards,
    block_bytes=block_bytes,
)
