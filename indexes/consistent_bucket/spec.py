"""What is true of the bucket index with consistent hashing, which Hudi has for merge-on-read.

Buckets are split and merged by clustering; Keymark has buckets of a fixed number only.
"""

from __future__ import annotations

from keymark.indexes.spec import IndexSpec, Requirements

_COUNT = "hoodie.bucket.index.num.buckets"

SPEC = IndexSpec(
    name="consistent_bucket",
    table_type="BUCKET",
    is_global=False,
    is_exact=False,
    order=8,
    color="#999933",
    owns_layout=True,
    requirements=Requirements(
        options=("hoodie.index.type", "hoodie.index.bucket.engine", _COUNT),
        steps=("write all rows anew, into buckets",),
    ),
    in_hudi=True,
    hudi_options={
        "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    },
)
