"""The global simple index: the simple index with one key space for the whole table."""

from __future__ import annotations

from keymark.indexes.simple.cost import COUNTERS, simple_cost
from keymark.indexes.simple.hudi_cost import hudi_simple_cost
from keymark.indexes.spec import LOOKUP_TASKS, IndexOption, IndexSpec, Requirements

SIMPLE_MOVE = "hoodie.simple.index.update.partition.path"

SPEC = IndexSpec(
    name="global_simple",
    table_type="GLOBAL_SIMPLE",
    is_global=True,
    order=2,
    color="#d55e00",
    is_compared=True,
    move_option=SIMPLE_MOVE,
    options=(IndexOption(name=SIMPLE_MOVE, default="true", fixed=True),),
    unsupported_options={"hoodie.global.simple.index.parallelism": LOOKUP_TASKS},
    requirements=Requirements(options=("hoodie.index.type",)),
    counters=COUNTERS,
    in_hudi=True,
    published_shuffle=85e9 / 2e9,
    cost=simple_cost(is_global=True),
    hudi_cost=hudi_simple_cost(is_global=True),
)
