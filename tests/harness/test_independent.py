from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from keymark.harness.errors import HarnessError
from keymark.harness.tables import independent, verify

ARCHIVE = Path(__file__).parents[1] / "data" / "hudi-0.15.0-record_index.tar.gz"


@pytest.fixture(scope="module")
def hudi(tmp_path_factory):
    """A table that Apache Hudi 0.15.0 wrote, with the rows it must hold beside it."""
    folder = tmp_path_factory.mktemp("hudi")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder / "record_index"


def test_facts_of_hudis_table(hudi):
    facts = independent.facts(hudi / "table")
    assert facts.record_key == ("uuid",)
    assert facts.partition_path == ("dt",)
    assert facts.ordering == "ts"
    assert "record_index" in facts.partitions_of_metadata


def test_rows_are_those_that_hudi_reads(hudi):
    expected = pq.read_table(hudi / "expected.parquet")
    rows = independent.rows(hudi / "table")
    key = [("uuid", "ascending")]
    for name in ("uuid", "dt", "ts", "fare"):
        assert (
            rows.sort_by(key).column(name).to_pylist()
            == expected.sort_by(key).column(name).to_pylist()
        )


def test_locations_name_the_file_that_holds_the_row(hudi):
    rows = independent.rows(hudi / "table")
    located = independent.locations(hudi / "table")
    says = dict(
        zip(
            rows["_hoodie_record_key"].to_pylist(),
            (name.split("_")[0] for name in rows["_hoodie_file_name"].to_pylist()),
            strict=True,
        )
    )
    found = dict(
        zip(located["record_key"].to_pylist(), located["file_id"].to_pylist(), strict=True)
    )
    assert found == says


def test_the_places_of_some_keys_are_the_same_however_many_files_are_searched_at_once(
    hudi, monkeypatch
):
    every = independent.locations(hudi / "table")
    asked = pa.concat_arrays(
        [every["record_key"].combine_chunks().slice(1, 5), pa.array(["absent"])]
    )
    expected = every.filter(pc.is_in(every["record_key"], value_set=asked))
    assert len(set(every["file_id"].to_pylist())) > 1
    for count in (1, 2, 100):
        monkeypatch.setattr(independent, "_FILES_TOGETHER", count)
        assert independent.locations(hudi / "table", asked).equals(expected)


def test_find_gives_the_rows_of_a_key(hudi):
    row = independent.rows(hudi / "table").slice(5, 1).to_pylist()[0]
    found = independent.find(hudi / "table", row["uuid"], ["uuid", "ts"])
    assert found == [{"uuid": row["uuid"], "ts": row["ts"]}]
    assert independent.find(hudi / "table", "nobody", ["uuid"]) == []


def test_matching_gives_the_rows_of_a_value(hudi):
    rows = independent.rows(hudi / "table")
    city = rows.column("city")[3].as_py()
    found = independent.matching(hudi / "table", "city", city, ["uuid", "ts"])
    wanted = [row for row in rows.to_pylist() if row["city"] == city]
    assert sorted(row["uuid"] for row in found) == sorted(row["uuid"] for row in wanted)
    assert verify.query_mistake(wanted, found, ["uuid", "ts"]) is None
    told = verify.query_mistake([*wanted[1:], {"uuid": "x", "ts": 1}], found, ["uuid", "ts"])
    assert told == f"the query missed 1 rows of {len(found)} and gave 1 others"
    twice = verify.query_mistake([*wanted, wanted[0]], found, ["uuid", "ts"])
    assert twice == f"the query missed 0 rows of {len(found)} and gave 1 others"
    assert independent.matching(hudi / "table", "city", "nowhere", ["uuid"]) == []


@pytest.fixture
def table(tmp_path):
    """A table by hand: `write` puts a base file, `complete` a timeline file."""
    (tmp_path / ".hoodie").mkdir()
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / ".hoodie_partition_metadata").touch()
    (tmp_path / ".hoodie" / "hoodie.properties").touch()
    return tmp_path


def write(table, file_id, instant, keys):
    path = table / "p" / f"{file_id}_0-1-2_{instant}.parquet"
    pq.write_table(pa.table({"_hoodie_record_key": keys}), path)


def held(table):
    return sorted(independent.locations(table)["record_key"].to_pylist())


def test_the_latest_completed_slice_counts(table):
    write(table, "f", "001", ["a"])
    write(table, "f", "002", ["a", "b"])
    write(table, "f", "003", ["a", "b", "c"])
    write(table, "g", "003", ["z"])
    for name in ("001.commit", "002.commit", "003.inflight", "003.commit.requested"):
        (table / ".hoodie" / name).touch()
    assert held(table) == ["a", "b"]


def test_files_older_than_the_active_timeline_were_archived(table):
    write(table, "f", "001", ["a"])
    (table / ".hoodie" / "005.commit").touch()
    assert held(table) == ["a"]


def test_an_unfinished_write_before_the_first_commit_is_not_archived(table):
    write(table, "f", "001", ["a"])
    (table / ".hoodie" / "001.inflight").touch()
    (table / ".hoodie" / "005.commit").touch()
    assert held(table) == []


def test_replaced_file_groups_are_gone_and_new_files_of_them_are_not(table):
    write(table, "f", "001", ["a"])
    write(table, "g", "002", ["b"])
    (table / ".hoodie" / "001.commit").touch()
    replaced = {"partitionToReplaceFileIds": {"p": ["f"]}}
    (table / ".hoodie" / "002.replacecommit").write_text(json.dumps(replaced))
    assert held(table) == ["b"]


def test_files_of_the_metadata_table_are_not_rows(table):
    write(table, "f", "001", ["a"])
    (table / ".hoodie" / "001.commit").touch()
    shutil.copytree(table / "p", table / ".hoodie" / "metadata" / "p")
    assert held(table) == ["a"]


VIRTUAL = "hoodie.table.version=6\nhoodie.populate.meta.fields=false\n"
HUDIS = "hoodie.table.keygenerator.class=org.apache.hudi.keygen"


def virtual(table, fields, rows, *lines):
    """A table whose only file has these rows, with the meta column of keys as null."""
    lines = (f"hoodie.table.recordkey.fields={fields}", *lines)
    (table / ".hoodie" / "hoodie.properties").write_text(VIRTUAL + "\n".join(lines))
    nulls = pa.nulls(rows.num_rows, pa.string())
    stored = rows.add_column(0, "_hoodie_record_key", nulls)
    pq.write_table(stored, table / "p" / "f_0-1-2_001.parquet")
    (table / ".hoodie" / "001.commit").touch()


def test_keys_that_are_not_stored_are_made(table):
    virtual(table, "n", pa.table({"n": [7, -8]}), f"{HUDIS}.SimpleKeyGenerator")
    assert held(table) == ["-8", "7"]
    assert independent.find(table, "-8", ["n"]) == [{"n": -8}]
    assert independent.find(table, "8", ["n"]) == []


def test_keys_of_several_columns_name_them_in_the_order_of_the_key(table):
    rows = pa.table({"n": [1, 2], "c": ["x", ""]})
    virtual(table, "c,n", rows, f"{HUDIS}.ComplexKeyGenerator")
    assert held(table) == ["c:__empty__,n:2", "c:x,n:1"]
    assert independent.find(table, "c:x,n:1", ["n"]) == [{"n": 1}]


@pytest.mark.parametrize(
    ("column", "line", "message"),
    [
        ([1, None], "", "column n is null"),
        ([1.0, 2.0], "", "column n is double"),
        ([1, 2], "hoodie.table.keygenerator.class=mine:Keys", "mine:Keys makes"),
        ([1, 2], f"{HUDIS}.TimestampBasedKeyGenerator", "TimestampBased"),
        ([1, 2], "keymark.recordkey.encoding=named", "names its single key field"),
        ([1, 2], "hoodie.table.recordkey.fields=m", "has no column m"),
        ([1, 2], "hoodie.table.recordkey.fields=", "virtual keys"),
    ],
)
def test_keys_whose_spelling_is_not_certain_are_refused(table, column, line, message):
    virtual(table, "n", pa.table({"n": column}), line)
    with pytest.raises(HarnessError, match=message):
        independent.locations(table)


@pytest.mark.parametrize(
    ("line", "ordering"),
    [
        ("hoodie.table.precombine.field=ts", "ts"),
        ("hoodie.table.ordering.fields=ts", "ts"),
        ("hoodie.table.ordering.fields=", None),
    ],
)
def test_the_ordering_column_has_another_name_since_hudi_1_1(table, line, ordering):
    lines = f"hoodie.table.version=6\n{line}\n"
    (table / ".hoodie" / "hoodie.properties").write_text(lines)
    assert independent.facts(table).ordering == ordering


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("hoodie.table.ordering.fields=ts,dt", "orders rows by ts, dt"),
        ("hoodie.table.type=MERGE_ON_READ", "MERGE_ON_READ of version 6"),
        ("hoodie.table.version=7", "version 7"),
        ("hoodie.populate.meta.fields=false", "virtual keys"),
    ],
)
def test_tables_that_a_listing_cannot_read_are_refused(table, line, message):
    lines = f"hoodie.table.version=6\n{line}\n"
    (table / ".hoodie" / "hoodie.properties").write_text(lines)
    with pytest.raises(HarnessError, match=message):
        independent.source_facts(table)
