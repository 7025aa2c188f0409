"""On tables that Apache Hudi 0.15.0 wrote, every index finds each key in the file that holds it."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keymark import Table
from keymark.table.index.protocol import LookupStats, load_index
from keymark.table.state.table_state import TableState

DATA = Path(__file__).parents[1] / "data"
ARCHIVES = {
    "record_index/table": "record_index",
    "complex_key/table": "complex_key",
    "b": "variants",
    "b_enc": "variants",
    "b_np": "variants",
    "k_upsert": "variants",
}
# Tables with column_stats and bloom_filters, after writes, a compaction and cleans.
STATES = ("a_1_bulk", "a_2_upsert", "a_3_delete", "a_4_move", "a_6_before_fail", "a2_2_indexed")
BUCKETS = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "4",
    "hoodie.bucket.index.hash.field": "k1",
}


@pytest.fixture(scope="module")
def hudi(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hudi")
    for archive in ("record_index", "complex_key", "variants", "bucket", "states"):
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
    """What the lookup touched."""
    places = places_on_disk(folder)
    assert places
    asked = [*places, "absent", "\U0001f600", "k1:x,k2:"]
    stats = LookupStats()
    context = table._context(TableState.load(table.storage), stats)
    wanted = [(key, places.get(key, (None, None))) for key in asked]
    paths = pa.array([place[0] or "" for _, place in wanted])
    for partitions in (None, paths):
        found = load_index(index).lookup(pa.array(asked), context, partitions)
        pairs = zip(found["partition_path"].to_pylist(), found["file_id"].to_pylist(), strict=True)
        assert list(pairs) == [place for _, place in wanted]
    return stats


@pytest.mark.parametrize("index", ["simple", "global_simple", "bloom", "global_bloom"])
@pytest.mark.parametrize("name", ARCHIVES)
def test_indexes_that_need_nothing_find_every_key(hudi, name, index):
    check(Table.open(str(hudi / name)), index, hudi / name)


@pytest.mark.parametrize("index", ["bloom", "global_bloom"])
@pytest.mark.parametrize("name", STATES)
def test_ranges_and_filters_in_the_metadata_table_of_hudi_are_used(hudi, name, index):
    table = Table.open(str(hudi / name), options={"hoodie.bloom.index.use.metadata": "true"})
    stats = check(table, index, hudi / name)
    assert stats.filters_from_metadata > 0
    assert stats.ranges_from_metadata > 0
    # Hudi 0.15 gives records of files that were there before the partitions keys of their own.
    made_late = name == "a2_2_indexed"
    assert (stats.filters_from_footers > 0) == (stats.ranges_from_footers > 0) == made_late


@pytest.mark.parametrize("name", ["record_index/table", "complex_key/table", "b_np"])
def test_record_finds_every_key(hudi, name):
    check(Table.open(str(hudi / name)), "record", hudi / name)


@pytest.mark.spark
@pytest.mark.parametrize("index", ["simple", "global_simple"])
@pytest.mark.parametrize("name", ["record_index/table", "complex_key/table", "b", "b_enc"])
def test_a_join_by_spark_finds_every_key(hudi, name, index, spark):
    table = Table.open(str(hudi / name), options={"keymark.local.bytes": "0"}, spark=spark)
    check(table, index, hudi / name)


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
