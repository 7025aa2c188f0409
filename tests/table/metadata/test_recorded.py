"""The commits since a file slice began say all that delta commits say about its files."""

from __future__ import annotations

from unittest import mock

from table_cases import SHARDS, SMALL_BLOOMS, create, rows

from keymark.table.metadata.partitions import FILES, RECORD_INDEX
from keymark.table.state.table_state import TableState
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.timeline.timeline import Timeline

OPTIONS = {
    **SHARDS,
    **SMALL_BLOOMS,
    "hoodie.archive.automatic": "false",
    "hoodie.metadata.compact.max.delta.commits": "4",
}


def test_the_commits_since_a_slice_began_say_all_of_its_files(tmp_path):
    table = create(tmp_path / "t", OPTIONS)
    for turn in range(14):
        # Not every commit has new keys, and then the record index gets nothing.
        first = 10 * turn if turn % 5 else 0
        table.upsert(rows(range(first, first + 10), ts=turn))
        for partition in (FILES, RECORD_INDEX):
            metadata = TableState.load(table.storage).metadata
            slices = metadata.slices(partition)
            since = min(item.base_instant_time for item in slices)
            some = metadata.recorded_since(since)
            every = metadata.recorded
            logs = [log.path for item in slices for log in item.log_files]
            bases = [item.base_file.path for item in slices if item.base_file is not None]
            assert {path: some.get(path) for path in logs + bases} == {
                path: every.get(path) for path in logs + bases
            }
    assert table.check().ok


def test_old_delta_commits_are_not_read_to_open_a_table(tmp_path):
    table = create(tmp_path / "t", OPTIONS)
    for turn in range(12):
        table.upsert(rows([turn], ts=turn))
    assert len(Timeline.load(table.storage, ".hoodie/metadata").completed()) > 12
    read, whole = [], LocalStorage.read

    def reading(self, path):
        read.append(path)
        return whole(self, path)

    with mock.patch.object(LocalStorage, "read", reading):
        assert TableState.load(table.storage).snapshot.files
    folder = ".hoodie/metadata/.hoodie/"
    commits = [path for path in read if path.startswith(folder) and path.endswith("commit")]
    assert 0 < len(commits) <= 6
