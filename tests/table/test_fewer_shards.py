"""The record index in fewer file groups, seen by Keymark and by Hudi's rules; and back to more."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pytest
from faults import DEAD, Killed, every_fault
from hypothesis import given, settings
from hypothesis import strategies as st
from table_cases import begin_reshard, create, data_rows, rows
from test_reshard import (
    assert_exact,
    copies_of,
    filled,
    shard_count,
    stored,
    write_meanwhile,
)

from keymark import Table
from keymark.table.errors import InputError, SnapshotExpiredError, StorageError
from keymark.table.layout.naming import METADATA
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.metadata.reshard_plan import RESHARD, load_plan, resharding
from keymark.table.metadata.shard import Validity
from keymark.table.runtime.clock import SystemClock
from keymark.table.services.index import reshard
from keymark.table.services.index.builds import save_partitions
from keymark.table.state.table_state import TableState
from keymark.table.storage.local_storage import LocalStorage

FOLDER = f"{METADATA}/{RECORD_INDEX}"
TIMELINE = f"{METADATA}/.hoodie"
_DONE = re.compile(r"(\d+)\.(commit|deltacommit|replacecommit)")
_BEGUN = re.compile(r"(\d+)\.(?:commit|deltacommit|replacecommit|(?:log)?compaction)(?:\.[a-z]+)?")
_FILE = re.compile(r"([^_.]+)_\d+-\d+-\d+_(\d+)\.hfile|\.([^_]+)_(\d+)\.log\.\d+_\d+-\d+-\d+")


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """The old shards are deleted at once."""
    monkeypatch.setattr(reshard, "_READERS_SECONDS", 0)


def switches(root):
    """Path of each completed replace commit of the metadata table -> the file ids it takes out."""
    paths = sorted((Path(root) / TIMELINE).glob("*.replacecommit"))
    named = (json.loads(path.read_text())["partitionToReplaceFileIds"] for path in paths)
    return {path: ids[RECORD_INDEX] for path, ids in zip(paths, named, strict=True)}


def shown_to_hudi(root, unknown=""):
    """File id -> base instant of its latest slice, by the rules of AbstractTableFileSystemView.

    To one who read the timeline before an instant that is `unknown` to it. An instant that writes
    counts from when it was begun, if one that is not earlier is completed.
    """
    names = [path.name for path in (Path(root) / TIMELINE).iterdir()]
    done = {match[1] for name in names if (match := _DONE.fullmatch(name))} - {unknown}
    begun = {match[1] for name in names if (match := _BEGUN.fullmatch(name))} - {unknown}
    replaced = {
        file_id
        for path, ids in switches(root).items()
        for file_id in ids
        if path.name.partition(".")[0] != unknown
    }
    shown: dict[str, str] = {}
    for path in (Path(root) / FOLDER).iterdir():
        match = _FILE.fullmatch(path.name)
        if match is None:
            continue
        file_id, time = match[1] or match[3], match[2] or match[4]
        known = time in begun or time < min(begun)
        if file_id not in replaced and known and time <= max(done):
            shown[file_id] = max(time, shown.get(file_id, ""))
    return shown


@dataclass(frozen=True)
class HudiValidity(Validity):
    """Which blocks count by HoodieTableMetadataUtil.getValidInstantTimestamps of Hudi."""

    @cached_property
    def _valid(self):
        deltas = {instant.time for instant in self.metadata.completed({"deltacommit"})}
        own = {time for time in deltas if len(time) == 20 or time.startswith("0" * 14)}
        own |= {instant.time for instant in self.metadata.completed({"rollback", "restore"})}
        data = {instant.time for instant in self.data.completed()}
        return frozenset(data | own | self.data.rolled_back())


def group_of(key, groups):
    """A key's file group, as Java counts."""
    number = 0
    for letter in key:
        number = (31 * number + ord(letter)) & 0xFFFFFFFF
    number -= (number & 0x80000000) << 1
    return abs(number) % groups


def assert_hudi_reads_it(root, groups):
    """By Hudi's rules there are so many groups, each key is in its own, and all are there."""
    state = TableState.load(LocalStorage.at(root))
    shown = shown_to_hudi(root)
    assert sorted(shown) == [f"record-index-{number:04d}-0" for number in range(groups)]
    ours, hudis = {}, {}
    for shard in state.metadata.shards(RECORD_INDEX):
        assert shard.slice.base_instant_time == shown[shard.slice.file_id]
        ours.update(entries(shard))
        validity = HudiValidity(shard.validity.metadata, shard.validity.data)
        found = entries(replace(shard, validity=validity))
        assert all(group_of(key, groups) == shard.number for key in found)
        hudis.update(found)
    assert hudis == ours
    assert hudis.keys() == data_rows(Table.open(str(root))).keys()


def entries(shard):
    keys, values = shard.scan()
    return dict(zip(keys.cast("string").to_pylist(), values.to_pylist(), strict=True))


def write_on(table, count, ts=100):
    for number in range(count):
        table.upsert(rows([5, 200 + number], ts=ts + number))


@pytest.mark.parametrize(
    ("before", "after"), [(2, 1), (4, 2), (8, 2), (3, 2), (7, 3), (6, 4), (5, 1)]
)
def test_fewer_file_groups_hold_the_same(tmp_path, before, after):
    table = filled(tmp_path / "t", before)
    expected = data_rows(table)
    done = table.reshard_index(after)
    assert (done.before, done.after, done.entries) == (before, after, len(expected))
    fresh = Table.open(str(tmp_path / "t"))
    assert shard_count(fresh) == after
    assert_exact(fresh, expected)
    assert_hudi_reads_it(tmp_path / "t", after)
    assert not (tmp_path / "t" / RESHARD).exists()
    for round_ in range(3):
        fresh.upsert(rows([5, 60 + round_], ts=3 + round_))
    fresh.delete(["k6"])
    assert_exact(fresh)
    fresh.compact()
    assert_exact(Table.open(str(tmp_path / "t")))
    assert_hudi_reads_it(tmp_path / "t", after)


@settings(max_examples=10)
@given(numbers=st.lists(st.integers(1, 7), min_size=2, max_size=5), seed=st.integers(0, 9))
def test_up_and_down(tmp_path_factory, numbers, seed):
    """Any numbers one after the other, with writes in between."""
    root = tmp_path_factory.mktemp("any") / "t"
    table = create(root, index="record")
    table.bulk_insert(rows(range(seed, 30 + seed)))
    for ts, groups in enumerate(numbers, start=2):
        table.reshard_index(groups)
        assert shard_count(table) == groups
        assert_hudi_reads_it(root, groups)
        table.upsert(rows([seed, 40 + ts], ts=ts))
        table.delete([f"k{seed + ts}"])
        assert_exact(table)
        assert_hudi_reads_it(root, groups)


def test_writers_go_on(tmp_path):
    """What they write between split and switch counts for Hudi, too: by its own instants."""
    table = filled(tmp_path / "t", 6)
    begin_reshard(table, 4)
    writer = Table.open(str(tmp_path / "t"))
    assert shard_count(writer) == 6
    assert_exact(writer)
    expected = write_meanwhile(writer, 9)
    done = Table.open(str(tmp_path / "t")).reshard_index(4)
    assert done.log_files > 0
    assert_exact(Table.open(str(tmp_path / "t")), expected)
    assert_hudi_reads_it(tmp_path / "t", 4)
    # And once more, with blocks that were dealt out before.
    Table.open(str(tmp_path / "t")).reshard_index(3)
    assert_exact(Table.open(str(tmp_path / "t")), expected)
    assert_hudi_reads_it(tmp_path / "t", 3)


def test_a_delta_commit_follows_the_switch(tmp_path):
    """Hudi's compaction must find none but earlier instants."""
    for writes in (0, 1):
        root = tmp_path / str(writes)
        table = filled(root, 4)
        begin_reshard(table, 2)
        write_on(Table.open(str(root)), writes)
        done = Table.open(str(root)).reshard_index(2)
        latest = max(path.name.split(".")[0] for path in (root / TIMELINE).glob("*.deltacommit"))
        assert latest > done.instant
        assert f"{done.instant}.replacecommit" in {path.name for path in switches(root)}
        assert Table.open(str(root)).compact() == f"{latest}001"
        assert_hudi_reads_it(root, 2)


class Pausing(SystemClock):
    """A clock whose sleep, between the switch and the deletion, lets the test look."""

    def __init__(self, look):
        self.look = look

    def sleep(self, seconds):
        assert seconds == 0
        self.look()


def test_who_began_to_read_before_the_switch(tmp_path):
    """It reads the old shards, or is told that they are gone; so is a reader of Hudi's."""
    root = tmp_path / "t"
    filled(root, 4)
    storage = LocalStorage.at(root)
    state = TableState.load(storage)
    listed = state.metadata.shards(RECORD_INDEX)
    expected = data_rows(Table.open(str(root)))
    seen = []

    def look():
        seen.append({key for shard in listed for key in entries(shard)})
        assert sorted(switches(root).values()) == [["record-index-0002-0", "record-index-0003-0"]]
        assert_hudi_reads_it(root, 2)
        assert len(shown_to_hudi(root, unknown=next(iter(switches(root))).stem)) == 4

    done = Table(storage, {}, clock=Pausing(look)).reshard_index(2)
    assert seen == [expected.keys()]
    assert list(switches(root).values()) == [[]]
    # Not some of them: a reader would look for keys in the wrong ones.
    assert shown_to_hudi(root, unknown=done.instant) == {}
    with pytest.raises(SnapshotExpiredError, match="fewer file groups"):
        state.metadata.shards(RECORD_INDEX)
    with pytest.raises(StorageError, match="does not exist"):
        entries(replace(listed[0], readers=[]))
    assert_exact(Table.open(str(root)), expected)


def test_given_up(tmp_path):
    table = filled(tmp_path / "t", 4)
    before = stored(tmp_path)
    begin_reshard(table, 2)
    write_on(Table.open(str(tmp_path / "t")), 1)
    written = stored(tmp_path)
    assert any("re-sharded to 2" in line for line in table.check().pending)
    table.abort_reshard()
    made = {path for path in written - stored(tmp_path) if METADATA in str(path)}
    assert made
    assert before <= stored(tmp_path)
    assert_exact(Table.open(str(tmp_path / "t")))
    assert_hudi_reads_it(tmp_path / "t", 4)


def test_a_plan_that_is_gone_leaves_nothing(tmp_path, monkeypatch):
    """It died after blocks were dealt out, and somebody deleted its folder."""
    table = filled(tmp_path / "t", 4)
    begin_reshard(table, 2)
    instant = load_plan(table.storage).instant
    write_on(Table.open(str(tmp_path / "t")), 1)
    with monkeypatch.context() as patched:
        patched.setattr(reshard, "_still_holds", lambda *_: 1 / 0)
        patched.setattr(reshard.Resharder, "_planned", lambda self, _: load_plan(self.storage))
        with pytest.raises(ZeroDivisionError):
            table.reshard_index(2)
    assert list((tmp_path / "t" / RESHARD).rglob(f".*_{instant}.log.2_*"))
    shutil.rmtree(tmp_path / "t" / RESHARD)
    Table.open(str(tmp_path / "t")).upsert(rows([1], ts=300))
    assert not [p for p in (tmp_path / "t" / METADATA).rglob("*") if instant in p.name]
    assert_exact(Table.open(str(tmp_path / "t")))
    assert_hudi_reads_it(tmp_path / "t", 4)


def test_a_commit_from_before_the_plan_starts_it_anew(tmp_path):
    """Only another program can complete one: its blocks would be older than the switch."""
    table = filled(tmp_path / "t", 4)
    begin_reshard(table, 2)
    plan = load_plan(table.storage)
    write_on(Table.open(str(tmp_path / "t")), 1)
    shards = TableState.load(table.storage).metadata.shards(RECORD_INDEX)
    assert reshard._still_holds(table.storage, plan, shards)
    late = replace(plan, instant="9" * 20)
    assert not reshard._still_holds(table.storage, late, shards)


def test_the_switch_is_archived_in_the_end(tmp_path):
    root = tmp_path / "t"
    filled(root, 4).reshard_index(2)
    limits = {"hoodie.keep.min.commits": "11", "hoodie.keep.max.commits": "12"}
    table, writes = Table.open(str(root), options=limits), 0
    while switches(root):
        write_on(table, 1, ts=100 + writes)
        writes += 1
        assert writes < 60
        assert len(shown_to_hudi(root)) == 2
    assert_exact(Table.open(str(root)))
    assert_hudi_reads_it(root, 2)


def test_whoever_read_the_timeline_before_the_switch_was_archived_reads_on(tmp_path):
    root = tmp_path / "t"
    filled(root, 4).reshard_index(2)
    limits = {"hoodie.keep.min.commits": "11", "hoodie.keep.max.commits": "12"}
    table = Table.open(str(root), options=limits)
    for number in range(60):
        before = TableState.load(table.storage).metadata
        write_on(table, 1, ts=100 + number)
        if not switches(root):
            break
    begin_reshard(table, 3)
    assert not switches(root)
    assert len(before.slices(RECORD_INDEX)) == 2


@pytest.mark.parametrize("again", [3, 4, 5, 8])
def test_back_to_more_at_once(tmp_path, again):
    """Names of groups that were replaced come again: with new files, and seen by Hudi."""
    root = tmp_path / "t"
    table = filled(root, 4)
    expected = data_rows(table)
    table.reshard_index(2)
    done = table.reshard_index(again)
    assert done.after == again
    assert_exact(Table.open(str(root)), expected)
    assert_hudi_reads_it(root, again)
    write_on(table, 12)
    assert_exact(Table.open(str(root)))
    assert_hudi_reads_it(root, again)


def test_hudi_drops_the_index_and_it_is_built_anew(tmp_path):
    """Hudi deletes the folder; nothing hides the groups that it makes then."""
    root = tmp_path / "t"
    table = filled(root, 4)
    table.reshard_index(2)
    save_partitions(table.storage, RECORD_INDEX, live=None)
    shutil.rmtree(root / FOLDER)
    four = {f"hoodie.metadata.record.index.{end}.filegroup.count": "4" for end in ("min", "max")}
    assert Table.open(str(root), options=four).build_index(RECORD_INDEX)
    assert list(switches(root).values()) == [[]]
    assert_exact(Table.open(str(root)))
    assert_hudi_reads_it(root, 4)


def test_dropped_and_built_anew(tmp_path):
    root = tmp_path / "t"
    table = filled(root, 4)
    table.reshard_index(2)
    table.drop_index(RECORD_INDEX)
    four = {f"hoodie.metadata.record.index.{end}.filegroup.count": "4" for end in ("min", "max")}
    assert Table.open(str(root), options=four).build_index(RECORD_INDEX)
    assert_exact(Table.open(str(root)))
    assert_hudi_reads_it(root, 4)


def test_a_commit_from_before_the_switch_is_rolled_back(tmp_path):
    root = tmp_path / "t"
    table = filled(root, 4)
    expected = data_rows(table)
    done = table.upsert(rows([2, 70, 71], ts=9, value="z"))
    table.reshard_index(2)
    table.rollback(done.instant)
    assert_exact(Table.open(str(root)), expected)
    assert_hudi_reads_it(root, 2)


def test_a_savepoint_from_before_the_switch_is_restored(tmp_path):
    root = tmp_path / "t"
    table = filled(root, 4)
    expected = data_rows(table)
    saved = table.savepoint()
    table.upsert(rows([2, 70, 71], ts=9, value="z"))
    begin_reshard(table, 2)
    Table.open(str(root)).upsert(rows([3, 72], ts=10))
    table.reshard_index(2)
    table.delete(["k9"])
    table.restore(saved)
    assert_exact(Table.open(str(root)), expected)
    assert_hudi_reads_it(root, 2)


def test_a_purge_after_it(tmp_path):
    keys = [f"customer-{number:05}" for number in range(40)]
    root = tmp_path / "t"
    counts = {f"hoodie.metadata.record.index.{end}.filegroup.count": "4" for end in ("min", "max")}
    table = create(root, counts, index="record")
    table.bulk_insert(rows(keys))
    table.reshard_index(2)
    report = table.purge(keys[:10])
    assert report.proven
    assert not [p for p in (root / FOLDER).iterdir() if re.search("index-000[23]-", p.name)]
    assert_exact(Table.open(str(root)))
    assert_hudi_reads_it(root, 2)


def test_a_shard_is_repaired(tmp_path):
    root = tmp_path / "t"
    table = filled(root, 4)
    table.reshard_index(2)
    for _ in range(2):
        latest = shown_to_hudi(root)["record-index-0001-0"]
        for path in (root / FOLDER).glob(f"*record-index-0001-0_*{latest}*"):
            path.unlink()
        with pytest.raises(InputError, match="has 0 to 1"):
            table.repair_shard(2)
        table.repair_shard(1)
        assert_exact(Table.open(str(root)))
        assert_hudi_reads_it(root, 2)
        write_on(table, 3)


def test_more_groups_than_a_task_has_memory_for_are_refused(tmp_path):
    memory = {
        "keymark.task.memory.bytes": str(16 << 20),
        "hoodie.hfile.block.size": str(1 << 20),
    }
    filled(tmp_path / "t", 10)
    table = Table.open(str(tmp_path / "t"), options=memory)
    with pytest.raises(InputError, match=r"reads 10 at a time.*for 4.*larger divisor"):
        table.reshard_index(3)
    assert load_plan(table.storage) is None
    assert table.reshard_index(5).after == 5
    assert_hudi_reads_it(tmp_path / "t", 5)


def assert_right(root, expected, numbers):
    """The table after a death: right, for Hudi's rules too, with one of the numbers of groups."""
    table = Table(LocalStorage.at(root), {})
    assert data_rows(table) == expected
    shown = shown_to_hudi(root)
    assert len(shown) in numbers
    assert_hudi_reads_it(root, len(shown))
    return table


@pytest.mark.slow
@pytest.mark.parametrize(("first", "then"), [(4, 2), (2, 4)])
def test_a_death_at_any_call(tmp_path, first, then):
    """Fewer, and back to more: right after each death; it goes on, or is given up."""
    table = filled(tmp_path / "origin", 4)
    expected = data_rows(table)
    if first == 2:
        table.reshard_index(2)
    for number, storage in every_fault(DEAD, copies_of(tmp_path / "origin")):
        with contextlib.suppress(Killed):
            Table(storage, {}).reshard_index(then)
        table = assert_right(storage.root, expected, {first, then})
        assert_hudi_reads_it(storage.root, shard_count(table))
        table.upsert(rows([1], ts=7, value="again"))
        assert_hudi_reads_it(storage.root, shard_count(table))
        assert [ids for ids in switches(storage.root).values() if ids] == []
        assert_exact(table)
        if number % 2 and resharding(table.storage) is not None:
            table.abort_reshard()
        table.reshard_index(then)
        assert shard_count(table) == then
        assert_exact(table)
        assert_hudi_reads_it(storage.root, then)
        assert not (Path(storage.root) / RESHARD).exists(), number
    assert number > 10
