"""Tables without key fields: inserted rows get keys, which name them from then on."""

from __future__ import annotations

import re

import pytest
from table_cases import create, rows

from keymark import Table
from keymark.table.errors import InputError, InvalidOptionError
from keymark.table.properties.options import KEY_GENERATOR_TYPE, TIME_OUTPUT, TIME_TYPE

KEY = "_hoodie_record_key"


def stored(table) -> dict[str, str]:
    found = {}
    for part in table.scan().tables():
        keys = part[KEY].to_pylist()
        assert not found.keys() & set(keys)
        found |= dict(zip(keys, part["v"].to_pylist(), strict=True))
    return found


@pytest.fixture(params=["record", "global_bloom", "simple", "compact"])
def table(request, tmp_path):
    return create(tmp_path / "t", record_key=None, index=request.param)


def test_equal_rows_get_keys_of_their_own(table):
    first = table.insert(rows(["a", "a", "a"]))
    assert first.inserted == 3
    second = table.bulk_insert(rows(["a", "a"]))
    keys = stored(table)
    assert len(keys) == 5
    assert all(re.fullmatch(r"\d{17}_0_\d+", key) for key in keys)
    assert {key.split("_")[0] for key in keys} == {first.instant, second.instant}
    assert "recordkey.fields" not in "".join(table.config.properties)


def test_rows_are_named_by_their_generated_key(table):
    table.insert(rows(range(4), partition="p"))
    (part,) = table.scan().tables()
    changed = part.set_column(part.schema.get_field_index("v"), "v", [["new"] * 4])
    assert table.upsert(changed).updated == 4
    assert set(stored(table).values()) == {"new"}
    name = next(iter(stored(table)))
    assert table.lookup([name])["partition_path"].to_pylist() == ["p"]
    gone = part.slice(0, 2).select([KEY, "p"])
    assert table.delete(gone).deleted == 2
    assert len(stored(table)) == 2


def test_rows_without_a_name_are_not_upserted(table):
    table.insert(rows(range(2)))
    with pytest.raises(InputError, match=KEY):
        table.upsert(rows(range(2)))
    with pytest.raises(InputError, match=KEY):
        table.delete(rows(range(2)))


def test_a_failed_write_leaves_no_key(table, monkeypatch):
    def fail(*_, **__):
        raise OSError("disk gone")

    with monkeypatch.context() as patch:
        patch.setattr("keymark.table.write.transaction.WriteTransaction.commit", fail)
        with pytest.raises(OSError, match="disk gone"):
            table.insert(rows(range(3)))
    table.insert(rows(range(3)))
    assert len(stored(table)) == 3


def test_check_purge_and_build(tmp_path):
    table = create(tmp_path / "t", record_key=None)
    table.insert(rows(range(6)))
    assert table.check().ok
    assert table.check().keys == 6
    name = next(iter(stored(table)))
    report = table.purge([name])
    assert report.proven
    table.drop_index("record_index")
    assert table.build_index("record_index")
    assert Table.open(str(tmp_path / "t")).check().keys == 5


def test_times_in_the_path(tmp_path):
    times = {KEY_GENERATOR_TYPE: "TIMESTAMP", TIME_TYPE: "UNIX_TIMESTAMP", TIME_OUTPUT: "yyyy"}
    table = create(tmp_path / "t", times, record_key=None, partition_path="ts")
    table.insert(rows(range(2)))
    assert {file.partition_path for file in table.scan().files} == {"1970"}


def test_what_needs_key_fields(tmp_path):
    with pytest.raises(InvalidOptionError, match="bucket index needs key fields"):
        create(tmp_path / "t", record_key=None, index="bucket")
    with pytest.raises(InvalidOptionError, match="virtual keys need key fields"):
        create(tmp_path / "t", {"hoodie.populate.meta.fields": "false"}, record_key=None)


@pytest.mark.spark
def test_every_spark_partition_counts_on_its_own(tmp_path, spark):
    table = create(tmp_path / "t", record_key=None, spark=spark)
    frame = spark.createDataFrame(rows(["a"] * 12).to_pandas()).repartition(3)
    table.bulk_insert(frame)
    table.insert(frame)
    assert len(stored(table)) == 24
    parts = {key.rsplit("_", 1)[0] for key in stored(table)}
    # An insert's frame whose size Spark knows (PySpark 4) is collected, as one partition.
    assert len(parts) in (4, 6)
    assert table.read(where="k = 'a'").count() == 24
