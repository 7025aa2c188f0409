"""The mode `upsert` of pyiceberg: a scan by key finds rows, and their files are rewritten.

What it does: https://py.iceberg.apache.org/api (Upsert).
"""

from __future__ import annotations

from keymark.indexes.spec import IndexSpec

SPEC = IndexSpec(
    name="upsert",
    table_type="UPSERT",
    is_global=True,
    order=24,
    color="#aa4499",
    in_formats={"pyiceberg": (0, 12, 0)},
)
