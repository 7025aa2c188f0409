"""The mode `merge_cow` of Iceberg: rows are found by a join, and their files are rewritten.

It is what Iceberg does by default: https://iceberg.apache.org/docs/latest/configuration.
"""

from __future__ import annotations

from keymark.indexes.spec import IndexSpec

_MODES = ("write.merge.mode", "write.update.mode", "write.delete.mode")

SPEC = IndexSpec(
    name="merge_cow",
    table_type="MERGE_COW",
    is_global=True,
    order=22,
    color="#3d405b",
    in_formats={"iceberg": (1, 4, 0)},
    table_properties=dict.fromkeys(_MODES, "copy-on-write"),
)
