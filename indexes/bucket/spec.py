"""The bucket index: the hash of a key is its file group, so nothing is looked up."""

from __future__ import annotations

from keymark.indexes.bucket.cost import BUCKET_COUNT, COST
from keymark.indexes.bucket.hudi_cost import HUDI_COST
from keymark.indexes.spec import IndexOption, IndexSpec, LookupCounter, Requirements

BUCKET_FIELDS = "hoodie.bucket.index.hash.field"


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
    cost=COST,
    hudi_cost=HUDI_COST,
)
