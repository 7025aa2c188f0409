"""A writer that stands still past its lease, wakes and dies: nobody sees what it puts.

Strategy: a storage that lets a successor come before a chosen call, and lets the writer die after
another one. Rows are read by hudi-rs and by listing, which know nothing of the lease.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re

import pytest
from archive_cases import SMALL
from faults import Killed
from histories.history_storage import PassingStorage
from table_cases import by_hudi_rs, create, data_rows, files_stored, left_over, rows
from test_lease import MovedClock

from keymark import Table
from keymark.table.errors import LeaseLostError, LockHeldError, StorageError
from keymark.table.layout.naming import FENCED, METADATA, PROPERTIES
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.storage.stores import storage_at
from keymark.table.timeline.timeline import Timeline

PAST_THE_LEASE = 400


class StopsBeforeBaseFile(PassingStorage):
    """Stands still before it puts a base file, and dies after the put."""

    def put(self, path, data):
        if not path.endswith(".parquet"):
            self.inner.put(path, data)
            return
        self.work()
        try:
            self.inner.put(path, data)
        finally:
            raise Killed

    def staged(self, name):
        copied = StopsBeforeBaseFile(self.inner.staged(name))
        copied.work = self.work
        return copied


class StopsAt(PassingStorage):
    """Lets another process come before the storage call of a number."""

    at = calls = 0

    def call(self, name, *arguments):
        self.calls += 1
        if self.calls == self.at:
            self.work()
        return getattr(self.inner, name)(*arguments)


for name in (
    *("open", "read", "list", "walk", "exists", "guard", "hold", "held", "sweep"),
    *("put", "commit", "replace", "delete", "delete_tree"),
):
    setattr(StopsAt, name, functools.partialmethod(StopsAt.call, name))


@pytest.fixture
def clock():
    return MovedClock(1_700_000_000.0)


def test_a_late_base_file_is_never_seen_even_after_archiving(tmp_path, clock):
    """The scene of an adversary: hudi-rs counted the late file as archived, a row came twice."""
    root = tmp_path / "t"
    create(root, SMALL).upsert(rows([1, 2]))

    def succeed():
        clock.sleep(PAST_THE_LEASE)
        table = Table(LocalStorage.at(str(root)), SMALL, clock=clock)
        table.upsert(rows([9], partition="p9", ts=2))

    slow = StopsBeforeBaseFile(LocalStorage.at(str(root)))
    slow.work = succeed
    with contextlib.suppress(Killed):
        Table(slow, SMALL, clock=clock).upsert(rows([9], partition="p9"))
    table = Table.open(root, options=SMALL)
    assert sorted(key for key, _, _ in by_hudi_rs(root)) == ["k1", "k2", "k9"]
    for number in range(12):
        table.upsert(rows([1], ts=3 + number))
    assert sorted(key for key, _, _ in by_hudi_rs(root)) == ["k1", "k2", "k9"]
    assert data_rows(table).keys() == {"k1", "k2", "k9"}
    assert table.check().ok
    assert len([path for path in files_stored(root) if path.startswith("p9/")]) == 1


def wakes_late(storage, clock, options):
    """The writer of the scene above, on a store where there are no locks."""

    def succeed():
        clock.sleep(PAST_THE_LEASE)
        Table(storage, options, clock=clock).upsert(rows([9], partition="p9", ts=2))

    slow = StopsBeforeBaseFile(storage)
    slow.work = succeed
    with contextlib.suppress(Killed):
        Table(slow, options, clock=clock).upsert(rows([9], partition="p9"))
    clock.sleep(PAST_THE_LEASE)
    return Table(storage, options, clock=clock)


@pytest.fixture(params=["memory", "s3"])
def store(request, tmp_path):
    if request.param == "memory":
        return storage_at(f"memory://{tmp_path.name}", {})
    server = request.getfixturevalue("s3")
    return storage_at(f"{server.bucket()}/t", server.options)


def made(store, index="record"):
    fields = {"record_key": "k", "partition_path": "p", "ordering": "ts"}
    return Table.create("t", name="t", index=index, options=SMALL, storage=store, **fields)


def base_files(storage, partition):
    return [status.path for status in storage.list(partition) if status.name.endswith(".parquet")]


def test_a_late_file_on_a_store_is_named_left_out_and_swept_by_the_next_write(store, clock):
    made(store).upsert(rows([1, 2]))
    table = wakes_late(store, clock, SMALL)
    found = table.check()
    assert (found.files_late, found.ok) == (1, False)
    assert found.late_paths[0] in base_files(store, "p9")
    assert data_rows(table).keys() == {"k1", "k2", "k9"}
    table.upsert(rows([3]))
    assert found.late_paths[0] not in base_files(store, "p9")
    assert len(base_files(store, "p9")) == 1
    assert table.check().ok


def test_a_late_file_on_a_store_is_left_out_where_storage_is_listed(store, clock):
    """A table without metadata table believes the files that it finds."""
    made(store, index="simple").upsert(rows([1, 2]))
    Table(store, SMALL).drop_index("files")
    table = wakes_late(store, clock, SMALL)
    assert len(base_files(store, "p9")) == 2
    assert data_rows(table).keys() == {"k1", "k2", "k9"}
    for number in range(12):
        table.upsert(rows([1], ts=3 + number))
    assert data_rows(table).keys() == {"k1", "k2", "k9"}
    assert len(base_files(store, "p9")) == 1


def test_properties_put_late_on_a_store_name_an_index_that_is_gone(store):
    """A build stopped before its last put; its successor deleted the files of the index."""
    table = made(store)
    table.upsert(rows([1, 2]))
    table.build_index("column_stats")
    store.delete_tree(f"{METADATA}/column_stats")
    found = Table(store, SMALL).check()
    assert (found.ok, found.late_paths) == (False, (PROPERTIES,))
    Table(store, SMALL).upsert(rows([3]))
    assert "column_stats" not in Table(store, SMALL).config.metadata_partitions
    assert Table(store, SMALL).check().ok


def test_a_rollback_begun_late_on_a_store_is_taken_back(store):
    """Its plan was taken back already, and the writer of the plan had noted nothing else."""
    table = made(store)
    table.upsert(rows([1, 2]))
    time = "20200101000000000"
    store.put(f"{FENCED}/{time}", b'{"since": 9000000000000, "paths": []}')
    store.put(f".hoodie/{time}.rollback.inflight", b"")
    Table(store, SMALL).upsert(rows([3]))
    assert not store.exists(f".hoodie/{time}.rollback.inflight")
    assert Table(store, SMALL).check().ok


def test_what_a_writer_of_another_engine_left_goes_before_archiving_passes_it(tmp_path):
    """A base file of an instant that the timeline does not know, as a dead writer leaves it."""
    root = tmp_path / "t"
    table = create(root, {**SMALL, "hoodie.archive.automatic": "false"})
    for number in range(9):
        table.upsert(rows([1, 2], ts=number))
    storage, path = table.storage, next(iter(files_stored(root)))
    instants = [instant.time for instant in Timeline.load(storage).completed({"commit"})]
    late = f"p0/{'0' * 8}-0000-0000-0000-{'0' * 12}-0_0-0-1000000000_{int(instants[1]) + 1}.parquet"
    storage.put(late, storage.read(path))
    assert table.check().late_paths == (late,)
    table.archive()
    assert not storage.exists(late)
    assert table.check().ok
    assert sorted(key for key, _, _ in by_hudi_rs(root)) == ["k1", "k2"]


def test_a_delta_commit_that_was_begun_late_is_taken_back(tmp_path):
    table = create(tmp_path / "t")
    table.upsert(rows([1]))
    (commit,) = Timeline.load(table.storage).completed({"commit"})
    metadata = Timeline.load(table.storage, METADATA)
    metadata.begin(str(int(commit.time) + 1), "deltacommit")
    metadata.start(str(int(commit.time) + 1), "deltacommit")
    table.upsert(rows([2]))
    assert metadata.again().pending() == ()
    assert left_over(tmp_path / "t") == []


def created(storage, clock, name):
    """An empty table of that name; its key is the column `v` where its name is "slow"."""
    fields = {"record_key": "v" if name == "slow" else "k", "partition_path": "p"}
    return Table.create("t", name=name, options=SMALL, storage=storage, clock=clock, **fields)


def overtaken_create(store, clock, number):
    """A create that stands still before a storage call while another creates the table, too.

    Returns:
        Whether it stood still, how it ended, how the other one ended.
    """
    slow, errors = StopsAt(store), [None, None]

    def come():
        clock.sleep(PAST_THE_LEASE)
        try:
            created(store, clock, "fast").upsert(rows([1, 2]))
        except StorageError as error:
            errors[1] = error

    slow.at, slow.work = number, come
    try:
        created(slow, clock, "slow")
    except (LeaseLostError, LockHeldError, StorageError) as error:
        errors[0] = error
    return slow.calls >= number, *errors


def test_who_stands_still_while_it_creates_a_table_leaves_that_of_another(tmp_path, clock):
    overtaken = []
    for number in itertools.count(1):
        store = storage_at(f"memory://{tmp_path.name}-{number}", {})
        stood, slow, fast = overtaken_create(store, clock, number)
        if not stood:
            break
        table = Table(store, SMALL, clock=clock)
        # One of them made the table, and it is as that one made it.
        assert (slow is None) == (table.config.name == "slow"), (number, slow)
        assert (fast is None) == (table.config.name == "fast"), (number, fast)
        if slow is not None:
            overtaken.append(slow)
            assert data_rows(table).keys() == {"k1", "k2"}, number
        assert table.check().ok, number
    assert slow is None
    told = "holds a table already|ran out|took .* meanwhile|another writer holds"
    assert [str(error) for error in overtaken if not re.search(told, str(error))] == []
    assert sum(isinstance(error, LeaseLostError) for error in overtaken) > 20
