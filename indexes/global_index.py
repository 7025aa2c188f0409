"""What the global indexes share: tagging is looking up, and a new key may go anywhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from table.config import TableConfig
from table.options import Options
from table.write.index import IndexContext


class GlobalIndex(ABC):
    """One key space for the whole table; an answer says that the key is there.

    Implements table.write.index.Index but for `name` and `lookup`.
    """

    is_global: ClassVar[bool] = True
    is_exact: ClassVar[bool] = True

    def tag(self, keys: Any, partitions: Any, context: IndexContext) -> Any:
        """Locate distinct keys; see table.write.index.Index."""
        return self.lookup(keys, context, partitions)

    @abstractmethod
    def lookup(self, keys: Any, context: IndexContext, partitions: Any = None) -> Any:
        """Locate keys; the partitions that they came with make no difference."""

    def buckets(self, keys: Any, config: TableConfig, options: Options) -> None:
        """Any file group will do."""
        del keys, config, options
