"""The index against the HBase of this machine; skipped where none runs (`make hbase`)."""

from __future__ import annotations

from uuid import uuid4

import pytest
from index_cases import batch, create, lookup
from test_hbase import truth

from keymark.harness.hbase import server as hbase_server
from keymark.indexes.hbase.cells import HBaseCells
from keymark.indexes.hbase.client import Access, ThriftClient, connected
from keymark.table.errors import IndexUnavailableError

pytestmark = pytest.mark.xdist_group("hbase")


@pytest.fixture
def access():
    """An HBase table that was never there, and is not there afterwards."""
    missing = HBaseCells().missing()
    if missing:
        pytest.skip(missing)
    running = hbase_server.running(hbase_server.default_folder())
    found = Access(hbase_server.HOST, running.thrift_port, f"keymark_test_{uuid4().hex}")
    yield found
    with connected(found) as client:
        client.drop()


def options(access):
    return {
        "hoodie.index.hbase.table": access.table,
        "keymark.hbase.thrift.port": str(access.port),
        "hoodie.index.hbase.get.batch.size": "10000",
        "hoodie.index.hbase.put.batch.size": "10000",
        "hoodie.hbase.index.update.partition.path": "true",
    }


def entries(access):
    with connected(access) as client:
        return [key.decode() for key, _ in client.scan()]


def check(table, access):
    places = truth(table)
    keys = sorted(places)
    assert lookup(table, [*keys, "absent"])[0] == [*(places[key] for key in keys), (None, None)]
    assert entries(access) == keys


def test_writes_moves_deletes_and_going_back(tmp_path, access):
    table = create(tmp_path / "t", "hbase", options=options(access))
    table.bulk_insert(batch([f"k{n:04d}" for n in range(2000)], ""))
    check(table, access)
    saved = table.savepoint()
    assert table.upsert(batch(["k0000", "new", "ключ", "nul\0x"], "q", ts=2)).moved == 1
    assert table.delete(["k0001", "nobody"]).deleted == 1
    check(table, access)
    table.restore(saved)
    check(table, access)


def test_rows_survive_flush_compaction_and_a_rebuild(tmp_path, access):
    table = create(tmp_path / "t", "hbase", options=options(access))
    table.upsert(batch(["a", "b", "c"]))
    with connected(access) as client:
        client.flush()
        client.compact()
        assert client.servers() == 1
    check(table, access)
    with connected(access) as client:
        client.put([(b"stale", {b"_s:commit_ts": b"1"})])
    assert table.build_index("hbase")
    check(table, access)
    report = table.purge(["a"])
    assert report.proven
    check(table, access)
    with connected(access) as client:
        client.drop()
    with pytest.raises(IndexUnavailableError, match="table index build"):
        table.lookup(["b"])


def test_a_server_that_is_not_there_is_one_line(tmp_path):
    given = {"hoodie.index.hbase.table": "t", "keymark.hbase.thrift.port": "1"}
    table = create(tmp_path / "t", "hbase", options=given)
    with pytest.raises(IndexUnavailableError, match=r"127\.0\.0\.1:1 .*`make hbase`"):
        table.lookup(["a"])
    with pytest.raises(IndexUnavailableError), ThriftClient(Access("127.0.0.1", 1, "t"), 1000):
        pass
