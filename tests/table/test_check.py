"""The check of any table: what it compares, what it says about pending work, what it finds.

`tests/campaigns/campaign_kills.py` kills every operation at every storage call and makes the
damages of `tests/campaigns/crafted_damage.py`; here are the cases by name.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from faults import DEAD, FULL, FaultStorage, Killed
from pyspark import cloudpickle
from table_cases import DUP_POLICY, SMALL_BLOOMS, create, rows

from keymark import Table
from keymark.table.cli import app
from keymark.table.errors import NotATableError, StorageError
from keymark.table.format.avro.records import encode_long
from keymark.table.index.build import shard as build_shard
from keymark.table.metadata import column_stats, records
from keymark.table.metadata.column_ranges import live_keys
from keymark.table.metadata.column_stats import Wrapper
from keymark.table.metadata.partitions import BLOOM_FILTERS, COLUMN_STATS, RECORD_INDEX
from keymark.table.metadata.reader import MetadataTable
from keymark.table.metadata.writer import DeltaCommit
from keymark.table.runtime.runner import LocalRunner
from keymark.table.services.check import keys as check_keys
from keymark.table.state.table_state import TableState
from keymark.table.storage.local_storage import LocalStorage

BUCKETS = {"hoodie.bucket.index.num.buckets": "2"}
LOCAL = ("simple", "bloom", "bucket")
COMPARED = {
    "record": ("files", "record_index", "commits", "partition paths"),
    "global_simple": ("files", "commits", "unique keys", "partition paths"),
    "compact": ("files", "compact", "commits", "unique keys", "partition paths"),
    "global_bloom": (
        *("files", "commits", "unique keys", "partition paths"),
        *("key ranges", "filters in footers"),
    ),
    "simple": ("files", "commits", "unique keys", "partition paths"),
    "bloom": (
        *("files", "commits", "unique keys", "partition paths"),
        *("key ranges", "filters in footers"),
    ),
    "bucket": ("files", "commits", "unique keys", "partition paths", "buckets"),
}


def loaded(path: Path, index: str, **options: str) -> Table:
    """A table of two commits."""
    table = create(path, {**BUCKETS, DUP_POLICY: "none", **options}, index=index)
    table.bulk_insert(rows(range(9)))
    table.upsert(rows(range(6, 12), ts=2))
    return table


@pytest.mark.parametrize("index", COMPARED)
def test_every_index(index, tmp_path):
    table = loaded(tmp_path / "t", index)
    checked = table.check()
    assert checked.ok
    assert checked.keys == 12
    assert checked.compared == COMPARED[index]
    assert checked.pending == ()
    assert len(checked.digest) == 32


def test_a_check_decodes_each_location_and_lists_each_partition_once(tmp_path, monkeypatch):
    """However many blocks and files there are."""
    decoded, listed = [], []

    def decode(tail, name, real=records.decode_location):
        decoded.append(tail)
        return real(tail, name)

    def slices(self, partition, real=MetadataTable.slices):
        listed.append(partition)
        return real(self, partition)

    table = create(tmp_path / "t", {"hoodie.hfile.block.size": "500"})
    for part in range(6):
        table.bulk_insert(rows(range(100 * part, 100 * part + 100), partition=f"p{part}"))
    for module in (records, build_shard):
        monkeypatch.setattr(module, "decode_location", decode)
    monkeypatch.setattr(MetadataTable, "slices", slices)
    build_shard._tail_words.cache_clear()
    assert table.check().ok
    assert sorted(decoded) == sorted(set(decoded))
    assert len(decoded) == 6
    assert listed.count(RECORD_INDEX) <= 3


@pytest.mark.parametrize("index", ["global_simple", "global_bloom", "compact", "simple", "bloom"])
def test_a_key_in_two_rows(index, tmp_path):
    table = loaded(tmp_path / "t", index)
    table.insert(rows(["k0", "k1"]))
    checked = table.check()
    assert not checked.ok
    assert (checked.keys, checked.duplicate) == (12, 2)


def test_a_partition_local_index_allows_a_key_in_each_partition(tmp_path):
    for index in LOCAL:
        table = loaded(tmp_path / index, index)
        table.upsert(rows(["k0"], partition="p1"))
        assert table.check().ok
        assert table.check().keys == 13


def test_repeated_keys_are_counted_in_many_passes(tmp_path, monkeypatch):
    monkeypatch.setattr(check_keys, "_HASHES_PER_PASS", 3)
    monkeypatch.setattr(check_keys, "_KEYS_AT_ONCE", 1)
    table = loaded(tmp_path / "t", "global_simple")
    table.insert(rows(["k0", "k1", "k4", "k7"]))
    table.insert(rows(["k4"]))
    assert (table.check().keys, table.check().duplicate) == (12, 4)


def test_a_coincidence_of_hashes_is_no_repeated_key(tmp_path, monkeypatch):
    table = loaded(tmp_path / "t", "global_simple")
    right = check_keys.entry_hashes
    monkeypatch.setattr(check_keys, "entry_hashes", lambda *given: right(*given) % 2)
    assert table.check().ok
    table.insert(rows(["k0"]))
    assert table.check().duplicate == 1


def _current(table: Table) -> Path:
    state = TableState.load(table.storage)
    return Path(table.storage.root, state.snapshot.files[0].path)


@pytest.mark.parametrize("index", COMPARED)
def test_a_base_file_that_is_gone(index, tmp_path):
    table = loaded(tmp_path / "t", index)
    path = _current(table)
    path.unlink()
    checked = table.check()
    assert not checked.ok
    assert checked.files_missing == 1
    assert checked.missing_paths == (str(path.relative_to(tmp_path / "t")),)


def test_a_base_file_that_is_gone_without_a_metadata_table(tmp_path):
    table = loaded(tmp_path / "t", "simple")
    table.drop_index("files")
    assert table.check().ok
    assert "files" not in table.check().compared
    path = _current(table)
    path.unlink()
    assert table.check().missing_paths == (str(path.relative_to(tmp_path / "t")),)


def test_a_committed_file_that_is_not_listed(tmp_path):
    table = loaded(tmp_path / "t", "bloom")
    path = _current(table)
    copy = path.with_name(f"copy-{path.name}")
    shutil.copy(path, copy)
    checked = table.check()
    assert checked.files_unlisted == 1
    assert checked.unlisted_paths == (str(copy.relative_to(tmp_path / "t")),)


def test_no_more_than_twenty_paths(tmp_path):
    table = loaded(tmp_path / "t", "bloom")
    path = _current(table)
    for number in range(30):
        shutil.copy(path, path.with_name(f"{number}-copy-{path.name}"))
    checked = table.check()
    assert checked.files_unlisted == 30
    assert len(checked.unlisted_paths) == 20


@pytest.mark.parametrize("partition", [COLUMN_STATS, BLOOM_FILTERS])
def test_partitions_of_the_metadata_table(partition, tmp_path):
    table = loaded(tmp_path / "t", "global_bloom")
    table.build_index(partition)
    table.upsert(rows([1], ts=5))
    checked = table.check()
    assert checked.ok
    assert partition in checked.compared


@pytest.mark.parametrize("built_since", [False, True])
def test_no_file_that_comes_back_is_described_twice(built_since, tmp_path, monkeypatch):
    """Hudi adds up the counts of two records of one column of a file."""
    table = loaded(tmp_path / "t", "global_simple")
    table.build_index(COLUMN_STATS)
    before = _statistics(table)
    bad = table.upsert(rows([1], ts=5)).instant
    if built_since:
        table.drop_index(COLUMN_STATS)
        table.build_index(COLUMN_STATS)
    put: dict[str, bytes] = {}
    right = DeltaCommit.put_records

    def put_records(delta, partition, found):
        put.update(found if partition == COLUMN_STATS else {})
        right(delta, partition, found)

    monkeypatch.setattr(DeltaCommit, "put_records", put_records)
    table.rollback(bad)
    again = {key for key in put if key in before}
    assert bool(again) == built_since
    assert _statistics(table) == before
    assert table.check().ok


@pytest.mark.parametrize("added", [0, 1])
def test_decimals_that_hudi_wraps_as_bytes_are_right_if_they_are_the_same(
    added, tmp_path, monkeypatch
):
    """A compaction by Hudi 0.15 unwraps each range and wraps decimals as bytes."""
    money = pa.array([Decimal("-1.50"), Decimal("2.25")], pa.decimal128(10, 2))
    columns = {"k": ["a", "b"], "p": ["x", "x"], "ts": [1, 1], "money": money}
    table = Table.create(
        tmp_path / "t", record_key="k", partition_path="p", ordering="ts", index="global_simple"
    )
    table.bulk_insert(pa.table(columns))
    wrap = column_stats._wrap

    def as_hudi(branch, value):
        if branch != Wrapper.DECIMAL:
            return wrap(branch, value)
        wrapped = wrap(branch, value + added)
        return encode_long(Wrapper.BYTES) + wrapped.removeprefix(encode_long(branch))

    with monkeypatch.context() as patch:
        patch.setattr(column_stats, "_wrap", as_hudi)
        table.build_index(COLUMN_STATS)
    assert table.check().column_stats_wrong == added


def _statistics(table: Table) -> dict[str, bytes]:
    """The records of column statistics that are not deleted, by key."""
    metadata = TableState.load(table.storage).metadata
    assert metadata is not None
    shards, found = metadata.shards(COLUMN_STATS), {}
    for shard in shards:
        keys, values = shard.scan()
        found |= zip(keys.cast(pa.string()).to_pylist(), values.to_pylist(), strict=True)
    return {key: found[key] for key in live_keys(shards, [*found])}


def _killed_clean(root: Path, fault: str = DEAD) -> tuple[Table, FaultStorage]:
    """A clean that died, or whose disk was full, after the first file was deleted."""
    table = loaded(root, "global_simple")
    for ts in (3, 4):
        table.upsert(rows(range(12), ts=ts))
    retained = {"hoodie.cleaner.commits.retained": "1", **SMALL_BLOOMS}
    copy = shutil.copytree(root, root.with_name("counted"))
    counting = FaultStorage(LocalStorage.at(str(copy)))
    Table(counting, retained).clean()
    deletes = [n for n, call in enumerate(counting.log, 1) if call.startswith("delete p")]
    storage = FaultStorage(LocalStorage.at(str(root)), fault, deletes[0] + 1)
    with contextlib.suppress(Killed, StorageError):
        Table(storage, retained).clean()
    assert storage.struck
    return Table.open(str(root)), storage


@pytest.mark.parametrize("fault", [DEAD, FULL])
def test_a_pending_clean_is_no_damage(fault, tmp_path):
    table, _ = _killed_clean(tmp_path / "t", fault)
    checked = table.check()
    assert checked.ok, checked
    (line,) = checked.pending
    assert line.startswith("clean 20")
    assert "was begun and not completed" in line
    assert line.endswith("the next write finishes it")
    table.upsert(rows([1], ts=9))
    assert table.check().ok
    assert table.check().pending == ()


def test_damage_beside_a_pending_clean_is_found(tmp_path):
    table, _ = _killed_clean(tmp_path / "t")
    path = _current(table)
    path.unlink()
    checked = table.check()
    assert not checked.ok
    assert checked.missing_paths == (str(path.relative_to(tmp_path / "t")),)
    assert len(checked.pending) == 1


def test_files_of_a_restore_that_died_are_no_damage(tmp_path):
    root = tmp_path / "t"
    table = loaded(root, "record")
    saved = table.savepoint()
    table.upsert(rows(range(12), ts=3))
    counting = FaultStorage(LocalStorage.at(str(shutil.copytree(root, tmp_path / "counted"))))
    Table(counting).restore(saved)
    done = next(n for n, call in enumerate(counting.log, 1) if call.endswith(".restore"))
    with pytest.raises(Killed):
        Table(FaultStorage(LocalStorage.at(str(root)), DEAD, done + 1)).restore(saved)
    checked = table.check()
    assert checked.ok, checked
    assert any("took 1 commit back" in line for line in checked.pending)
    table.upsert(rows([1], ts=9))
    assert table.check().pending == ()


def test_a_savepoint_that_died_is_no_damage(tmp_path):
    """It has the time of a commit, whose files stay committed."""
    root = tmp_path / "t"
    loaded(root, "simple")
    counting = FaultStorage(LocalStorage.at(str(shutil.copytree(root, tmp_path / "counted"))))
    Table(counting).savepoint()
    done = next(n for n, call in enumerate(counting.log, 1) if call.endswith(".savepoint"))
    with pytest.raises(Killed):
        Table(FaultStorage(LocalStorage.at(str(root)), DEAD, done)).savepoint()
    checked = Table.open(str(root)).check()
    assert checked.ok, checked
    assert len(checked.pending) == 1


def test_a_table_that_others_change_is_looked_at_again(tmp_path, monkeypatch):
    """A clean between the reading of the table and the listing of its files."""
    table = loaded(tmp_path / "t", "global_simple")
    table.upsert(rows(range(12), ts=3))
    load, turns = TableState.load, []

    def busy(storage, as_of=None):
        state = load(storage, as_of)
        if not turns:
            turns.append(1)
            options = {"hoodie.cleaner.commits.retained": "1"}
            assert Table.open(str(tmp_path / "t"), options=options).clean() is not None
        return state

    monkeypatch.setattr(TableState, "load", staticmethod(busy))
    assert table.check().ok
    assert len(turns) == 1


@pytest.mark.parametrize("index", ["record", "bloom", "bucket"])
def test_tasks_can_travel_to_other_processes(index, tmp_path, monkeypatch):
    table = loaded(tmp_path / "t", index)
    table.build_index(COLUMN_STATS)
    right = LocalRunner.run

    def run(self, function, items, **rest):
        sent = [cloudpickle.loads(cloudpickle.dumps((function, item))) for item in items]
        tasks = [item for _, item in sent]
        found = right(self, function, tasks, **rest)
        return [cloudpickle.loads(cloudpickle.dumps(answer)) for answer in found]

    monkeypatch.setattr(LocalRunner, "run", run)
    assert table.check().ok


def test_no_table(tmp_path):
    with pytest.raises(NotATableError):
        Table.open(str(tmp_path)).check()


def _command(*arguments: str) -> tuple[int, str]:
    from typer.testing import CliRunner

    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout


def test_the_command_line(tmp_path):
    table = loaded(tmp_path / "t", "simple")
    code, text = _command("check", str(tmp_path / "t"), "--json")
    document = json.loads(text)
    assert (code, document["ok"]) == (0, True)
    assert document["compared"] == list(COMPARED["simple"])
    assert document["pending"] == []
    path = _current(table)
    path.unlink()
    code, text = _command("check", str(tmp_path / "t"))
    assert code == 1
    assert str(path.relative_to(tmp_path / "t")) in text
    assert "unique keys" in text


def test_hashes_are_of_keys_and_places():
    keys = pa.array(["a", "b", "", "long enough for two words", "ü"])
    offsets, text = check_keys.string_buffers(keys)
    words = check_keys.location_words(["p", "q"], ["", ""])
    first, second = (check_keys.entry_hashes(text, offsets, each) for each in words)
    assert len(set(first.tolist()) | set(second.tolist())) == 10
    assert pc.count_distinct(pa.array(first)).as_py() == 5
