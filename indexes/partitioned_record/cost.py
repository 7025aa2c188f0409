"""What the record index of each partition costs in Keymark: blocks of runs are read and searched.

A run has its entries one partition path after the other, so a lookup reads those of the batch's
partition paths and looks the keys up among them.
"""

from __future__ import annotations

from keymark.indexes.shared.cost import SLOT_BYTES, asked_bytes
from keymark.indexes.spec import Equation, IndexCost
from keymark.indexes.workload import Workload, rewritten

BLOCK_ENTRIES = 1 << 16
"""Entries of a block, which is a row group of a run."""
TASK_BLOCKS = 8
"""Blocks that a task searches."""
_STORED = 0.5
"""Bytes of an entry on storage by those of its key (UUIDs as text: 18 by 36; measured)."""


def tag(at: Workload, mode: str, *, reach: float) -> dict[str, float]:
    """Read the entries in reach (a share of all); each task hashes the keys asked.

    Blocks whose ends leave no room for a key are few: a batch has keys from all over a partition.
    """
    entries = reach * at.rows
    tasks = entries / (TASK_BLOCKS * BLOCK_ENTRIES)
    return {
        f"once_{mode}": 1.0,
        "entries": entries / at.cores,
        "keys": at.batch * max(1.0, tasks / at.cores),
    }


def index(at: Workload, mode: str) -> dict[str, float]:
    """A run with the keys that came, and the names of the files that were written."""
    return {f"once_{mode}": 1.0, "files": rewritten(at), "keys": at.inserts}


def index_bytes(at: Workload, _mode: str) -> dict[str, float]:
    """The runs: entries, and the names of base files."""
    kind = "ordered" if at.ordered else "random"
    return {"files": at.files, f"rows_{kind}": at.rows * at.key_bytes / 36.0}


def bootstrap(at: Workload, mode: str) -> dict[str, float]:
    """Every key is read once, sorted and written."""
    return {f"once_{mode}": 1.0, "rows": at.rows / at.cores}


def point_query(at: Workload, _mode: str) -> dict[str, float]:
    """A key alone names no partition path: each one's part of the runs is asked, a file is read."""
    return {"once": 1.0, "listed": at.files, "rows": at.rows / at.files}


def weight(at: Workload) -> float:
    """Bytes of the blocks on storage."""
    return at.reach * at.rows * at.key_bytes * _STORED


def memory(at: Workload) -> float:
    """The keys of a batch, and the entries of a task."""
    entries = min(at.rows, TASK_BLOCKS * BLOCK_ENTRIES)
    return asked_bytes(at) + entries * (at.key_bytes + 2 * SLOT_BYTES)


COST = IndexCost(
    equations={
        "tag": Equation("tag/partitioned_record", lambda at, mode: tag(at, mode, reach=at.reach)),
        # A key alone names no partition path.
        "lookup": Equation("tag/partitioned_record", lambda at, mode: tag(at, mode, reach=1.0)),
        "index": Equation("index/partitioned_record", index),
        "index_bytes": Equation("index_bytes/partitioned_record", index_bytes),
        "bootstrap": Equation("bootstrap/partitioned_record", bootstrap),
        "point_query": Equation("point_query/partitioned_record", point_query),
    },
    weight=weight,
    memory=memory,
)
