"""What a process of an engine without Spark does with rows and keys before it asks the library."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keymark.harness.engines.libraries import child
from keymark.harness.tables.key_text import encode_keys


def test_of_a_key_the_row_with_the_highest_ordering_value_is_taken_and_of_equal_ones_the_last():
    rows = pa.table(
        {
            "k": ["a", "b", "a", "c", "b", "c"],
            "ts": [3, 1, 2, 5, 1, None],
            "v": [0, 1, 2, 3, 4, 5],
        }
    )
    taken = child.one_row_a_key(rows, ["k"], "ts").sort_by("k").to_pylist()
    assert [row["v"] for row in taken] == [0, 4, 3]
    last = child.one_row_a_key(rows, ["k"], None).sort_by("k").to_pylist()
    assert [row["v"] for row in last] == [2, 4, 5]


def test_a_batch_of_distinct_keys_is_as_it_was():
    rows = pa.table({"k": ["a", "a"], "n": [1, 2], "ts": [2, 1]})
    assert child.one_row_a_key(rows, ["k", "n"], "ts") is rows


@pytest.mark.parametrize("columns", [{"k": ["a", "b:c"]}, {"k": ["a,n:9", ""], "n": [1, 2]}])
def test_keys_are_spelled_and_taken_apart_as_the_harness_spells_them(columns):
    rows = pa.table(columns)
    fields = list(columns)
    texts = child.key_texts(rows, fields)
    assert texts.equals(encode_keys(rows))
    tests = child.key_tests(texts.to_pylist(), fields, rows.schema)
    assert {name: values for name, _, values in tests} == columns


def test_what_is_no_key_of_these_columns_is_told():
    schema = pa.schema([("k", pa.string()), ("n", pa.int64())])
    with pytest.raises(ValueError, match="'x' is no key of k, n"):
        child.key_tests(["x"], ["k", "n"], schema)
    with pytest.raises(ValueError, match="a null is not looked for"):
        child.key_tests(["k:__null__,n:1"], ["k", "n"], schema)


def test_times_of_spark_are_points_in_time_and_views_are_values(tmp_path):
    noon = dt.datetime(2024, 1, 1, 12)  # noqa: DTZ001 - as Spark writes it
    rows = pa.table({"at": pa.array([noon], pa.timestamp("ns")), "k": ["a"]})
    pq.write_table(rows, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    files = [str(tmp_path / "a.parquet")]
    for found in (child.read(files), child.stream(files).read_all()):
        assert found.schema.field("at").type == pa.timestamp("us", "UTC")
        assert found["at"][0].as_py() == noon.replace(tzinfo=dt.UTC)
    viewed = pa.schema(
        [("l", pa.list_(pa.string_view())), ("s", pa.struct([("x", pa.large_binary())]))]
    )
    plain = child.plain(viewed)
    assert plain.field("l").type.value_type == pa.string()
    assert plain.field("s").type.field(0).type == pa.binary()
    assert child.plain_type(pa.dictionary(pa.int32(), pa.string())) == pa.string()
    assert child.plain_type(pa.timestamp("us")) == pa.timestamp("us")


def test_a_folder_with_an_equals_sign_adds_no_column(tmp_path):
    folder = tmp_path / "day=1"
    folder.mkdir()
    pq.write_table(pa.table({"k": ["a"]}), folder / "a.parquet")
    assert child.read([str(folder / "a.parquet")]).column_names == ["k"]
    assert child.stream([str(folder / "a.parquet")]).schema.names == ["k"]


class Handle:
    """A table that notes what it is asked for."""

    def __init__(self, told) -> None:
        self.told, self.rows, self.opened_here = told, None, False

    def open(self):
        self.opened_here = True

    def schema(self):
        return pa.schema([("k", pa.string()), ("n", pa.int64()), ("dt", pa.string())])

    def load(self, rows):
        self.rows = rows.read_all()
        return 1, {}

    def upsert(self, rows):
        self.rows = rows
        return 2, {"write": 1.0}

    def delete(self, keys):
        self.rows = keys
        return 3, {}

    def places(self, columns, tests):
        del tests
        rows = pa.table({"k": ["a", "b"], "n": [1, 2], "dt": ["x", None]})
        yield rows.select(columns), "file-1"

    def find(self, tests):
        del tests
        return pa.table({"k": ["a", "a"], "n": [1, 2], "dt": ["x", "y"]})


TOLD = {"record_key": ["k", "n"], "partition_path": ["dt"], "ordering": None}


@pytest.fixture
def session():
    made = child.Session()
    made._library = SimpleNamespace(Table=Handle)
    return made


def test_writes_give_one_row_a_key_and_their_phases(session, tmp_path):
    rows = pa.table({"k": ["a", "a", "b"], "n": [1, 1, 2], "dt": ["x", "y", "z"]})
    file = str(tmp_path / "a.parquet")
    pq.write_table(rows, file)
    number = session.create(table=TOLD)
    handle = session._tables[number]
    assert session.write(table=number, operation="bulk_insert", files=[file]) == {
        "files_written": 1,
        "phases": {},
    }
    assert handle.rows.num_rows == 3
    done = session.write(table=number, operation="upsert", files=[file])
    assert done["files_written"] == 2
    assert done["phases"].keys() == {"prepare", "write"}
    assert handle.rows["dt"].to_pylist() == ["y", "z"]
    session.write(table=number, operation="delete", files=[file])
    assert handle.rows.sort_by("k").to_pylist() == [{"k": "a", "n": 1}, {"k": "b", "n": 2}]


def test_a_lookup_names_the_files_of_the_keys_that_are_there(session):
    number = session.open(table=TOLD)
    assert session._tables[number].opened_here
    session.hold_keys(keys=["k:b,n:2", "k:a,n:2"])
    session.lookup(table=number)
    assert session.places() == {"k:b,n:2": (child.NO_PARTITION, "file-1")}


def test_of_keys_of_several_columns_only_the_asked_combinations_are_found(session):
    number = session.open(table=TOLD)
    found = session.find(table=number, keys=["k:a,n:2"], where=None)
    assert found == [{"k": "a", "n": 2, "dt": "y"}]


def test_few_tables_stay_open(session):
    numbers = [session.create(table=TOLD) for _ in range(child.KEPT + 1)]
    assert numbers[0] not in session._tables
    assert len(session._tables) == child.KEPT


def test_a_table_in_use_stays_open_while_others_are_opened_to_verify_it(session):
    used = session.open(table=TOLD)
    for _ in range(2 * child.KEPT):
        session.find(table=used, keys=["k:a,n:2"], where=None)
        session.open(table=TOLD)
    assert used in session._tables
    assert len(session._descriptions) == child.KEPT
