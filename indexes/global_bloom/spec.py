"""The global bloom index: the bloom index with one key space for the whole table."""

from __future__ import annotations

from keymark.indexes.bloom.cost import COUNTERS, OPTIONS, bloom_cost
from keymark.indexes.bloom.hudi_cost import hudi_bloom_cost
from keymark.indexes.spec import IndexOption, IndexSpec, Requirements

BLOOM_MOVE = "hoodie.bloom.index.update.partition.path"

SPEC = IndexSpec(
    name="global_bloom",
    table_type="GLOBAL_BLOOM",
    is_global=True,
    order=4,
    color="#009e73",
    is_compared=True,
    reads_filters=True,
    move_option=BLOOM_MOVE,
    options=(*OPTIONS, IndexOption(name=BLOOM_MOVE, default="true", fixed=True)),
    requirements=Requirements(options=("hoodie.index.type",)),
    counters=COUNTERS,
    in_hudi=True,
    cost=bloom_cost(is_global=True),
    hudi_cost=hudi_bloom_cost(is_global=True),
)
