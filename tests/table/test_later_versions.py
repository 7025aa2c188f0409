"""Rows of tables of version 8 and 9 are those that Hudi reads from them."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_cases import unpack

from keymark import cli
from keymark.table.errors import CorruptFileError, InputError, UnsupportedTableError
from keymark.table.layout.naming import BOOTSTRAPPED
from keymark.table.read import later_versions
from keymark.table.storage.stores import storage_at

COLUMNS = ["_hoodie_record_key", "_hoodie_partition_path", "uuid", "dt", "ts", "id", "city", "fare"]


@pytest.fixture
def table(request, tmp_path):
    return (
        unpack(f"hudi-{request.param}.tar.gz", tmp_path) / request.param.partition("-")[2] / "table"
    )


@pytest.mark.spark
@pytest.mark.parametrize(
    "table", ["1.0.2-own", "1.2.0-own_partitioned", "1.2.0-own_merge_on_read"], indirect=True
)
def test_rows_are_those_that_hudi_reads(spark, table):
    storage = storage_at(str(table), {})
    assert later_versions.is_later(storage)
    frame = later_versions.read(spark, storage)
    assert frame.columns == later_versions.columns(storage)
    expected = pq.read_table(table.parent / "expected.parquet").select(COLUMNS)
    order = [(name, "ascending") for name in COLUMNS[:2]]
    rows = [tuple(row) for row in frame.select(COLUMNS).collect()]
    assert sorted(rows) == [tuple(row.values()) for row in expected.sort_by(order).to_pylist()]


@pytest.mark.spark
@pytest.mark.parametrize("table", ["1.2.0-own_partitioned"], indirect=True)
def test_folders_with_signs_of_patterns(spark, table):
    """A partition path may hold them: `city=[a]`, `{b}`."""
    (table / "2024").rename(table / "{2024}[1]")
    rows = pq.read_metadata(table.parent / "expected.parquet").num_rows
    assert later_versions.read(spark, storage_at(str(table), {})).count() == rows


@pytest.mark.spark
@pytest.mark.parametrize("table", ["1.2.0-own_partitioned"], indirect=True)
def test_a_column_that_newer_files_have(spark, table):
    storage = storage_at(str(table), {})
    _, groups, _ = later_versions._file_groups(storage)
    _, *others = [base for base, _ in groups]
    count = 0
    for base in others:
        rows = pq.ParquetFile(table / base).read()
        pq.write_table(rows.append_column("added", pa.array(["a"] * len(rows))), table / base)
        count += len(rows)
    assert "added" in later_versions.columns(storage)
    frame = later_versions.read(spark, storage)
    assert sorted(frame.columns) == sorted(later_versions.columns(storage))
    assert frame.where("added = 'a'").count() == count
    rows = pq.read_metadata(table.parent / "expected.parquet").num_rows
    assert frame.where("uuid is not null").count() == rows


@pytest.mark.parametrize("table", ["1.2.0-own_partitioned"], indirect=True)
def test_a_table_that_hudi_bootstrapped(table):
    for base in [*table.rglob("*.parquet")]:
        base.rename(base.with_name(f"{base.name.rpartition('_')[0]}_{BOOTSTRAPPED}.parquet"))
    with pytest.raises(UnsupportedTableError, match="bootstrap"):
        later_versions.columns(storage_at(str(table), {}))


@pytest.mark.spark
@pytest.mark.parametrize("table", ["1.2.0-own_merge_on_read"], indirect=True)
def test_keys_are_profiled(spark, table, capsys):
    del spark
    assert (
        cli.main(["data", "profile", str(table), "--key", "uuid", "--partition", "dt", "--json"])
        == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert told["rows"] == pq.read_metadata(table.parent / "expected.parquet").num_rows
    assert cli.main(["data", "profile", str(table), "--key", "absent"]) == 2
    assert "absent" in capsys.readouterr().err


@pytest.mark.parametrize("table", ["1.1.1-own"], indirect=True)
def test_what_cannot_be_read_is_named(table):
    storage = storage_at(str(table), {})
    path = max((table / ".hoodie/timeline").glob("*.commit"))
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    with pytest.raises(CorruptFileError, match=path.name):
        later_versions.columns(storage)
    path.write_bytes(whole)
    for base in table.rglob("*.parquet"):
        base.unlink()
    with pytest.raises(InputError, match="has no rows"):
        later_versions.columns(storage)
