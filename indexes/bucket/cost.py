"""What the bucket index costs in Keymark: a hash a key."""

from __future__ import annotations

from keymark.indexes.shared.cost import asked_bytes, scan_weight
from keymark.indexes.spec import Equation, IndexCost
from keymark.indexes.workload import Workload

BUCKET_COUNT = "hoodie.bucket.index.num.buckets"


def tag(at: Workload, _mode: str) -> dict[str, float]:
    """A hash for each key, and a table of the file groups; always in the writer's process."""
    return {"once": 1.0, "files": at.files, "keys": at.batch}


def lookup(at: Workload, mode: str) -> dict[str, float]:
    """The key column of all files that a key's bucket has, in every partition path."""
    return {f"once_{mode}": 1.0, "files": at.buckets / at.cores, "rows": at.rows / at.cores}


def bootstrap(at: Workload, mode: str) -> dict[str, float]:
    """A table that is to be laid out by buckets is written anew."""
    return {f"once_{mode}": 1.0, "files": at.buckets / at.cores, "rows": at.rows / at.cores}


def options(at: Workload) -> dict[str, str]:
    """As many buckets a partition path as were predicted."""
    return {BUCKET_COUNT: str(round(at.buckets / at.partitions))}


COST = IndexCost(
    equations={
        "tag": Equation("tag/bucket", tag),
        "lookup": Equation("lookup/bucket", lookup, scans=True),
        "bootstrap": Equation("bootstrap/bucket", bootstrap),
    },
    weight=scan_weight,
    memory=asked_bytes,
    options=options,
)
