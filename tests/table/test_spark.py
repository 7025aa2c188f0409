"""The same table through Spark: frames in, frames out, work on executors."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from keymark import Table
from keymark.table.errors import CorruptFileError, InputError
from keymark.table.properties.options import LOCAL_BYTES
from keymark.table.runtime.runner import SparkRunner
from keymark.table.write import client

pytestmark = pytest.mark.spark

ROWS = 3000


def rows(low, high, ts, shift=0):
    ids = range(low, high)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "region": [("eu", "us")[(i + shift) % 2] for i in ids],
            "day": [f"2024-01-{(i + shift) % 3 + 1:02d}" for i in ids],
            "ts": pa.array([ts] * len(ids), pa.int64()),
            "name": [f"name {i}" for i in ids],
            "tags": [[i % 3, 7] for i in ids],
        }
    )


SCHEMA = "id long, region string, day string, ts long, name string, tags array<long>"


def frame(spark, table):
    return spark.createDataFrame(table.to_pylist(), SCHEMA)


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory):
    """Loaded by Spark in several tasks, upserted by Spark, with moves."""
    made = Table.create(
        str(tmp_path_factory.mktemp("spark") / "t"),
        record_key=["region", "id"],
        partition_path=["day"],
        ordering="ts",
        options={
            "hoodie.metadata.record.index.min.filegroup.count": "3",
            "hoodie.metadata.record.index.max.filegroup.count": "3",
            "hoodie.record.index.update.partition.path": "true",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.parquet.max.file.size": "450000",
        },
        spark=spark,
    )
    made.bulk_insert(frame(spark, rows(0, ROWS, 1)).repartition(3))
    return made


def test_bulk_insert_by_tasks_is_indexed_exactly(table):
    assert table.check().ok
    assert table.check().keys == ROWS
    assert table.info().base_files >= 9


def test_file_ids_of_one_task_share_their_uuid(table):
    plan = table.scan()
    tasks = {file.file_id.rpartition("-")[0] for file in plan.files}
    assert len(tasks) == 3


def test_read_returns_every_row_once(table):
    read = table.read()
    assert read.count() == ROWS
    expected = {(r["region"], r["id"], r["name"]) for r in rows(0, ROWS, 1).to_pylist()}
    assert {(r.region, r.id, r.name) for r in read.collect()} == expected


@pytest.mark.parametrize(
    ("where", "count", "files"),
    [
        ("region = 'eu' AND id = 4", 1, 1),
        ("id IN (4, 6, 7) AND 'eu' = region", 2, 2),
        ("`_hoodie_record_key` = 'region:us,id:7'", 1, 1),
        ("region = 'eu' AND id = 4 AND ts > 5", 0, 1),
        ("region = 'eu' AND id = -1", 0, 0),
        ("region = 'eu' AND id = NULL", 0, 0),
        ("id = 4", 1, None),
        ("id = '4' AND region = 'eu'", 1, None),
        ("region = 'eu' OR id = 4", ROWS // 2, None),
    ],
)
def test_where_prunes_by_the_index_and_never_changes_the_answer(table, where, count, files):
    read = table.read(where=where)
    assert read.count() == count
    opened = len(read.inputFiles())
    assert opened <= files if files is not None else opened == table.scan().files_total


def test_read_by_keys_opens_only_their_files(table):
    keys = ["region:eu,id:10", "region:us,id:11", "region:eu,id:11"]
    read = table.read(keys=keys, columns=["id", "name"])
    assert sorted((r.id, r.name) for r in read.collect()) == [(10, "name 10"), (11, "name 11")]
    assert len(read.inputFiles()) <= 2


def test_where_that_is_no_condition_is_refused(table):
    with pytest.raises(InputError, match="where is not a condition"):
        table.read(where="id = = 4")


def test_upsert_on_executors_equals_upsert_in_process(spark, tmp_path):
    update = rows(ROWS // 2, ROWS // 2 + 500, 2, shift=1)
    results, contents = [], []
    for local_bytes in (0, 1 << 40):
        made = Table.create(
            str(tmp_path / str(local_bytes)), record_key="id", partition_path="day", ordering="ts"
        )
        made.bulk_insert(rows(0, ROWS, 1))
        writer = made._writer(frame(spark, update))
        writer = type(writer)(
            **{
                name: getattr(writer, name)
                for name in writer.__dataclass_fields__
                if name != "runner"
            },
            runner=SparkRunner(spark, local_bytes=local_bytes),
        )
        results.append(client.upsert(writer, update))
        contents.append(pa.concat_tables(made.scan(columns=["id", "day", "ts"]).tables()))
        assert made.check().ok
    assert results[0].updated == results[1].updated == 500
    assert contents[0].sort_by("id").equals(contents[1].sort_by("id"))


def test_what_tasks_sync_is_counted(spark, tmp_path, monkeypatch):
    told: list[float] = []
    for module in ("runtime.runner", "write.bulk"):
        monkeypatch.setattr(f"keymark.table.{module}.count_synced", told.append)
    made = Table.create(str(tmp_path / "t"), record_key="id", spark=spark)
    made.bulk_insert(frame(spark, rows(0, 50, 1)))
    assert max(told) > 0
    told.clear()
    Table.open(str(tmp_path / "t"), options={LOCAL_BYTES: "0"}, spark=spark).upsert(rows(0, 50, 2))
    assert max(told) > 0


def test_a_damaged_base_file_on_an_executor_is_one_typed_error(spark, tmp_path):
    made = Table.create(str(tmp_path / "t"), record_key="id", partition_path="day")
    made.bulk_insert(rows(0, 100, 1))
    victim = made.scan().files[0]
    path = tmp_path / "t" / victim.path
    data = bytearray(path.read_bytes())
    data[-5] ^= 0xFF
    path.write_bytes(bytes(data))
    writer = made._writer(frame(spark, rows(0, 100, 2)))
    object.__setattr__(writer, "runner", SparkRunner(spark, local_bytes=0))
    with pytest.raises(CorruptFileError, match=victim.file_id):
        client.upsert(writer, rows(0, 100, 2))


def test_null_key_in_a_bulk_insert_leaves_the_table_empty(spark, tmp_path):
    made = Table.create(str(tmp_path / "t"), record_key="name", partition_path="day", spark=spark)
    broken = rows(0, 50, 1).set_column(4, "name", pc.if_else(True, pa.nulls(50, pa.string()), None))
    told = (
        r"record key field name is null or empty in row 0 of the input, counted from row 0 of "
        r"those of partition path \S+ in part \d of the rows"
    )
    with pytest.raises(InputError, match=told):
        made.bulk_insert(frame(spark, broken))
    assert made.scan().files == ()
    assert not list((tmp_path / "t").rglob("*.parquet"))


def test_a_missing_file_is_told_even_where_paths_look_like_patterns(spark, tmp_path):
    root = tmp_path / "odd[name]"
    made = Table.create(str(root), record_key="id", partition_path="day", spark=spark)
    made.bulk_insert(rows(0, 30, 1))
    assert made.read().count() == 30
    (root / made.scan().files[0].path).unlink()
    with pytest.raises(CorruptFileError, match="it is missing"):
        made.read()
