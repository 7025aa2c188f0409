"""The simple index: the keys of a batch, joined with those of the files of their partitions."""

from __future__ import annotations

from keymark.indexes.simple.cost import COUNTERS, simple_cost
from keymark.indexes.spec import IndexSpec

# It is what HoodieIndexConfig takes for Spark when nothing is said: no option is required.
SPEC = IndexSpec(
    name="simple",
    table_type="SIMPLE",
    is_global=False,
    order=3,
    color="#e69f00",
    counters=COUNTERS,
    in_hudi=True,
    cost=simple_cost(is_global=False),
)
