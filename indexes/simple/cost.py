"""What both simple indexes have in common: scan the key columns in reach, and join."""

from __future__ import annotations

import math

from keymark.indexes.shared.cost import (
    KEY_WEIGHT,
    PROBE_WEIGHT,
    SHARE_OF_FILE,
    scan_memory,
    scan_weight,
)
from keymark.indexes.spec import TASKS, Equation, IndexCost, LookupCounter
from keymark.indexes.workload import Workload

COUNTERS = (LookupCounter(name="files_read", title="base files read"),)


def simple_tag(at: Workload, mode: str, *, reach: float) -> dict[str, float]:
    """Scan the key column of the files in reach (a share of all), and join.

    Spark sorts both sides, N*log N. In threads every probe has a hash table of the keys asked.
    Opening a file by Spark's reader is other work than by a thread's.
    """
    rows = reach * at.rows / at.cores
    made = {f"once_{mode}": 1.0, f"files_{mode}": reach * at.files / at.cores}
    if mode == TASKS:
        return made | {"sorted": rows * math.log2(max(rows, 2.0)), "keys_tasks": at.batch}
    weight = reach * at.files * at.file_bytes / SHARE_OF_FILE
    probes = max(1.0, weight / max(PROBE_WEIGHT, KEY_WEIGHT * at.batch))
    return made | {"rows": rows, "keys_threads": at.batch * max(1.0, probes / at.cores)}


def join_shuffle(at: Workload, *, reach: float) -> dict[str, float]:
    """Bytes that a shuffled join moves: every key in reach and every key asked, once."""
    kind = "ordered" if at.ordered else "random"
    scale = at.key_bytes / 36.0
    return {
        "once": 1.0,
        f"rows_{kind}": reach * at.rows * scale,
        f"keys_{kind}": at.batch * scale,
    }


def simple_cost(*, is_global: bool) -> IndexCost:
    """The cost of the simple index that looks everywhere, or where the batch's partitions say."""

    def reach(at: Workload) -> float:
        return 1.0 if is_global else at.reach

    return IndexCost(
        equations={
            "tag": Equation(
                "tag/simple", lambda at, mode: simple_tag(at, mode, reach=reach(at)), scans=True
            ),
            # A key alone names no partition path.
            "lookup": Equation(
                "tag/simple", lambda at, mode: simple_tag(at, mode, reach=1.0), scans=True
            ),
            "shuffle": Equation(
                "shuffle/simple", lambda at, _mode: join_shuffle(at, reach=reach(at))
            ),
        },
        weight=lambda at: reach(at) * scan_weight(at),
        memory=scan_memory,
    )
