"""The record index: each key has an entry in the shard of the metadata table that its hash says."""

from __future__ import annotations

from keymark.indexes.record.cost import COST, PREFIX
from keymark.indexes.record.hudi_cost import HUDI_COST
from keymark.indexes.spec import IndexOption, IndexSpec, LookupCounter, Requirements

RECORD_MOVE = "hoodie.record.index.update.partition.path"

SPEC = IndexSpec(
    name="record",
    table_type="RECORD_INDEX",
    is_global=True,
    order=1,
    color="#0072b2",
    is_default=True,
    is_compared=True,
    metadata_partition="record_index",
    tags_in_tasks=True,
    build_options=(
        f"{PREFIX}.min.filegroup.count",
        f"{PREFIX}.max.filegroup.count",
        f"{PREFIX}.max.filegroup.size",
        f"{PREFIX}.growth.factor",
    ),
    move_option=RECORD_MOVE,
    duplicates="fail",
    options=(IndexOption(name=RECORD_MOVE, default="false", fixed=True),),
    requirements=Requirements(
        options=("hoodie.index.type", f"{PREFIX}.enable"),
        steps=("build the index from the keys of the base files",),
    ),
    counters=(
        LookupCounter(name="shards_read", title="index shards read"),
        LookupCounter(name="blocks_decoded", title="index blocks decoded"),
    ),
    in_hudi=True,
    published_shuffle=700e6 / 2e9,
    hudi_options={f"{PREFIX}.enable": "true"},
    cost=COST,
    hudi_cost=HUDI_COST,
)
