"""Invariants that no other test holds by itself; tests/README.md has the whole table of them."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pyarrow as pa
import pytest
from faults import DEAD, FaultStorage, Killed
from history_checks import java_hash
from history_storage import TickingClock, same_each_time, watched
from table_cases import MOVES, SHARDS, SMALL_BLOOMS, by_listing, create, data_rows, rows

from keymark import Table
from keymark.table.errors import CorruptFileError, InputError, SnapshotExpiredError
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.storage.object_storage import ObjectStorage

OPTIONS = {MOVES: "true", **SMALL_BLOOMS}
ONE_KEPT = {"hoodie.cleaner.commits.retained": "1"}


@pytest.fixture
def table(tmp_path):
    """Three commits on the same keys."""
    made = create(tmp_path / "t", {**OPTIONS, "hoodie.clean.automatic": "false"})
    made.bulk_insert(rows(range(9)))
    for number in (2, 3):
        made.upsert(rows(range(9), ts=number, value=f"{number} "))
    return made


def rows_of(plan):
    return sum(part.num_rows for part in plan.tables())


def test_a_reader_across_a_clean_is_told(table):
    """I16: its rows, or that the snapshot is gone; never a part of them."""
    early = table.scan()
    table.upsert(rows(range(9), ts=4, value="4 "))
    assert rows_of(early) == 9, "nothing is cleaned yet"
    table.upsert(rows(range(9), ts=5, value="5 "))
    late = table.scan()
    assert Table.open(table.storage.root, options={**OPTIONS, **ONE_KEPT}).clean()
    with pytest.raises(SnapshotExpiredError, match="open the table anew") as told:
        rows_of(early)
    assert "\n" not in str(told.value)
    assert rows_of(late) == 9


def test_a_reader_across_a_rollback_is_told(table):
    early = table.scan()
    table.rollback(max(file.instant_time for file in early.files))
    with pytest.raises(SnapshotExpiredError):
        rows_of(early)
    assert {row[-1] for row in data_rows(table).values()} == {f"2 k{n}" for n in range(9)}


def test_a_reader_in_the_middle_of_a_clean_is_told(table):
    """The clean has deleted files that the listing still names: its plan says so."""
    first = min(path.name for path in table.storage.list(".hoodie") if path.name[0] == "2")
    early = table.scan(as_of=first.partition(".")[0])
    assert rows_of(early) == 9
    for at in range(1, 30):
        dying = FaultStorage(LocalStorage.at(table.storage.root), DEAD, at)
        with pytest.raises(Killed):
            Table(dying, {**OPTIONS, **ONE_KEPT}).clean()
        if any(call.endswith(".parquet") for call in dying.log[:-1]):
            break
    gone = [file for file in early.files if not table.storage.exists(file.path)]
    assert 0 < len(gone) < len(early.files)
    with pytest.raises(SnapshotExpiredError):
        rows_of(early)


class Overtaken(ObjectStorage):
    """Once a base file was opened, others write it anew and clean before it is read."""

    def open(self, path):
        opened = super().open(path)
        if path.endswith(".parquet"):
            other = Table.open(self.root, options={**OPTIONS, **ONE_KEPT})
            for number in (2, 3):
                other.upsert(rows(range(9), ts=number))
            assert not other.storage.exists(path)
        return opened


@pytest.mark.parametrize("index", ["record", "simple", "bloom", "global_bloom", "compact"])
def test_a_reader_in_the_middle_of_a_file_is_told(tmp_path, index):
    """A store finds the file gone at any request, not at the first one only."""
    url = f"memory://{tmp_path.name}/t"
    create(url, OPTIONS, index=index).bulk_insert(rows(range(9)))
    table = Table(Overtaken(url), OPTIONS)
    if index != "record":
        with pytest.raises(SnapshotExpiredError, match="open the table anew"):
            table.lookup(["k4"])
    with pytest.raises(SnapshotExpiredError, match="open the table anew"):
        rows_of(table.scan())
    with pytest.raises(SnapshotExpiredError, match="open the table anew"):
        table.info()


def test_a_file_that_is_gone_without_a_reason_is_damage(table):
    plan = table.scan()
    table.storage.delete(plan.files[1].path)
    with pytest.raises(CorruptFileError, match="it is missing"):
        rows_of(plan)


def test_the_first_commit_after_the_archive_stays(tmp_path):
    """Without it nobody could tell the files of archived commits from those of dead writers."""
    keep = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", **ONE_KEPT}
    often = {"hoodie.metadata.compact.max.delta.commits": "1"}
    table = create(tmp_path / "t", {**OPTIONS, **keep, **often})
    for number in range(8):
        table.upsert(rows([number], ts=number, partition=f"p{number}"))
    assert table.storage.list(".hoodie/archived")
    with pytest.raises(InputError, match="first that is not archived"):
        _roll_back_all(table)
    left = [n for n in range(8) if f"k{n}" in data_rows(table)]
    assert left == list(range(len(left)))
    assert len(left) >= 4
    assert table.check().ok


def _roll_back_all(table):
    while True:
        names = (s.name for s in table.storage.list(".hoodie") if s.name.endswith(".commit"))
        table.rollback(max(names).partition(".")[0])


def test_cleaning_passes_over_what_a_dead_build_left(table):
    """Its base files have no instant yet: the next build takes them up, or deletes them."""
    folder = ".hoodie/metadata/column_stats"
    storage = LocalStorage.at(table.storage.root)
    for at in range(1, 60):
        if any(status.name.endswith(".hfile") for status in storage.list(folder)):
            break
        with pytest.raises(Killed):
            Table(FaultStorage(storage, DEAD, at), OPTIONS).build_index("column_stats")
    often = {"hoodie.metadata.compact.max.delta.commits": "1", **ONE_KEPT}
    writing = Table.open(storage.root, options={**OPTIONS, **often})
    for number in range(25):
        writing.upsert(rows([number], ts=9))
    cleaned = [s.name for s in storage.list(".hoodie/metadata/.hoodie") if "002.clean" in s.name]
    assert cleaned, "nothing was cleaned"
    assert writing.build_index("column_stats")
    assert writing.check().ok


@pytest.mark.parametrize("index", ["record", "global_bloom", "compact"])
def test_every_key_of_a_batch_is_tagged_once(tmp_path, index):
    """I14: an answer per key in the order asked, a place exactly where the key existed."""
    chosen = random.Random(4)
    options = {"hoodie.datasource.insert.dup.policy": "fail"}
    table = create(tmp_path / "t", options, index=index)
    known: set[int] = set()
    for _ in range(6):
        fresh = [n for n in chosen.sample(range(200), 30) if n not in known]
        table.upsert(rows(fresh))
        known.update(fresh)
        stored = by_listing(table.storage.root)
        asked = chosen.sample(range(200), 90)
        found = table.lookup([f"k{n}" for n in asked])
        assert found["record_key"].to_pylist() == [f"k{n}" for n in asked]
        for n, row in zip(asked, found.to_pylist(), strict=True):
            place = (row["partition_path"], row["file_id"])
            assert place == (stored[f"k{n}"][0] if n in known else (None, None))
        result = table.upsert(rows(asked, ts=2, partition="p9"))
        assert result.updated + result.moved == len(known & set(asked))
        assert result.inserted == len(set(asked) - known)
        known.update(asked)


def test_a_file_is_never_written_twice(tmp_path):
    """I10: puts create, and only hoodie.properties and the lease's end are ever replaced."""
    storage = watched(str(tmp_path / "t"))
    create(tmp_path / "t", OPTIONS)
    table = Table(storage, {**OPTIONS, **ONE_KEPT})
    instants = [table.upsert(rows(range(n, n + 9), ts=n)).instant for n in range(12)]
    assert instants == sorted(set(instants))
    table.compact()
    table.drop_index()
    table.build_index()
    table.rollback(instants[-1])
    assert table.upsert(rows([1])).instant > instants[-1], "an instant is not used again"
    for path in storage.contents:
        if storage.exists(path):
            with pytest.raises(FileExistsError):
                storage.inner.put(path, b"")
    assert storage.changed() == []


def test_the_same_writes_make_the_same_map(tmp_path):
    """I24: rows and index are equal but for the names of file groups."""
    found = []
    for attempt in range(2):
        with same_each_time(random.Random(attempt)):
            table = _history(tmp_path / str(attempt))
        stored = by_listing(table.storage.root)
        located = table.lookup(sorted(stored)).to_pylist()
        # File groups by the keys in them: which that is does not hang on a name.
        groups: dict[tuple[str, str], list[str]] = {}
        for row in located:
            groups.setdefault((row["partition_path"], row["file_id"]), []).append(row["record_key"])
        paths = sorted((path, keys) for (path, _), keys in groups.items())
        times = [row["instant_time"] for row in located]
        found.append((data_rows(table), paths, times))
    assert found[0] == found[1]


def _history(path):
    given = {**SHARDS, **OPTIONS, "hoodie.parquet.small.file.limit": "0"}
    identity = {"name": "t", "record_key": "k", "partition_path": "p", "ordering": "ts"}
    table = Table.create(str(path), options=given, clock=TickingClock(), **identity)
    chosen = random.Random(9)
    for number in range(8):
        numbers = chosen.sample(range(60), 20)
        flags = pa.array([chosen.random() < 0.2 for _ in numbers])
        table.upsert(rows(numbers, ts=number).append_column("_hoodie_is_deleted", flags))
    return table


def test_hashes_that_the_checks_use():
    assert java_hash("polygenelubricants") == -(1 << 31)
    assert java_hash("😀") == 1772899
    assert java_hash("Aa") == java_hash("BB") == 2112


def test_the_table_of_invariants_names_tests_that_are_there():
    tests = Path(__file__).parents[2]
    table = (tests / "README.md").read_text("utf-8")
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", table)
    assert len(named) > 25
    for path, name in named:
        assert f"\ndef {name}(" in (tests / path).read_text("utf-8"), f"{path}::{name}"
    rows_there = set(re.findall(r"^\| I(\d+) \|", table, re.MULTILINE))
    assert rows_there == {str(number) for number in range(1, 25)}
