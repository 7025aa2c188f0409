"""The bloom index: key ranges, then filters, then keys of the files of a key's partition path."""

from __future__ import annotations

from keymark.indexes.bloom.cost import COUNTERS, OPTIONS, bloom_cost
from keymark.indexes.bloom.hudi_cost import hudi_bloom_cost
from keymark.indexes.spec import CACHED_ROWS, LOOKUP_TASKS, IndexSpec, Requirements

SPEC = IndexSpec(
    name="bloom",
    table_type="BLOOM",
    is_global=False,
    order=5,
    color="#56b4e9",
    reads_filters=True,
    options=OPTIONS,
    unsupported_options={
        "hoodie.bloom.index.parallelism": LOOKUP_TASKS,
        "hoodie.bloom.index.use.caching": CACHED_ROWS,
        "hoodie.bloom.index.input.storage.level": CACHED_ROWS,
    },
    requirements=Requirements(options=("hoodie.index.type",)),
    counters=COUNTERS,
    in_hudi=True,
    cost=bloom_cost(is_global=False),
    hudi_cost=hudi_bloom_cost(is_global=False),
)
