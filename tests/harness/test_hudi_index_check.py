"""A record index that is asked for each key of the table, compared with the rows."""

from __future__ import annotations

import pytest

from keymark.harness.engines import hudi_index_check
from keymark.harness.engines.hudi_index_check import compare_answers

pytestmark = pytest.mark.spark

COLUMNS = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]
ROWS = [
    (f"k{number}", f"p{number % 2}", f"f{number % 3}-0_1-2-3_2026.parquet") for number in range(9)
]
PLACES = {key: (partition, name.partition("_")[0]) for key, partition, name in ROWS}


@pytest.mark.parametrize("together", [2, 100])
def test_what_the_index_answers_is_compared_with_each_row(spark, monkeypatch, together):
    monkeypatch.setattr(hudi_index_check, "_ASKED_TOGETHER", together)
    rows = spark.createDataFrame(ROWS, COLUMNS)
    asked = []

    def ask(keys):
        asked.extend(keys)
        return {key: PLACES[key] for key in keys}

    nothing = {"missing": 0, "extra": 0, "wrong": 0, "duplicate": 0}
    assert compare_answers(rows, ask) == nothing
    assert sorted(asked) == sorted(PLACES)

    wrong = PLACES | {"k1": ("p1", "other-0"), "k2": ("p1", "f2-0")}
    found = compare_answers(rows, lambda keys: {key: wrong[key] for key in keys if key != "k3"})
    assert found == nothing | {"missing": 1, "wrong": 2}


def test_keys_that_are_there_twice_are_counted(spark):
    twice = [*ROWS, ("k4", "p1", "f1-0_1-2-3_2026.parquet")]
    found = compare_answers(spark.createDataFrame(twice, COLUMNS), lambda _: PLACES)
    assert found["duplicate"] == 1
