"""Work that goes to other processes takes no open files along, and may be done twice."""

from __future__ import annotations

import contextlib
import pickle

import pytest
from table_cases import create, data_rows, files, left_over, rows

from keymark import Table
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.runtime.runner import LocalRunner
from keymark.table.services import compact
from keymark.table.state.table_state import TableState


def test_a_shard_travels_without_what_was_read(tmp_path):
    table = create(tmp_path / "t")
    table.upsert(rows(range(20)))
    for shard in TableState.load(table.storage).metadata.shards(RECORD_INDEX):
        keys = [part.to_pylist() for part, _ in shard.batches()]
        assert keys
        assert shard.blocks
        assert shard.readers
        there = pickle.loads(pickle.dumps(shard))
        assert not {"blocks", "sources"} & set(vars(there))
        assert there.readers == []
        assert [part.to_pylist() for part, _ in there.batches()] == keys


def test_an_open_file_does_not_travel(tmp_path):
    table = create(tmp_path / "t")
    source = table.storage.open(".hoodie/hoodie.properties")
    with pytest.raises(TypeError, match=r"hoodie\.properties is open in this process"):
        pickle.dumps(source)


@pytest.mark.spark
def test_compaction_in_tasks(tmp_path, spark):
    options = {
        "keymark.local.bytes": "0",
        "hoodie.metadata.compact.max.delta.commits": "3",
        "hoodie.metadata.record.index.min.filegroup.count": "2",
    }
    table = create(tmp_path / "t", options, spark=spark)
    for number in range(5):
        table.upsert(rows(range(number, 20 + number), ts=number + 1))
    shards = table.info().shards
    assert any(shard.log_files < 5 for shard in shards)
    report = table.check()
    assert report.ok
    assert report.keys == 24


def test_a_group_that_is_compacted_twice_has_one_base_file(tmp_path, monkeypatch):
    """As by a task whose answer Spark lost: both attempts have put what they made."""
    table = create(tmp_path / "t")
    table.upsert(rows(range(20)))
    stats = []

    def twice(work):
        stats.append([pickle.loads(pickle.dumps(work)).write() for _ in range(2)])
        return stats[-1][1]

    monkeypatch.setattr(compact, "compact_group", twice)
    instant = table.compact()
    assert all(first == second for first, second in stats)
    made = [path for path in files(tmp_path / "t") if path.endswith(f"_{instant}.hfile")]
    assert len(made) == len(stats) == 3
    assert left_over(tmp_path / "t") == []
    assert table.check().ok


@pytest.fixture
def twice(monkeypatch):
    """Every task runs twice, as one whose answer Spark lost."""
    run = LocalRunner.run

    def lose_and_run(self, function, items, *, weights, packed=True):
        # What cannot travel is work of this process alone, for its threads.
        with contextlib.suppress(AttributeError, TypeError, pickle.PicklingError):
            there = pickle.loads(pickle.dumps((function, items)))
            run(self, *there, weights=weights, packed=packed)
        return run(self, function, items, weights=weights, packed=packed)

    monkeypatch.setattr(LocalRunner, "run", lose_and_run)


@pytest.mark.usefixtures("twice")
@pytest.mark.parametrize("index", ["record", "global_bloom", "compact"])
def test_tasks_that_run_twice_leave_what_they_leave_once(tmp_path, index):
    table = create(tmp_path / "t", index=index)
    table.bulk_insert(rows(range(20)))
    table.upsert(rows(range(10, 30), ts=2))
    table.delete([f"k{number}" for number in range(5)])
    table.compact()
    last = table.upsert(rows([7, 40], ts=3, partition="p1"))
    table.rollback(last.instant)
    assert table.purge(["k5"]).proven
    table.clean()
    assert table.check().ok
    assert left_over(tmp_path / "t") == []
    assert sorted(data_rows(table)) == sorted(f"k{number}" for number in range(6, 30))


@pytest.mark.usefixtures("twice")
def test_tasks_of_builds_that_run_twice_leave_what_they_leave_once(tmp_path):
    table = create(tmp_path / "t", index="global_simple")
    table.insert(rows(range(20)))
    saved = table.savepoint()
    table.schedule_index("record_index")
    table.run_index("record_index")
    table.build_index("bloom_filters")
    table.build_index("column_stats")
    table.reshard_index(4)
    table.upsert(rows(range(10, 30), ts=2))
    table.restore(saved)
    assert table.check().ok
    assert left_over(tmp_path / "t") == []
    assert len(Table.open(str(tmp_path / "t")).scan().to_arrow()) == 20
