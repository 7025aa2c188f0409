"""The global simple index: the simple index with one key space for the whole table.

Source: HoodieGlobalSimpleIndex of Hudi 0.15.
"""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from keymark.indexes.global_simple.spec import SPEC
from keymark.indexes.shared.exact_index import GlobalIndex
from keymark.indexes.shared.scope import scopes
from keymark.indexes.simple.index import join_keys
from keymark.indexes.spec import IndexSpec
from keymark.table.index.protocol import IndexContext


class GlobalSimpleIndex(GlobalIndex):
    """Global and exact; needs nothing but the base files."""

    spec: ClassVar[IndexSpec] = SPEC
    name: ClassVar[str] = SPEC.name

    def lookup(
        self, keys: pa.Array, context: IndexContext, partitions: pa.Array | None = None
    ) -> pa.Table:
        """Locate keys by a join with all files."""
        del partitions
        return join_keys(keys, scopes(len(keys), context.snapshot, None), context)
