"""On tables that Apache Hudi 0.15.0 wrote, every index finds each key in the file that holds it."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from table import Table
from table.write.index import load_index
from table.write.transaction import TableState

DATA = Path(__file__).parents[1] / "data"
ARCHIVES = {
    "record_index/table": "record_index",
    "complex_key/table": "complex_key",
    "b": "variants",
    "b_enc": "variants",
    "b_np": "variants",
    "k_upsert": "variants",
}
BUCKETS = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "4",
    "hoodie.bucket.index.hash.field": "k1",
}


@pytest.fixture(scope="module")
def hudi(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hudi")
    for archive in ("record_index", "complex_key", "variants", "bucket"):
        with tarfile.open(DATA / f"hudi-0.15.0-{archive}.tar.gz") as tar:
            tar.extractall(folder, filter="data")
    return folder


def places_on_disk(folder):
    """record key -> (partition path, file id), from the newest completed file of each group."""
    done = {p.name.split(".")[0] for p in (folder / ".hoodie").iterdir() if p.suffix == ".commit"}
    newest = {}
    for path in folder.rglob("*.parquet"):
        partition = path.parent.relative_to(folder).as_posix().removeprefix(".")
        file_id, _, instant = path.stem.split("_")
        if partition.startswith("hoodie") or instant not in done:
            continue
        if instant > newest.get((partition, file_id), ("",))[0]:
            newest[partition, file_id] = (instant, path)
    places = {}
    for place, (_, path) in newest.items():
        meta = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]
        for key, stored_path, name in zip(
            *pq.read_table(path, columns=meta, partitioning=None).to_pydict().values(), strict=True
        ):
            assert (stored_path, name) == (place[0], path.name)
            places[key] = place
    return places


def check(table, index, folder):
    places = places_on_disk(folder)
    assert places
    asked = [*places, "absent", "\U0001f600", "k1:x,k2:"]
    context = table._context(TableState.load(table.storage), None)
    found = load_index(index).lookup(pa.array(asked), context)
    pairs = zip(found["partition_path"].to_pylist(), found["file_id"].to_pylist(), strict=True)
    assert list(pairs) == [places.get(key, (None, None)) for key in asked]


@pytest.mark.parametrize("name", ARCHIVES)
def test_global_bloom_finds_every_key(hudi, name):
    check(Table.open(str(hudi / name)), "global_bloom", hudi / name)


@pytest.mark.parametrize("name", ["record_index/table", "complex_key/table", "b_np"])
def test_record_finds_every_key(hudi, name):
    check(Table.open(str(hudi / name)), "record", hudi / name)


@pytest.mark.spark
@pytest.mark.parametrize("name", ["record_index/table", "complex_key/table", "b", "b_enc"])
def test_global_simple_finds_every_key(hudi, name, spark):
    check(Table.open(str(hudi / name), spark=spark), "global_simple", hudi / name)


def test_bucket_finds_every_key(hudi):
    check(Table.open(str(hudi / "e2"), options=BUCKETS), "bucket", hudi / "e2")


def test_bucket_writes_into_the_groups_of_hudi(hudi):
    table = Table.open(str(hudi / "e2"), options=BUCKETS)
    rows = pa.concat_tables(table.scan().tables())
    names = [name for name in rows.column_names if not name.startswith("_hoodie")]
    result = table.upsert(rows.select(names))
    assert (result.updated, result.inserted) == (rows.num_rows, 0)
    assert pa.concat_tables(table.scan().tables()).num_rows == rows.num_rows
    check(table, "bucket", hudi / "e2")
