"""Tables at a URL, and the copies that the harness looks at."""

from __future__ import annotations

import pytest

from keymark import Table
from keymark.harness.tables import independent
from keymark.harness.tables.probes import Listing
from keymark.harness.tables.table_folders import LocalTables, RemoteTables
from keymark.table.errors import StorageError
from keymark.table.storage.stores import storage_at

ROWS = [{"k": f"k{n}", "p": f"p{n % 2}", "v": n} for n in range(10)]


@pytest.fixture
def there(tmp_path):
    return RemoteTables(
        url=f"memory://{tmp_path.name}/runs/1",
        work=tmp_path / "tables",
        connection={},
        request_log=tmp_path / "requests",
    )


def loaded(places, path):
    import pyarrow as pa

    table = Table.create(places.of(path), record_key="k", partition_path="p")
    table.upsert(pa.Table.from_pylist(ROWS))
    return table


def held(table):
    return sorted(row["k"] for part in table.scan().tables() for row in part.to_pylist())


def test_tables_here_are_where_they_are(tmp_path):
    assert LocalTables().of(tmp_path) == str(tmp_path)
    assert LocalTables().seen(tmp_path) == tmp_path
    LocalTables().clear()


def test_what_is_seen_is_what_is_there(there):
    path = there.work / "native" / "record" / "snapshot"
    assert there.of(path) == f"{there.url}/native/record/snapshot"
    assert Listing.of(there.seen(path)).sizes == {}
    table = loaded(there, path)
    for write in (lambda: table.delete(["k0", "k1"]), table.compact, lambda: None):
        on_store = {status.path: status.size for status in table.storage.walk("")}
        assert Listing.of(there.seen(path)).sizes == on_store
        placed = {row["record_key"]: row for row in independent.locations(path).to_pylist()}
        assert sorted(placed) == held(table)
        write()
    gone = next(iter(on_store))
    table.storage.delete(gone)
    assert gone not in Listing.of(there.seen(path)).sizes


def test_files_that_never_change_are_fetched_once(there):
    path = there.work / "t"
    table = loaded(there, path)
    first = {file: file.stat().st_mtime_ns for file in there.seen(path).rglob("*.parquet")}
    assert first
    table.upsert(table.scan().tables().__next__().select(["k", "p", "v"]))
    there.seen(path)
    assert {file: file.stat().st_mtime_ns for file in first} == first


def test_a_repetition_starts_from_a_copy(there):
    kept, path = there.work / "kept", there.work / "turn"
    table = loaded(there, kept)
    there.restore(kept, path)
    Table.open(there.of(path)).delete(["k0"])
    assert held(Table.open(there.of(path))) == [f"k{n}" for n in range(1, 10)]
    assert held(table) == [f"k{n}" for n in range(10)]
    there.restore(kept, path)
    assert held(Table.open(there.of(path))) == held(table)
    assert Table.open(there.of(path)).check().ok
    there.remove(path)
    assert not path.exists()
    assert list(storage_at(there.of(path), {}).walk("")) == []
    there.clear()
    assert list(table.storage.walk("")) == []


def test_a_table_of_somebodys_is_copied(tmp_path, there):
    source = tmp_path / "source"
    loaded(LocalTables(), source)
    before = Listing.of(source)
    there.copy(source, there.work / "t")
    assert held(Table.open(there.of(there.work / "t"))) == [f"k{n}" for n in range(10)]
    assert Listing.of(source) == before


def test_a_place_that_is_none(tmp_path):
    with pytest.raises(StorageError, match="tables can be at"):
        RemoteTables(url="ftp://x/y", work=tmp_path, connection={}, request_log=tmp_path).clear()
