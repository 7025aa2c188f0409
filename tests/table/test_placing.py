"""Which file group a row goes to, and which task a file group goes to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keymark.table.errors import TableError
from keymark.table.layout.model import BaseFile
from keymark.table.layout.naming import bucket_of
from keymark.table.runtime.ids import RANDOM
from keymark.table.runtime.runner import LocalRunner, pack, threads_by_weight
from keymark.table.write.assign import FileSizing, assign, assign_buckets
from keymark.table.write.batch import Batch
from keymark.table.write.file_group import Op
from keymark.table.write.placement import append_rows, assign_rows, moving_rows, rows_without_group


def _file(partition, number, size):
    return BaseFile(
        partition_path=partition,
        file_id=f"{partition}-{number}",
        write_token="1-0-1",
        instant_time="1",
        size=size,
    )


@given(
    paths=st.lists(st.sampled_from(["a", "b", "c"]), max_size=60),
    sizes=st.lists(st.integers(1, 200), max_size=5),
    max_file=st.integers(0, 150),
    limit=st.integers(0, 150),
    record=st.floats(0.5, 60),
)
def test_small_files_are_filled_first_and_never_above_the_limit(
    paths, sizes, max_file, limit, record
):
    known = [_file("a", number, size) for number, size in enumerate(sizes)]
    sizing = FileSizing(max_file=max_file, small_limit=limit, record=record)
    chosen = assign(pa.array(paths, pa.string()), known, sizing, RANDOM)
    assert len(chosen) == len(paths)
    by_id: dict[str, list[str]] = {}
    for path, file_id in zip(paths, chosen, strict=True):
        by_id.setdefault(file_id, []).append(path)
    for file_id, rows in by_id.items():
        assert len(set(rows)) == 1
        old = [file for file in known if file.file_id == file_id]
        if old:
            assert rows[0] == "a"
            assert old[0].size < limit
            assert old[0].size + len(rows) * record <= max_file + 1e-6
        else:
            assert len(rows) <= sizing.rows_per_file
    opened = [ids for ids in by_id if not ids.startswith("a-")]
    if any(by_id[file_id][0] == "a" for file_id in opened):
        filled = {file_id: len(rows) for file_id, rows in by_id.items()}
        for file in known:
            if file.size < limit:
                assert filled.get(file.file_id, 0) == sizing.room(file.size)


def test_the_smallest_file_comes_first():
    known = [_file("a", 0, 60), _file("a", 1, 20), _file("b", 0, 1)]
    sizing = FileSizing(max_file=100, small_limit=70, record=10)
    chosen = assign(pa.array(["a"] * 14), known, sizing, RANDOM)
    assert chosen[:12] == ["a-1"] * 8 + ["a-0"] * 4
    assert len(set(chosen[12:])) == 1


def test_buckets_open_once():
    known = {("a", 1): "00000001-x"}
    paths = pa.array(["a", "a", "b", "a", "b"])
    buckets = np.array([1, 2, 1, 2, 1], np.int32)
    chosen = assign_buckets(paths, buckets, known, RANDOM)
    assert chosen[0] == "00000001-x"
    assert chosen[1] == chosen[3] != chosen[2] == chosen[4]
    assert [bucket_of(file_id) for file_id in chosen] == buckets.tolist()
    assert known == {("a", 1): "00000001-x"}


def _batch(partitions, deletes):
    count = len(partitions)
    keys = pa.array([f"k{n}" for n in range(count)])
    return Batch(
        keys=keys,
        partitions=pa.array(partitions, pa.string()),
        deletes=np.array(deletes, bool),
        rows=None,
    )


def _tags(locations):
    return pa.table(
        {
            "partition_path": pa.array([p for p, _ in locations], pa.string()),
            "file_id": pa.array([f for _, f in locations], pa.string()),
        }
    )


NEW, OLD = ("x", "fresh"), (None, None)


def test_every_kind_of_row():
    batch = _batch(["a", "a", "b", "b", "a", "a"], [False, True, False, True, False, True])
    tags = _tags([("a", "f1"), ("a", "f1"), ("a", "f2"), ("a", "f2"), OLD, OLD])
    moved = moving_rows(batch, tags)
    assert moved.tolist() == [False, False, True, False, False, False]

    new = batch.partitions.take(pa.array(rows_without_group(batch, tags, moved)))
    new_ids = [f"new-{p}" for p in new.to_pylist()]
    entries = assign_rows(batch, tags, moved, new_ids=new_ids, exact=True)
    found = {
        (row, partition, file_id, Op(op), bool(tagged))
        for row, partition, file_id, op, tagged in zip(
            entries.rows.tolist(),
            entries.partitions.to_pylist(),
            entries.file_ids.to_pylist(),
            entries.ops.tolist(),
            entries.tagged.tolist(),
            strict=True,
        )
    }
    assert found == {
        (0, "a", "f1", Op.PUT, True),
        (1, "a", "f1", Op.DELETE, True),
        (2, "a", "f2", Op.MOVE_OUT, True),
        (2, "b", "new-b", Op.PUT, False),
        (3, "a", "f2", Op.DELETE, True),
        (4, "a", "new-a", Op.PUT, False),
    }
    grouped = {(p, f): len(members) for p, f, members in entries.groups()}
    assert grouped == {("a", "f1"): 2, ("a", "f2"): 2, ("a", "new-a"): 1, ("b", "new-b"): 1}
    assert [g[:2] for g in entries.groups()] == sorted(grouped)


def test_nothing_and_appending():
    nothing = _batch([], [])
    assert append_rows(nothing, []).groups() == []
    placed = append_rows(_batch(["a\nb", "a"], [False, False]), ["f", "f"])
    assert [g[:2] for g in placed.groups()] == [("a", "f"), ("a\nb", "f")]
    assert set(placed.ops.tolist()) == {Op.APPEND}


@given(st.lists(st.integers(0, 1000), max_size=40), st.integers(1, 8))
def test_packs_hold_everything_once_and_are_balanced(weights, count):
    packs = pack(weights, count)
    assert len(packs) == min(count, len(weights))
    assert all(packs)
    assert sorted(item for members in packs for item in members) == list(range(len(weights)))
    loads = [sum(weights[item] + 1 for item in members) for members in packs]
    if loads:
        assert max(loads) - min(loads) <= max(weights) + 1


@given(st.lists(st.integers(-50, 50), max_size=30), st.integers(1, 4))
def test_results_come_in_order(items, threads):
    results = LocalRunner(threads).run(str, items, weights=[abs(item) for item in items])
    assert results == [str(item) for item in items]


def _odd_fails(item):
    if item % 2:
        raise TableError(f"item {item}")
    return item


@pytest.mark.parametrize("threads", [1, 3])
def test_a_failing_task_fails_the_run(threads):
    with pytest.raises(TableError, match="item"):
        LocalRunner(threads).run(_odd_fails, [0, 1, 2, 3], weights=[1, 1, 1, 1])


@pytest.mark.parametrize(
    ("weights", "cores", "least", "threads"),
    [
        ([90, 5, 5], 2, 1, [2, 1, 1]),
        ([30, 30, 40], 2, 1, [1, 1, 1]),
        ([900, 50, 50], 8, 1, [7, 1, 1]),
        ([900, 50, 50], 8, 300, [4, 1, 1]),
        ([0, 0], 2, 1, [1, 1]),
    ],
)
def test_threads_go_where_the_bytes_are(weights, cores, least, threads):
    assert threads_by_weight(weights, cores, least=least) == threads
