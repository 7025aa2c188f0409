"""Rewriting a table with virtual keys, and back: the rows stay, the index stays, readers stay."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_cases import SMALL_BLOOMS, create, data_rows, latest_files, left_over, rows, unpack

from keymark import Table
from keymark.table.errors import CorruptFileError, InputError, InvalidOptionError
from keymark.table.properties.config import save_config
from keymark.table.properties.options import KEYS_IGNORED, META_FIELDS
from keymark.table.services import rewrite
from keymark.table.state import base_files
from keymark.table.write.transaction import WriteTransaction

META = "_hoodie_record_key"
ROOT = Path(__file__).parents[2]
STATS = "hoodie.metadata.index.column.stats.enable"
BLOOMS = "hoodie.metadata.index.bloom.filter.enable"


@pytest.fixture(params=["record", "global_bloom", "bucket", "compact"])
def table(request, tmp_path):
    table = create(tmp_path / "t", {STATS: "true", BLOOMS: "true"}, index=request.param)
    table.upsert(rows(range(30)))
    table.upsert(rows(range(20, 40), ts=2, partition=[f"p{i % 3}" for i in range(20, 40)]))
    return table


def again(table) -> Table:
    return Table.open(table.storage.root, options=SMALL_BLOOMS)


def rows_of(table) -> list[tuple]:
    """All rows without meta columns, sorted."""
    parts = [part.drop_columns(part.column_names[:5]) for part in table.scan().tables()]
    return sorted(tuple(row.values()) for row in pa.concat_tables(parts).to_pylist())


def places(table, count=40) -> list:
    found = table.lookup([f"k{i}" for i in range(count)])
    return found.select(["record_key", "partition_path", "file_id"]).to_pylist()


def stored_keys(table) -> list:
    root = table.storage.root
    found = []
    for path in latest_files(root).values():
        file = pq.ParquetFile(f"{root}/{path}")
        found += file.read()[META].to_pylist()
        virtual = table.config.properties[META_FIELDS] == "false"
        assert (b"org.apache.hudi.bloomfilter" in file.metadata.metadata) is not virtual
    return sorted(found, key=str)


def test_there_and_back(table):
    before, found, keys = rows_of(table), places(table), stored_keys(table)
    entries = sum(s.entries for s in table.info().shards)
    report = table.rewrite("on")
    table = again(table)
    assert report.rewritten == report.file_groups
    assert report.bytes_after < report.bytes_before
    assert set(stored_keys(table)) == {None}
    assert (rows_of(table), places(table)) == (before, found)
    assert sum(s.entries for s in table.info().shards) == entries
    assert table.rewrite("on").rewritten == 0
    assert table.upsert(rows(["k1"], ts=5, partition="p1")).updated == 1
    table.delete(rows(["k2"], partition="p2"))
    middle = rows_of(table)
    assert table.rewrite("off").rewritten == report.file_groups
    table = again(table)
    assert stored_keys(table) == [key for key in keys if key != "k2"]
    assert rows_of(table) == middle
    assert set(data_rows(table)) == {key for key in keys if key != "k2"}
    assert left_over(table.storage.root) == []
    if table.choice.name in ("record", "compact"):
        assert table.check().ok
    assert table.upsert(rows(["k1"], ts=6, partition="p1")).updated == 1


def test_meta_columns_after_the_way_back(table):
    table.rewrite("on")
    again(table).rewrite("off")
    root = table.storage.root
    for (partition, _), path in latest_files(root).items():
        part = pq.ParquetFile(f"{root}/{path}").read()
        name = path.rpartition("/")[2]
        assert set(part["_hoodie_file_name"].to_pylist()) == {name}
        assert set(part["_hoodie_partition_path"].to_pylist()) == {partition}
        instant = name.rpartition("_")[2].partition(".")[0]
        assert max(part["_hoodie_commit_time"].to_pylist()) < instant
        assert len(set(part["_hoodie_commit_seqno"].to_pylist())) == part.num_rows


def test_the_way_back_stays_open(table):
    """The proposal's stage: keys go on being stored while readers make them."""
    keys = stored_keys(table)
    assert table.rewrite("ignore").rewritten == 0
    table = again(table)
    assert table.config.virtual_keys
    assert table.config.properties[KEYS_IGNORED] == "true"
    table.upsert(rows(["k1"], ts=5, partition="p1"))
    assert stored_keys(table) == keys
    assert all(part[META].null_count == part.num_rows for part in table.scan().tables())
    table.rewrite("on")
    assert set(stored_keys(again(table))) == {None}
    again(table).rewrite("ignore")
    assert stored_keys(again(table)) == keys
    again(table).rewrite("off")
    assert KEYS_IGNORED not in again(table).config.properties
    assert set(data_rows(again(table))) == set(keys)


@pytest.mark.parametrize("target", ["on", "off"])
@pytest.mark.parametrize("commits", [0, 1, 2])
def test_cut_off_and_resumed(table, monkeypatch, target, commits):
    each = 16 if table.choice.name == "bucket" else 1
    monkeypatch.setattr(rewrite, "_GROUPS_PER_COMMIT", each)
    before, found = rows_of(table), places(table)
    if target == "off":
        table.rewrite("on")
        table = again(table)
    done, commit = [], WriteTransaction.commit

    def cut_off(*arguments):
        if len(done) == commits:
            raise KeyboardInterrupt
        done.append(commit(*arguments))
        return done[-1]

    with monkeypatch.context() as patch:
        patch.setattr(WriteTransaction, "commit", cut_off)
        with pytest.raises(KeyboardInterrupt):
            table.rewrite(target)
    table = again(table)
    assert (rows_of(table), places(table)) == (before, found)
    table.upsert(rows(["k1"], ts=1, partition="p1"))
    report = table.rewrite(target)
    # The write between leaves one file group as keys are stored, or not, at that time.
    assert abs(report.file_groups - report.rewritten - each * commits) <= 1
    table = again(table)
    assert (rows_of(table), places(table)) == (before, found)
    assert (set(stored_keys(table)) == {None}) is (target == "on")
    assert left_over(table.storage.root) == []


def test_a_reader_keeps_its_snapshot(table):
    plan = table.scan()
    before = rows_of(table)
    table.rewrite("on")
    parts = [part.drop_columns(part.column_names[:5]) for part in plan.tables()]
    assert sorted(tuple(r.values()) for r in pa.concat_tables(parts).to_pylist()) == before


def test_keys_that_their_columns_do_not_make(tmp_path, monkeypatch):
    table = create(tmp_path / "t")
    table.upsert(rows(range(3), partition="p"))
    (path,) = latest_files(tmp_path / "t").values()
    stored = pq.ParquetFile(tmp_path / "t" / path).read().replace_schema_metadata(None)
    pq.write_table(stored.set_column(2, META, [["k0", "other", "k2"]]), tmp_path / "t" / path)
    # The size alone would give the other file away.
    monkeypatch.setattr(base_files, "check_size", lambda *_: None)
    with pytest.raises(
        CorruptFileError, match="row 1 has the key 'other', and its columns make 'k1'"
    ):
        table.rewrite("on")
    assert again(table).config.stores_meta


def test_keys_too_long_for_statistics(tmp_path):
    table = create(tmp_path / "t", index="global_bloom")
    table.upsert(rows(["x" * 5000, "y" * 30000], partition="p"))
    before = rows_of(table)
    assert table.rewrite("on").rewritten == 1
    assert again(table).rewrite("on").rewritten == 0
    assert again(table).rewrite("off").rewritten == 1
    assert again(table).rewrite("ignore").rewritten == 0
    assert rows_of(again(table)) == before


def test_what_cannot_be_virtual(tmp_path):
    keyless = create(tmp_path / "a", record_key=None)
    with pytest.raises(InputError, match="need key fields"):
        keyless.rewrite("on")
    own = create(tmp_path / "b", {"hoodie.table.keygenerator.class": "own_keys:Shouted"})
    with pytest.raises(InvalidOptionError, match=r"keymark\.hudi\.reads=false"):
        own.rewrite("on")
    with pytest.raises(InputError, match="on, off, ignore"):
        own.rewrite("maybe")


@pytest.mark.parametrize("name", ["virtual_simple", "virtual_complex", "virtual_flat"])
def test_a_table_of_hudi_gets_its_keys_back(tmp_path, name):
    unpack("hudi-0.15.0-keys.tar.gz", tmp_path)
    root = tmp_path / name
    table = Table.open(str(root))
    before = rows_of(table)
    assert table.rewrite("off").rewritten == table.scan().files_total
    table = Table.open(str(root))
    assert rows_of(table) == before
    key = "k:k3,n:3" if name == "virtual_complex" else "k3"
    assert key in data_rows(table)
    table.rewrite("on")
    assert rows_of(Table.open(str(root))) == before


def test_a_table_of_hudi_loses_its_keys(tmp_path):
    unpack("hudi-0.15.0-record_index.tar.gz", tmp_path)
    root = shutil.move(tmp_path / "record_index/table", tmp_path / "t")
    table = Table.open(str(root))
    before = rows_of(table)
    table.rewrite("on")
    table = Table.open(str(root))
    assert rows_of(table) == before
    assert table.check().ok


KILLED = """
import os, signal, sys
from keymark import Table
from keymark.table.services import rewrite
from keymark.table.write.transaction import WriteTransaction

done, commit, wanted = [], WriteTransaction.commit, int(sys.argv[3])

def killed(*arguments):
    if len(done) == wanted:
        os.kill(os.getpid(), signal.SIGKILL)
    done.append(commit(*arguments))
    return done[-1]

WriteTransaction.commit, rewrite._GROUPS_PER_COMMIT = killed, 1
Table.open(sys.argv[1]).rewrite(sys.argv[2])
"""


@pytest.mark.slow
@pytest.mark.parametrize(("target", "commits"), [("on", 0), ("on", 2), ("off", 1)])
def test_killed_and_resumed(tmp_path, target, commits):
    table = create(tmp_path / "t")
    table.upsert(rows(range(30)))
    before, digest = rows_of(table), table.check().digest
    if target == "off":
        table.rewrite("on")
    root = table.storage.root
    child = subprocess.run(
        [sys.executable, "-c", KILLED, root, target, str(commits)], check=False, cwd=ROOT
    )
    assert child.returncode == -signal.SIGKILL
    table = again(table)
    assert rows_of(table) == before
    assert table.rewrite(target).rewritten == 3 - commits
    table = again(table)
    assert rows_of(table) == before
    assert table.check().ok
    assert table.check().digest == digest
    assert left_over(root) == []


def test_no_way_back_to_files_without_keys_while_the_table_stores_them(table):
    table.rewrite("on")
    again(table).savepoint()
    kept = rows_of(again(table))
    saved = max(p.name for p in Path(table.storage.root, ".hoodie").glob("*.savepoint"))
    instant = saved.partition(".")[0]
    again(table).upsert(rows([50]))
    latest = again(table).rewrite("off").instants[-1]
    found = rows_of(again(table))
    with pytest.raises(InputError, match="--virtual-keys on"):
        again(table).restore(instant)
    with pytest.raises(InputError, match="--virtual-keys on"):
        again(table).rollback(latest)
    assert rows_of(again(table)) == found
    again(table).rewrite("on")
    again(table).restore(instant)
    assert rows_of(again(table)) == kept
    again(table).upsert(rows([60, 1], ts=9))
    assert again(table).check().ok


def test_a_recovery_goes_back_over_a_rewrite(table):
    table.rewrite("on")
    found = rows_of(again(table))
    again(table).rewrite("off")
    torn = max(Path(table.storage.root, ".hoodie").glob("*.commit"))
    torn.write_bytes(b"")
    Table.recover(table.storage.root)
    assert again(table).config.properties[META_FIELDS] == "false"
    assert rows_of(again(table)) == found
    again(table).upsert(rows([60, 1], ts=9))
    assert again(table).check().ok


def test_rows_without_keys_where_keys_are_stored_are_damage(table):
    table.rewrite("on")
    config = again(table).config
    save_config(table.storage, {**config.properties, META_FIELDS: "true"}, accept=True)
    for ask in (
        lambda t: t.upsert(rows([3], ts=9)),
        lambda t: t.delete(rows([3])),
        lambda t: t.purge(["k3"]),
        lambda t: t.check(),
    ):
        with pytest.raises(CorruptFileError, match="have no record key"):
            ask(again(table))
