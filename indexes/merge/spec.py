"""What is true of the mode `merge`: one statement that joins a batch with the table by key.

The format keeps no index. Which files hold a key is found by their statistics and by the join; the
files that hold one are written anew.
"""

from __future__ import annotations

from keymark.indexes.spec import IndexSpec

SPEC = IndexSpec(
    name="merge",
    table_type="",
    is_global=True,
    order=20,
    color="#44aa99",
    engines=("deltalake",),
)
