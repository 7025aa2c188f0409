"""The HBase table of an index, reached through HBase's Thrift server.

    row                     UTF-8 of the record key
    _s:commit_ts            instant of the commit that made the entry
    _s:file_name            file id
    _s:partition_path       partition path

Source: SparkHoodieHBaseIndex of Hudi 0.15 (generateStatement, updateLocationFunction).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import happybase
from thriftpy2.thrift import TException

from keymark.table.errors import IndexUnavailableError, StorageError

FAMILY = b"_s"
COMMIT_TS, FILE_NAME, PARTITION_PATH = b"_s:commit_ts", b"_s:file_name", b"_s:partition_path"

Row = tuple[bytes, Mapping[bytes, bytes]]
"""A record key, and values by column."""

_TIMEOUT_MS = 120_000
_SCAN_ROWS = 1000
# A lookup of an absent key ends at the filter. One version: an entry is never asked for its past.
_FAMILIES = {"_s": {"max_versions": 1, "bloom_filter_type": "ROW"}}


class NoHBaseTableError(IndexUnavailableError):
    """HBase answers, and has no table of that name."""


@dataclass(frozen=True, slots=True)
class Access:
    """Where an index's entries are: the Thrift server, and the HBase table."""

    host: str
    port: int
    table: str

    def __str__(self) -> str:
        return f"HBase table {self.table} at {self.host}:{self.port}"


@contextlib.contextmanager
def connected(access: Access, *, timeout_ms: int = _TIMEOUT_MS) -> Iterator[ThriftClient]:
    """A client with a connection of its own; no request of it takes longer than the timeout."""
    with ThriftClient(access, timeout_ms) as client:
        yield client


class ThriftClient:
    """The rows of one HBase table, over HBase's Thrift server; one thread at a time.

    Each call is one request; splitting is the caller's. Every failure is an IndexUnavailableError
    or a StorageError.
    """

    def __init__(self, access: Access, timeout_ms: int) -> None:
        self._access, self._timeout_ms = access, timeout_ms
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with self._translated():
            self._connection = happybase.Connection(
                self._access.host, self._access.port, timeout=self._timeout_ms
            )
            self._open.callback(self._connection.close)
            self._table = self._connection.table(self._access.table)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def get(self, keys: Sequence[bytes]) -> list[Row]:
        """The rows of distinct keys, without those that are not there, in any order."""
        with self._translated():
            return list(self._table.rows(list(keys), [FAMILY]))

    def put(self, rows: Sequence[Row]) -> None:
        """Store rows."""
        with self._translated(), self._table.batch() as batch:
            for key, cells in rows:
                batch.put(key, cells)

    def delete(self, keys: Sequence[bytes]) -> None:
        """Delete rows, if they are there."""
        with self._translated(), self._table.batch() as batch:
            for key in keys:
                batch.delete(key, [FAMILY])

    def scan(self) -> Iterator[Row]:
        """All rows in the order of their keys."""
        with self._translated():
            yield from self._table.scan(columns=[FAMILY], batch_size=_SCAN_ROWS)

    def exists(self) -> bool:
        """Whether there is such a table."""
        with self._translated():
            return self._access.table.encode() in self._connection.tables()

    def create(self) -> None:
        """Make the table."""
        with self._translated():
            self._connection.create_table(self._access.table, _FAMILIES)

    def empty(self) -> None:
        """Delete the table and make it anew: Thrift offers no truncation; settings stay."""
        with self._translated():
            families = {
                name.decode(): {k: v for k, v in options.items() if k != "name"}
                for name, options in self._table.families().items()
            }
            self._connection.delete_table(self._access.table, disable=True)
            self._connection.create_table(self._access.table, families)

    def drop(self) -> None:
        """Delete the table, if it is there."""
        if self.exists():
            with self._translated():
                self._connection.delete_table(self._access.table, disable=True)

    def flush(self) -> None:
        """Take the table offline and back, which writes its rows to disk: Thrift knows no flush.

        Who asks for rows meanwhile is refused.
        """
        with self._translated():
            self._connection.disable_table(self._access.table)
            self._connection.enable_table(self._access.table)

    def compact(self) -> None:
        """Ask for a major compaction, which erases deleted rows that are on disk."""
        with self._translated():
            self._connection.compact_table(self._access.table, major=True)

    def servers(self) -> int:
        """How many region servers the table is spread over."""
        with self._translated():
            return len({(r["server_name"], r["port"]) for r in self._table.regions()}) or 1

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Whatever Thrift raises, as one typed line."""
        access = self._access
        try:
            yield
        except (TException, OSError, EOFError, AssertionError) as error:
            text = _first_line(error)
            if isinstance(error, TException) and not type(error).__name__.startswith("TT"):
                if self._is_gone():
                    raise NoHBaseTableError(f"there is no {access}") from error
                raise StorageError(f"{access}: HBase refused a request: {text}") from error
            raise IndexUnavailableError(
                f"HBase's Thrift server at {access.host}:{access.port} does not answer ({text}): "
                "`make hbase` starts one on this machine"
            ) from error

    def _is_gone(self) -> bool:
        """Whether HBase has no such table: its answer to a batch does not say so."""
        with contextlib.suppress(TException, OSError):
            return self._access.table.encode() not in self._connection.tables()
        return False


def _first_line(error: BaseException) -> str:
    """Kind and first line of an error; those of HBase carry a stack of Java's."""
    message: Any = getattr(error, "message", None) or str(error)
    text = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
    return f"{type(error).__name__}: {text.strip().partition(chr(10))[0]}"[:300]
