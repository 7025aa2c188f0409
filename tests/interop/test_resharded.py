"""A record index that was dealt out to more shards or fewer, in the hands of Hudi."""

from __future__ import annotations

import pytest
from hudi_judge import findings, metadata_partitions, options_without_index, writer_options
from interop_cells import Cell, Ledger
from table_cases import begin_reshard

from keymark import Table

CELL = Cell("record", "simple", "maintained", "delete")
# A metadata table that is compacted by every write of Hudi's.
COMPACTING = {"hoodie.metadata.compact.max.delta.commits": "1"}


def shards(root):
    return len(Table.open(str(root)).info().shards)


def assert_exact(hudi, root, ledger, count):
    assert findings(hudi, root, ledger.wanted()) == []
    assert shards(root) == count
    checked = Table.open(str(root)).check()
    assert checked.ok, checked


@pytest.mark.share("0.15.0")
@pytest.mark.spark
@pytest.mark.slow
def test_hudi_reads_it_writes_it_and_compacts_it(hudi, tmp_path):
    root = tmp_path / "t"
    ledger = Ledger(CELL)
    table = CELL.create(root)
    table.bulk_insert(ledger.put(range(60), 1))
    table.upsert(ledger.put(range(30, 80), 2))
    before = shards(root)

    begin_reshard(table, 2 * before)
    table.upsert(ledger.put(range(70, 85), 2))
    assert findings(hudi, root, ledger.wanted()) == []
    table.reshard_index(2 * before)
    assert findings(hudi, root, ledger.wanted()) == []
    for number in range(3, 6):
        rows = ledger.put(range(10 * number, 10 * number + 70), number)
        hudi.write(root, rows, "upsert", writer_options(hudi, root, COMPACTING))
    assert_exact(hudi, root, ledger, 2 * before)

    # What Hudi's compaction made is dealt out, too; to a number that splits no shard by itself.
    table = Table.open(str(root), options=CELL.options)
    table.upsert(ledger.put(range(40), 6))
    table.reshard_index(2 * before + 1)
    hudi.write(root, ledger.put(range(20, 150), 7), "upsert", writer_options(hudi, root))
    assert_exact(hudi, root, ledger, 2 * before + 1)


@pytest.mark.share("1.1.1")
@pytest.mark.spark
@pytest.mark.slow
def test_fewer_shards_and_more_again(hudi, tmp_path):
    root = tmp_path / "t"
    ledger = Ledger(CELL)
    table = CELL.create(root)
    table.bulk_insert(ledger.put(range(60), 1))
    table.reshard_index(6)

    # What a writer adds between split and switch is dealt out in log blocks. Readers see none yet.
    begin_reshard(table, 4)
    writer = Table.open(str(root), options=CELL.options)
    writer.upsert(ledger.put(range(30, 80), 2))
    assert findings(hudi, root, ledger.wanted()) == []
    writer.upsert(ledger.put(range(70, 90), 3))
    table.reshard_index(4)
    assert_exact(hudi, root, ledger, 4)
    hudi.write(root, ledger.put(range(10, 100), 4), "upsert", writer_options(hudi, root))
    assert_exact(hudi, root, ledger, 4)

    # No write lies between the switch and Hudi's compaction.
    Table.open(str(root), options=CELL.options).reshard_index(3)
    for number in range(5, 8):
        rows = ledger.put(range(10 * number, 10 * number + 70), number)
        hudi.write(root, rows, "upsert", writer_options(hudi, root, COMPACTING))
        assert_exact(hudi, root, ledger, 3)

    # The names of shards that were taken out come again.
    Table.open(str(root), options=CELL.options).reshard_index(5)
    assert_exact(hudi, root, ledger, 5)
    hudi.write(root, ledger.put(range(20, 150), 8), "upsert", writer_options(hudi, root))
    assert_exact(hudi, root, ledger, 5)
    table = Table.open(str(root), options=CELL.options)
    table.upsert(ledger.put(range(40), 9))
    table.reshard_index(1)
    assert_exact(hudi, root, ledger, 1)


@pytest.mark.spark
@pytest.mark.slow
def test_what_hudi_writes_before_the_switch_is_taken_in(hudi, tmp_path):
    root = tmp_path / "t"
    ledger = Ledger(CELL)
    table = CELL.create(root)
    table.bulk_insert(ledger.put(range(60), 1))
    table.reshard_index(4)
    begin_reshard(table, 2)
    hudi.write(root, ledger.put(range(30, 90), 2), "upsert", writer_options(hudi, root))
    assert_exact(hudi, root, ledger, 4)
    assert Table.open(str(root), options=CELL.options).reshard_index(2).after == 2
    assert_exact(hudi, root, ledger, 2)


@pytest.mark.share("0.15.0")
@pytest.mark.spark
@pytest.mark.slow
def test_hudi_drops_it_and_builds_it_anew(hudi, tmp_path):
    """Its new shards have the names of those that were taken out."""
    root = tmp_path / "t"
    ledger = Ledger(CELL)
    table = CELL.create(root)
    table.bulk_insert(ledger.put(range(60), 1))
    table.reshard_index(6)
    table.reshard_index(3)
    asked = writer_options(hudi, root)
    rows = ledger.put(range(30, 90), 2)
    hudi.write(root, rows, "upsert", options_without_index(hudi, root))
    assert "record_index" not in metadata_partitions(root)
    hudi.write(root, ledger.put(range(20, 100), 3), "upsert", asked)
    assert_exact(hudi, root, ledger, 10)
