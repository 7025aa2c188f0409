"""An HBase in memory, in place of the connection of `hbase_client`; it fails when told to."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field

from keymark.indexes.hbase.client import COMMIT_TS, FILE_NAME, PARTITION_PATH, NoHBaseTableError
from keymark.table.errors import IndexUnavailableError

TABLE = {"hoodie.index.hbase.table": "t"}
QUICK = {
    **TABLE,
    "hoodie.index.hbase.get.batch.size": "100000",
    "hoodie.index.hbase.put.batch.size": "100000",
}


class Killed(BaseException):
    """The process is gone."""


@dataclass
class FakeHBase:
    """Tables by name, each row by key; call number `at` and all later ones fail, or kill."""

    tables: dict = field(default_factory=dict)
    at: int = 0
    kills: bool = False
    calls: list = field(default_factory=list)
    struck: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def connected(self, access, *, timeout_ms=0):
        del timeout_ms
        yield FakeClient(self, access)

    def install(self, monkeypatch):
        monkeypatch.setattr("keymark.indexes.hbase.client.connected", self.connected)
        return self

    def entries(self, name="t"):
        """Key -> (partition path, file id, commit), as texts."""
        columns = (PARTITION_PATH, FILE_NAME, COMMIT_TS)
        return {
            key.decode(): tuple(cells[c].decode() for c in columns)
            for key, cells in self.tables.get(name, {}).items()
        }

    def count(self, call, size):
        with self._lock:
            self.calls.append((call, size))
            failing = 0 < self.at <= len(self.calls)
            self.struck |= failing
        if failing and self.kills:
            raise Killed
        if failing:
            raise IndexUnavailableError("HBase does not answer")


@dataclass
class FakeClient:
    """What a ThriftClient does."""

    server: FakeHBase
    access: object

    def _rows(self):
        rows = self.server.tables.get(self.access.table)
        if rows is None:
            raise NoHBaseTableError(f"there is no {self.access}")
        return rows

    def get(self, keys):
        self.server.count("get", len(keys))
        assert len(set(keys)) == len(keys)
        rows = self._rows()
        return [(key, dict(rows[key])) for key in keys if key in rows]

    def put(self, rows):
        self.server.count("put", len(rows))
        self._rows().update({key: dict(cells) for key, cells in rows})

    def delete(self, keys):
        self.server.count("delete", len(keys))
        for key in keys:
            self._rows().pop(key, None)

    def scan(self):
        return iter(sorted(self._rows().items()))

    def exists(self):
        return self.access.table in self.server.tables

    def create(self):
        self.server.count("create", 0)
        self.server.tables[self.access.table] = {}

    def empty(self):
        self.server.count("empty", 0)
        self._rows().clear()

    def drop(self):
        self.server.count("drop", 0)
        self.server.tables.pop(self.access.table, None)

    def flush(self):
        self.server.count("flush", 0)

    def compact(self):
        self.server.count("compact", 0)

    def servers(self):
        return 3
