"""`table index use`: another index for a table, said before it is done, proved before it counts."""

from __future__ import annotations

import itertools
import json
import shutil

import pyarrow as pa
import pytest
from faults import DEAD, FULL, Killed, every_fault
from table_cases import create, data_rows, rows, unpack
from typer.testing import CliRunner

from keymark import Table
from keymark.table.cli import app
from keymark.table.errors import (
    DuplicateKeyError,
    InputError,
    InvalidOptionError,
    StorageError,
    TableError,
    UnsupportedTableError,
)
from keymark.table.index.build.uniqueness import FOLDER

MOVE = "hoodie.{}.index.update.partition.path"
GLOBAL = ("record", "global_simple", "global_bloom")
BUCKETS_OF_HUDI = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
LOCAL = {"bucket": {"hoodie.bucket.index.num.buckets": "2"}}


def facts(table):
    return {n: v for n, v in table.config.properties.items() if ".index." in n or "bucket" in n}


def filled(path, index, options=None, *, keys=range(20)):
    table = create(path, {**LOCAL.get(index, {}), **(options or {})}, index=index)
    table.bulk_insert(rows(keys))
    return table


@pytest.mark.parametrize("after", GLOBAL)
@pytest.mark.parametrize("before", [*GLOBAL, "bucket"])
def test_another_index_goes_on_where_the_old_one_was(tmp_path, before, after):
    table = filled(tmp_path / "t", before)
    switch = table.use_index(after)
    assert (switch.before, switch.after) == (before, after)
    assert bool(switch.steps) == (before != after)
    again = Table.open(tmp_path / "t")
    assert again.choice.name == table.choice.name == after
    if after != "global_simple":  # which needs Spark
        result = again.upsert(rows([*range(15, 25)], ts=2))
        assert (result.updated, result.inserted, result.index) == (5, 5, after)
        assert len(data_rows(again)) == 25
    assert "record_index" not in again.config.metadata_partitions or again.check().ok


def test_a_plan_says_what_would_be_done_and_does_nothing(tmp_path):
    table = filled(tmp_path / "t", "bucket")
    before = facts(table)
    plan = table.use_index("record", dry_run=True)
    assert [step.split()[0] for step in plan.steps] == ["build", "write"]
    assert "no hoodie.bucket.index.num.buckets" in plan.steps[-1]
    assert any("whole table" in text for text in plan.meaning)
    assert facts(table) == before
    assert table.choice.name == "bucket"


def test_the_record_index_stays_and_is_kept_up_to_date(tmp_path):
    table = filled(tmp_path / "t", "record")
    plan = table.use_index("global_bloom")
    assert any("record_index stays" in text for text in plan.meaning)
    assert table.upsert(rows(range(30), ts=2)).inserted == 10
    assert table.check().ok
    assert table.use_index("record").steps[0].startswith("write")


def test_whether_keys_move_is_carried_over(tmp_path):
    moves, stays = {MOVE.format("bloom"): "true"}, {MOVE.format("record"): "false"}
    table = filled(tmp_path / "a", "global_bloom", moves)
    table.use_index("record")
    assert facts(table)[MOVE.format("record")] == "true"
    assert MOVE.format("bloom") not in facts(table)
    assert table.upsert(rows(range(4), ts=2, partition="elsewhere")).moved == 4
    table.use_index("global_bloom", {MOVE.format("bloom"): "false"})
    assert table.upsert(rows(range(4), ts=3, partition="p0")).moved == 0
    other = filled(tmp_path / "b", "record", stays)
    plan = other.use_index("global_simple", dry_run=True)
    assert "a key that arrives with another partition stays where it is" in plan.meaning


@pytest.mark.parametrize("after", GLOBAL)
def test_a_key_in_two_partitions_keeps_a_table_local(tmp_path, after):
    table = filled(tmp_path / "t", "bucket")
    table.upsert(rows([1, 2], partition="elsewhere"))
    before = facts(table)
    with pytest.raises(DuplicateKeyError, match="2 rows have a record key that another row has"):
        table.use_index(after)
    again = Table.open(tmp_path / "t")
    assert (again.choice.name, facts(again)) == ("bucket", before)
    assert not table.storage.exists(FOLDER)
    again.delete(pa.table({"k": ["k1", "k2"], "p": ["elsewhere"] * 2}))
    assert again.use_index(after).after == after


def test_a_record_index_that_is_there_proves_nothing_about_repeated_keys(tmp_path):
    table = filled(tmp_path / "t", "bucket")
    table.build_index("record_index")
    table.upsert(rows([1], partition="elsewhere"))
    with pytest.raises(DuplicateKeyError, match="1 rows"):
        table.use_index("record")


@pytest.mark.parametrize("after", ["record", "global_bloom", "compact"])
def test_a_record_index_that_lost_a_key_is_built_anew(tmp_path, after):
    """The delete of one of a key's rows took its entry away, and the other row is still there."""
    table = filled(tmp_path / "t", "bucket")
    table.build_index("record_index")
    table.upsert(rows([1], partition="elsewhere"))
    table.delete(pa.table({"k": ["k1"], "p": ["elsewhere"]}))
    assert any("record index anew" in step for step in table.use_index(after).steps)
    again = Table.open(tmp_path / "t")
    assert again.check().ok
    assert again.scan(keys=["k1"]).to_arrow()["k"].to_pylist() == ["k1"]
    assert again.upsert(rows([1], ts=9)).inserted == 0
    assert len(data_rows(again)) == 20


@pytest.mark.parametrize(
    ("before", "after"), [("record", "global_bloom"), ("simple", "record"), ("record", "simple")]
)
def test_a_table_that_was_opened_before_a_switch_writes_nothing(tmp_path, before, after):
    """Its keys would get no entries in the new index, or a key several rows."""
    old = filled(tmp_path / "t", before)
    Table.open(tmp_path / "t").use_index(after)
    for write in (lambda: old.upsert(rows([1], ts=5)), lambda: old.use_index(after)):
        with pytest.raises(InputError, match=f"has the index {after} and no longer {before}"):
            write()
    assert len(data_rows(Table.open(tmp_path / "t"))) == 20


def test_buckets_with_rows_keep_their_number(tmp_path):
    table = filled(tmp_path / "t", "bucket")
    before = facts(table)
    with pytest.raises(UnsupportedTableError, match=r"laid out by hoodie.*num\.buckets=2"):
        table.use_index("bucket", {"hoodie.bucket.index.num.buckets": "4"})
    assert facts(table) == before


def test_the_columns_of_an_option_have_a_case(tmp_path):
    fields = "hoodie.bucket.index.hash.field"
    filled(tmp_path / "t", "bucket", {fields: "k"})
    assert (
        Table.open(tmp_path / "t", options={fields: "k"}).lookup(["k1"])["file_id"].null_count == 0
    )
    with pytest.raises(InvalidOptionError, match="differs from the table's own k"):
        Table.open(tmp_path / "t", options={fields: "K"})


def test_buckets_are_laid_out_at_the_load(tmp_path):
    table = filled(tmp_path / "t", "record")
    with pytest.raises(UnsupportedTableError, match=r"has rows.*--index bucket"):
        table.use_index("bucket")
    buckets = filled(tmp_path / "b", "bucket")
    buckets.use_index("global_bloom")
    with pytest.raises(UnsupportedTableError, match="has rows"):
        buckets.use_index("bucket", LOCAL["bucket"])
    empty = create(tmp_path / "e", index="record")
    empty.use_index("bucket", LOCAL["bucket"])
    assert empty.bulk_insert(rows(range(9))).index == "bucket"


def test_a_table_of_hudi_gets_facts(tmp_path):
    root = unpack("hudi-0.15.0-record_index.tar.gz", tmp_path) / "record_index" / "table"
    table = Table.open(root)
    assert table.choice.reason == "the table has a record_index partition"
    assert table.use_index("global_bloom").steps
    assert Table.open(root).choice.name == "global_bloom"
    with pytest.raises(InvalidOptionError, match="differs from the table's own"):
        Table.open(root, options={"hoodie.index.type": "RECORD_INDEX"})


def test_buckets_of_hudi_get_facts(tmp_path):
    root = unpack("hudi-0.15.0-bucket.tar.gz", tmp_path) / "e2"
    options = [f"--option={name}={text}" for name, text in BUCKETS_OF_HUDI.items()]
    answer = CliRunner().invoke(app, ["index", "use", str(root), "bucket", *options, "--json"])
    assert json.loads(answer.stdout)["done"]
    assert Table.open(root).choice.reason == "hoodie.index.type in hoodie.properties"


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("gobal_simple", {}, "unknown index 'gobal_simple'"),
        ("global_bloom", {"hoodie.index.type": "BUCKET"}, "contradicts index global_bloom"),
        ("global_bloom", {"hoodie.bloom.indx": "1"}, "unknown option hoodie.bloom.indx"),
        ("bucket", {"hoodie.bucket.index.num.buckets": "0"}, "too small"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(tmp_path, name, options, error):
    table = create(tmp_path / "t")
    before = dict(table.config.properties)
    with pytest.raises(TableError, match=error):
        table.use_index(name, options)
    assert Table.open(tmp_path / "t").config.properties == before


@pytest.mark.parametrize("kind", [DEAD, FULL])
@pytest.mark.parametrize("after", ["record", "global_bloom"])
def test_a_switch_that_dies_leaves_the_old_index_or_the_new_one(tmp_path, after, kind):
    filled(tmp_path / "t", "bucket", keys=range(6))
    copies = (tmp_path / f"copy-{number}" for number in itertools.count())

    def fresh():
        return str(shutil.copytree(tmp_path / "t", next(copies)))

    for _, storage in every_fault(kind, fresh):
        try:
            Table(storage).use_index(after)
        except (StorageError, Killed, FileNotFoundError):
            assert storage.struck
        table = Table.open(storage.root)
        assert table.choice.name in ("bucket", after)
        assert table.upsert(rows(range(8), ts=2)).inserted == 2
        assert len(data_rows(table)) == 8
        assert not table.storage.exists(FOLDER)
    assert table.choice.name == after


def test_the_command_says_what_it_does(tmp_path):
    filled(tmp_path / "t", "bucket")
    run = CliRunner()
    path = str(tmp_path / "t")
    told = run.invoke(app, ["index", "use", path, "global_bloom", "--dry-run"])
    assert "would be done to change" in told.stdout
    assert "read the keys of" in told.stdout
    answer = run.invoke(app, ["index", "use", path, "global_bloom", "--json"])
    document = json.loads(answer.stdout)
    assert (document["before"], document["after"], document["done"]) == (
        "bucket",
        "global_bloom",
        True,
    )
    told = run.invoke(app, ["index", "use", path, "global_bloom"])
    assert "nothing to do" in told.stdout
