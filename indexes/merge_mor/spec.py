"""The mode `merge_mor` of Iceberg: rows are found by a join, and delete files say where they were.

Their new versions go to new files; compaction rewrites the old ones. In tables of version 2, which
are Iceberg's default, delete files name positions; of version 3 they are deletion vectors (the
table property `format-version`): https://iceberg.apache.org/docs/latest/configuration.
"""

from __future__ import annotations

from keymark.indexes.spec import IndexSpec

_MODES = ("write.merge.mode", "write.update.mode", "write.delete.mode")

SPEC = IndexSpec(
    name="merge_mor",
    table_type="MERGE_MOR",
    is_global=True,
    order=23,
    color="#8d99ae",
    in_formats={"iceberg": (1, 4, 0)},
    table_properties=dict.fromkeys(_MODES, "merge-on-read"),
)
