"""The record index in more file groups: the same entries, whoever writes meanwhile."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import warnings
from pathlib import Path

import pytest
from faults import DEAD, FULL, FaultStorage, Killed, every_fault
from hypothesis import given, settings
from hypothesis import strategies as st
from table_cases import begin_reshard, create, data_rows, rows, unpack

from keymark import Table, cli
from keymark.table.errors import (
    CorruptFileError,
    InputError,
    StorageError,
    TableWarning,
    UnsupportedTableError,
)
from keymark.table.layout.naming import METADATA
from keymark.table.metadata.reshard_plan import (
    RESHARD,
    ReshardPlan,
    load_plan,
    resharding,
    save_plan,
)
from keymark.table.runtime.runner import LocalRunner
from keymark.table.services.index import reshard, split, suitable_shards
from keymark.table.storage.local_storage import LocalStorage

FOLDER = f"{METADATA}/record_index"


def filled(path, groups=2, **options):
    """A table of 40 rows after an upsert, a move, a delete."""
    counts = {
        f"hoodie.metadata.record.index.{end}.filegroup.count": str(groups) for end in ("min", "max")
    }
    table = create(path, {**counts, **options}, index="record")
    table.bulk_insert(rows(range(40)))
    table.upsert(rows([1, 2, 50, 51], ts=2, value="w"))
    table.delete(["k3", "k4"])
    return table


def stored(folder):
    """All files of the table but those of its lease."""
    files = (path for path in (folder / "t").rglob("*") if path.is_file())
    return {path.relative_to(folder) for path in files if path.parent.name != "lease"}


def shard_count(table):
    return len(table.info().shards)


def assert_exact(table, expected=None):
    checked = table.check()
    assert checked.ok, checked
    found = data_rows(table)
    assert expected is None or found == expected
    asked = [*sorted(found), "absent", "k3" if "k3" not in found else "nobody"]
    told = table.lookup(asked).to_pylist()
    assert [row["file_id"] is not None for row in told] == [key in found for key in asked]


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 4), (2, 16), (2, 3), (3, 7), (4, 6)])
def test_more_file_groups_hold_the_same(tmp_path, before, after):
    table = filled(tmp_path / "t", before)
    expected = data_rows(table)
    done = table.reshard_index(after)
    assert (done.before, done.after, done.entries) == (before, after, len(expected))
    fresh = Table.open(str(tmp_path / "t"))
    assert shard_count(fresh) == after
    assert_exact(fresh, expected)
    assert not (tmp_path / "t" / RESHARD).exists()
    for round_ in range(3):
        fresh.upsert(rows([5, 60 + round_], ts=3 + round_))
    fresh.delete(["k6"])
    assert_exact(fresh)
    fresh.compact()
    assert_exact(Table.open(str(tmp_path / "t")))


def test_values_beyond_those_that_are_numbered(tmp_path, monkeypatch):
    monkeypatch.setattr(split, "_FEW", 1)
    # Each block has a few cells: the first ones are numbered, all that follow are not.
    table = filled(tmp_path / "t", **{"hoodie.hfile.block.size": "256"})
    expected = data_rows(table)
    table.reshard_index(4)
    assert_exact(Table.open(str(tmp_path / "t")), expected)


def test_a_table_without_rows(tmp_path):
    table = create(tmp_path / "t", index="record")
    begin_reshard(table, 4)
    table.rollback()
    assert resharding(table.storage) is not None, "what takes dead writes back leaves it alone"
    assert table.reshard_index(4).after == 4
    table.upsert(rows(range(9)))
    assert shard_count(table) == 4
    assert_exact(table)


@settings(max_examples=8)
@given(before=st.integers(1, 6), more=st.integers(1, 9), seed=st.integers(0, 9))
def test_any_numbers(tmp_path_factory, before, more, seed):
    table = create(
        tmp_path_factory.mktemp("any") / "t",
        {
            "hoodie.metadata.record.index.min.filegroup.count": str(before),
            "hoodie.metadata.record.index.max.filegroup.count": str(before),
        },
        index="record",
    )
    table.bulk_insert(rows(range(seed, 30 + seed)))
    table.reshard_index(before + more)
    assert shard_count(table) == before + more
    assert_exact(table)


def test_the_same_number_is_nothing_to_do(tmp_path):
    table = filled(tmp_path / "t")
    before = stored(tmp_path)
    assert table.reshard_index(2).instant is None
    assert stored(tmp_path) == before


@pytest.mark.parametrize("groups", [0, 10_001])
def test_numbers_that_are_refused(tmp_path, groups):
    table = filled(tmp_path / "t")
    with pytest.raises(InputError, match="file groups"):
        table.reshard_index(groups)
    assert load_plan(table.storage) is None


def test_without_a_record_index(tmp_path):
    table = create(tmp_path / "t", index="global_simple")
    table.bulk_insert(rows(range(4)))
    with pytest.raises(InputError, match="no record index"):
        table.reshard_index(4)


def write_meanwhile(writer, rounds):
    """Changes of which the order counts; the rows after them."""
    for ts in range(3, 3 + rounds):
        writer.upsert(rows([7, 100 + ts], ts=ts, value=f"x{ts}"))
        writer.delete([f"k{100 + ts - 1}"])
    writer.delete(["k7"])
    writer.upsert(rows([7], ts=99, value="back"))
    writer.upsert(rows([8], ts=99, partition="p9"))
    return data_rows(writer)


def test_writers_go_on(tmp_path):
    """What they write between split and switch is in the new file groups; order counts."""
    table = filled(tmp_path / "t")
    begin_reshard(table, 6)
    writer = Table.open(str(tmp_path / "t"))
    assert shard_count(writer) == 2
    assert_exact(writer)
    expected = write_meanwhile(writer, 13)
    done = Table.open(str(tmp_path / "t")).reshard_index(6)
    assert done.log_files > 0
    fresh = Table.open(str(tmp_path / "t"))
    assert shard_count(fresh) == 6
    assert_exact(fresh, expected)
    fresh.upsert(rows([200], ts=100))
    assert_exact(fresh)


def test_while_it_lasts_the_metadata_table_is_not_compacted(tmp_path):
    table = filled(tmp_path / "t", 2, **{"hoodie.metadata.compact.max.delta.commits": "1"})
    begin_reshard(table, 4)
    slices = dict(load_plan(table.storage).slices)
    writer = Table.open(
        str(tmp_path / "t"), options={"hoodie.metadata.compact.max.delta.commits": "1"}
    )
    writer.upsert(rows([7, 8], ts=5))
    assert {s.slice.file_id: s.slice.base_instant_time for s in _shards(writer)} == slices
    with pytest.raises(InputError, match="re-sharded"):
        writer.compact()
    for act in (
        lambda: writer.drop_index("record_index"),
        lambda: writer.repair_shard(0),
        lambda: writer.purge(["k7"]),
    ):
        with pytest.raises(InputError, match="re-sharded"):
            act()
    with pytest.raises(InputError, match="to 4 file groups is under way"):
        writer.reshard_index(8)
    assert any("re-sharded to 4" in line for line in writer.check().pending)


def _shards(table):
    from keymark.table.metadata.partitions import RECORD_INDEX
    from keymark.table.state.table_state import TableState

    return TableState.load(table.storage).metadata.shards(RECORD_INDEX)


def test_given_up(tmp_path):
    table = filled(tmp_path / "t")
    before = stored(tmp_path)
    begin_reshard(table, 8)
    assert stored(tmp_path) != before
    table.abort_reshard()
    assert stored(tmp_path) == before
    assert_exact(Table.open(str(tmp_path / "t")))
    with pytest.raises(InputError, match="no re-sharding"):
        table.abort_reshard()


def test_a_compaction_of_another_program_starts_it_anew(tmp_path, monkeypatch):
    table = filled(tmp_path / "t")
    begin_reshard(table, 4)
    before = load_plan(table.storage)
    writer = Table.open(str(tmp_path / "t"))
    writer.upsert(rows([9], ts=9))
    with monkeypatch.context() as patched:
        patched.setattr("keymark.table.services.maintain.refuse_while_resharding", lambda _: None)
        assert writer.compact()
    done = Table.open(str(tmp_path / "t")).reshard_index(4)
    assert done.after == 4
    assert done.instant != before.instant
    assert_exact(Table.open(str(tmp_path / "t")))


def test_a_program_that_takes_the_instant_back_starts_it_anew(tmp_path):
    """As Apache Hudi does with whatever is pending in the metadata table when it writes."""
    table = filled(tmp_path / "t")
    begin_reshard(table, 4)
    before = load_plan(table.storage)
    plan = tmp_path / "t" / RESHARD
    shutil.move(plan, tmp_path / "plan")
    Table.open(str(tmp_path / "t")).upsert(rows([9], ts=9))
    assert not [p for p in (tmp_path / "t" / FOLDER).iterdir() if before.instant in p.name]
    shutil.move(tmp_path / "plan", plan)
    fresh = Table.open(str(tmp_path / "t"))
    assert_exact(fresh)
    fresh.purge(["k9"])
    assert fresh.reshard_index(4).instant != before.instant
    assert_exact(Table.open(str(tmp_path / "t")))


def test_a_pending_instant_of_hudi_postpones_it(tmp_path):
    table = filled(tmp_path / "t")
    begin_reshard(table, 4)
    pending = tmp_path / "t/.hoodie/29991231000000000.compaction.requested"
    pending.touch()
    with pytest.raises(UnsupportedTableError, match="29991231000000000 is pending"):
        Table.open(str(tmp_path / "t")).reshard_index(4)
    pending.unlink()
    Table.open(str(tmp_path / "t")).reshard_index(4)
    assert_exact(Table.open(str(tmp_path / "t")))


def copies_of(origin):
    numbers = itertools.count()
    return lambda: str(shutil.copytree(origin, origin.parent / str(next(numbers))))


@pytest.mark.slow
def test_a_death_at_any_call(tmp_path):
    """The table is right after each death; it goes on, or is given up, and nothing is left."""
    expected = data_rows(filled(tmp_path / "origin"))
    for number, storage in every_fault(DEAD, copies_of(tmp_path / "origin")):
        with contextlib.suppress(Killed):
            Table(storage, {}).reshard_index(4)
        table = Table(LocalStorage.at(storage.root), {})
        assert data_rows(table) == expected
        table.upsert(rows([1], ts=7, value="again"))
        assert_exact(table)
        if number % 2 and resharding(table.storage) is not None:
            table.abort_reshard()
        table.reshard_index(4)
        assert shard_count(table) == 4
        assert_exact(table)
        names = [path.name for path in (Path(storage.root) / FOLDER).iterdir()]
        assert not (Path(storage.root) / RESHARD).exists(), number
        assert len(names) == len(set(names))
    assert number > 10


def test_the_plan_that_a_death_right_after_the_switch_left_goes_with_the_next_compaction(tmp_path):
    filled(tmp_path / "t")
    options = {"hoodie.metadata.compact.max.delta.commits": "1"}
    table = Table.open(str(tmp_path / "t"), options=options)
    plan = ReshardPlan(
        before=1, after=2, instant="20240101000000000", slices={}, read={}, folder="f"
    )
    save_plan(table.storage, plan)
    table.upsert(rows([1], ts=9))
    assert not (tmp_path / "t" / RESHARD).exists()
    assert_exact(table)


def test_a_damaged_plan_is_named(tmp_path):
    table = filled(tmp_path / "t")
    begin_reshard(table, 4)
    (tmp_path / "t" / RESHARD / "plan.json").write_text("{")
    with pytest.raises(CorruptFileError, match=r"plan\.json.*re-sharding"):
        table.reshard_index(4)
    shutil.rmtree(tmp_path / "t" / RESHARD)
    table.upsert(rows([1], ts=9))
    assert_exact(table)
    assert table.reshard_index(4).after == 4


def test_a_key_in_the_wrong_file_group_is_no_new_index(tmp_path, monkeypatch):
    """An entry that moved to where nobody looks for it is damage, and stays what it was."""
    table = filled(tmp_path / "t", 4)

    def all_to_the_first(keys, _groups):
        import numpy as np

        return np.zeros(len(keys), np.int64)

    monkeypatch.setattr("keymark.table.services.index.split.shards", all_to_the_first)
    with pytest.raises(CorruptFileError, match="not its own"):
        table.reshard_index(8)
    assert shard_count(Table.open(str(tmp_path / "t"))) == 4


def test_a_table_of_hudis(tmp_path):
    root = unpack("hudi-0.15.0-record_index.tar.gz", tmp_path) / "record_index" / "table"
    table = Table.open(str(root))
    before = shard_count(table)
    expected = data_rows(table)
    table.reshard_index(2 * before)
    assert_exact(Table.open(str(root)), expected)


def test_an_unfinished_file_group_without_a_plan_is_damage(tmp_path):
    table = filled(tmp_path / "t")
    begin_reshard(table, 4)
    plan = load_plan(table.storage)
    for path in (tmp_path / "t" / plan.place / "record_index").iterdir():
        shutil.copy(path, tmp_path / "t" / FOLDER)
    for path in (tmp_path / "t" / METADATA / ".hoodie").glob(f"{plan.instant}.*"):
        path.unlink()
    with pytest.raises(CorruptFileError, match="no commit opened this file group"):
        Table.open(str(tmp_path / "t")).lookup(["k1"])


def test_a_store_that_fails(tmp_path):
    """Errors that are no death end in one error, and the table is as it was."""
    expected = data_rows(filled(tmp_path / "origin"))
    copy = copies_of(tmp_path / "origin")()
    with pytest.raises(StorageError, match="No space left"):
        Table(FaultStorage(LocalStorage.at(copy), FULL, 5), {}).reshard_index(4)
    assert data_rows(Table.open(copy)) == expected


def test_more_file_groups_than_a_task_has_memory_for(tmp_path):
    """With open blocks of 4 MiB in a quarter of 16 MiB, a task writes one at a time."""
    memory = {
        "keymark.task.memory.bytes": str(16 << 20),
        "hoodie.hfile.block.size": str(4 << 20),
    }
    table = filled(tmp_path / "t", 2)
    expected = data_rows(table)
    done = Table.open(str(tmp_path / "t"), options=memory).reshard_index(10)
    assert done.entries == len(expected)
    assert_exact(Table.open(str(tmp_path / "t")), expected)


def test_auto_takes_bytes_growth_and_cores_into_account(tmp_path, monkeypatch):
    table = filled(tmp_path / "t")
    assert table.reshard_index(None).instant is None
    size = sum(shard.slice.size for shard in _shards(table))
    small = {"hoodie.metadata.record.index.max.filegroup.size": str(-(-size // 3))}
    # Twice the bytes in thirds of them: six, a multiple of the two that are there.
    done = Table.open(str(tmp_path / "t"), options=small).reshard_index(None)
    assert done.after == 6
    monkeypatch.setattr(suitable_shards, "_KEYS_WORTH_A_TASK", 4)
    monkeypatch.setattr(LocalRunner, "cores", 8)
    # 38 keys and the ones of the log blocks are work for more than eight cores.
    assert Table.open(str(tmp_path / "t")).reshard_index(None).after == 12


WRITES = {
    "bulk_insert": lambda table: table.bulk_insert(rows([60])),
    "upsert": lambda table: table.upsert(rows([1], ts=9)),
    "delete": lambda table: table.delete(["k1"]),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_write_tells_once_of_shards_that_are_too_large(tmp_path, write):
    filled(tmp_path / "t")
    small = {"hoodie.metadata.record.index.max.filegroup.size": "1000"}
    table = Table.open(str(tmp_path / "t"), options=small)
    with pytest.warns(TableWarning, match=r"reshard .*t --shards auto"):
        WRITES[write](table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.upsert(rows([61]))


AUTOMATIC = {
    "keymark.record.index.reshard.automatic": "true",
    "hoodie.metadata.record.index.max.filegroup.size": "20000",
}


def test_a_write_reshards_what_it_finds_too_large(tmp_path):
    filled(tmp_path / "t")
    table = Table.open(str(tmp_path / "t"), options=AUTOMATIC)
    table.upsert(rows([1], ts=9))
    grown = shard_count(table)
    assert grown > 2
    assert max(shard.slice.size for shard in _shards(table)) <= 20000
    assert_exact(table)
    table.upsert(rows([2], ts=9))
    assert shard_count(table) == grown


def test_a_write_leaves_a_resharding_of_the_command_alone(tmp_path, monkeypatch):
    table = filled(tmp_path / "t")
    with monkeypatch.context() as patch:
        patch.setattr(reshard.Resharder, "_switch", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            table.reshard_index(4)
    plan = resharding(table.storage)
    Table.open(str(tmp_path / "t"), options=AUTOMATIC).upsert(rows([1], ts=9))
    assert resharding(table.storage) == plan
    assert table.reshard_index(4).after == 4
    assert_exact(Table.open(str(tmp_path / "t")))


def test_the_command_and_the_next_write_go_on_with_one_of_a_write_that_died(tmp_path, monkeypatch):
    filled(tmp_path / "t")
    with monkeypatch.context() as patch:
        patch.setattr(reshard.Resharder, "_switch", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Table.open(str(tmp_path / "t"), options=AUTOMATIC).upsert(rows([1], ts=9))
    shutil.copytree(tmp_path / "t", tmp_path / "u")
    plan = resharding(LocalStorage.at(tmp_path / "t"))
    assert plan.by_service

    table = Table.open(str(tmp_path / "t"), options=AUTOMATIC)
    table.upsert(rows([1], ts=10))
    assert resharding(table.storage) is None
    assert shard_count(table) == plan.after
    assert_exact(table)

    table = Table.open(str(tmp_path / "u"))
    with monkeypatch.context() as patch:
        patch.setattr(reshard.Resharder, "_switch", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            table.reshard_index(None)
    assert not resharding(table.storage).by_service
    assert table.reshard_index(None).after == plan.after
    assert_exact(table)


@pytest.mark.slow
def test_a_write_that_dies_while_it_reshards(tmp_path):
    filled(tmp_path / "origin")
    expected = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        for storage in (each for _, each in every_fault(DEAD, copies_of(tmp_path / "origin"))):
            with contextlib.suppress(Killed):
                Table(storage, AUTOMATIC).upsert(rows([1], ts=7, value="again"))
            table = Table(LocalStorage.at(storage.root), AUTOMATIC)
            table.upsert(rows([1], ts=8, value="at last"))
            found = data_rows(table)
            expected = found if expected is None else expected
            assert found == expected
            assert resharding(table.storage) is None
            assert shard_count(table) > 2
            assert_exact(table)


def test_command(tmp_path, capsys):
    filled(tmp_path / "t")
    path = str(tmp_path / "t")
    assert cli.main(["table", "index", "reshard", path, "--shards", "4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["after"] == 4
    assert cli.main(["table", "index", "reshard", path, "--shards", "auto"]) == 0
    assert cli.main(["table", "index", "reshard", path]) == 2
    assert "--shards N, --shards auto or --abort" in capsys.readouterr().err
    assert cli.main(["table", "index", "reshard", path, "--abort"]) == 2
    assert "no re-sharding is under way" in capsys.readouterr().err
    assert cli.main(["table", "index", "reshard", path, "--shards", "many"]) == 2
    assert "neither a number nor auto" in capsys.readouterr().err
