"""The benchmarks of generated rows, run tiny: what they compare, and what their profile sees."""

from __future__ import annotations

import json

import digest_partitions
import generation_speed
import pytest


def test_stacks_are_told_apart():
    parquet = ["org.apache.parquet.io.MessageColumnIO", "org.apache.spark.sql.GeneratedClass$X"]
    assert generation_speed.part(["java.lang.String", *parquet]) == "the Parquet writer"
    assert generation_speed.part(parquet[1:]) == "making rows"
    assert generation_speed.part(["java.io.File", "org.apache.hadoop.fs.X"]) == "the file system"
    assert generation_speed.part(["sun.misc.Unsafe"]) == "else"


@pytest.mark.parametrize("columns", ["EIGHT", "TEN"])
def test_rows_have_the_columns_of_what_they_are_compared_with(columns):
    columns = getattr(generation_speed, columns)
    spec = generation_speed.spec(columns, next(iter(columns)), 10)
    assert [name for name, _ in spec.flat_columns()] == list(columns)


@pytest.mark.spark
def test_every_measurement_is_a_line(spark, capsys):
    generation_speed.parquet(spark, 1, rows=2000)
    generation_speed.keys_alone(1, rows=2000)
    generation_speed.rows_alone(1, rows=2000)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 4
    assert all(line["low"] <= line["rows_per_second_per_core"] for line in lines)
    assert all(line["rows"] == 2000 for line in lines)
    parts = {"the Parquet writer", "making rows", "the digest"}
    assert lines[-1]["profile_percent"].keys() == parts
    assert 0 < sum(lines[-1]["profile_percent"].values()) <= 101


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_partitions_do_not_change_the_digest(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["digest", "--rows", "300", "--partitions", "1,3"])
    assert digest_partitions.main() == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["rows"] for line in lines} == {300}
    assert len(lines) == 4
