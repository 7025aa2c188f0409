"""Cleaning: what goes, what stays, and that it can be asked for again."""

from __future__ import annotations

import pytest
from table_cases import create, data_rows, files, rows

from keymark import Table
from keymark.table.errors import InputError
from keymark.table.metadata.partitions import FILES, RECORD_INDEX
from keymark.table.properties.config import archive_folder
from keymark.table.services.clean import clean_metadata_table
from keymark.table.state.table_state import TableState
from keymark.table.timeline.archived import archive_name, archived_instant, encode_archive

OPTIONS = {
    "hoodie.cleaner.commits.retained": "2",
    "hoodie.metadata.compact.max.delta.commits": "2",
    "hoodie.archive.automatic": "false",
}
PARTITIONS = (FILES, RECORD_INDEX)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A table of 14 commits to the same keys, with services on."""
    made = tmp_path_factory.mktemp("clean") / "t"
    table = create(made, OPTIONS)
    for number in range(14):
        table.upsert(rows(range(6), ts=number, value=f"v{number}_"))
    return made


def test_as_many_versions_stay_as_retained_commits_need(root):
    versions = [path for path in files(root) if path.startswith("p0/") and "parquet" in path]
    # The two commits' own, and the one before them.
    assert len(versions) == 3


def _latest(metadata):
    return max(i.time for i in metadata.timeline.completed({"deltacommit"}))


def test_a_clean_whose_name_is_taken_waits_for_the_next_delta_commit(root, monkeypatch):
    monkeypatch.setattr("keymark.table.services.clean._RETAINED_MIN", 1)
    Table.open(root).compact()
    metadata = TableState.load(Table.open(root).storage).metadata
    assert metadata is not None
    latest, outdated = _latest(metadata), metadata.slice_files(PARTITIONS)
    assert clean_metadata_table(metadata, PARTITIONS, 1) == f"{latest}002"
    Table.open(root).compact()
    again = TableState.load(Table.open(root).storage).metadata
    assert again is not None
    monkeypatch.setattr(type(again), "slice_files", lambda *_: outdated)
    assert clean_metadata_table(again, PARTITIONS, 1) is None
    assert Table.open(root).check().ok


def test_a_savepoint_keeps_its_files(tmp_path):
    table = create(tmp_path / "t", OPTIONS)
    table.upsert(rows(range(6)))
    kept, before = table.savepoint(), data_rows(table)
    for number in range(1, 8):
        table.upsert(rows(range(6), ts=number, value=f"v{number}_"))
    assert data_rows(table, as_of=kept) == before
    table.drop_savepoint(kept)
    table.upsert(rows(range(6), ts=9))
    with pytest.raises(InputError, match="cleaned"):
        table.scan(as_of=kept)


def test_what_an_archived_clean_deleted_is_missed(tmp_path):
    """Hudi archives cleans by their own number, and commits not past a savepoint."""
    table = create(tmp_path / "t", OPTIONS)
    table.upsert(rows(range(6)))
    kept, before = table.savepoint(), data_rows(table)
    second = table.upsert(rows(range(6), ts=1, value="v1_")).instant
    for number in range(2, 14):
        table.upsert(rows(range(6), ts=number, value=f"v{number}_"))
    state = TableState.load(table.storage)
    assert state.metadata is not None
    merged = max(i.time for i in state.metadata.timeline.completed({"commit"}))
    timeline = state.timeline
    older = [clean for clean in timeline.completed({"clean"}) if clean.time < merged]
    assert len(older) > 5
    read = [timeline.path(clean.time, "clean", clean.state) for clean in older]
    entries = [
        archived_instant(clean, table.storage.read(path), changed=clean.time, name=path)
        for clean, path in zip(older, read, strict=True)
    ]
    table.storage.put(f"{archive_folder(timeline)}/{archive_name(1)}", encode_archive(entries))
    for clean in older:
        timeline.remove(clean.time, "clean")
    assert data_rows(table, as_of=kept) == before
    with pytest.raises(InputError, match="3 of their files were cleaned"):
        table.scan(as_of=second)
