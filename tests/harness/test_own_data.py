from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.source import SourceDataset
from keymark.harness.engines.base import Layout
from keymark.harness.errors import HarnessError
from keymark.harness.redaction import REDACTED
from keymark.harness.run.own_data import ORDERING, SourceSection, load, refuse_repeated_keys
from keymark.harness.run.request import describe
from keymark.harness.scenario import scenario

FAR = dt.datetime(9999, 12, 31, tzinfo=dt.UTC)
ROWS = pa.table(
    {
        "id": ["007", "008", "12"],
        "dt": [dt.date(2024, 1, day) for day in (1, 1, 2)],
        "at": pa.array([FAR, None, FAR], pa.timestamp("us", "UTC")),
        "tags": pa.array([[1, None], [], None], pa.list_(pa.int64())),
    }
)


def section(path, **changes):
    return SourceSection(**{"path": str(path), "record_key": ["id"], **changes})


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "my rows"
    path.mkdir()
    pq.write_table(ROWS, path / "a.parquet")
    return path


def test_mistakes_show_before_spark_starts(tmp_path, folder):
    assert section(folder).mistake is None
    assert "does not exist" in section(tmp_path / "none").mistake
    assert "none of parquet, csv" in section(folder, format="xls").mistake
    (folder / ".hoodie").mkdir()
    assert "table.source" in section(folder).mistake
    with pytest.raises(ValidationError):
        section(folder, record_key=[])


def test_a_table_with_a_key_in_two_partitions_is_refused():
    layout = Layout(name="trips", record_key=("id",), partition_path=("dt",), ordering="at")
    for rows in (ROWS, ROWS.slice(0, 0)):
        refuse_repeated_keys(rows, layout, in_partitions=False)
    moved = ROWS.slice(2).set_column(1, "dt", pa.array([dt.date(2024, 1, 3)]))
    twice = pa.concat_tables([ROWS, moved])
    told = "trips holds 1 keys more than once, one of them 2 times"
    with pytest.raises(HarnessError, match=told):
        refuse_repeated_keys(twice, layout, in_partitions=False)
    # Indexes that look in a key's partition only have no use for one row a key.
    refuse_repeated_keys(twice, layout, in_partitions=True)
    with pytest.raises(HarnessError, match="more than once in one partition, one of them 2 times"):
        refuse_repeated_keys(pa.concat_tables([ROWS, ROWS]), layout, in_partitions=True)
    with pytest.raises(HarnessError, match="trips holds each key in several partitions"):
        refuse_repeated_keys(twice.filter([False, False, True, True]), layout, in_partitions=True)


def test_options_are_texts(folder):
    assert section(folder, options={"header": False, "x": 1}).options == {
        "header": "false",
        "x": "1",
    }


def test_secrets_among_the_options_stay_out_of_the_run(folder):
    options = {"header": "true", "my.secret.key": "hunter2"}
    own = section(folder, options=options)
    plan = scenario.load("ci")
    plan = plan.model_copy(update={"dataset": plan.dataset.model_copy(update={"source": own})})
    shown = describe(plan)["dataset"]["source"]
    assert shown["options"] == {"header": "true", "my.secret.key": REDACTED}
    assert shown["record_key"] == ["id"]


@pytest.mark.spark
def test_rows_come_as_they_are_with_an_ordering_column(spark, folder, tmp_path):
    before = spark.conf.get("spark.sql.parquet.outputTimestampType")
    rows, layout = load(spark, section(folder, partition_path=["dt"]), tmp_path / "copy")
    assert rows.sort_by("id").to_pylist() == [row | {ORDERING: 0} for row in ROWS.to_pylist()]
    assert rows.schema.field("at").type == pa.timestamp("us", "UTC")
    assert (layout.name, layout.record_key) == ("my_rows", ("id",))
    assert (layout.partition_path, layout.ordering) == (("dt",), ORDERING)
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == before


@pytest.mark.spark
def test_keys_in_csv_are_texts(spark, tmp_path):
    pc.write_csv(ROWS.select(["id"]).append_column("n", pa.array([1, 2, 3])), tmp_path / "x.csv")
    rows, _ = load(spark, section(tmp_path / "x.csv", ordering="n"), tmp_path / "copy")
    assert rows.sort_by("n").to_pydict() == {"id": ["007", "008", "12"], "n": [1, 2, 3]}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("ids", "part"),
    [
        (["secret", "secret", "b", "secret", "b"], "2 keys come more than once, one of them 3"),
        (["a", None, "b"], "1 of 3 rows have a null"),
        ([], "there are no rows"),
    ],
)
def test_keys_that_are_no_keys_are_counted_and_not_named(spark, tmp_path, ids, part):
    pq.write_table(pa.table({"id": pa.array(ids, pa.string())}), tmp_path / "a.parquet")
    with pytest.raises(HarnessError, match=part) as caught:
        load(spark, section(tmp_path / "a.parquet"), tmp_path / "copy")
    assert "secret" not in str(caught.value)


@pytest.mark.spark
def test_columns_that_are_not_there_and_jars_that_are_missing(spark, folder, tmp_path):
    with pytest.raises(DatasetError, match="no column 'ts'"):
        load(spark, section(folder, ordering="ts"), tmp_path / "copy")
    for name in ("delta", "iceberg"):
        with pytest.raises(DatasetError, match=f"no reader for {name}.*spark.jars"):
            load(spark, section(folder, format=name), tmp_path / "copy")


@pytest.mark.spark
def test_a_timestamp_may_be_the_ordering(spark, folder, tmp_path):
    rows, layout = load(spark, section(folder, ordering="at"), tmp_path / "copy")
    rows = rows.filter(pa.compute.is_valid(rows["at"]))
    dataset = SourceDataset(
        rows,
        name=layout.name,
        record_key=layout.record_key,
        partition_path=(),
        ordering="at",
        seed=1,
        updates=1,
        inserts=1,
        deletes=0,
    )
    changed = dataset.batch(spark, 1).collect()
    assert sorted(row["at"].replace(tzinfo=dt.UTC) - FAR for row in changed) == [
        dt.timedelta(0),
        dt.timedelta(microseconds=1),
    ]
