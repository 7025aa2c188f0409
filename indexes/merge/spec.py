"""The mode `merge` of Delta: rows are found by a join, and the files that hold them are rewritten.

What it does: https://docs.delta.io/delta-update.
"""

from __future__ import annotations

from keymark.indexes.spec import IndexSpec

SPEC = IndexSpec(
    name="merge",
    table_type="MERGE",
    is_global=True,
    order=20,
    color="#7f4f24",
    in_formats={"delta": (3, 0, 0)},
    table_properties={"delta.enableDeletionVectors": "false"},
)
