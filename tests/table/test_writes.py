"""Writes one by one: what they leave on storage, in the index and in the result."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_cases import (
    DUP_POLICY,
    EVENT_TIME,
    MOVES,
    PAYLOAD,
    by_hudi_rs,
    by_listing,
    create,
    data_rows,
    latest_files,
    left_over,
    rows,
)

from keymark import Table
from keymark.harness.store.results import PHASES
from keymark.table.errors import InputError
from keymark.table.format.parquet.base_file import read_footer
from keymark.table.properties.options import BATCH_COLLECT
from keymark.table.state.table_state import TableState, columns_of
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.write import client
from keymark.table.write.file_group import WriteTarget
from keymark.table.write.write_group import stored_ordering
from keymark.table.write.writer import base_file_options


def test_a_file_group_whose_rows_are_all_deleted_stays_as_an_empty_file(tmp_path):
    """As with Hudi: no row group and no key range, but a bloom filter, which its indexes need."""
    root = tmp_path / "t"
    table = create(root)
    table.bulk_insert(rows(range(6)))
    assert table.delete(["k0", "k3"]).deleted == 2
    assert data_rows(table).keys() == {"k1", "k2", "k4", "k5"}
    (path,) = (path for (place, _), path in latest_files(root).items() if place == "p0")
    assert pq.ParquetFile(root / path).num_row_groups == 0
    footer = read_footer(LocalStorage.at(str(root)).open(path))
    assert (footer.num_rows, footer.min_key, footer.max_key) == (0, None, None)
    assert footer.bloom_text is not None
    assert table.upsert(rows([0, 9], partition="p0")).inserted == 2
    assert len(latest_files(root)) == 3
    assert data_rows(table).keys() == {"k0", "k1", "k2", "k4", "k5", "k9"}


def test_inserting_known_keys_on_purpose(tmp_path):
    """Policy none gives uniqueness up: the index keeps the later place, the check reports it."""
    table = create(tmp_path / "t", {DUP_POLICY: "none"})
    table.insert(rows(["a", "b", "a"], partition=["p0", "p0", "p1"]))
    assert sum(part.num_rows for part in table.scan().tables()) == 3
    (found,) = table.lookup(["a"]).to_pylist()
    assert found["partition_path"] == "p1"
    assert (table.check().keys, table.check().duplicate) == (2, 1)
    table.bulk_insert(rows(["b", "c"], partition="p2"))
    assert table.lookup(["b", "c"])["partition_path"].to_pylist() == ["p2", "p2"]
    assert (table.check().keys, table.check().duplicate, table.check().missing) == (3, 2, 0)


FLAGGED = rows(["a", "b"]).append_column("_hoodie_is_deleted", pa.array([True, False]))


@pytest.mark.parametrize("policy", ["none", "drop", "fail"])
def test_an_insert_of_a_deleted_row_inserts_nothing(tmp_path, policy):
    table = create(tmp_path / "t", {DUP_POLICY: policy})
    result = table.insert(FLAGGED)
    assert (result.inserted, result.unchanged) == (1, 1)
    assert data_rows(table).keys() == {"b"}
    assert table.check().ok


def test_a_bulk_insert_takes_no_deletes(tmp_path):
    table = create(tmp_path / "t")
    with pytest.raises(InputError, match="_hoodie_is_deleted is true in a row"):
        table.bulk_insert(FLAGGED)
    assert not data_rows(table)
    assert table.bulk_insert(FLAGGED.slice(1)).inserted == 1


@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert", "delete"])
def test_a_write_of_nothing_is_a_commit(tmp_path, operation):
    root = tmp_path / "t"
    table = create(root)
    table.upsert(rows([1, 2]))
    nothing = [] if operation == "delete" else rows([])
    result = getattr(table, operation)(nothing)
    assert (result.inserted, result.updated, result.deleted, result.files_written) == (0,) * 4
    assert result.instant in TableState.load(table.storage).timeline.commit_times()
    assert data_rows(table).keys() == {"k1", "k2"}
    assert table.check().ok
    assert left_over(root) == []
    assert [key for key, _, _ in by_hudi_rs(root)] == ["k1", "k2"]


def test_the_first_write_of_nothing_leaves_a_table(tmp_path):
    table = create(tmp_path / "t")
    assert table.delete(["a"]).unchanged == 1
    assert table.scan().schema is None
    assert table.upsert(rows([])).inserted == 0
    assert table.upsert(rows([1])).inserted == 1
    assert data_rows(table).keys() == {"k1"}


def test_a_record_batch_and_a_path_will_do(tmp_path):
    table = create(tmp_path / "t")
    for number, write in enumerate((table.upsert, table.insert, table.bulk_insert)):
        (batch,) = rows([number]).to_batches()
        assert write(batch).inserted == 1
    assert len(data_rows(Table.open(tmp_path / "t"))) == 3


def test_columns_in_another_order_and_of_narrower_types(tmp_path):
    table = create(tmp_path / "t")
    table.upsert(rows([1]))
    other = rows([2]).select(["v", "ts", "p", "k"])
    other = other.set_column(1, "ts", other["ts"].cast(pa.int32()))
    assert table.upsert(other).inserted == 1
    assert data_rows(table)["k2"] == ("k2", "p0", 1, "vk2")


def test_rows_read_from_the_table_can_be_written_back(tmp_path):
    table = create(tmp_path / "t")
    table.upsert(rows(range(4)))
    before = data_rows(table)
    result = table.upsert(pa.concat_tables(table.scan().tables()))
    assert (result.updated, result.inserted) == (4, 0)
    assert data_rows(table) == before


def test_meta_columns_of_each_row(tmp_path):
    """Updated rows carry the new instant, the others keep theirs; all name the file they are in."""
    root = tmp_path / "t"
    table = create(root)
    first = table.bulk_insert(rows(range(4), partition="p0")).instant
    second = table.upsert(rows([1], ts=2, partition="p0")).instant
    (path,) = latest_files(root).values()
    stored = pq.ParquetFile(root / path).read().to_pylist()
    assert len(stored) == 4
    for row in stored:
        time = second if row["k"] == "k1" else first
        assert row["_hoodie_commit_time"] == time
        assert row["_hoodie_commit_seqno"].startswith(f"{time}_")
        assert row["_hoodie_file_name"] == path.rpartition("/")[2]
        assert row["_hoodie_partition_path"] == "p0"
    assert len({row["_hoodie_commit_seqno"] for row in stored}) == 4


def test_the_moved_key_counts_once_and_its_old_place_is_gone(tmp_path):
    root = tmp_path / "t"
    table = create(root, {MOVES: "true"})
    table.upsert(rows([1, 2], partition="p0"))
    result = table.upsert(rows([1], ts=2, partition="p5"))
    assert (result.moved, result.updated, result.inserted, result.deleted) == (1, 0, 0, 0)
    stored = by_listing(root)
    assert stored["k1"][0][0] == "p5"
    assert table.lookup(["k1"])["instant_time"].to_pylist() == [result.instant]
    assert table.check().ok


def test_without_moves_the_key_stays_and_its_column_changes(tmp_path):
    root = tmp_path / "t"
    table = create(root)
    table.upsert(rows([1], partition="p0"))
    assert table.upsert(rows([1], ts=2, partition="p5")).updated == 1
    (partition, _), row = by_listing(root)["k1"]
    assert partition == "p0"
    assert row == ("k1", "p5", 2, "vk1")


def test_late_rows_by_event_time(tmp_path):
    table = create(tmp_path / "t", {PAYLOAD: EVENT_TIME, MOVES: "true"})
    table.upsert(rows(["a", "b", "c"], ts=5, partition="p0"))
    late = table.upsert(rows(["a"], ts=4, partition="p0"))
    assert (late.unchanged, late.updated, late.files_written) == (1, 0, 0)
    late = table.upsert(rows(["b"], ts=4, partition="p9"))
    assert (late.unchanged, late.moved) == (1, 0)
    tie = table.upsert(rows(["c"], ts=5, partition="p0", value="tie "))
    assert (tie.updated, tie.unchanged) == (1, 0)
    flagged = rows(["a", "b"], ts=4).append_column("_hoodie_is_deleted", pa.array([True, True]))
    assert table.upsert(flagged).unchanged == 2
    assert table.delete(["a"]).deleted == 1
    assert data_rows(table) == {"b": ("b", "p0", 5, "vb"), "c": ("c", "p0", 5, "tie c")}


def _widen(table, column):
    """Give an int column of a table the type long, as Hudi does: older files stay as they are."""
    (path,) = (Path(table.storage.root) / ".hoodie").glob("*.commit")
    commit = json.loads(path.read_text())
    extra = commit["extraMetadata"]
    narrow = f'"name":"{column}","type":["null","int"]'
    assert extra["schema"].count(narrow) == 1
    extra["schema"] = extra["schema"].replace(narrow, narrow.replace("int", "long"))
    path.chmod(0o644)
    path.write_text(json.dumps(commit))
    return Table.open(table.storage.root, options=table._given)


@pytest.mark.parametrize("collected", ["0", "1000000"])
def test_late_moves_where_the_ordering_column_was_widened(tmp_path, collected):
    options = {PAYLOAD: EVENT_TIME, MOVES: "true", BATCH_COLLECT: collected}
    table = create(tmp_path / "t", options)
    narrow = rows(["a", "b"], ts=5, partition="p0")
    table.upsert(narrow.set_column(2, "ts", narrow["ts"].cast(pa.int32())))
    table = _widen(table, "ts")
    assert table.upsert(rows(["a"], ts=4, partition="p9")).unchanged == 1
    late = 1 << 40
    assert table.upsert(rows(["b"], ts=late, partition="p9")).moved == 1
    assert data_rows(table) == {"a": ("a", "p0", 5, "va"), "b": ("b", "p9", late, "vb")}


def test_a_file_without_the_ordering_column_has_no_ordering_values(tmp_path):
    table = create(tmp_path / "t")
    table.upsert(rows(["a"]))
    (file,) = table.scan().files
    schema = columns_of(table.storage).append(pa.field("later", pa.int64()))
    target = WriteTarget(
        storage=table.storage,
        instant="1",
        schema=schema,
        options=base_file_options(table.options(), table.config, schema),
        metadata_partitions=(),
        ordering="later",
    )
    assert stored_ordering(target, file, pa.array(["a", "b"])).to_pylist() == [None, None]


def test_instants_grow_even_when_the_clock_goes_back(tmp_path):
    class Back:
        def __init__(self):
            self.now = 1_700_000_000_000

        def millis(self):
            self.now -= 3_600_000
            return self.now

        def seconds(self):
            return 0.0

        def sleep(self, _):
            raise AssertionError

    clock = Back()
    table = create(tmp_path / "t", clock=clock)
    times = [table.upsert(rows([number])).instant for number in range(4)]
    assert times == sorted(set(times))
    assert times[0].endswith("1320000")
    assert times[1:] == [f"{times[0][:14]}00{number}" for number in (1, 2, 3)]


def _rows_per_file(root, partition="p0"):
    """Rows of each file of a partition, the largest first."""
    paths = [path for (place, _), path in latest_files(root).items() if place == partition]
    return sorted((pq.ParquetFile(root / path).metadata.num_rows for path in paths), reverse=True)


def _dense(keys):
    """Rows of partition p0 that do not compress."""
    data = rows(keys, partition="p0")
    values = [hashlib.sha256(key.encode()).hexdigest() for key in data["k"].to_pylist()]
    return data.set_column(data.schema.get_field_index("v"), "v", pa.array(values))


def test_files_are_cut_at_their_size_and_small_ones_filled(tmp_path):
    root = tmp_path / "t"
    limits = {"hoodie.parquet.max.file.size": "12000", "hoodie.parquet.small.file.limit": "9000"}
    table = create(root, limits)
    assert table.bulk_insert(_dense(range(400))).inserted == 400
    first = _rows_per_file(root)
    assert sum(first) == 400
    assert len(first) > 1
    assert set(first[:-1]) == {first[0]}
    result = table.insert(_dense(range(500, 503)))
    assert (result.inserted, result.files_written) == (3, 1)
    assert sum(_rows_per_file(root)) == 403
    big = table.upsert(_dense(range(600, 1000)))
    assert big.inserted == 400
    assert big.files_written > 1
    assert table.upsert(rows([0, 1, 399, 501, 999], ts=2, partition="p0")).updated == 5
    assert len(data_rows(table)) == 803
    assert table.check().ok
    assert left_over(root) == []


@pytest.mark.parametrize("collected", ["0", "10000000"])
def test_a_commit_of_few_rows_does_not_cut_the_next_into_many_files(tmp_path, collected):
    """Its file is mostly a bloom filter: 431 KB a row, of which 290 are as large as a file."""
    filters = {
        "hoodie.index.bloom.num_entries": "60000",
        "hoodie.bloom.index.filter.dynamic.max.entries": "100000",
    }
    table = create(tmp_path / "t", {**filters, BATCH_COLLECT: collected})
    table.upsert(rows([0], partition="p0"))
    result = table.upsert(rows(range(1, 3000), partition="p0"))
    assert (result.inserted, result.files_written) == (2999, 1)


def test_without_a_small_file_limit_inserts_open_new_files(tmp_path):
    root = tmp_path / "t"
    table = create(root, {"hoodie.parquet.small.file.limit": "0"})
    for number in range(3):
        table.insert(rows([number], partition="p0"))
    assert _rows_per_file(root) == [1, 1, 1]


def test_an_upsert_tells_its_phases_and_what_they_took(tmp_path):
    """Also a table's first write; after the last phase nothing has a phase any more."""
    told = []
    table = create(tmp_path / "t")
    for keys in (range(6), range(3, 9)):
        writer = replace(table._writer(rows(keys)), on_phase=told.append)
        phases = client.upsert(writer, rows(keys)).phases
        order = list(dict.fromkeys(told[:-1]))
        assert order == [phase for phase in PHASES if phase != "total"]
        assert told[-1] is None
        assert phases.keys() == set(PHASES)
        assert sum(phases.values()) <= 2 * phases["total"]
        told.clear()
