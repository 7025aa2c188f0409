"""Entries that an index keeps outside the table, so that no commit of the table can hold them.

    <T>.commit.requested
    .hoodie/.temp/<T>/.keymark/*.keys    the keys that T puts somewhere
    .hoodie/.keymark/entries/<T>         names these files and no changes: entries of T follow
    entries of the keys that had none    they name T, and count once T is completed
    .hoodie/.keymark/entries/<T>         now the changes that are left: keys that move or go
    <T>.commit                           visible
    the changes that are left
    .hoodie/.keymark/entries/<T> goes

An entry that counts is never touched before its change is visible, so a writer that dies loses
none. Who holds the table next finds `entries/<T>`: it takes the entries of T back, or makes the
changes that are left. In between, `located` reads the changes beside the entries.
A power cut takes no entry back. So `entries/<T>` and the key files that it names are synced before
the first entry is put, and the key files go after it.
Hudi changes all entries before the commit, and lets its rollback go after them
(SparkHoodieHBaseIndex.updateLocation, rollbackCommit; hoodie.index.hbase.rollback.sync).
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.errors import CorruptFileError, IndexUnavailableError, TableError, TableWarning
from keymark.table.format.parquet.base_file import read_metadata
from keymark.table.index.dedup import last_of_each
from keymark.table.index.key_file import KeyFile, keys_of_files
from keymark.table.index.protocol import (
    LOCATION_SCHEMA,
    Index,
    IndexContext,
    load_index,
    no_session,
)
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.naming import ENTRIES, TEMP
from keymark.table.properties.options import Options
from keymark.table.runtime.runner import Progress, TaskRunner
from keymark.table.state.base_files import read_base
from keymark.table.state.table_state import TableState
from keymark.table.storage.storage import Storage
from keymark.table.timeline.timeline import Timeline

_REBUILD = f"{ENTRIES}/rebuild"
# In the metadata of the schema of `entries/<T>`: (path, size in bytes) of each key file, as JSON.
_KEY_FILES = b"keymark.key_files"

CHANGES = pa.schema([("key", pa.string()), *LOCATION_SCHEMA])
"""New places of keys; a key without one is gone."""


@dataclass(frozen=True, slots=True)
class KeyPart:
    """Keys on storage, each with the number of its place: (partition path, file id)."""

    keys: KeyFile
    places: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class EntryChanges:
    """What a commit changes: keys that get a place, and keys that are gone."""

    parts: Sequence[KeyPart]
    deletes: pa.Array

    def __bool__(self) -> bool:
        return bool(self.parts) or len(self.deletes) > 0


@runtime_checkable
class ExternalIndex(Index, Protocol):
    """An index whose entries are not part of the table.

    An entry names the commit that made it. It counts if that commit is visible and the file group
    exists (HoodieIndexUtils.checkIfValidCommit); `tag` and `lookup` take no notice of others.
    """

    def enter(self, parts: Sequence[KeyPart], instant: str, context: IndexContext) -> pa.Table:
        """Put entries that count once the instant is completed.

        Returns:
            Rows of CHANGES: the keys whose entry counts already. It was left as it is. A key that
            was put twice is in it twice, its later place last.
        """

    def change(self, changes: pa.Table, context: IndexContext) -> None:
        """Put and delete entries (rows of CHANGES, of distinct keys), whatever they were."""

    def withdraw(self, keys: Iterable[pa.Array], instant: str, context: IndexContext) -> None:
        """Delete those entries of keys that name an instant."""

    def rebuild(self, context: IndexContext, progress: Progress) -> int:
        """Replace all entries by those of the snapshot's keys; how many these are."""

    def erase(self, keys: pa.Array, context: IndexContext) -> str:
        """Delete the entries of keys; one line on what may be left of them."""


@dataclass(frozen=True, slots=True)
class ExternalEntries:
    """The entries of one table's index, for operations that write no rows."""

    index: ExternalIndex
    options: Options
    runner: TaskRunner

    def context(self, state: TableState) -> IndexContext:
        """The table as the index sees it."""
        return IndexContext.of(state, options=self.options, runner=self.runner, spark=no_session)

    def apply_pending(self, instant: str, storage: Storage) -> None:
        """Make the changes of an instant; if that fails, the next write does."""
        try:
            apply_pending(self.index, instant, self.context(TableState.load(storage)))
        except (TableError, OSError) as error:
            warn_pending(self.index, error)


def external_entries(name: str, options: Options, runner: TaskRunner) -> ExternalEntries | None:
    """The entries of an index, if it keeps them outside the table."""
    index = load_index(name)
    return ExternalEntries(index, options, runner) if isinstance(index, ExternalIndex) else None


def warn_pending(index: ExternalIndex, error: Exception) -> None:
    """Tell that what is visible is not in the index yet."""
    text = f"it is done, and the entries of the {index.name} index are not: {error}; the next write"
    warnings.warn(f"{text} brings them up to date", TableWarning, 3)


def stage_entries(
    index: ExternalIndex, instant: str, changes: EntryChanges, context: IndexContext
) -> None:
    """Before an instant is completed: enter what is new, store what is left to change."""
    if not changes:
        return
    storage = context.storage
    files = {part.keys.path: part.keys.size for part in changes.parts}
    for path in files:
        storage.keep(path)
    storage.commit(f"{ENTRIES}/{instant}", _encoded(CHANGES.empty_table(), files))
    known = index.enter(changes.parts, instant, context) if changes.parts else CHANGES.empty_table()
    last = last_of_each(known["key"].combine_chunks())
    later = pa.concat_tables([known.take(pa.array(last)), gone(changes.deletes)])
    storage.replace(f"{ENTRIES}/{instant}", _encoded(later, files))


def gone(keys: pa.Array) -> pa.Table:
    """The changes (rows of CHANGES) that keys are nowhere any more."""
    return pa.table([keys, *(pa.nulls(len(keys), f.type) for f in LOCATION_SCHEMA)], schema=CHANGES)


def store_changes(storage: Storage, instant: str, changes: pa.Table) -> None:
    """Store what is to be changed once an instant is completed (rows of CHANGES)."""
    storage.replace(f"{ENTRIES}/{instant}", _encoded(changes, {}))


def _encoded(changes: pa.Table, files: Mapping[str, int]) -> bytes:
    """Content of `entries/<T>`: changes, and the sizes of the key files of T's new entries."""
    schema = CHANGES.with_metadata({_KEY_FILES: json.dumps([*files.items()]).encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_table(changes.cast(schema))
    return bytes(sink.getvalue())


def apply_pending(index: ExternalIndex, instant: str, context: IndexContext) -> None:
    """After an instant was completed: make the changes that are left."""
    path = f"{ENTRIES}/{instant}"
    if context.storage.exists(path):
        index.change(_changes(context.storage, instant), context)
        context.storage.delete(path)


def withdraw_entries(index: ExternalIndex, instant: str, context: IndexContext) -> None:
    """Delete the entries of an instant that was not completed, if it left any."""
    path = f"{ENTRIES}/{instant}"
    storage = context.storage
    if storage.exists(path) and not _is_completed(Timeline.load(storage), instant):
        index.withdraw(keys_of_files(storage, _key_files(storage, instant)), instant, context)
        storage.delete(path)
        # Its key files go next: a power cut must not bring it back without them.
        storage.sync()


def rebuild(index: ExternalIndex, context: IndexContext, progress: Progress) -> int:
    """Rebuild all entries under the lease; how many. Until it ends, no entry is trusted."""
    distrust(context.storage)
    for status in context.storage.list(ENTRIES):
        if status.path != _REBUILD:
            context.storage.delete(status.path)
    count = index.rebuild(context, progress)
    context.storage.delete(_REBUILD)
    return count


def distrust(storage: Storage) -> None:
    """Trust no entry from now on, until all are made anew."""
    storage.replace(_REBUILD, b"")


def pending_entries(storage: Storage) -> tuple[str, ...]:
    """The instants whose entries are being made, or were when their writer died; ascending.

    Raises:
        IndexUnavailableError: all entries are being made anew, or are to be.
    """
    found = storage.list(ENTRIES)
    if any(status.path == _REBUILD for status in found):
        raise IndexUnavailableError(
            f"the index of {storage.root} is being built anew; if that was cut off, or if `table "
            f"recover` gave commits up, `keymark table index build {storage.root} NAME` (of the "
            "index) builds it again"
        )
    return tuple(sorted(status.name for status in found))


def recover_entries(index: ExternalIndex, context: IndexContext) -> None:
    """Bring the entries of dead writers up to date. Call it under the lease, before any undoing.

    Somebody else may have written since then: what the base files say decides.

    Raises:
        CorruptFileError: what a dead writer noted of its entries is damaged or gone. They could
            count one day, so that no write goes on before all entries were made anew.
    """
    for instant in pending_entries(context.storage):
        try:
            _recover(index, instant, context)
        except CorruptFileError as error:
            if not error.name.startswith((f"{ENTRIES}/", f"{TEMP}/")):
                raise
            remedy = f"`keymark table index build {context.storage.root} {index.name}`"
            detail = f"{error.detail}; {remedy} makes all entries of the index anew"
            raise CorruptFileError(error.name, error.offset, detail) from error


def _recover(index: ExternalIndex, instant: str, context: IndexContext) -> None:
    if _is_completed(Timeline.load(context.storage), instant):
        changes = _changes(context.storage, instant)
        index.change(_still_true(index, changes, context), context)
        context.storage.delete(f"{ENTRIES}/{instant}")
    else:
        withdraw_entries(index, instant, context)


def located(index: Index, keys: pa.Array, context: IndexContext) -> pa.Table:
    """`index.lookup`, with changes of entries that are visible and not made yet."""
    if not isinstance(index, ExternalIndex):
        return index.lookup(keys, context)
    pending = pending_entries(context.storage)
    found = index.lookup(keys, context)
    if not pending:
        return found
    timeline = Timeline.load(context.storage)
    for instant in pending:
        if _is_completed(timeline, instant):
            # It may have been settled by now, and before its entries were read.
            with contextlib.suppress(FileNotFoundError):
                found = _overlaid(found, keys, _changes(context.storage, instant))
    return found


def _changes(storage: Storage, instant: str) -> pa.Table:
    return _pending(storage, instant).cast(CHANGES)


def _key_files(storage: Storage, instant: str) -> list[tuple[str, int]]:
    """Path and size of the key files that an instant's new entries came from."""
    try:
        named = json.loads((_pending(storage, instant).schema.metadata or {})[_KEY_FILES])
        return [(str(path), int(size)) for path, size in named]
    except (ValueError, KeyError, TypeError) as error:
        path = f"{ENTRIES}/{instant}"
        raise CorruptFileError(path, 0, f"it names no key files: {error}") from error


def _pending(storage: Storage, instant: str) -> pa.Table:
    """The content of `entries/<T>`."""
    path = f"{ENTRIES}/{instant}"
    data = storage.read(path)
    try:
        found = pa.ipc.open_stream(data).read_all()
        found.cast(CHANGES)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptFileError(path, 0, f"no changes of entries: {error}") from error
    return found


def _is_completed(timeline: Timeline, instant: str) -> bool:
    """Completed, or archived: archiving waits while entries of a dead instant are left."""
    start = min((i.time for i in timeline.instants), default="")
    return instant < start or any(i.time == instant for i in timeline.completed())


def _still_true(index: ExternalIndex, changes: pa.Table, context: IndexContext) -> pa.Table:
    """The changes that are needed for the entries to agree with the base files."""
    keys = changes["key"].combine_chunks()
    right = _held(keys, index.lookup(keys, context), context)
    there = _held(keys, changes, context)
    nowhere = keys.filter(pa.array(~right & ~there))
    return pa.concat_tables([changes.filter(pa.array(~right & there)), gone(nowhere)])


def _held(keys: pa.Array, places: pa.Table, context: IndexContext) -> npt.NDArray[np.bool_]:
    """For each key (bool): the base file of its place holds it."""
    held = np.zeros(len(keys), bool)
    bases = context.snapshot.by_location()
    rows: dict[tuple[str, str], list[int]] = {}
    columns = (places["partition_path"].to_pylist(), places["file_id"].to_pylist())
    for row, place in enumerate(zip(*columns, strict=True)):
        if place in bases:
            rows.setdefault(place, []).append(row)
    for place, members in rows.items():
        base = bases[place]
        data = read_base(context.storage, base)
        stored = StoredKeys.of(context.config).read(data, read_metadata(data))
        found = pc.is_in(keys.take(pa.array(members)), value_set=stored)
        held[members] = found.to_numpy(zero_copy_only=False)
    return held


def _overlaid(found: pa.Table, keys: pa.Array, changes: pa.Table) -> pa.Table:
    """An index's answer (rows of LOCATION_SCHEMA), changed where the changes name a key."""
    rows = pc.index_in(keys, value_set=changes["key"].combine_chunks())
    changed = pc.is_valid(rows)
    later = changes.select(LOCATION_SCHEMA.names).take(rows)
    columns = [pc.if_else(changed, later[n], found[n]) for n in LOCATION_SCHEMA.names]
    return pa.table(columns, schema=LOCATION_SCHEMA)
