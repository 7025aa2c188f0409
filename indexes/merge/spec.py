"""The mode `merge` of Delta: rows are found by a join, and the files that hold them are rewritten.

What it does in Spark: https://docs.delta.io/delta-update; in the library deltalake:
https://delta-io.github.io/delta-rs/usage/merging-tables.
"""

from __future__ import annotations

from keymark.indexes.spec import IndexSpec

SPEC = IndexSpec(
    name="merge",
    table_type="MERGE",
    is_global=True,
    order=20,
    color="#7f4f24",
    in_formats={"delta": (3, 0, 0), "deltalake": (1, 6, 0)},
    table_properties={"delta.enableDeletionVectors": "false"},
)
