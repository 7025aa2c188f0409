"""What runs with every write: builds before it, table services after it."""

from __future__ import annotations

from dataclasses import dataclass

from table.clock import Clock
from table.lease import Lease
from table.options import Options
from table.storage import Storage
from table.write.runner import TaskRunner


@dataclass(frozen=True, slots=True, kw_only=True)
class TableServices:
    """The services of one table, as a write's options ask for them."""

    storage: Storage
    clock: Clock
    runner: TaskRunner
    options: Options

    def prepare(self, lease: Lease) -> None:
        """Build what the options ask for and the table does not have."""

    def maintain(self, lease: Lease) -> None:
        """Compact, clean and archive, where the options ask for it."""
