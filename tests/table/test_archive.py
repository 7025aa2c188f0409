"""Archiving: which instants may go, how they go, and that no reader can tell.

Rules are tried on timelines made of names alone. The rest works on real tables with small limits:
what a table says (rows, index, listing, readings of kept instants) is compared before and after, at
every storage call at which the archiver can die, and after random histories.
"""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from faults import DEAD, FULL, FaultStorage, Killed, every_fault
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from table_cases import (
    by_hudi_rs,
    by_listing,
    create,
    data_rows,
    files_listed,
    latest_files,
    rows,
    unpack,
)

from table import Table
from table.clock import SystemClock
from table.config import load_config
from table.errors import InputError, InvalidOptionError, StorageError, TableWarning
from table.lease import LeaseTerms, hold
from table.metadata.partitions import COLUMN_STATS, RECORD_INDEX
from table.naming import METADATA
from table.options import Options, check_options
from table.services import clean
from table.services.archive import Archived, Archiver, Limits, outdated
from table.storage import LocalStorage
from table.timeline.archived import decode_archive
from table.timeline.instant_name import parse_instant
from table.timeline.timeline import COMMIT_ACTIONS, Timeline
from table.write.transaction import TableState

SMALL = {
    "hoodie.cleaner.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
    "hoodie.metadata.compact.max.delta.commits": "3",
}
BY_HAND = {**SMALL, "hoodie.archive.automatic": "false"}


# Rules


def names(timeline: Timeline) -> list[str]:
    return [f"{i.time}.{i.action}" for i in timeline.instants]


def timeline_of(text: str) -> Timeline:
    """A timeline of instant file names, `1c` short for a completed commit."""
    files = [f"{name[:-1]}.commit" if name.endswith("c") else name for name in text.split()]
    instants = [
        parse_instant(f"{int(n.partition('.')[0]):02d}.{n.partition('.')[2]}") for n in files
    ]
    assert None not in instants
    return Timeline(LocalStorage("/nowhere"), "", tuple(instants))


@pytest.mark.parametrize(
    ("text", "before", "gone"),
    [
        ("", "~", ""),
        ("1c 2c 3c", "~", ""),
        ("1c 2c 3c 4c", "~", "01 02"),
        ("1c 2c 3c 4c 5c", "~", "01 02 03"),
        ("1c 2.replacecommit 3.deltacommit 4c", "~", "01 02"),
        # Nothing from the bound on.
        ("1c 2c 3c 4c 5c", "03", "01 02"),
        ("1c 2c 3c 4c 5c", "", ""),
        # One commit before the oldest pending instant stays, of whatever action that is.
        ("1c 2c 3.indexing.requested 4c 5c 6c", "~", "01"),
        ("1c 2c 3.clean.inflight 4c 5c 6c", "~", "01"),
        ("1c 2c 3.inflight 4c 5c 6c", "~", "01"),
        ("1c 2.rollback.requested 3c 4c 5c 6c", "~", ""),
        ("1.compaction.requested 2c 3c 4c 5c 6c", "~", ""),
        # Other actions: those before the oldest commit left, the latest of each stays.
        ("1c 2.clean 3c 4.clean 5c 6c", "~", "01 02 03"),
        ("1c 2.clean 3c 4.clean 5c 6c 7.clean", "~", "01 02 03 04"),
        ("1c 2.clean 3c 4.rollback 5c 6c 7.clean", "~", "01 02 03"),
        ("1c 2.restore 3c 4.restore 5c 6c", "~", "01 02 03"),
        ("1c 2.indexing 3.indexing 4c 5c 6c", "~", "01 02 04"),
        ("1.clean 2.clean 3.clean 4.clean 5.clean 6c", "~", ""),
        # Savepoints stay; that nothing after the first goes is a bound.
        ("1c 1.savepoint 2c 3c 4c", "~", "01 02"),
    ],
)
def test_which_instants_go(text, before, gone):
    found = outdated(timeline_of(text), Limits(2, 3), before)
    assert " ".join(i.time for i in found) == gone
    assert all(i.completed and i.action != "savepoint" for i in found)


def test_limits_by_options():
    assert Limits.of(Options({})) == Limits(20, 30)
    assert Limits.of_metadata(Options({})) == Limits(21, 31)
    # Cleaning of the metadata table retains 20 commits and more.
    assert Limits.of_metadata(Options(SMALL)) == Limits(21, 23)
    # Limits that nobody gave are widened, as Hudi does it, where cleaning counts commits.
    retained = {"hoodie.cleaner.commits.retained": "50"}
    assert Limits.of(Options(retained)) == Limits(51, 61)
    versions = {**retained, "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS"}
    assert Limits.of(Options(versions)) == Limits(20, 30)


@pytest.mark.parametrize(
    ("retained", "minimum", "maximum", "message"),
    [
        ("2", "2", "6", "2 is not greater than hoodie.cleaner.commits.retained"),
        (None, "10", None, "10 is not greater than hoodie.cleaner.commits.retained"),
        ("2", "6", "6", "6 is not below hoodie.keep.max.commits"),
        (None, None, "20", "20 is not below hoodie.keep.max.commits"),
        (None, "30", None, "30 is not below hoodie.keep.max.commits"),
        ("2", "0", "6", "too small"),
    ],
)
def test_limits_that_contradict_each_other_are_refused(retained, minimum, maximum, message):
    options = {
        "hoodie.cleaner.commits.retained": retained,
        "hoodie.keep.min.commits": minimum,
        "hoodie.keep.max.commits": maximum,
    }
    with pytest.raises(InvalidOptionError, match=message):
        check_options({name: value for name, value in options.items() if value is not None})


# A table that has something to archive


@dataclass
class Case:
    """A table of several commits that was never archived, and its instants by time."""

    root: Path
    commits: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def grown(tmp_path_factory) -> Case:
    root = tmp_path_factory.mktemp("grown") / "t"
    return Case(root, grow(create(root, BY_HAND), 9))


@pytest.fixture
def short(monkeypatch):
    """Cleaning of the metadata table retains few commits, so that its timeline may be short."""
    monkeypatch.setattr(clean, "_RETAINED_MIN", 2)
    assert Limits.of_metadata(Options(SMALL)) == Limits(5, 7)


def grow(table: Table, count: int, start: int = 0) -> list[str]:
    """Upserts of ten rows each; their instants."""
    for number in range(start, start + count):
        table.upsert(rows(range(number, number + 10), ts=number, value=f"{number} "))
    return [i.time for i in Timeline.load(table.storage).completed({"commit"})]


@pytest.fixture
def case(grown, tmp_path) -> Case:
    shutil.copytree(grown.root, tmp_path / "t")
    return Case(tmp_path / "t", grown.commits)


def opened(root: Path, **options: str) -> Table:
    return Table.open(str(root), options={**BY_HAND, **options})


def readings(table: Table, instants: Any = ()) -> dict[str, Any]:
    """All that a reader can be told, by all ways of reading."""
    root = table.storage.root
    assert table.check().ok
    stored = by_listing(root)
    found = data_rows(table)
    assert found == {key: values for key, (_, values) in stored.items()}
    assert sorted(key for key, _, _ in by_hudi_rs(root)) == sorted(found)
    earlier = {time: data_rows(table, as_of=time) for time in instants}
    return {"rows": found, "listed": files_listed(table), "earlier": earlier}


def archived(root: Path, base: str = "") -> list[str]:
    """Names of the archived files, `<time>.<action>[.<state>]`, in order of the archives."""
    storage = LocalStorage.at(str(root))
    folder = f"{base}/.hoodie/archived" if base else ".hoodie/archived"
    files = sorted(storage.list(folder), key=lambda s: int(s.name.split(".")[3].split("_")[0]))
    entries = [e for status in files for e in decode_archive(storage.open(status.path))]
    return [f"{e.time}.{e.action}.{e.state}" for e in entries]


def active(root: Path, base: str = "") -> set[str]:
    """Names of the instants' files on a timeline, as `archived` has them."""
    storage = LocalStorage.at(str(root))
    instants = [
        parse_instant(s.name) for s in storage.list(f"{base}/.hoodie" if base else ".hoodie")
    ]
    return {f"{i.time}.{i.action}.{i.state}" for i in instants if i is not None}


def kept(root: Path, base: str = "") -> list[str]:
    """Times of the commits on a timeline."""
    timeline = Timeline.load(LocalStorage.at(str(root)), base)
    return [i.time for i in timeline.completed(COMMIT_ACTIONS)]


def test_the_oldest_instants_move_and_nobody_can_tell(case):
    table = opened(case.root)
    last = case.commits[-4:]
    before, files, deltas = (
        readings(table, last[-2:]),
        active(case.root),
        active(case.root, METADATA),
    )
    done = table.archive()
    assert kept(case.root) == last
    assert set(case.commits[:5]) <= set(done.data)
    assert sorted(done.data) == list(done.data)
    gone = archived(case.root)
    assert set(gone) == files - active(case.root)
    assert len(gone) == 3 * len(done.data)
    assert gone[:3] == [
        f"{case.commits[0]}.commit.{s}" for s in ("requested", "inflight", "completed")
    ]
    # The metadata table has few commits for its limits.
    assert not done.metadata
    assert active(case.root, METADATA) == deltas
    assert readings(opened(case.root), last[-2:]) == before
    with pytest.raises(InputError, match="archived"):
        data_rows(table, as_of=case.commits[2])


@pytest.mark.usefixtures("short")
def test_the_metadata_tables_timeline_is_archived_and_bounded(tmp_path):
    root = tmp_path / "t"
    table = create(root, SMALL)
    lengths = []
    for number in range(20):
        grow(table, 1, number)
        lengths.append((len(active(root)), len(active(root, METADATA))))
        assert len(kept(root)) <= 9
        assert set(kept(root)) <= set(kept(root, METADATA))
    gone = archived(root, METADATA)
    assert gone[0] == "00000000000000010.deltacommit.requested"
    assert any(".compaction.requested" in name for name in gone)
    assert any(".commit.completed" in name for name in gone)
    assert any(".clean.completed" in name for name in gone)
    assert not set(gone) & active(root, METADATA)
    for timeline in zip(*lengths, strict=True):
        assert max(timeline[10:]) <= max(timeline[:10]) + 6
    assert len(readings(table, kept(root)[-2:])["rows"]) == 29


@pytest.mark.usefixtures("short")
def test_the_metadata_tables_timeline_reaches_back_as_far_as_the_datas(tmp_path):
    root = tmp_path / "t"
    table = create(root, SMALL)
    grow(table, 3)
    saved = table.savepoint()
    grow(table, 8, 3)
    assert kept(root)[0] == saved
    assert len(kept(root)) == 9
    assert set(kept(root)) <= set(kept(root, METADATA))
    assert kept(root, METADATA)[0] > "1", "what is before it is archived"
    table.drop_savepoint(saved)
    done = archive_alone(table, table.storage, metadata=Limits(99, 100))
    assert done.data
    assert not done.metadata
    # As far as a pending instant before all commits, too.
    pending = root / f".hoodie/{int(kept(root, METADATA)[0][:17])}.clean.requested"
    pending.write_bytes(b"")
    assert archive_alone(table, table.storage) == Archived((), ())
    pending.unlink()
    assert archive_alone(table, table.storage).metadata


class Sealed(FaultStorage):
    """A storage that refuses to read files."""

    def open(self, path: str) -> Any:
        raise AssertionError(f"opened {path}")

    read = open  # noqa: A003  a method, within its class


def archive_alone(table: Table, storage: Any, metadata: Limits | None = None) -> Archived:
    """The archiver without the recovery that runs before it."""
    local = LocalStorage.at(storage.root)
    with hold(local, SystemClock(), LeaseTerms.of(table.options())) as lease:
        archiver = Archiver.load(storage, load_config(local), lease)
        return archiver.run(
            data=Limits.of(table.options()),
            metadata=metadata or Limits.of_metadata(table.options()),
        )


def test_nothing_is_read_where_nothing_may_go(case):
    table = opened(case.root)
    sealed = Sealed(LocalStorage.at(str(case.root)))
    with pytest.raises(AssertionError, match="opened"):
        archive_alone(table, sealed)
    table.archive()
    assert archive_alone(table, sealed) == Archived((), ())
    # Too many commits, and the first of them is kept by a savepoint.
    table.savepoint(case.commits[-1])
    grow(table, 7, 20)
    table.archive()
    assert len(kept(case.root)) > 6
    assert archive_alone(table, sealed) == Archived((), ())
    assert not sealed.calls


def test_savepoints_are_a_bound_until_they_are_dropped(case):
    table = opened(case.root)
    third = case.commits[2]
    table.savepoint(case.commits[-1])
    before = readings(table, case.commits[-1:])
    (case.root / f".hoodie/{third}.savepoint").write_bytes(
        (case.root / f".hoodie/{case.commits[-1]}.savepoint").read_bytes()
    )
    table.archive()
    assert kept(case.root) == case.commits[2:]
    table.drop_savepoint(third)
    table.archive()
    assert kept(case.root) == case.commits[-4:]
    assert readings(table, case.commits[-1:]) == before


def test_without_a_compaction_nothing_goes(tmp_path):
    never = {**SMALL, "hoodie.metadata.compact.max.delta.commits": "1000"}
    table = create(tmp_path / "t", never)
    commits = grow(table, 8)
    assert kept(tmp_path / "t") == commits
    assert not archived(tmp_path / "t")
    assert archive_alone(table, Sealed(table.storage)) == Archived((), ())
    table.compact()
    assert table.archive().data
    assert kept(tmp_path / "t") == commits[-4:]


def test_a_table_without_a_metadata_table(case):
    table = opened(case.root)
    table.drop_index(RECORD_INDEX)
    table.drop_index("files")
    before = data_rows(table)
    done = table.archive()
    assert done.data
    assert not done.metadata
    assert data_rows(opened(case.root)) == before == _rows_stored(case.root)


def _rows_stored(root: Path) -> dict[str, Any]:
    return {key: values for key, (_, values) in by_listing(root).items()}


def test_bad_and_foreign_archives_are_told_by_their_names_alone(case):
    folder = case.root / ".hoodie/archived"
    folder.mkdir(exist_ok=True)
    for name in (
        ".commits_.archive.7_1-0-1",
        ".commits_.archive.x_1-0-1",
        ".commits_.archive.12",
        "mergeArchivePlan",
    ):
        (folder / name).write_bytes(b"nonsense")
    opened(case.root).archive()
    assert (folder / ".commits_.archive.13_1-0-1").exists()
    # Behind the last number that a name is taken for, the next free one is looked for.
    other = (
        ".commits_.archive.999999999_1-0-1",
        ".commits_.archive.1000000000_1-0-1",
    )
    for name in other:
        (folder / name).write_bytes(b"nonsense")
    grow(opened(case.root), 4, 20)
    assert opened(case.root).archive().data
    assert (folder / ".commits_.archive.1000000001_1-0-1").stat().st_size > 1000
    assert all((folder / name).read_bytes() == b"nonsense" for name in other)


def test_a_damaged_instant_is_not_archived_and_fails_no_write(case):
    table = opened(case.root, **{"hoodie.archive.automatic": "true"})
    clean = min(case.root.glob(".hoodie/*.clean.requested"))
    clean.write_bytes(b"nonsense")
    with pytest.warns(TableWarning, match=f"archiving failed: .*{clean.name}"):
        grow(table, 1, 20)
    assert kept(case.root)[: len(case.commits)] == case.commits
    assert len(readings(table)["rows"]) == 28


def test_left_over_markers_of_an_archived_commit_are_not_taken_for_a_dead_writes(tmp_path):
    """An instant from before it stays, so that recovery finds it after the timeline's start."""
    root = tmp_path / "t"
    table = create(root, BY_HAND)
    first = table.upsert(rows(["only"], partition="alone")).instant
    (root / f".hoodie/{int(first) - 1}.indexing").write_bytes(b"")
    grow(table, 8)
    wanted = readings(table)
    (path,) = (path for path in latest_files(root).values() if path.startswith("alone/"))
    assert first in path
    marker = root / f".hoodie/.temp/{first}/{path}.marker.CREATE"
    marker.parent.mkdir(parents=True)
    marker.write_bytes(b"")
    assert first in archive_alone(table, LocalStorage.at(str(root))).data
    grow(table, 1, 7)
    assert readings(table) != wanted
    assert "only" in readings(table)["rows"]


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
                assert data_rows(opened(root)) == wanted["rows"] == _rows_stored(root)
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
            assert _rows_stored(history.root) == history.rows
            assert data_rows(history.table, as_of=commits[-1]) == history.rows
        for earlier in commits[:-1]:
            # A clean says of itself what it left to nobody.
            with contextlib.suppress(InputError):
                assert data_rows(history.table, as_of=earlier) == history.states[earlier]
                read += 1
    assert read or len(history.states) < 2
    everything = archived(history.root)
    assert len(everything) == len(set(everything))
    assert not set(everything) & active(history.root)
