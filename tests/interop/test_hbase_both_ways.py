"""The index in HBase by turns: Hudi upserts through HBASE what Keymark wrote, and Keymark goes on.

Needs an HBase that runs (`make hbase`), and Hudi 0.15: later bundles have no such index.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
import pytest
from hudi_judge import VERSIONS, by_key, findings, places, writer_options
from interop_cells import OPTIONS, Cell, Ledger

from keymark import Table
from keymark.harness.hbase import server as hbase_server
from keymark.indexes.hbase.cells import HBaseCells
from keymark.indexes.hbase.client import FILE_NAME, PARTITION_PATH, Access, connected
from keymark.indexes.hbase.index import HBaseIndex
from keymark.table.errors import IndexUnavailableError, TableWarning

# Hudi's client asks the server for a codec of its bundle's, which no server has: see docs.
SITE = """<configuration><property>
<name>hbase.client.default.rpc.codec</name><value>${env.KEYMARK_NO_CODEC:-}</value>
</property></configuration>
"""


@dataclass(frozen=True)
class HBaseCell(Cell):
    """A cell whose index is in HBase."""

    access: Access | None = None

    @property
    def options(self):
        return {
            **OPTIONS,
            "hoodie.index.hbase.table": self.access.table,
            "keymark.hbase.thrift.port": str(self.access.port),
            "hoodie.index.hbase.get.batch.size": "1000",
            "hoodie.index.hbase.put.batch.size": "1000",
            "hoodie.hbase.index.update.partition.path": "true",
        }


@pytest.fixture
def cell():
    """A cell whose HBase table was never there, and is not there afterwards.

    Each test has one of its own: Hudi's client does not find one again that was made anew.
    """
    missing = HBaseCells().missing()
    if missing:
        pytest.skip(missing)
    port = hbase_server.running(hbase_server.default_folder()).thrift_port
    access = Access(hbase_server.HOST, port, f"keymark_test_{uuid4().hex}")
    yield HBaseCell("hbase", "simple", "", "", access)
    with connected(access) as client:
        client.drop()


def hudi_options(hudi, root, cell):
    """Of a writer that finds HBase by its ZooKeeper."""
    found = hbase_server.running(hbase_server.default_folder())
    hbase = {name: text for name, text in cell.options.items() if "hbase" in name}
    return writer_options(
        hudi,
        root,
        {
            **hbase,
            "hoodie.index.hbase.zkquorum": found.zookeeper,
            "hoodie.index.hbase.zkport": str(found.zookeeper_port),
            "hoodie.datasource.write.row.writer.enable": "false",
        },
    )


def good(hudi, root, ledger):
    """A new handle, after Hudi and Keymark read what must be, and the entries name each place."""
    assert findings(hudi, root, ledger.wanted()) == []
    table = Table.open(str(root), options=ledger.cell.options)
    rows = pa.concat_tables(table.scan().tables())
    assert by_key(rows) == ledger.wanted()
    with connected(ledger.cell.access) as client:
        entries = {
            key.decode(): (entry[PARTITION_PATH].decode(), entry[FILE_NAME].decode())
            for key, entry in client.scan()
        }
    assert entries == places(rows)
    return table


def cut_off(monkeypatch, write, rows):
    """A write whose writer ends between its commit and the entries of moves and deletes."""

    def end(*_):
        raise IndexUnavailableError("the end")

    with monkeypatch.context() as patched:
        patched.setattr(HBaseIndex, "change", end)
        with pytest.warns(TableWarning):
            return write(rows)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.only(VERSIONS[0])
def test_hudi_upserts_through_hbase_and_keymark_goes_on(cell, hudi, tmp_path):
    hudi.configure("interop-hbase.xml", SITE)
    root, ledger = tmp_path / "t", Ledger(cell)
    table = cell.create(root)
    table.bulk_insert(ledger.put(range(40), 1))
    assert table.upsert(ledger.put([*range(5), *range(40, 45)], 2)).updated == 5
    good(hudi, root, ledger)
    options = hudi_options(hudi, root, cell)
    changes = [ledger.put([*range(5, 15), *range(50, 60)], 3), ledger.put([20, 21], 3, shift=1)]
    hudi.write(root, pa.concat_tables(changes), "upsert", options)
    hudi.write(root, ledger.drop([30, 41, 59]), "delete", options)
    table = good(hudi, root, ledger)
    result = table.upsert(ledger.put([*range(10, 20), *range(55, 65)], 4))
    assert (result.updated, result.inserted) == (14, 6)
    assert table.upsert(ledger.put([20, 50], 5, shift=2)).moved == 2
    assert table.delete(ledger.drop([7, 52, 60])).deleted == 3
    good(hudi, root, ledger)
    hudi.write(root, ledger.put([*range(60, 70), 20], 6, shift=2), "upsert", options)
    good(hudi, root, ledger)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.only(VERSIONS[0])
def test_hudi_does_not_see_changes_of_entries_that_wait(cell, hudi, monkeypatch, tmp_path):
    """A deleted key comes back as it should; a moved one can get a second row."""
    hudi.configure("interop-hbase.xml", SITE)
    root, ledger = tmp_path / "t", Ledger(cell)
    table = cell.create(root)
    table.bulk_insert(ledger.put(range(9), 1))
    assert cut_off(monkeypatch, table.delete, ledger.drop([4, 5])).deleted == 2
    options = hudi_options(hudi, root, cell)
    hudi.write(root, ledger.put([3, 4, 20], 2), "upsert", options)
    assert findings(hudi, root, ledger.wanted()) == []
    assert table.upsert(ledger.put([4, 20], 3)).updated == 2
    good(hudi, root, ledger)
    assert cut_off(monkeypatch, table.upsert, ledger.put([0], 4, shift=1)).moved == 1
    # An insert into the file that has the key would find it there.
    options["hoodie.parquet.small.file.limit"] = "0"
    hudi.write(root, ledger.put([0], 5, shift=1), "upsert", options)
    assert by_key(hudi.read(root)[0])["key-0000"] == "occurs more than once"
