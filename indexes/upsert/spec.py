"""What is true of the mode `upsert`: the library's own call that updates and inserts by key.

The format keeps no index. The stored rows of a batch's keys are found by a scan with a condition on
the key columns, and the files that hold one are written anew.
"""

from __future__ import annotations

from keymark.indexes.spec import IndexSpec

SPEC = IndexSpec(
    name="upsert",
    table_type="",
    is_global=True,
    order=21,
    color="#aa4499",
    engines=("pyiceberg",),
)
