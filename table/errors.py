"""Every error that this package raises, in one tree.

TableError                      root; carries the exit code of the command line
+-- NotATableError              the path holds no Hudi table
+-- UnsupportedTableError       a table, format or option value that Keymark refuses by name
+-- InvalidOptionError          an unknown or contradictory option
+-- InputError                  the rows or keys handed in are wrong (missing, null or empty key)
|   +-- DuplicateKeyError       an insert of a key that exists
+-- CorruptFileError            bytes of the table are not what their format says
+-- StorageError                the storage refused or lost an operation (disk full, permission)
|   +-- MissingFileError        a file is not there (a FileNotFoundError, too)
|   +-- FileTakenError          a file is there that was to be created (a FileExistsError, too)
+-- LockHeldError               another writer holds the table
+-- LeaseLostError              this writer held the table, stood still for too long and lost it
+-- IndexUnavailableError       the index that is asked for is not built
+-- SnapshotExpiredError        a file of the snapshot being read was cleaned meanwhile
+-- CommitConflictError         another writer took the instant
+-- WorkerLostError             a Spark task's worker died, most likely for want of memory
"""

from __future__ import annotations

from typing import ClassVar


class TableError(Exception):
    """Root of all errors of this package; its text is one line that names the thing."""

    exit_code: ClassVar[int] = 2

    def __str__(self) -> str:
        # Paths, keys and the texts of libraries may hold line breaks.
        return " ".join(super().__str__().splitlines())


class TableWarning(UserWarning):
    """A fault of the table that costs time and no rows; the text names it and the remedy."""


class NotATableError(TableError):
    """The path does not hold a Hudi table."""


class UnsupportedTableError(TableError):
    """A table type, version, format feature or option value that Keymark does not support."""


class InvalidOptionError(TableError):
    """An option is unknown, malformed or contradicts a fact of the table."""


class InputError(TableError):
    """The rows or keys handed in cannot be written or looked up."""


class DuplicateKeyError(InputError):
    """An insert brought a key that exists already."""


class CorruptFileError(TableError):
    """Bytes on storage do not follow their format.

    Args:
        name: the file (path relative to the table where known).
        offset: byte offset in the file at which the fault was found.
        detail: what was expected and what was found.
    """

    def __init__(self, name: str, offset: int, detail: str) -> None:
        super().__init__(f"{name} is damaged at byte {offset}: {detail}")
        self.name = name
        self.offset = offset
        self.detail = detail

    def __reduce__(self) -> tuple[type[CorruptFileError], tuple[str, int, str]]:
        """Survive the pickling between a worker and the driver."""
        return type(self), (self.name, self.offset, self.detail)


class StorageError(TableError):
    """The storage refused an operation or lost something it had."""


class MissingFileError(StorageError, FileNotFoundError):
    """A file that was to be read is not there."""

    @classmethod
    def of(cls, path: str) -> MissingFileError:
        """The error for a path."""
        return cls(f"{path} does not exist")


class FileTakenError(StorageError, FileExistsError):
    """A file that was to be created is there."""

    @classmethod
    def of(cls, path: str) -> FileTakenError:
        """The error for a path."""
        return cls(f"{path} exists already")


class LockHeldError(TableError):
    """Another writer holds the lock of the table."""


class LeaseLostError(TableError):
    """The writer's lease ran out and another writer took the table; nothing was committed."""


class IndexUnavailableError(TableError):
    """The index that is asked for is not built; the message names the command that builds it."""


class SnapshotExpiredError(TableError):
    """A file of the snapshot being read was cleaned meanwhile; open the table anew."""


class CommitConflictError(TableError):
    """The instant to be completed exists already: another writer won."""


class WorkerLostError(TableError):
    """A Spark task's worker died; the message names the step, the memory and what helps."""
