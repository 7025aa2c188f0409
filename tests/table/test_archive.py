"""Archiving: which instants may go, how they go, and that no reader can tell.

Rules are tried on timelines made of names alone. The rest works on real tables with small limits:
what a table says (rows, index, listing, readings of kept instants) is compared before and after, at
every storage call at which the archiver can die, and after random histories.
"""

from __future__ import annotations

from typing import Any

import pytest
from archive_cases import (
    BY_HAND,
    SMALL,
    Case,
    Sealed,
    active,
    archive_alone,
    archived,
    grow,
    kept,
    opened,
    readings,
    rows_stored,
)
from faults import FaultStorage
from table_cases import (
    create,
    data_rows,
    latest_files,
    rows,
)

from keymark.table.errors import InputError, InvalidOptionError, TableWarning
from keymark.table.layout.naming import METADATA
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.properties.options import Options, check_options
from keymark.table.services import clean
from keymark.table.services.archive import Archived, Limits, outdated
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.timeline.instant_name import parse_instant
from keymark.table.timeline.timeline import Timeline


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


# Rules


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
    assert data_rows(opened(case.root)) == before == rows_stored(case.root)


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


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8, 100])
def test_the_next_archive_is_found_without_a_listing(case, count):
    """However many there are: a commit would cost more with every one before it."""
    folder = case.root / ".hoodie/archived"
    folder.mkdir(exist_ok=True)
    for number in range(1, count + 1):
        (folder / f".commits_.archive.{number}_1-0-1").write_bytes(b"")
    storage = Unlisted(LocalStorage.at(str(case.root)))
    assert archive_alone(opened(case.root), storage).data
    assert (folder / f".commits_.archive.{count + 1}_1-0-1").stat().st_size
    assert len(list(folder.iterdir())) == count + 1


class Unlisted(FaultStorage):
    """A storage that refuses to list the archive of the data."""

    def list(self, path: str) -> Any:
        assert path != ".hoodie/archived"
        return super().list(path)


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
