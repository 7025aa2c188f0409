"""What works in runs and streams gives what working in memory gives."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keymark.table.format.hashes import hashing
from keymark.table.index.build import ordered, record_index
from keymark.table.layout.naming import METADATA, TEMP
from keymark.table.layout.view import snapshot
from keymark.table.metadata.merge import side_by_side
from keymark.table.metadata.partitions import RECORD_INDEX, file_id
from keymark.table.metadata.records import encode_locations
from keymark.table.metadata.writer import DeltaCommit
from keymark.table.runtime.runner import LocalRunner
from keymark.table.services.check.index import Differences, count_differences
from keymark.table.services.check.verify_index import net_changes
from keymark.table.services.recover.returning_keys import log_returns
from keymark.table.state.table_state import TableState
from keymark.table.write.index_changes import log_keys

sys.path += [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "index_build")]

from bootstrap_cases import contents_of, make_table
from table_cases import DUP_POLICY, create, left_over, rows

KEYS = st.lists(st.integers(0, 30), max_size=12, unique=True)


def batches(keys: list[int], size: int):
    """Ascending keys in batches, each with itself as value."""
    texts = sorted(f"{key:02d}".encode() for key in keys)
    for start in range(0, len(texts), size):
        part = pa.array(texts[start : start + size], pa.binary())
        yield part, part


@given(KEYS, KEYS, st.integers(1, 5), st.integers(1, 5))
def test_two_sources_side_by_side(left, right, left_size, right_size):
    found: list[list[bytes]] = [[], []]
    last = b""
    for step in side_by_side(batches(left, left_size), batches(right, right_size)):
        parts = [cells.keys.to_pylist() for cells in step]
        # Nothing is still to come below what was seen of either.
        assert min(map(min, filter(None, parts))) > last
        last = max(map(max, filter(None, parts)))
        for cells, part, seen in zip(step, parts, found, strict=True):
            assert cells.values.to_pylist() == part
            seen.extend(part)
    assert found == [sorted(f"{key:02d}".encode() for key in keys) for keys in (left, right)]


def index_shard(number: int, entries: dict[str, tuple[str, str]]):
    """One of two shards of a record index, with these keys and their places."""
    keys = sorted(entries)
    places = [entries[key] for key in keys]
    paths, file_ids = [path for path, _ in places], [file_id for _, file_id in places]
    values = encode_locations(paths, file_ids, [0] * len(keys))
    cells = pa.array(keys, pa.string()).cast(pa.binary()), values
    return SimpleNamespace(
        number=number,
        groups=2,
        slice=SimpleNamespace(file_id=f"shard {number}"),
        batches=lambda: iter([cells] if keys else []),
    )


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.sampled_from("pq"), KEYS), max_size=4),
    st.dictionaries(st.integers(0, 40), st.tuples(st.integers(0, 5), st.integers(0, 9))),
    st.sampled_from([1, 3000, 1 << 28]),
)
def test_differences_are_those_of_dicts(contents, indexed, memory):
    """Of a key in several places the least counts; one entry in ten is in the other's shard."""
    with tempfile.TemporaryDirectory() as folder:
        named = [(path, [f"key-{key}" for key in keys]) for path, keys in contents]
        data = make_table(Path(folder), named)
        places = [(file.partition_path, file.file_id) for file in data.files]
        places += [("r", f"file-{number}") for number in range(3)]
        shards: list[dict[str, tuple[str, str]]] = [{}, {}]
        known, strayed = {}, 0
        for number, (place, luck) in indexed.items():
            key = f"key-{number}"
            (owner,) = hashing.shards(pa.array([key]), 2).tolist()
            shards[owner if luck else 1 - owner][key] = places[place % len(places)]
            if luck:
                known[key] = places[place % len(places)]
            else:
                strayed += 1
        groups = [index_shard(number, entries) for number, entries in enumerate(shards)]
        state = SimpleNamespace(
            storage=data.storage,
            config=SimpleNamespace(virtual_keys=False),
            metadata=SimpleNamespace(shards=lambda _: groups),
        )
        found = count_differences(state, data.files, (0, 1), memory)
    truth: dict[str, list[tuple[str, str]]] = {}
    for file, (_, keys) in zip(data.files, named, strict=True):
        for key in keys:
            truth.setdefault(key, []).append((file.partition_path, file.file_id))
    least = {key: min(where, key="\n".join) for key, where in truth.items()}
    assert found == Differences(
        keys=len(truth),
        missing=len(truth.keys() - known.keys()),
        extra=len(known.keys() - truth.keys()),
        wrong=strayed + sum(least[key] != known[key] for key in truth.keys() & known.keys()),
        repeated=sum(len(where) - 1 for where in truth.values()),
    )


def test_a_key_in_two_rows_of_a_table_with_a_record_index_counts_once(tmp_path):
    """However many rows it has."""
    table = create(tmp_path / "t", {DUP_POLICY: "none"})
    table.upsert(rows(range(20)))
    table.insert(rows(["k1", "k2"]))
    table.insert(rows(["k1"]))
    checked = table.check()
    assert (checked.keys, checked.duplicate, checked.missing, checked.extra) == (20, 2, 0, 0)
    assert not checked.ok


def test_a_shard_that_is_repaired_has_the_bytes_of_one_that_is_built(tmp_path, monkeypatch):
    monkeypatch.setattr(record_index, "_FLUSH_BYTES_MIN", 1000)
    runs = []

    def add(self, batches, real=ordered._Runs.add):
        runs.append(1)
        real(self, batches)

    monkeypatch.setattr(ordered._Runs, "add", add)
    numbers = np.random.default_rng(7).permutation(3000)
    contents = [("p", [f"key number {n}" for n in part]) for part in np.array_split(numbers, 12)]
    make_table(tmp_path / "built", contents).build(2)
    table = make_table(tmp_path / "repaired", contents)
    assert not runs
    repaired = {}
    for number in range(2):
        target = table.target(2, memory=8000, folder=f".hoodie/repair{number}")
        done = record_index.rebuild_shard(target, number, rows=3000, runner=LocalRunner(1))
        assert [stat.file_id for stat in done.stats] == [file_id(RECORD_INDEX, number)]
        # A repair has an instant of its own; one that begins anew deletes what has its instant.
        repaired |= contents_of(tmp_path / "repaired")
    assert len(runs) > 6
    # The partition's own file is there before a repair.
    built = contents_of(tmp_path / "built")
    assert {name: data for name, data in built.items() if "partition_metadata" not in name} == (
        repaired
    )


@pytest.mark.parametrize("memory", [2000, 1 << 28])
def test_log_files_of_a_restore_have_the_bytes_of_those_made_in_memory(tmp_path, memory):
    """Keys that return, that go, and that move back: all in one restore."""
    table = create(tmp_path / "t", {"hoodie.record.index.update.partition.path": "true"})
    first = table.bulk_insert(rows(range(200)))
    table.upsert(rows(range(100, 300), ts=2, partition="p1"))
    table.delete([f"k{number}" for number in range(50)])
    state = TableState.load(table.storage)
    before = snapshot(state.listing, state.timeline, first.instant)
    written = []
    for streamed in (True, False):
        delta = DeltaCommit(state.metadata, "20990101000000000", 1 << 20)
        if streamed:
            stats = log_returns(delta, state, before, LocalRunner(1), memory)
        else:
            changes = net_changes(state, state.snapshot, before, LocalRunner(1))
            assert len(changes.keys) > 50
            assert len(changes.deletes) == 100
            stats = log_keys(delta, state, changes, LocalRunner(1), of=before)
        assert len(stats) == 2
        paths = [f"{METADATA}/{stat.path}" for stat in stats]
        written.append(
            [(stat, table.storage.read(path)) for stat, path in zip(stats, paths, strict=True)]
        )
        for path in paths:
            table.storage.delete(path)
    assert written[0] == written[1]


@pytest.mark.parametrize("memory", [2000, 1 << 28])
def test_log_blocks_and_base_files_tell_alike_which_keys_are_held(tmp_path, memory):
    """Keys that were inserted twice, of which one row goes: with few and with many of them."""
    table = create(tmp_path / "t", {DUP_POLICY: "none"})
    first = table.bulk_insert(rows(range(200)))
    table.bulk_insert(rows(range(100, 300), ts=2, partition="p1"))
    table.upsert(rows(range(150, 160), ts=3, partition="p1"))
    state = TableState.load(table.storage)
    before = snapshot(state.listing, state.timeline, first.instant)
    written = []
    # Without the instant nothing is known of what the index was.
    for shown in (before, replace(before, as_of=None)):
        delta = DeltaCommit(state.metadata, "20990101000000000", 1 << 20)
        stats = log_returns(delta, state, shown, LocalRunner(1), memory)
        assert sum(stat.records for stat in stats) == 200
        paths = [f"{METADATA}/{stat.path}" for stat in stats]
        written.append(
            [(stat, table.storage.read(path)) for stat, path in zip(stats, paths, strict=True)]
        )
        for path in paths:
            table.storage.delete(path)
        table.storage.delete_tree(f"{TEMP}/{delta.instant}")
    assert written[0] == written[1]


def test_a_rollback_leaves_no_key_file(tmp_path):
    table = create(tmp_path / "t")
    table.upsert(rows(range(20)))
    second = table.upsert(rows(range(10, 40), ts=2))
    table.rollback(second.instant)
    assert left_over(tmp_path / "t") == []
    assert table.check().ok
    assert table.check().keys == 20
