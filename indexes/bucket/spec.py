"""The bucket index: the hash of a key is its file group, so nothing is looked up."""

from __future__ import annotations

from keymark.indexes.shared.cost import asked_bytes, scan_weight
from keymark.indexes.spec import (
    Equation,
    IndexCost,
    IndexOption,
    IndexSpec,
    LookupCounter,
    Requirements,
)
from keymark.indexes.workload import Workload

BUCKET_COUNT = "hoodie.bucket.index.num.buckets"
BUCKET_FIELDS = "hoodie.bucket.index.hash.field"


def tag(at: Workload, _mode: str) -> dict[str, float]:
    """A hash for each key, and a table of the file groups; always in the writer's process."""
    return {"once": 1.0, "files": at.files, "keys": at.batch}


def lookup(at: Workload, mode: str) -> dict[str, float]:
    """The key column of all files that a key's bucket has, in every partition path."""
    return {f"once_{mode}": 1.0, "files": at.buckets / at.cores, "rows": at.rows / at.cores}


def bootstrap(at: Workload, mode: str) -> dict[str, float]:
    """A table that is to be laid out by buckets is written anew."""
    return {f"once_{mode}": 1.0, "files": at.buckets / at.cores, "rows": at.rows / at.cores}


SPEC = IndexSpec(
    name="bucket",
    table_type="BUCKET",
    is_global=False,
    is_exact=False,
    order=6,
    color="#cc79a7",
    is_compared=True,
    owns_layout=True,
    tags_in_tasks=True,
    options=(
        IndexOption(name=BUCKET_COUNT, default="256", positive=True, fixed=True),
        IndexOption(name=BUCKET_FIELDS, fixed=True, of_key=True),
        IndexOption(name="hoodie.index.bucket.engine", default="SIMPLE", choices=("SIMPLE",)),
    ),
    unsupported_options=dict.fromkeys(
        ("hoodie.bucket.index.max.num.buckets", "hoodie.bucket.index.min.num.buckets"),
        "consistent buckets (re-sharding)",
    ),
    requirements=Requirements(
        options=("hoodie.index.type", BUCKET_COUNT),
        steps=("write all rows anew, into buckets",),
    ),
    counters=(LookupCounter(name="files_read", title="base files read"),),
    in_hudi=True,
    cost=IndexCost(
        equations={
            "tag": Equation("tag/bucket", tag),
            "lookup": Equation("lookup/bucket", lookup, scans=True),
            "bootstrap": Equation("bootstrap/bucket", bootstrap),
        },
        weight=scan_weight,
        memory=asked_bytes,
        options=lambda at: {BUCKET_COUNT: str(round(at.buckets / at.partitions))},
    ),
)
