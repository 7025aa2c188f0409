"""The mode `merge_dv` of Delta: rows are found by a join, and a deletion vector says they are gone.

Their new versions go to new files; compaction rewrites the old ones. MERGE writes deletion vectors
since 3.1.0: https://docs.delta.io/delta-deletion-vectors.
"""

from __future__ import annotations

from keymark.indexes.spec import IndexSpec

SPEC = IndexSpec(
    name="merge_dv",
    table_type="MERGE_DV",
    is_global=True,
    order=21,
    color="#b08968",
    in_formats={"delta": (3, 1, 0)},
    table_properties={"delta.enableDeletionVectors": "true"},
)
