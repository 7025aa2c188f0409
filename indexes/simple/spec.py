"""The simple index: the keys of a batch, joined with those of the files of their partitions."""

from __future__ import annotations

from keymark.indexes.simple.cost import COUNTERS, simple_cost
from keymark.indexes.simple.hudi_cost import hudi_simple_cost
from keymark.indexes.spec import CACHED_ROWS, LOOKUP_TASKS, IndexSpec

# It is what HoodieIndexConfig takes for Spark when nothing is said: no option is required.
SPEC = IndexSpec(
    name="simple",
    table_type="SIMPLE",
    is_global=False,
    order=3,
    color="#e69f00",
    unsupported_options={
        "hoodie.simple.index.parallelism": LOOKUP_TASKS,
        "hoodie.simple.index.use.caching": CACHED_ROWS,
        "hoodie.simple.index.input.storage.level": CACHED_ROWS,
    },
    counters=COUNTERS,
    in_hudi=True,
    cost=simple_cost(is_global=False),
    hudi_cost=hudi_simple_cost(is_global=False),
)
