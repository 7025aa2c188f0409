"""Archivers that die, readers meanwhile, what may not be archived yet, and random histories."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from archive_cases import (
    BY_HAND,
    SMALL,
    Case,
    active,
    archived,
    grow,
    kept,
    opened,
    readings,
    rows_stored,
)
from faults import DEAD, FULL, FaultStorage, Killed, every_fault
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from table_cases import (
    create,
    data_rows,
    rows,
    unpack,
)

from keymark import Table
from keymark.table.errors import InputError, StorageError
from keymark.table.layout.naming import METADATA
from keymark.table.metadata.partitions import COLUMN_STATS
from keymark.table.properties.options import Options
from keymark.table.services import clean
from keymark.table.services.archive import Archived, Archiver, Limits
from keymark.table.state.table_state import TableState
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.timeline.timeline import COMMIT_ACTIONS, Timeline


@pytest.fixture(scope="module")
def grown(tmp_path_factory) -> Case:
    return Case.made(tmp_path_factory.mktemp("grown") / "t")


@pytest.fixture
def case(grown, tmp_path) -> Case:
    return grown.copied(tmp_path / "t")


@pytest.fixture
def short(monkeypatch):
    """Cleaning of the metadata table retains few commits, so that its timeline may be short."""
    monkeypatch.setattr(clean, "_RETAINED_MIN", 2)
    assert Limits.of_metadata(Options(SMALL)) == Limits(5, 7)


# Dying


@pytest.mark.slow
@pytest.mark.usefixtures("short")
def test_an_archiver_dies_at_every_call(case, tmp_path):
    """Nothing is lost, readers see no difference, the next run goes on from there."""
    wanted = readings(opened(case.root), case.commits[-2:])
    total = {base: active(case.root, base) for base in ("", METADATA)}
    copies = iter(range(1000))

    def copy() -> str:
        return str(shutil.copytree(case.root, tmp_path / f"c{next(copies)}"))

    def nothing_lost(root: Path) -> bool:
        return all(set(archived(root, b)) | active(root, b) >= total[b] for b in total)

    for number, storage in every_fault(DEAD, copy):
        root = Path(storage.root)
        try:
            Table(storage, BY_HAND).archive()
        except Killed:
            assert nothing_lost(root)
            if number % 6 == 1:
                assert readings(opened(root), case.commits[-2:]) == wanted
            else:
                assert data_rows(opened(root)) == wanted["rows"] == rows_stored(root)
            # What is left may be within the limits; one commit more is not.
            grow(opened(root), 1, 20) if len(kept(root)) <= 6 else None
            opened(root).archive()
            assert opened(root).check().ok
        assert nothing_lost(root)
        assert 4 <= len(kept(root)) <= 6
        assert kept(root) == sorted({*case.commits, *kept(root)})[-len(kept(root)) :]
        assert archived(root, METADATA)
        shutil.rmtree(root)
    assert number > 40


def test_a_full_disk_archives_nothing_and_fails_no_write(case):
    storage = FaultStorage(LocalStorage.at(str(case.root)), FULL, 10**6)
    before = active(case.root)
    table = Table(storage, BY_HAND)
    done = Archiver.load

    def full(*arguments: Any) -> Archiver:
        storage.at = 1
        return done(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Archiver, "load", full)
        with pytest.raises(StorageError, match="No space left"):
            table.archive()
    assert active(case.root) == before
    assert not archived(case.root)


# What may never be archived


def test_a_scheduled_index_stops_archiving_and_its_logs_are_compacted_first(case):
    """The partition is left out of compactions until it is built, its blocks lie there longer."""
    table = opened(case.root)
    indexing = table.schedule_index(COLUMN_STATS)
    grow(table, 8, 20)
    for _ in range(2):
        done = table.archive()
        assert max((*done.data, *done.metadata, "")) < indexing
    # The commit before the pending instant stays, and all after it.
    first = [time for time in kept(case.root) if time < indexing]
    assert first == case.commits[-1:]
    table.run_index(COLUMN_STATS)
    # It is built, and what was written to it meanwhile is in no base file yet.
    later = [time for time in kept(case.root) if time > indexing]
    stats = _statistics(table)
    table.archive()
    assert kept(case.root) == later
    assert _statistics(opened(case.root)) == stats
    table.compact()
    stats = _statistics(table)
    done = table.archive().data
    assert later[0] in done
    assert indexing not in done, "the latest of its action"
    assert len(kept(case.root)) == 4
    assert _statistics(opened(case.root)) == stats
    assert table.check().ok


def _statistics(table: Table) -> list[tuple[bytes, bytes]]:
    """All live records of the column statistics."""
    metadata = TableState.load(table.storage).metadata
    assert metadata is not None
    found = []
    for shard in metadata.shards(COLUMN_STATS):
        keys, values = shard.scan()
        found += zip(keys.to_pylist(), values.to_pylist(), strict=True)
    return sorted(found)


def test_a_rollback_goes_after_the_blocks_that_it_makes_count(case):
    """A block of what was taken back counts by the rollback: it must be compacted before."""
    table = opened(case.root, **{"hoodie.metadata.compact.max.delta.commits": "1000"})
    table.compact()
    bad = table.upsert(rows([1, 2, 99], ts=99, value="bad ")).instant
    rollback = table.rollback(bad)
    wanted = readings(table)
    grow(table, 8, 20)
    table.clean()
    assert rollback not in table.archive().data
    assert "k99" not in readings(table)["rows"]
    table.compact()
    grow(table, 1, 30)
    table.compact()
    # The latest of each action stays: another rollback lets it go.
    table.rollback(table.upsert(rows([98], ts=99)).instant)
    grow(table, 8, 40)
    table.compact()
    assert rollback in table.archive().data
    found = readings(opened(case.root))["rows"]
    assert "k99" not in found
    assert "k98" not in found
    assert found["k1"] == wanted["rows"]["k1"]


def test_a_replace_commit_stays_until_its_files_are_cleaned(tmp_path):
    """Hudi deleted a partition and overwrote one: the files that went would come back."""
    unpack("hudi-0.15.0-states.tar.gz", tmp_path)
    root = tmp_path / "a_10_upsert"
    timeline = Timeline.load(LocalStorage.at(str(root)))
    replaced = timeline.completed({"replacecommit"})
    assert len(replaced) == 2
    options = {**BY_HAND, "hoodie.clean.automatic": "false"}
    table = Table.open(str(root), options=options)
    one = next(iter(table.scan().tables())).slice(0, 1)
    data = one.select([c for c in one.column_names if not c.startswith("_hoodie_")])
    before = data_rows(table)
    for _ in range(9):
        table.upsert(data)
    table.compact()
    table.archive()
    left = Timeline.load(table.storage).completed(COMMIT_ACTIONS)
    uncleaned = [r for r in replaced if r in left]
    assert left[0] == uncleaned[0]
    assert data_rows(table) == before
    table.clean()
    table.compact()
    table.archive()
    left = Timeline.load(table.storage).completed(COMMIT_ACTIONS)
    assert len(left) == 4
    assert not set(replaced) & set(left)
    assert data_rows(table) == before
    assert data_rows(table, as_of=left[-1].time) == before
    result = table.check()
    assert not any((result.missing, result.extra, result.wrong, result.duplicate))


# Reading meanwhile


@dataclass
class Interrupted(FaultStorage):
    """Archives when the first file of a timeline is read, behind the reader's back."""

    path: str = ""
    done: Archived | None = None

    def read(self, path: str) -> bytes:
        if self.done is None and path.endswith(self.path):
            self.done = opened(Path(self.root)).archive()
        return self.inner.read(path)


def test_a_reader_between_listing_and_reading(case):
    wanted = data_rows(opened(case.root))
    clean = min(case.root.glob(".hoodie/*.clean")).name
    storage = Interrupted(LocalStorage.at(str(case.root)), path=clean)
    table = Table(storage, BY_HAND)
    found = data_rows(table, as_of=case.commits[-1])
    assert storage.done is not None
    assert clean.partition(".")[0] in storage.done.data
    assert found == wanted


# Histories


STEPS = st.lists(
    st.sampled_from(
        ["upsert", "upsert", "insert", "delete", "compact", "clean", "rollback", "save"]
    ),
    min_size=12,
    max_size=30,
)


class History:
    """A table, a plain dict beside it, and what each commit left."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.table = create(root, BY_HAND)
        self.rows: dict[str, Any] = {}
        self.states: dict[str, dict[str, Any]] = {}
        self.count = 0

    def step(self, name: str) -> None:
        self.count += 1
        if name in ("upsert", "insert"):
            first = self.count if name == "upsert" else 100 * self.count
            batch = rows(range(first, first + 4), ts=self.count, value=f"{self.count} ")
            self.table.upsert(batch)
            self.rows |= {row["k"]: tuple(row.values()) for row in batch.to_pylist()}
        elif name == "delete" and self.rows:
            key = sorted(self.rows)[self.count % len(self.rows)]
            self.table.delete([key])
            del self.rows[key]
        elif name == "rollback" and len(self.states) > 1:
            *_, earlier, latest = sorted(self.states)
            if latest in kept(self.root) and self.can_go(latest, earlier):
                self.rows = dict(self.states[earlier])
                del self.states[latest]
        elif name == "save" and kept(self.root):
            self.save()
        elif name in ("compact", "clean"):
            getattr(self.table, name)()
        latest = max(kept(self.root), default=None)
        if latest is not None:
            self.states[latest] = dict(self.rows)

    def can_go(self, latest: str, earlier: str) -> bool:
        """Roll the latest commit back, unless that is refused with reason."""
        try:
            self.table.rollback(latest)
        except InputError:
            return False
        return earlier in self.states

    def save(self) -> None:
        """A savepoint on the latest commit; only one at a time, so that archiving goes on."""
        for saved in Timeline.load(self.table.storage).completed({"savepoint"}):
            self.table.drop_savepoint(saved.time)
        self.table.savepoint()


@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(steps=STEPS)
@pytest.mark.slow
@pytest.mark.usefixtures("short")
def test_random_histories_read_the_same(tmp_path_factory, steps):
    history, read = History(tmp_path_factory.mktemp("history") / "t"), 0
    for name in steps:
        history.step(name)
        history.table.archive()
        commits = kept(history.root)
        assert data_rows(history.table) == history.rows
        assert history.table.check().ok
        if commits:
            assert rows_stored(history.root) == history.rows
            assert data_rows(history.table, as_of=commits[-1]) == history.rows
        for earlier in commits[:-1]:
            # What a clean deleted no reader can have.
            with contextlib.suppress(InputError):
                assert data_rows(history.table, as_of=earlier) == history.states[earlier]
                read += 1
    assert read or len(history.states) < 2
    everything = archived(history.root)
    assert len(everything) == len(set(everything))
    assert not set(everything) & active(history.root)
