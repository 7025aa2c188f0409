"""Tables that Apache Hudi wrote (0.15.0 if no release is named): read, looked up, written on.

What must be found is told by `by_listing` (the latest completed file of each file group) and, where
the fixture has it, by Hudi's own reading (`expected.parquet`).
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from table_cases import (
    MOVES,
    by_hudi_rs,
    by_listing,
    data_rows,
    files_listed,
    files_stored,
    left_over,
    unpack,
)
from typer.testing import CliRunner

from keymark import Table
from keymark.table.cli import app
from keymark.table.errors import DuplicateKeyError, InputError, TableError
from keymark.table.format.hashes.hashing import column_id, file_id_hash, partition_id
from keymark.table.metadata.partitions import BLOOM_FILTERS, COLUMN_STATS
from keymark.table.state.table_state import TableState

# Releases from 1.0 on write table version 6 when they are told to.
LATER = tuple(f"{v}/{name}" for v in ("1.0.2", "1.1.1") for name in ("record_index", "complex_key"))
EXPECTED = ("record_index", "complex_key", *LATER)
STATES = (
    "a_1_bulk",
    "a_2_upsert",
    "a_3_delete",
    "a_4_move",
    "a_5_upsert",
    "a_6_before_fail",
    "a_10_upsert",
    "a2_2_indexed",
)
INDEXED = (*EXPECTED, *STATES, "b_np", "rolled_back")
# Columns that Hudi 1.x leaves out of the statistics of all columns.
UNDESCRIBED = ("_hoodie_commit_seqno", "_hoodie_file_name")
# Hudi 0.15 wrote the first statistics of this one under wrong keys (absolute partition paths).
MISKEYED = ("a2_2_indexed",)


def assert_sound(checked, name):
    """One table holds three files that no commit names, and is sound otherwise."""
    assert checked.files_late == (3 if name == "a_10_upsert" else 0)
    assert dataclasses.replace(checked, files_late=0).ok


@pytest.fixture(scope="module")
def hudi(tmp_path_factory):
    """The folder of each table of Hudi's, by name."""
    folder = tmp_path_factory.mktemp("hudi")
    for archive in ("record_index", "complex_key", "states", "variants", "rolled_back"):
        unpack(f"hudi-0.15.0-{archive}.tar.gz", folder)
    for name in LATER:
        version, _, table = name.partition("/")
        unpack(f"hudi-{version}-{table}.tar.gz", folder / version)
    return lambda name: folder / name / "table" if name in EXPECTED else folder / name


@pytest.fixture
def copy(hudi, tmp_path):
    """Copies of those tables, to write to."""
    return lambda name: shutil.copytree(hudi(name), tmp_path / name)


@pytest.mark.parametrize("name", INDEXED)
def test_every_key_is_found_where_it_is(hudi, name):
    table = Table.open(str(hudi(name)))
    stored = by_listing(hudi(name))
    assert table.choice.name == "record"
    keys = sorted(stored)
    absent = [*(key + "x" for key in keys[:50]), "", "absent", "\x00", "😀", "k" * 40_000]
    found = table.lookup([*keys, *absent]).to_pylist()
    places = {row["record_key"]: (row["partition_path"], row["file_id"]) for row in found}
    assert places == {k: stored[k][0] if k in stored else (None, None) for k in [*keys, *absent]}
    times = {path.name.partition(".")[0] for path in (hudi(name) / ".hoodie").glob("*.*commit")}
    for row in found:
        # The instant that put the key there; early ones may be archived.
        time = row["instant_time"]
        assert (time is None) == (row["file_id"] is None)
        assert time is None or time in times or time < min(times)
    checked = table.check()
    assert_sound(checked, name)
    assert checked.keys == len(stored)
    assert data_rows(table) == {key: values for key, (_, values) in stored.items()}


@pytest.mark.parametrize("name", EXPECTED)
def test_rows_are_those_that_hudi_reads(hudi, name):
    expected = pq.read_table(hudi(name).parent / "expected.parquet")
    read = pa.concat_tables(Table.open(str(hudi(name))).scan().tables())
    assert sorted(read.column_names) == sorted(expected.column_names)
    read = read.sort_by("_hoodie_record_key")
    expected = expected.sort_by("_hoodie_record_key")
    for column in expected.column_names:
        # Spark writes timestamps without their zone, which is UTC.
        wanted = expected[column].cast(read[column].type)
        assert read[column].to_pylist() == wanted.to_pylist(), column


@pytest.mark.parametrize("name", [*EXPECTED, "a_6_before_fail", "b_np"])
def test_reading_keys_opens_only_the_files_that_hold_them(hudi, name):
    table = Table.open(str(hudi(name)))
    stored = by_listing(hudi(name))
    keys = sorted(stored)[:: max(1, len(stored) // 3)]
    plan = table.scan(keys=[*keys, "absent"])
    places = {(file.partition_path, file.file_id) for file in plan.files}
    assert places == {stored[key][0] for key in keys}
    assert plan.files_total == len({place for place, _ in stored.values()})
    assert data_rows(table, keys=keys) == {key: stored[key][1] for key in keys}
    assert not table.scan(keys=["absent"]).files


@pytest.mark.parametrize("name", EXPECTED)
def test_reading_as_of_an_instant(hudi, name):
    root = hudi(name)
    table = Table.open(str(root))
    times = sorted(path.stem for path in (root / ".hoodie").glob("*.commit"))
    assert len(times) == 5
    counts = []
    for time in times:
        read = data_rows(table, as_of=time)
        assert read == {key: values for key, (_, values) in by_listing(root, as_of=time).items()}
        counts.append(len(read))
    assert counts == [1200, 1260, 1260, 1220, 1226]
    assert not data_rows(table, as_of="20200101000000000")


def test_states_are_earlier_readings_of_the_last_or_gone(hudi):
    last = Table.open(str(hudi("a_6_before_fail")))
    gone = []
    for name in STATES[:6]:
        time = max(path.stem for path in (hudi(name) / ".hoodie").glob("*.commit"))
        earlier = {key: values for key, (_, values) in by_listing(hudi(name)).items()}
        try:
            assert data_rows(last, as_of=time) == earlier
        except InputError as error:
            gone.append(name)
            message = str(error)
    # Two cleans took three files of the first commit and three of the second.
    assert gone == ["a_1_bulk", "a_2_upsert"]
    assert "are gone: 3 of their files were cleaned" in message


def test_reading_as_of_an_archived_instant(hudi):
    table = Table.open(str(hudi("a_10_upsert")))
    with pytest.raises(InputError, match="archived"):
        table.scan(as_of="20261121165133262")


def test_reading_as_of_an_instant_that_hudi_1_x_archived(copy):
    """In another folder than 0.15 has it."""
    limits = {"hoodie.cleaner.commits.retained": "1", "hoodie.keep.min.commits": "2"}
    table = Table.open(str(copy(LATER[0])), options={**limits, "hoodie.keep.max.commits": "3"})
    first, *_ = table.archive().data
    with pytest.raises(InputError, match="archived"):
        table.scan(as_of=first)


def _fresh(rows: pa.Table, key: str, suffix: str) -> pa.Table:
    """Rows with new keys; the last key column carries the suffix, or is raised."""
    at = rows.schema.get_field_index(key)
    field = rows.schema.field(at)
    column = rows[key]
    if pa.types.is_integer(field.type):
        new = pc.add(column, 1_000_000 + len(suffix)).cast(field.type)
    else:
        new = pc.binary_join_element_wise(column, suffix, "-")
    return rows.set_column(at, field, new)


def _with(rows: pa.Table, column: str, values: Any) -> pa.Table:
    at = rows.schema.get_field_index(column)
    return rows.set_column(at, rows.schema.field(at), values)


def _write_on(root: Path) -> tuple[Table, dict[str, Any]]:
    """Update, insert, move, delete on a table of Hudi's; returns it and the rows it must hold."""
    options = {MOVES: "true", "hoodie.parquet.small.file.limit": "0"}
    table = Table.open(str(root), options=options)
    wanted = data_rows(table)
    config = table.config
    rows = pa.concat_tables(table.scan().tables())
    keys = rows["_hoodie_record_key"]
    rows = rows.select([c for c in rows.column_names if not c.startswith("_hoodie_")])
    n = max(1, len(wanted) // 10)
    newer = _with(rows, config.ordering, pc.add(rows[config.ordering], 10))
    fresh = _fresh(rows.slice(2 * n, n), config.record_key[-1], "new")
    moved = newer.slice(n, n)
    if config.partition_fields:
        moved = _with(moved, config.partition_fields[0], pa.array(["moved/to"] * n))
    result = table.upsert(pa.concat_tables([newer.slice(0, n), fresh, moved]))
    assert (result.updated + result.moved, result.inserted) == (2 * n, n)
    assert result.moved == (n if config.partition_fields else 0)
    result = table.delete(keys.slice(3 * n, n))
    assert result.deleted == n
    more = _fresh(rows.slice(2 * n, n), config.record_key[-1], "newer")
    assert table.insert(more).inserted == n
    with pytest.raises(DuplicateKeyError):
        table.insert(more)
    for name in keys.slice(3 * n, n).to_pylist():
        del wanted[name]
    for part in (newer.slice(0, n), fresh, moved, more):
        names = Table.open(str(root)).lookup(part.select(config.record_key))["record_key"]
        values = [tuple(row.values()) for row in part.to_pylist()]
        wanted.update(zip(names.to_pylist(), values, strict=True))
    return table, wanted


@pytest.mark.parametrize(
    "name", [*EXPECTED, "a_6_before_fail", "a_10_upsert", *MISKEYED, "b_np", "rolled_back"]
)
def test_writing_on(copy, name):
    root = copy(name)
    before, unlisted = left_over(root), _unlisted(Table.open(str(root)))
    table, wanted = _write_on(root)
    stored = by_listing(root)
    assert {key: values for key, (_, values) in stored.items()} == wanted
    assert data_rows(table) == wanted
    found = table.lookup(list(wanted)).to_pylist()
    places = {row["record_key"]: (row["partition_path"], row["file_id"]) for row in found}
    assert places == {key: place for key, (place, _) in stored.items()}
    assert_sound(table.check(), name)
    assert files_listed(table).items() <= files_stored(root).items()
    assert _unlisted(table) == unlisted
    assert left_over(root) == before
    assert [key for key, _, _ in by_hudi_rs(root)] == sorted(wanted)
    _assert_described(table, everything=name not in MISKEYED)


def _unlisted(table: Table) -> set[str]:
    return files_stored(table.storage.root).keys() - files_listed(table).keys()


def _assert_described(table: Table, *, everything: bool) -> None:
    """Every base file has its column statistics and its bloom filter, where the table has them."""
    state = TableState.load(table.storage)
    ours = max(state.timeline.commit_times())[:14]
    stats, blooms = set(), set()
    for path in files_listed(table):
        partition, _, name = path.rpartition("/")
        if not everything and name.rpartition("_")[2][:14] < ours[:12]:
            continue
        blooms.add(partition_id(partition or ".") + file_id_hash(name))
        footer = pq.ParquetFile(f"{table.storage.root}/{path}").schema_arrow
        flat = [f.name for f in footer if not pa.types.is_nested(f.type)]
        stats |= {
            column_id(c) + partition_id(partition or ".") + file_id_hash(name)
            for c in flat
            if c not in UNDESCRIBED
        }
    described = {COLUMN_STATS: stats, BLOOM_FILTERS: blooms}
    for partition in described.keys() & set(state.config.metadata_partitions):
        keys: set[str] = set()
        for shard in state.metadata.shards(partition):
            keys.update(key.decode() for key in shard.scan()[0].to_pylist())
        assert described[partition]
        assert described[partition] <= keys, partition


def test_check_finds_what_hudi_forgot_to_index(hudi):
    """With a bucket index Hudi 0.15 does not index rows that it adds to an existing bucket."""
    checked = Table.open(str(hudi("e"))).check()
    assert not checked.ok
    assert (checked.keys, checked.missing, checked.extra, checked.wrong) == (50, 20, 0, 0)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("f", "hoodie.table.type=MERGE_ON_READ")],
)
def test_tables_that_are_refused_by_name(hudi, name, reason):
    with pytest.raises(TableError, match=reason):
        Table.open(str(hudi(name)))


def test_a_bucket_table_is_described_by_the_names_of_its_files(tmp_path):
    root = str(unpack("hudi-0.15.0-bucket.tar.gz", tmp_path) / "e2")
    said = CliRunner().invoke(app, ["info", root, "--json"])
    assert said.exit_code == 0, said.output
    info = json.loads(said.stdout)
    assert (info["index"], info["rows"], info["base_files"]) == ("bucket", 40, 4)
    options = "hoodie.index.type=BUCKET and hoodie.bucket.index.num.buckets=4"
    assert info["index_reason"].endswith(f"another command needs options {options}")
    with pytest.raises(InputError, match=options):
        Table.open(root)


@pytest.mark.parametrize(("name", "folder"), [("record_index", "archived"), (LATER[0], "history")])
def test_instants_are_archived_where_hudi_looks_for_them(copy, name, folder):
    root = copy(name)
    retained = "hoodie.cleaner.commits.retained"
    limits = {retained: "1", "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    assert Table.open(str(root), options=limits).archive().data
    assert any((root / ".hoodie" / folder).glob(".commits_.archive.*"))
    others = {"archived", "history"} - {folder}
    assert not any((root / ".hoodie" / other).exists() for other in others)


@pytest.mark.parametrize("name", LATER)
def test_merging_follows_the_payload_that_hudi_1_x_stored(copy, name):
    """It makes tables whose stored row stays where its ordering value is greater."""
    table = Table.open(str(copy(name)))
    rows = pa.concat_tables(table.scan().tables()).slice(0, 5)
    rows = rows.select([c for c in rows.column_names if not c.startswith("_hoodie_")])
    older = _with(rows, "ts", pc.subtract(rows["ts"], 1))
    assert table.upsert(older).unchanged == 5
    assert table.upsert(_with(rows, "ts", pc.add(rows["ts"], 1))).updated == 5


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (b"=TIMESTAMP", "TIMESTAMP"),
        (b"=CUSTOM", "custom key generator .* give option hoodie.datasource.write.partitionpath"),
        (b"=GLOBAL_DELETE", "GLOBAL_DELETE"),
    ],
)
def test_key_generators_that_are_refused_by_name(copy, change, told):
    """A generator that is none of ours, or one of which the table does not say enough."""
    root = copy(LATER[0])
    path = root / ".hoodie/hoodie.properties"
    path.write_bytes(
        path.read_bytes().replace(b"keygenerator.type=SIMPLE", b"keygenerator.type" + change)
    )
    table = Table.open(str(root))
    with pytest.raises(TableError, match=told):
        table.delete(["a"])


def test_rolled_back_blocks_stay_out_when_the_metadata_timeline_is_archived(copy):
    """Then only the rollback's own block tells that the blocks before it do not count."""
    root = copy("rolled_back")
    wanted = {key: values for key, (_, values) in by_listing(root).items()}
    timeline = root / ".hoodie/metadata/.hoodie"
    last = max(path.name for path in timeline.glob("*.deltacommit"))
    for path in timeline.glob("[02]*.*"):
        if path.name.partition(".")[0] < last.partition(".")[0]:
            path.unlink()
    table = Table.open(str(root))
    assert data_rows(table) == wanted
    assert table.check().ok
    assert not table.lookup(["k20", "k21"])["file_id"].null_count
