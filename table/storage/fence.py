"""A store as the holder of a lease writes to it: a holder that paused for too long is stopped.

A local disk has a staging folder for each holder (`LocalStorage.staged`): the next holder takes the
folder away, and each later change of the former one fails. A store has nothing of that kind. There
each change first looks at the clock. A holder whose lease may have expired asks the lease before it
continues. So a holder that lost the table changes at most one more file: the one whose request it
was about to send when it paused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from keymark.table.errors import LeaseLostError
from keymark.table.runtime.clock import Clock
from keymark.table.storage.lease_files import highest_number, read_lease
from keymark.table.storage.spool import Content
from keymark.table.storage.storage import (
    DeletesListed,
    FileStatus,
    Obstacle,
    RangeReader,
    Storage,
)


@dataclass(slots=True)
class Tenure:
    """How long a holder may go on without asking.

    Attributes:
        token: of the holder, in the file of its lease.
        until: in epoch milliseconds; until then it has no successor.
    """

    token: str
    until: int


@dataclass(frozen=True, slots=True)
class FencedStorage:
    """A storage for one holder of the lease.

    Attributes:
        inner: the table's storage.
        clock: the clock of the lease.
        tenure: shared with the lease, which renews it. Tasks of another process have a copy.
    """

    inner: Storage
    clock: Clock
    tenure: Tenure

    @property
    def root(self) -> str:
        """The table's folder."""
        return self.inner.root

    def check(self) -> None:
        """Raise LeaseLostError if another writer took the table; without a request in time."""
        if self.clock.millis() < self.tenure.until:
            return
        number = highest_number(self.inner)
        if read_lease(self.inner, number).get("token") != self.tenure.token:
            raise LeaseLostError(
                f"the lease on {self.root} ran out and another writer took the table"
            )

    def open(self, path: str) -> RangeReader:
        """Open a file for ranged reads."""
        return self.inner.open(path)

    def read(self, path: str) -> bytes:
        """The whole content of a file."""
        return self.inner.read(path)

    def list(self, path: str) -> list[FileStatus]:
        """The files directly in a folder."""
        return self.inner.list(path)

    def walk(self, path: str) -> Iterator[FileStatus]:
        """All files below a folder."""
        return self.inner.walk(path)

    def survey(self, path: str) -> Iterator[FileStatus | Obstacle]:
        """All files below a folder, and what could hide one."""
        return self.inner.survey(path)

    def exists(self, path: str) -> bool:
        """Whether a file or folder is there."""
        return self.inner.exists(path)

    def put(self, path: str, data: Content) -> None:
        """Create a file."""
        self.check()
        self.inner.put(path, data)

    def commit(self, path: str, data: bytes) -> None:
        """Create the file that makes others visible."""
        self.check()
        self.inner.commit(path, data)

    def replace(self, path: str, data: bytes) -> None:
        """Write a file over what was there."""
        self.check()
        self.inner.replace(path, data)

    def move(self, source: str, target: str) -> None:
        """Give a file another path."""
        self.check()
        self.inner.move(source, target)

    def delete(self, path: str) -> None:
        """Delete a file."""
        self.check()
        self.inner.delete(path)

    def delete_tree(self, path: str) -> None:
        """Delete a folder. Only what was listed before the check goes: it is no successor's."""
        if isinstance(self.inner, DeletesListed):
            self.inner.delete_listed(path, self.check)
            return
        self.check()
        self.inner.delete_tree(path)

    def keep(self, path: str) -> None:
        """Make what is there last."""
        self.inner.keep(path)

    def sync(self) -> None:
        """Make what was put last."""
        self.inner.sync()

    def sweep(self) -> None:
        """Delete what others left of files that they were putting."""
        self.check()
        self.inner.sweep()

    def staged(self, name: str) -> Storage:
        """This storage: puts need no staging."""
        del name
        return self

    def guard(self) -> AbstractContextManager[bool]:
        """Lock nothing."""
        return self.inner.guard()

    def hold(self, path: str) -> AbstractContextManager[None]:
        """Show that the owner of a file is alive, where that can be shown."""
        return self.inner.hold(path)

    def held(self, path: str) -> bool:
        """Whether the owner of a file may be alive."""
        return self.inner.held(path)
