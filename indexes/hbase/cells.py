"""What a run does around the HBase index's cells: each loaded table has its own HBase table.

Once a repetition's entries are put back, HBase writes all it holds to disk, so that every
repetition meets the same files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from keymark.harness.errors import CellError
from keymark.harness.hbase import server
from keymark.indexes.hbase import client as hbase_client
from keymark.indexes.hbase.client import Access
from keymark.indexes.hbase.entries import delete_entries, put_entries
from keymark.indexes.hbase.rate_limit import RateLimit, Throttle
from keymark.indexes.hbase.spec import (
    HBASE_GET_BATCH,
    HBASE_PACE,
    HBASE_PORT,
    HBASE_PUT_AUTO,
    HBASE_QUORUM,
    HBASE_SHARE,
    HBASE_TABLE,
    SPEC,
    THRIFT_HOST,
    THRIFT_PORT,
)

# Off the clock nothing is held back.
_PACE = RateLimit(get_batch=1000, gets_a_second=1 << 40, put_batch=1000)


class HBaseCells:
    """Implements harness.run.outside_entries.CellEntries."""

    def missing(self) -> str | None:
        """One line that says how to get an HBase; None if one runs."""
        if server.running(server.default_folder()) is not None:
            return None
        return "no HBase runs on this machine: `make hbase` starts one"

    def options(self, run_id: str, number: int) -> dict[str, str]:
        """Which HBase table is a loaded table's, and where.

        Every engine may send the same: batches of 2,000 gets, ten a second and task; 20,000 puts a
        second, shared by its tasks.
        """
        found = server.running(server.default_folder())
        assert found is not None
        return {
            HBASE_TABLE: f"keymark_{re.sub('[^A-Za-z0-9]', '_', run_id)}_{number}",
            THRIFT_HOST: server.HOST,
            THRIFT_PORT: str(found.thrift_port),
            HBASE_QUORUM: found.zookeeper,
            HBASE_PORT: str(found.zookeeper_port),
            HBASE_GET_BATCH: "2000",
            HBASE_PUT_AUTO: "true",
            HBASE_SHARE: "1.0",
            HBASE_PACE: "20000",
        }

    def renew(self, options: Mapping[str, str]) -> None:
        """Before a load: an HBase table without rows; Hudi does not make one."""
        with hbase_client.connected(_access(options)) as client:
            client.drop()
            client.create()

    def put(self, options: Mapping[str, str], entries: pa.Table) -> None:
        """Put entries (rows of CHANGES)."""
        with hbase_client.connected(_access(options)) as client:
            put_entries(client, entries, _PACE, Throttle(_PACE.gets_a_second))

    def delete(self, options: Mapping[str, str], keys: pa.Array) -> None:
        """Delete the entries of keys."""
        with hbase_client.connected(_access(options)) as client:
            delete_entries(client, keys, _PACE, Throttle(_PACE.gets_a_second))

    def settle(self, options: Mapping[str, str]) -> None:
        """Let HBase write its memory to disk."""
        with hbase_client.connected(_access(options)) as client:
            client.flush()

    def index_bytes(self, options: Mapping[str, str], listed: int) -> int:
        """Bytes of HBase's files of the table."""
        found = server.running(server.default_folder())
        if found is None:
            return listed
        self.settle(options)
        tables = Path(found.folder) / "data" / SPEC.name / "data/default"
        files = (tables / _access(options).table).rglob("*")
        return sum(file.stat().st_size for file in files if file.is_file())

    def clear(self, options: Mapping[str, str]) -> None:
        """Drop the HBase table."""
        if HBASE_TABLE in options:
            with hbase_client.connected(_access(options)) as client:
                client.drop()


def _access(options: Mapping[str, str]) -> Access:
    if HBASE_TABLE not in options:
        raise CellError("HBase has stopped since the run began: `make hbase` starts it")
    return Access(options[THRIFT_HOST], int(options[THRIFT_PORT]), options[HBASE_TABLE])
