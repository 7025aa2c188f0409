"""What the indexes share that tag by looking up; their new keys may go into any file group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import pyarrow as pa

from keymark.table.index.protocol import IndexContext
from keymark.table.properties.config import TableConfig
from keymark.table.properties.options import Options


class LookupIndex(ABC):
    """Implements table.index.protocol.Index but for `name` and `lookup`."""

    is_global: ClassVar[bool] = False
    is_exact: ClassVar[bool] = True

    def tag(self, keys: pa.Array, partitions: pa.Array, context: IndexContext) -> pa.Table:
        """Locate distinct keys; see table.index.protocol.Index."""
        return self.lookup(keys, context, partitions)

    @abstractmethod
    def lookup(
        self, keys: pa.Array, context: IndexContext, partitions: pa.Array | None = None
    ) -> pa.Table:
        """Locate keys; see table.index.protocol.Index."""

    def buckets(self, keys: pa.Array, config: TableConfig, options: Options) -> None:
        """Any file group will do."""
        del keys, config, options
