"""Secondary indexes: reads open exactly the files that hold a match, whatever happened before.

Strategy: random writes, some of them "by others" (their runs are taken away), are followed by
comparisons whose answer is found in the base files with pyarrow, not through the package.
"""

from __future__ import annotations

import functools
import itertools
import operator
import shutil
import warnings
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from faults import DEAD, FULL, Killed, every_fault
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from statistics_cases import SCHEMA, STATISTICS, conditions, create_with_statistics, file_rows
from statistics_cases import table_of as drawn_rows
from table_cases import MOVES, create, data_rows, latest_files, rows
from typer.testing import CliRunner

from keymark import Table
from keymark.table.cli import app
from keymark.table.errors import InputError, StorageError, TableWarning, UnsupportedTableError
from keymark.table.values import find, merges, upkeep
from keymark.table.values.indexed import Indexed

FOLDER = ".hoodie/.keymark/secondary"
VALUES = ["a", "ab", "b", "ü", "😀", None]


def batch(
    number: int, keys: list[int], values: list[str | None], partitions: list[str]
) -> pa.Table:
    """Rows of keys with the values in turn."""
    turn = itertools.cycle(values)
    data = rows(
        keys, ts=number, partition=list(itertools.islice(itertools.cycle(partitions), len(keys)))
    )
    column = pa.array([next(turn) for _ in keys], pa.string())
    return data.set_column(data.schema.get_field_index("v"), "v", column)


def runs(root, column="v"):
    return sorted(Path(root, FOLDER, quote(column, safe="")).glob("*.parquet"))


def garbled(path):
    """Damage the first page: the footer stays whole."""
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(bytes(data))


def holding(root, passes, column="v"):
    """Paths of the current files with a value that passes, by reading all of them."""
    found = set()
    for path in latest_files(root).values():
        values = pq.ParquetFile(f"{root}/{path}").read(columns=[column])[column].to_pylist()
        if any(passes(value) for value in values):
            found.add(path)
    return found


def opened(table, where):
    return {file.path for file in table.files(where=where)}


def compared(op, literal):
    return lambda value: value is not None and op(value.encode(), literal.encode())


QUESTIONS = {
    "v = 'a'": lambda value: value == "a",
    "v IN ('ab', 'ü', 'absent')": lambda value: value in ("ab", "ü"),
    "v < 'b'": compared(operator.lt, "b"),
    "v <= 'b'": compared(operator.le, "b"),
    "v > 'b'": compared(operator.gt, "b"),
    "v >= 'ü'": compared(operator.ge, "ü"),
    "v LIKE 'a%'": lambda value: value is not None and value.startswith("a"),
    "v IS NULL": lambda value: value is None,
    "v = 'a' OR v = '😀'": lambda value: value in ("a", "😀"),
    "v BETWEEN 'a' AND 'ab'": lambda value: value is not None and "a" <= value <= "ab",
    "v > 'a' AND v < 'b'": lambda value: value is not None and "a" < value < "b",
}


def assert_exact(table, root):
    for where, passes in QUESTIONS.items():
        assert opened(table, where) == holding(root, passes), where


@pytest.fixture
def table(tmp_path):
    """Nine files in three partitions, and an index on v."""
    table = create(tmp_path / "t", {MOVES: "true", "hoodie.parquet.small.file.limit": "0"})
    for number in range(3):
        keys = list(range(10 * number, 10 * number + 9))
        table.insert(batch(1, keys, VALUES[number : number + 2], ["p0", "p1", "p2"]))
    table.build_secondary("v")
    return table


def root_of(table):
    return table.storage.root


@st.composite
def writes(draw):
    kind = draw(
        st.sampled_from(["upsert", "upsert", "delete", "insert", "bulk_insert", "rollback"])
    )
    keys = draw(st.lists(st.integers(0, 25), min_size=1, max_size=5, unique=True))
    values = draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=2))
    partitions = draw(st.lists(st.sampled_from(["p0", "p1", "p3"]), min_size=1, max_size=2))
    return kind, keys, values, partitions, draw(st.booleans())


def write(table, number, change):
    """Make a change; of new keys only where it would refuse others."""
    kind, keys, values, partitions, _ = change
    if kind == "delete":
        return table.delete([f"k{key}" for key in keys])
    if kind == "rollback":
        return table.rollback(max(table.scan().state.timeline.commit_times(), default=None))
    if kind != "upsert":
        keys = [1000 * number + key for key in keys]
    return getattr(table, kind)(batch(number, keys, values, partitions))


@pytest.mark.slow
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(
    changes=st.lists(writes(), min_size=1, max_size=8),
    chain=st.integers(1, 3),
    merged=st.integers(1, 4),
)
def test_exactly_the_files_with_a_match_are_opened(tmp_path_factory, changes, chain, merged):
    root = tmp_path_factory.mktemp("random") / "t"
    options = {MOVES: "true", "hoodie.parquet.small.file.limit": "0"}
    table = create(root, options)
    table.insert(batch(1, list(range(9)), VALUES[:3], ["p0", "p1"]))
    table.build_secondary("v")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upkeep, "_CHAIN_MAX", chain)
        patch.setattr(upkeep, "_RUNS_MAX", chain)
        patch.setattr(merges, "_VALUE_RUNS_MAX", merged)
        for number, change in enumerate(changes, 2):
            before = set(runs(root))
            write(table, number, change)
            if change[-1] and change[0] != "rollback":
                # As if others had written: nobody covered what they wrote.
                for path in set(runs(root)) - before:
                    path.unlink()
                for where, passes in QUESTIONS.items():
                    assert opened(table, where) >= holding(root, passes), where
                continue
            assert table.check().secondary_wrong == 0
            if change[0] != "rollback":
                assert_exact(table, root)
                assert len(runs(root)) <= chain + 4
    assert table.check().ok


def test_a_match_in_one_file_opens_one_file(table):
    table.upsert(batch(2, [4], ["needle"], ["p1"]))
    assert len(opened(table, "v = 'needle'")) == 1
    assert opened(table, "v = 'absent'") == set()
    assert len(opened(table, "ts > 0")) == 9, "a column without an index leaves all files"
    found = [
        part
        for part in Table.open(root_of(table)).scan().tables()
        if "needle" in part["v"].to_pylist()
    ]
    assert len(found) == 1
    assert_exact(table, root_of(table))


def test_a_value_that_a_file_has_no_more_does_not_open_it(table):
    table.upsert(batch(2, [4], ["needle"], ["p1"]))
    table.upsert(batch(3, [4], ["pin"], ["p1"]))
    assert opened(table, "v = 'needle'") == set()
    table.upsert(batch(4, [4], ["needle"], ["p0"]))
    assert opened(table, "v = 'needle'") == holding(root_of(table), lambda v: v == "needle")
    table.delete(["k4"])
    assert opened(table, "v = 'needle'") == set()


def test_what_a_rollback_took_back_counts_no_more(table):
    result = table.upsert(batch(2, [4], ["needle"], ["p1"]))
    table.rollback(result.instant)
    assert opened(table, "v = 'needle'") == set()
    assert_exact(table, root_of(table))


def test_an_older_snapshot_is_answered_by_its_own_files(table):
    first = table.upsert(batch(2, [4], ["needle"], ["p1"])).instant
    table.upsert(batch(3, [4], ["pin"], ["p1"]))
    then = {file.path for file in table.files(where="v = 'needle'", as_of=first)}
    assert len(then) == 1
    assert then & opened(table, "v = 'pin'") == set()


def test_files_of_others_are_opened_until_the_next_write_takes_them_in(table):
    root = root_of(table)
    before = set(runs(root))
    table.upsert(batch(2, [4], ["needle"], ["p1"]))
    for path in set(runs(root)) - before:
        path.unlink()
    assert len(opened(table, "v = 'absent'")) == 1
    table.upsert(batch(3, [20], ["pin"], ["p2"]))
    assert opened(table, "v = 'absent'") == set()
    assert_exact(table, root)


def test_a_write_reads_no_file_again_for_its_own_changes(table, monkeypatch):
    """What it wrote into a file group it knows from merging."""
    read = []
    real = Indexed.distinct
    monkeypatch.setattr(Indexed, "distinct", lambda *args: read.append(args) or real(*args))
    table.upsert(batch(2, [4, 1], ["needle", None], ["p1"]))
    table.delete(["k5"])
    table.insert(batch(3, [90], ["needle"], ["p1"]))
    assert read == []
    assert_exact(table, root_of(table))
    table.bulk_insert(batch(4, [91], ["needle"], ["p1"]))
    assert len(read) == 1, "files of a bulk insert are read"
    assert_exact(table, root_of(table))


@pytest.mark.parametrize(("times", "files"), [(1, 1), (9, 9)])
def test_runs_that_a_writer_replaced_meanwhile_are_looked_for_again(
    table, monkeypatch, times, files
):
    table.upsert(batch(2, [4], ["needle"], ["p1"]))
    real, looks = find.load_runs, []

    def late(*args):
        found = real(*args)
        looks.append(1)
        if len(looks) <= times:
            table.build_secondary("v")
        return found

    monkeypatch.setattr(find, "load_runs", late)
    assert len(opened(table, "v = 'needle'")) == files
    assert len(looks) == min(3, times + 1)


def test_runs_that_nothing_needs_go(table):
    root = root_of(table)
    for number in range(2, 40):
        table.upsert(batch(number, [4], [f"v{number}"], ["p1"]))
        assert len(runs(root)) <= merges._VALUE_RUNS_MAX + 2
    assert_exact(table, root)


def test_small_runs_are_merged(table, monkeypatch):
    """The links of a chain become one, which forgets values that came and went."""
    monkeypatch.setattr(merges, "_VALUE_RUNS_MAX", 2)
    read = []
    real = Indexed.distinct
    monkeypatch.setattr(Indexed, "distinct", lambda *args: read.append(args) or real(*args))
    root = root_of(table)
    for number in range(2, 12):
        table.upsert(batch(number, [4, 5], [f"value {number}", None], ["p1", "p2"]))
        assert len(runs(root)) <= 3
        assert_exact(table, root)
    assert read == []
    assert not any(b"value 2" in texts(path) for path in runs(root))
    assert opened(table, "v = 'value 11'") == holding(root, lambda v: v == "value 11")
    assert table.check().ok


def test_a_large_run_is_left_alone_and_changes_are_merged_without_it(table, monkeypatch):
    monkeypatch.setattr(merges, "_VALUE_RUNS_MAX", 2)
    monkeypatch.setattr(merges, "_LARGEST_ENTRIES", 15)
    root = root_of(table)
    (built,) = runs(root)
    for number in range(2, 12):
        table.upsert(batch(number, [4], [f"value {number}"], ["p1"]))
    assert built in runs(root)
    assert_exact(table, root)
    assert table.check().ok


def test_a_damaged_run_that_is_to_be_merged_is_replaced(table, monkeypatch):
    monkeypatch.setattr(merges, "_VALUE_RUNS_MAX", 1)
    root = root_of(table)
    table.upsert(batch(2, [4], ["needle"], ["p1"]))
    damaged = runs(root)[0]
    garbled(damaged)
    table.upsert(batch(3, [4], ["pin"], ["p1"]))
    assert damaged not in runs(root)
    assert_exact(table, root)
    assert table.check().ok


def test_an_index_of_many_runs_is_built_anew(table, monkeypatch):
    monkeypatch.setattr(upkeep, "_RUNS_MAX", 1)
    monkeypatch.setattr(upkeep, "_CHAIN_MAX", 100)
    for number in range(2, 9):
        table.upsert(batch(number, [4], [f"v{number}"], ["p1"]))
    assert len(runs(root_of(table))) <= 4
    assert_exact(table, root_of(table))


def test_a_drop_leaves_nothing(table):
    table.drop_secondary("v")
    assert not Path(root_of(table), FOLDER, "v").exists()
    assert table.config.secondary_columns == ()
    assert len(opened(table, "v = 'absent'")) == 9
    with pytest.raises(InputError, match="no secondary index on 'v'; there are indexes on: none"):
        table.drop_secondary("v")


@pytest.mark.parametrize("column", ["absent", "_hoodie_record_key"])
def test_only_columns_of_the_table_are_indexed(table, column):
    with pytest.raises(InputError, match=f"no column '{column}' to index, only k, p, ts, v"):
        table.build_secondary(column)


def test_nested_columns_are_refused(tmp_path):
    table = create(tmp_path / "t")
    table.insert(rows([1]).append_column("list", pa.array([[1]])))
    with pytest.raises(UnsupportedTableError, match="a secondary index on list, whose type is"):
        table.build_secondary("list")


def test_check_finds_a_wrong_entry_and_a_build_repairs_it(table):
    root = root_of(table)
    real = Indexed.distinct

    def misread(*args):
        return pa.array(["wrong" if value == "a" else value for value in real(*args).to_pylist()])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Indexed, "distinct", misread)
        table.build_secondary("v")
    found = table.check()
    assert not found.ok
    assert found.secondary_wrong == len(holding(root, lambda v: v == "a")) == 3
    assert set(found.wrong_paths) == holding(root, lambda v: v == "a")
    table.build_secondary("v")
    assert table.check().ok
    assert "secondary index on v" in table.check().compared


def test_a_damaged_run_costs_time_and_no_rows(table):
    root = root_of(table)
    garbled(*runs(root))
    with pytest.warns(TableWarning, match="a secondary index cannot be used, all files are read"):
        assert len(opened(table, "v = 'a'")) == 9
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(opened(table, "v = 'a'")) == 9, "it is told once"
    table.build_secondary("v")
    assert_exact(table, root)


def test_a_torn_run_is_replaced_by_the_next_write(table):
    root = root_of(table)
    table.upsert(batch(2, [4], ["needle"], ["p1"]))
    max(runs(root), key=lambda path: path.stat().st_mtime_ns).write_bytes(b"")
    with pytest.warns(TableWarning, match="all files are read"):
        assert len(opened(table, "v = 'needle'")) == 9
    table.upsert(batch(3, [5], ["pin"], ["p2"]))
    assert_exact(table, root)
    assert table.check().ok


def test_purged_values_are_in_no_run(table):
    root = root_of(table)
    table.upsert(batch(2, [4], ["needle-of-k4"], ["p1"]))
    assert any(b"needle-of-k4" in texts(path) for path in runs(root))
    assert table.purge(["k4"]).proven
    assert not any(b"needle-of-k4" in texts(path) for path in runs(root))
    assert opened(table, "v = 'needle-of-k4'") == set()
    assert table.check().ok


def texts(path):
    values = pq.read_table(path)["value"].to_pylist()
    return " ".join(value or "" for value in values).encode() + path.read_bytes()


def copies(table, tmp_path):
    numbers = itertools.count()
    return lambda: str(shutil.copytree(root_of(table), tmp_path / f"copy{next(numbers)}"))


FAULTY = {
    "build": lambda table: table.build_secondary("ts"),
    "build anew": lambda table: table.build_secondary("v"),
    "drop": lambda table: table.drop_secondary("v"),
    "upsert": lambda table: table.upsert(batch(2, [4, 50], ["needle"], ["p1"])),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DEAD, FULL])
@pytest.mark.parametrize("call", FAULTY)
def test_every_fault_leaves_answers_right(table, tmp_path, monkeypatch, call, kind):
    """Killed, or out of disk, at each storage call: no file with a match is left out."""
    table.upsert(batch(2, [5], ["pin"], ["p2"]))
    monkeypatch.setattr(merges, "_VALUE_RUNS_MAX", 1)
    for _, storage in every_fault(kind, copies(table, tmp_path)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TableWarning)
                FAULTY[call](Table(storage))
        except (Killed, StorageError):
            pass
        again = Table.open(storage.root)
        for where, passes in QUESTIONS.items():
            assert opened(again, where) >= holding(storage.root, passes), where
        assert again.check().secondary_wrong == 0
        again.upsert(batch(3, [5], ["pin"], ["p2"]))
        if again.config.secondary_columns:
            for column in again.config.secondary_columns:
                again.build_secondary(column)
        if "v" in again.config.secondary_columns:
            assert_exact(again, storage.root)
        assert again.check().ok


def test_an_option_names_the_columns(tmp_path):
    table = create(tmp_path / "t", {"keymark.secondary.columns": "v"})
    table.insert(rows(range(9)))
    assert len(opened(table, "v = 'vk3'")) == 1
    again = Table.open(root_of(table), options={"keymark.secondary.columns": "v,ts"})
    again.upsert(rows([3], ts=7, partition="p0", value="new "))
    assert again.config.secondary_columns == ("v", "ts")
    assert len(opened(again, "ts = 7")) == 1
    assert again.check().ok


def test_an_index_on_no_column_is_told_at_each_write(tmp_path):
    table = create(tmp_path / "t", {"keymark.secondary.columns": "absent"})
    with pytest.warns(TableWarning, match="upkeep of secondary indexes failed: no column 'absent'"):
        table.insert(rows(range(9)))
    assert len(data_rows(table)) == 9


def test_the_command_builds_lists_and_drops(tmp_path):
    table = create(tmp_path / "t")
    table.insert(rows(range(9)))
    path, run = str(tmp_path / "t"), functools.partial(CliRunner().invoke, app)
    done = run(["index", "build", path, "secondary", "--column", "v", "--json"])
    assert done.exit_code == 0, done.output
    listed = run(["index", "list", path])
    assert "secondary(v)" in listed.output
    assert len(opened(table, "v = 'vk3'")) == 1
    assert run(["index", "drop", path, "secondary", "--column", "v"]).exit_code == 0
    assert "secondary" not in run(["index", "list", path]).output
    for wrong in (["secondary"], ["column_stats", "--column", "v"]):
        refused = run(["index", "build", path, *wrong])
        assert isinstance(refused.exception, InputError)
        assert "`secondary --column NAME`" in str(refused.exception)


def test_rows_are_those_of_a_table_without_the_index(table):
    before = data_rows(table)
    table.drop_secondary("v")
    assert data_rows(table) == before


@pytest.mark.slow
@pytest.mark.spark
@settings(max_examples=3, suppress_health_check=list(HealthCheck))
@given(st.lists(file_rows(), min_size=6, max_size=10), st.data())
def test_no_file_with_a_match_is_left_out_whatever_the_type(spark, tmp_path_factory, files, data):
    """Random rows and conditions of every type; Spark says which rows pass."""
    path = tmp_path_factory.mktemp("typed") / "t"
    table = create_with_statistics(path, **{STATISTICS: "false"})
    for number, columns in enumerate(files):
        table.insert(drawn_rows(number, columns))
        if not number:
            for name in SCHEMA.names[2:]:
                table.build_secondary(name)
    assert table.check().ok
    table = Table.open(str(path), spark=spark)
    asked = data.draw(st.lists(conditions, min_size=60, max_size=60))
    tested = [f"({where}) AS c{number}" for number, where in enumerate(asked)]
    found = table.read().selectExpr("_hoodie_file_name", *tested).collect()
    for number, where in enumerate(asked):
        passing = {row[0] for row in found if row[number + 1]}
        assert passing <= {file.name for file in table.files(where)}, where
