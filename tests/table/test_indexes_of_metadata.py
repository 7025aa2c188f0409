"""Metadata partitions on and off: by options at creation and later, by hand; repair of a shard."""

from __future__ import annotations

import pytest
from table_cases import create, data_rows, files, left_over, rows

from keymark import Table
from keymark.table.errors import (
    CorruptFileError,
    IndexUnavailableError,
    InputError,
    InvalidOptionError,
    StorageError,
)
from keymark.table.storage.local_storage import LocalStorage

ALL = ("bloom_filters", "column_stats", "files", "record_index")
ON = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
}
FALLBACK = "keymark.index.fallback"


def in_use(table):
    return tuple(sorted(table.config.metadata_partitions))


def test_options_switch_partitions_on_at_creation(tmp_path):
    table = create(tmp_path / "t", ON, index="global_simple")
    assert in_use(table) == ALL
    # Whatever the options of a later handle are.
    assert Table.open(tmp_path / "t").insert(rows(range(5))).inserted == 5
    assert Table.open(tmp_path / "t").check().ok
    assert {part.partition for part in table.indexes() if part.bytes} == set(ALL)


def test_options_switch_partitions_on_before_a_write(tmp_path):
    create(tmp_path / "t", index="global_bloom").bulk_insert(rows(range(9)))
    assert in_use(Table.open(tmp_path / "t")) == ("files",)
    table = Table.open(tmp_path / "t", options=ON)
    table.upsert(rows([1, 20], ts=2))
    assert in_use(table) == ALL
    assert table.check().keys == 10


@pytest.mark.parametrize("option", sorted(ON))
def test_false_is_no_way_to_take_a_partition_away(tmp_path, option):
    create(tmp_path / "t", ON).upsert(rows([1]))
    table = Table.open(tmp_path / "t", options={option: "false"})
    with pytest.raises(InvalidOptionError, match="table index drop"):
        table.upsert(rows([2]))
    assert data_rows(table).keys() == {"k1"}


def test_an_index_that_is_not_built_is_named_with_the_command(tmp_path):
    table = create(tmp_path / "t")
    table.upsert(rows(range(4)))
    table.drop_index()
    with pytest.raises(IndexUnavailableError, match=r"table index build .* record_index"):
        table.upsert(rows([1]))
    table.schedule_index()
    with pytest.raises(IndexUnavailableError, match="table index run"):
        table.upsert(rows([1]))
    named = Table.open(tmp_path / "t", options={FALLBACK: "global_simple"})
    result = named.upsert(rows([1, 7], ts=3))
    assert (result.index, result.updated, result.inserted) == ("global_simple", 1, 1)
    table.run_index()
    assert table.upsert(rows([2], ts=3)).index == "record"
    assert table.check().ok


def test_columns_with_statistics_are_a_fact_of_the_table(tmp_path):
    listed = {"hoodie.metadata.index.column.stats.column.list": "ts"}
    table = create(tmp_path / "t", {**ON, **listed})
    table.upsert(rows(range(3)))
    with pytest.raises(InvalidOptionError, match="differs from the table's own ts"):
        Table.open(tmp_path / "t", options={**listed, next(iter(listed)): "ts,v"})
    assert Table.open(tmp_path / "t").upsert(rows([9])).inserted == 1


def test_a_shard_is_repaired_whatever_is_wrong_with_its_files(tmp_path):
    table = create(tmp_path / "t")
    for number in range(3):
        table.upsert(rows(range(number, number + 20), ts=number))
    before = table.check()
    broken = [p for p in files(tmp_path / "t") if "record-index-0001-0_" in p]
    for place, path in enumerate(broken):
        if place % 2:
            (tmp_path / "t" / path).unlink()
        else:
            (tmp_path / "t" / path).write_bytes(b"rubbish")
    with pytest.raises(CorruptFileError, match="record-index-0001-0"):
        table.check()
    with pytest.raises(CorruptFileError):
        table.lookup(["k1", "k2", "k3", "k4"])
    assert table.repair_shard(1) > 0
    assert table.check() == before
    assert table.upsert(rows([50])).inserted == 1
    assert table.check().ok
    with pytest.raises(InputError, match="no shard 2"):
        table.repair_shard(2)


@pytest.mark.parametrize("next_call", ["upsert", "repair"])
def test_a_repair_that_failed_leaves_nothing_after_the_next_call(tmp_path, monkeypatch, next_call):
    table = create(tmp_path / "t")
    table.upsert(rows(range(20)))
    before = files(tmp_path / "t")
    with monkeypatch.context() as patch:

        def refuse(_storage, path, _data):
            raise StorageError(f"cannot write {path}")

        patch.setattr(LocalStorage, "commit", refuse)
        with pytest.raises(StorageError, match="cannot write"):
            table.repair_shard(0)
    assert files(tmp_path / "t") != before
    table = Table.open(tmp_path / "t")
    assert table.check().ok
    if next_call == "upsert":
        table.upsert(rows([50]))
    else:
        assert table.repair_shard(0) > 0
    assert left_over(tmp_path / "t") == []
    assert table.check().ok


@pytest.mark.parametrize("recovery_dies", [False, True])
def test_a_repair_that_died_while_it_tidied_leaves_nothing(tmp_path, monkeypatch, recovery_dies):
    table = create(tmp_path / "t")
    table.upsert(rows(range(20)))
    build = tmp_path / "t/.hoodie/.keymark/build/record_index"
    delete_tree = LocalStorage.delete_tree

    def die(storage, path):
        if (tmp_path / "t" / path).exists() and path.endswith("build/record_index"):
            raise StorageError(f"cannot delete {path}")
        delete_tree(storage, path)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "delete_tree", die)
        with pytest.raises(StorageError, match="cannot delete"):
            table.repair_shard(0)
        assert list(build.iterdir())
        if recovery_dies:
            with pytest.raises(StorageError, match="cannot delete"):
                Table.open(tmp_path / "t").upsert(rows([50]))
    table = Table.open(tmp_path / "t")
    table.upsert(rows([50]))
    assert left_over(tmp_path / "t") == []
    assert table.check().ok


def test_check_names_the_shards_that_differ(tmp_path):
    """A log file replayed from the other shard: right bytes in the wrong place."""
    table = create(tmp_path / "t")
    table.upsert(rows(range(30)))
    folder = tmp_path / "t/.hoodie/metadata/record_index"
    one, other = (next(folder.glob(f".record-index-000{n}-0_*.log.2_*")) for n in (0, 1))
    one_bytes, other_bytes = one.read_bytes(), other.read_bytes()
    one.write_bytes(other_bytes)
    other.write_bytes(one_bytes)
    try:
        found = table.check()
    except CorruptFileError:
        # The shorter one is told by its size already.
        return
    assert not found.ok
    assert found.shards == (0, 1)
    assert found.missing + found.wrong > 0
