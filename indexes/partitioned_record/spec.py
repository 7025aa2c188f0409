"""What is true of the record index of each partition, which Hudi has since 1.1 (RFC-96).

A key is looked for in the partition of the incoming row only, and may be in several partitions.
Hudi keeps its entries in file groups of the metadata table, in tables of version 8 and later. In
tables of version 6 Keymark keeps them in runs of its own, and Hudi's writers use the simple index,
which finds the same keys.
"""

from __future__ import annotations

from keymark.indexes.partitioned_record.cost import COST
from keymark.indexes.partitioned_record.hudi_cost import ENABLE, HUDI_COST
from keymark.indexes.spec import IndexSpec, LookupCounter, Requirements

SPEC = IndexSpec(
    name="partitioned_record",
    table_type="RECORD_LEVEL_INDEX",
    is_global=False,
    order=7,
    color="#882255",
    key_runs="keys",
    requirements=Requirements(
        options=("hoodie.index.type", ENABLE),
        steps=("build the index from the keys of the base files",),
    ),
    counters=(
        LookupCounter(name="shards_read", title="index shards read"),
        LookupCounter(name="blocks_decoded", title="index blocks decoded"),
        LookupCounter(name="files_read", title="base files read"),
    ),
    named_to_hudi="SIMPLE",
    in_hudi=True,
    hudi_since=(1, 1, 0),
    hudi_table_versions={6: (1, 2, 0), 8: (1, 1, 0), 9: (1, 1, 0)},
    hudi_partition="record_index",
    hudi_options={ENABLE: "true"},
    cost=COST,
    hudi_cost=HUDI_COST,
)
