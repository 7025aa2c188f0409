"""Keys and file groups without rows, against the rows of the same dataset."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.mappings import Mappings
from keymark.datasets.generate.rows import make_rows
from keymark.datasets.specs.spec import load_spec

FILE_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-0")


def mappings(rows=1000, file_rows=50, **changes):
    return Mappings(load_spec("trips", {"rows": rows, "date_partitions": 4, **changes}), file_rows)


@pytest.mark.parametrize("of", ["days", "countries", "hashes"])
def test_keys_and_partitions_are_those_of_the_rows(of):
    made = mappings(**{"columns.dt.of": of})
    numbers = np.array([0, 999, 5, 400], np.int64)
    columns, groups = made.make(numbers)
    rows = make_rows(made.spec, numbers, np.zeros_like(numbers))
    assert columns.equals(rows.select(["uuid"]))
    paths, file_ids = made.places()
    assert paths.take(pa.array(groups)).column("dt").equals(rows.column("dt"))
    # A wave is 50 rows for each of the 4 partitions.
    assert (groups // 4).tolist() == [0, 4, 0, 2]
    assert len(file_ids) == paths.num_rows == 20


def test_file_groups_hold_about_as_many_rows_as_asked_for():
    made = mappings(rows=40_000, file_rows=1000)
    _, groups = made.make(np.arange(40_000))
    counts = np.bincount(groups, minlength=len(made.places()[1]))
    assert len(counts) == 40
    assert counts.sum() == 40_000
    assert counts.min() > 850
    assert counts.max() < 1150


def test_file_ids_are_like_hudis_and_depend_on_the_seed():
    _, ids = mappings().places()
    assert len(set(ids)) == len(ids)
    assert all(FILE_ID.fullmatch(each) for each in ids)
    assert mappings().places()[1] == ids
    # More rows have more file groups, and the same ones first.
    assert mappings(rows=1400).places()[1][: len(ids)] == ids
    assert not set(mappings(seed=7).places()[1]) & set(ids)


def test_a_table_without_partitions_and_one_of_unequal_ones():
    alone = mappings(partition_path=())
    paths, ids = alone.places()
    assert (paths.num_columns, len(ids)) == (0, 20)
    assert alone.make(np.array([49, 50]))[1].tolist() == [0, 1]
    uneven = mappings(rows=2000, **{"columns.dt.sizes": "zipf"})
    _, groups = uneven.make(np.arange(2000))
    counts = np.bincount(groups % 4)
    assert counts.max() > 2 * counts.min()


def test_several_key_columns_are_kept_in_order():
    made = mappings(record_key=["dt", "uuid"])
    columns, _ = made.make(np.arange(3))
    assert columns.column_names == ["dt", "uuid"]


def test_what_is_partitioned_by_other_columns_is_refused():
    for path in (["city"], ["dt", "uuid"]):
        with pytest.raises(DatasetError):
            mappings(partition_path=path, **{"columns.city.fixed": True})


def test_the_fingerprint_tells_other_keys_or_places():
    same = {mappings().fingerprint for _ in range(2)}
    others = [mappings(rows=999), mappings(file_rows=51), mappings(seed=3)]
    assert len(same | {other.fingerprint for other in others}) == 4


@given(st.integers(1, 500), st.integers(0, 30), st.integers(0, 200))
def test_samples_are_distinct_rows(rows, turn, count):
    made = mappings(rows=rows)
    numbers = made.sample(turn, count)
    assert len(set(numbers.tolist())) == len(numbers) == min(count, rows)
    assert all(0 <= number < rows for number in numbers.tolist())
    assert not set(made.absent(turn, count).tolist()) & set(made.absent(turn + 1, count).tolist())


def test_turns_ask_for_other_rows_until_all_were_asked_for():
    made = mappings(rows=90)
    turns = [set(made.sample(turn, 30).tolist()) for turn in range(4)]
    assert len(turns[0] | turns[1] | turns[2]) == 90
    assert turns[3] == turns[0]


def test_absent_keys_are_in_no_table():
    made = mappings(rows=3000)
    present = made.make(np.arange(3000))[0].column("uuid").to_pylist()
    absent = made.make(made.absent(0, 3000))[0].column("uuid").to_pylist()
    assert len(set(present) | set(absent)) == 6000
