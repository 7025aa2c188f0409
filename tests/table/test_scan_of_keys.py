"""A scan of some keys gives the rows that a scan of all has for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from table_cases import create, rows, unpack

from keymark import Table
from keymark.table.errors import CorruptFileError
from keymark.table.properties.options import BATCH_COLLECT

KEY = "_hoodie_record_key"
PAGES = {"keymark.parquet.page.rows": "10"}


def both(table, keys):
    """The rows of keys, read by the keys, and filtered out of all rows."""
    found = table.scan(keys=keys).to_arrow()
    every = table.scan().to_arrow()
    wanted = every.filter(pc.is_in(every[KEY], value_set=pa.array(keys, pa.string())))
    order = [(KEY, "ascending")]
    return found.sort_by(order), wanted.sort_by(order)


@pytest.mark.parametrize("index", ["record", "global_simple"])
def test_rows_of_new_changed_and_copied_pages_are_found(tmp_path, index):
    table = create(tmp_path / "t", PAGES, index=index, partition_path=None)
    table.bulk_insert(rows(range(300)))
    table.upsert(rows([5, 123], ts=2, value="new"))
    table.upsert(rows([124, 400], ts=3, value="newer"))
    table.delete(["k7"])
    for keys in (["k5"], ["k0", "k124", "k299", "k400"], ["k7"], ["nothing"], []):
        found, wanted = both(table, keys)
        assert found.equals(wanted)
    assert both(table, ["k5", "k7"])[0]["v"].to_pylist() == ["newk5"]
    many = [f"k{number}" for number in range(0, 300, 2)]
    found, wanted = both(table, many)
    assert (found.num_rows, found.equals(wanted)) == (150, True)


@pytest.mark.parametrize("collected", ["0", "1000000"])
def test_a_key_that_goes_to_another_partition_in_one_batch_keeps_its_entry(tmp_path, collected):
    """With an index of each partition that is a delete and a new row."""
    options = {"hoodie.metadata.record.index.enable": "true", BATCH_COLLECT: collected}
    table = create(tmp_path / "t", options, index="simple")
    table.upsert(rows([1, 2, 3], partition="here"))
    batch = pa.concat_tables([rows([1, 2], partition="here"), rows([1], partition="there")])
    flags = pa.array([True, True, False])
    result = table.upsert(batch.append_column("_hoodie_is_deleted", flags))
    assert (result.deleted, result.inserted) == (2, 1)
    assert table.scan(keys=["k1"]).to_arrow()["p"].to_pylist() == ["there"]
    checked = table.check()
    assert (checked.ok, checked.keys, checked.missing) == (True, 2, 0)


@pytest.mark.parametrize("index", ["simple", "bloom", "partitioned_record"])
def test_a_key_in_two_partitions_is_read_from_both(tmp_path, index):
    """The record index names one of its rows: an index of each partition allows several."""
    record_index = {"hoodie.metadata.record.index.enable": "true"}
    table = create(tmp_path / "t", record_index, index=index)
    table.upsert(rows([1, 2], partition="here"))
    table.upsert(rows([1], partition="there"))
    found = table.scan(keys=["k1"]).to_arrow()
    assert sorted(found["p"].to_pylist()) == ["here", "there"]
    table.delete(pa.table({"k": ["k1"], "p": ["there"]}))
    assert table.scan(keys=["k1"]).to_arrow()["p"].to_pylist() == ["here"]


@pytest.mark.parametrize("collected", ["0", "1000000"])
@pytest.mark.parametrize("index", ["simple", "bloom", "partitioned_record"])
def test_a_new_key_comes_in_two_partitions_of_one_batch(tmp_path, index, collected):
    options = {"hoodie.metadata.record.index.enable": "true", BATCH_COLLECT: collected}
    table = create(tmp_path / "t", options, index=index)
    batch = pa.concat_tables([rows([1, 2], partition="here"), rows([1], partition="there")])
    assert table.upsert(batch).inserted == 3
    found = table.scan(keys=["k1"]).to_arrow()
    assert sorted(found["p"].to_pylist()) == ["here", "there"]
    assert table.upsert(batch).updated == 3
    assert table.delete(batch.select(["k", "p"])).deleted == 3


def test_columns_are_cut_and_rows_of_no_key_have_the_schema(tmp_path):
    table = create(tmp_path / "t", index="global_simple")
    table.bulk_insert(rows(range(30)))
    found = table.scan(keys=["k3"], columns=["v", "k"]).to_arrow()
    assert found.to_pylist() == [{"v": "vk3", "k": "k3"}]
    plan = replace(table.scan(), keys=pa.array(["nothing"]))
    assert plan.to_arrow().equals(table.scan().to_arrow().slice(0, 0))


def test_a_table_of_hudis_is_read_by_keys(tmp_path):
    path = unpack("hudi-0.15.0-record_index.tar.gz", tmp_path) / "record_index" / "table"
    table = Table.open(path)
    keys = table.scan().to_arrow()[KEY].to_pylist()
    found, wanted = both(table, [keys[0], keys[-1]])
    assert (found.num_rows, found.equals(wanted)) == (2, True)


def test_damage_in_a_page_beside_is_an_error(tmp_path):
    table = create(tmp_path / "t", PAGES, partition_path=None)
    table.bulk_insert(rows(range(100)))
    table.upsert(rows([5], ts=2))
    (file,) = table.scan(keys=["k5"]).files
    path = Path(table.storage.root) / file.path
    data = bytearray(path.read_bytes())
    # Somewhere in the first column chunk, behind its first page.
    data[200] ^= 1
    path.chmod(0o644)
    path.write_bytes(bytes(data))
    with pytest.raises(CorruptFileError):
        table.scan(keys=["k5"]).to_arrow()
