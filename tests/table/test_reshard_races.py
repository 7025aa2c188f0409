"""A re-sharding and others: who gives it up or does it at the same time, repairs, lost entries."""

from __future__ import annotations

import pyarrow as pa
import pytest
from faults import Killed
from table_cases import begin_reshard, data_rows, rows
from test_reshard import assert_exact, filled, shard_count, stored, write_meanwhile

from keymark import Table
from keymark.table.errors import CorruptFileError, InputError, LockHeldError
from keymark.table.services.index import reshard, split


def test_given_up_while_it_runs(tmp_path, monkeypatch):
    """What it has put since then goes, and nobody is left with half of a file group."""
    table = filled(tmp_path / "t")
    before, real = stored(tmp_path), reshard.Resharder._split

    def give_up_and_split(*args):
        Table.open(str(tmp_path / "t")).abort_reshard()
        return real(*args)

    with monkeypatch.context() as patched:
        patched.setattr(reshard.Resharder, "_split", give_up_and_split)
        with pytest.raises(InputError, match="another process gave this re-sharding up"):
            table.reshard_index(8)
    assert stored(tmp_path) == before
    assert_exact(Table.open(str(tmp_path / "t")))


def test_given_up_for_fewer_while_it_lists_the_shards(tmp_path, monkeypatch):
    table = filled(tmp_path / "t", groups=4)
    split, real = reshard.Resharder._split, reshard._shards
    splitting = []

    def note_and_split(*args):
        splitting.append(args)
        return split(*args)

    def give_up_and_list(state):
        if len(splitting) == 1:
            splitting.append(state)
            other = Table.open(str(tmp_path / "t"))
            other.abort_reshard()
            assert other.reshard_index(2).after == 2
        return real(state)

    with monkeypatch.context() as patched:
        patched.setattr(reshard.Resharder, "_split", note_and_split)
        patched.setattr(reshard, "_shards", give_up_and_list)
        with pytest.raises(InputError, match="another process gave this re-sharding up"):
            table.reshard_index(8)
    assert shard_count(Table.open(str(tmp_path / "t"))) == 2
    assert_exact(Table.open(str(tmp_path / "t")))


def test_two_at_once(tmp_path, monkeypatch):
    """The second one would delete log files that the first is about to name."""
    table = filled(tmp_path / "t")
    real = reshard.Resharder._split

    def again_and_split(*args):
        with monkeypatch.context() as patched:
            patched.setattr(reshard.Resharder, "_split", real)
            with pytest.raises(LockHeldError, match=r"plan\.json"):
                Table.open(str(tmp_path / "t")).reshard_index(8)
        return real(*args)

    with monkeypatch.context() as patched:
        patched.setattr(reshard.Resharder, "_split", again_and_split)
        assert table.reshard_index(8).after == 8
    assert_exact(Table.open(str(tmp_path / "t")))


def test_what_a_dead_attempt_has_put_stays_right_whoever_wrote_since(tmp_path, monkeypatch):
    """Files of a class that is not done are those that the next attempt would put."""
    table = filled(tmp_path / "t")
    with monkeypatch.context() as patched:
        patched.setattr(reshard, "_save_done", die)
        with pytest.raises(Killed):
            table.reshard_index(6)
    writer = Table.open(str(tmp_path / "t"))
    expected = write_meanwhile(writer, 3)
    assert table.reshard_index(6).after == 6
    assert_exact(Table.open(str(tmp_path / "t")), expected)


def die(*_):
    raise Killed


def test_a_repair_counts_no_shards_of_an_index_that_was_dropped(tmp_path):
    table = filled(tmp_path / "t", groups=2)
    table.reshard_index(6)
    table.upsert(rows([1, 60], ts=9))
    table.drop_index("record_index")
    counts = {f"hoodie.metadata.record.index.{end}.filegroup.count": "2" for end in ("min", "max")}
    table = Table.open(str(tmp_path / "t"), options=counts)
    table.build_index("record_index")
    assert shard_count(table) == 2
    table.repair_shard(1)
    with pytest.raises(InputError, match="0 to 1"):
        table.repair_shard(2)
    assert_exact(Table.open(str(tmp_path / "t")))


def test_an_open_table_sees_an_index_that_was_dropped_and_built_anew(tmp_path):
    table = filled(tmp_path / "t", groups=2)
    table.reshard_index(6)
    reader = Table.open(str(tmp_path / "t"))
    assert_exact(reader)
    table.drop_index("record_index")
    table.build_index("record_index")
    assert shard_count(reader) == 2
    # The build's commit is another one than the re-sharding's, which names files that are gone.
    assert_exact(reader)


@pytest.mark.parametrize("lost", [True, False])
@pytest.mark.parametrize("message", ["new file groups hold", "new log files hold"])
def test_what_is_lost_or_changed_on_its_way_is_no_new_index(tmp_path, monkeypatch, message, lost):
    """Digests of old and new differ: of the base files, or of what was written meanwhile."""
    table = filled(tmp_path / "t")
    if "log files" in message:
        begin_reshard(table, 6)
        write_meanwhile(Table.open(str(tmp_path / "t")), 2)
    expected, add, damaged = data_rows(table), split._add, []

    def damage_one(writer, keys, values, cells, rows):
        if damaged:
            add(writer, keys, values, cells, rows)
            return
        damaged.append(rows)
        if not lost:
            changed = [value + b"?" for value in values.to_pylist()]
            add(writer, keys, pa.array(changed, values.type), None, rows)

    with monkeypatch.context() as patched:
        patched.setattr(split, "_add", damage_one)
        with pytest.raises(CorruptFileError, match=f"{message} .*`keymark table index reshard"):
            Table.open(str(tmp_path / "t")).reshard_index(6)
    assert damaged
    fresh = Table.open(str(tmp_path / "t"))
    assert shard_count(fresh) == 2
    assert_exact(fresh, expected)
    fresh.abort_reshard()
    assert fresh.reshard_index(6).after == 6
    assert_exact(Table.open(str(tmp_path / "t")), expected)
