"""What is true of the record index of each partition, which Hudi has since 1.1 (RFC-96).

Its file groups belong to a partition of the data, so that a key is looked for in the partition of
the incoming row only, and may be in several partitions.
"""

from __future__ import annotations

from keymark.indexes.spec import IndexSpec, Requirements

_ENABLE = "hoodie.metadata.record.level.index.enable"

SPEC = IndexSpec(
    name="partitioned_record",
    table_type="RECORD_LEVEL_INDEX",
    is_global=False,
    order=7,
    color="#56b4e9",
    metadata_partition="record_index",
    requirements=Requirements(
        options=("hoodie.index.type", _ENABLE),
        steps=("build the index from the keys of the base files",),
    ),
    in_hudi=True,
    hudi_since=(1, 1, 0),
    hudi_table_versions=(8, 9),
    hudi_options={_ENABLE: "true"},
)
