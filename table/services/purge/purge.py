"""Purging: keys are erased from all that the table keeps, and that is proven by looking.

refuse    while a savepoint keeps a key, or a partition of the metadata table is being built
delete    a commit without the keys; every current file that a search finds them in is rewritten,
          whole, so that no dictionary and no range of a column keeps a trace of them
retire    older slices with a key, listed or not, are deleted as a clean: <B>.clean
compact   groups of the metadata table with a key are merged without it, and others with blocks are
          merged as well, as Hudi expects of a compaction: <X>001.commit, and
          their older slices are deleted: <X>002.clean
renew     indexes of values are built anew from the rows that are left; of runs of hashes those
          are that hold a hash of a key
sweep     markers, key files, spills and partitions that nothing names
prove     every file that is left is decoded and searched, whether the table lists it, or storage
          shows it, or both; what cannot be searched is named, and nothing is proven then
outside   entries of the keys in an index that is outside the table are deleted

Nothing is changed where a file that holds current rows, or the index of them, cannot be read. An
entry of an index goes only after its row: a key that a current file holds keeps its entry.

Each step is found anew by what is there: a purge that was cut off is run again. Time travel to an
instant that needed a retired slice is refused from then on. What a purge writes and reports holds
no key; who has the keys and the salt can tell by the digest which request a report answers.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from keymark.table.errors import InputError, StorageError
from keymark.table.format.hashes.hashing import string_buffers
from keymark.table.index.external import external_entries
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.naming import (
    BUILD,
    HASH_RUNS,
    HOODIE,
    KEY_RUNS,
    METADATA,
    SECONDARY,
    STAGING,
    TEMP,
    TORN,
)
from keymark.table.metadata.reader import MetadataTable
from keymark.table.properties.config import load_config
from keymark.table.properties.options import TASK_MEMORY
from keymark.table.runtime.runner import Progress, ProgressRunner
from keymark.table.services.clean import Cleaner, delete_slices
from keymark.table.services.compact import Chosen, Compactor
from keymark.table.services.index.builds import refuse_while_building
from keymark.table.services.own_instants import with_room
from keymark.table.services.purge.erasure_check import (
    ErasureCheck,
    Places,
    listed_files,
    savepoint_paths,
    survey,
)
from keymark.table.services.purge.key_matches import (
    KeySet,
    QuickSearch,
    is_base_file,
    names_hold_keys,
    record_keys_in,
    union,
)
from keymark.table.state.table_state import TableState
from keymark.table.storage.lease import Lease
from keymark.table.values.indexed import folder_of, record_keys
from keymark.table.values.upkeep import ValueIndexes
from keymark.table.write.client import delete_found
from keymark.table.write.transaction import hold_recovered
from keymark.table.write.writer import Writer

# A second round is for keys that came back, or that no bloom filter found.
_ROUNDS = 3
_KEY_BYTES_MAX = 32767
_LINES_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeReport:
    """What a purge did and found, in counts; it holds no key.

    Attributes:
        keys: distinct keys asked for.
        deleted: those that the table's current rows held.
        files_rewritten: base files written without them.
        slices_retired: older base files deleted.
        shards_compacted: file groups of the metadata table that were merged.
        metadata_files_deleted: files of their older slices.
        files_searched: files that are left and were searched.
        bytes_searched: their bytes, as stored.
        keys_as_bytes: keys that were searched as bytes, too: long ones that occur nowhere else.
        keys_in_other_values: keys that occur in values of rows that belong to other keys, or in
            names of partitions.
        files_left: files that still hold a key.
        unsearched: what could not be searched, `path: reason` each, a key in a path left out; a
            long list ends with how many more there are.
        proven: everything was searched, and no file holds a key.
        instants: of the table's timeline, that the purge made.
        notes: what of keys stays, or is outside the table, and how to be rid of it.
        salt: 32 hex digits.
        key_digest: what `key_digest` gives for the keys and that salt.
    """

    keys: int
    deleted: int
    files_rewritten: int
    slices_retired: int
    shards_compacted: int
    metadata_files_deleted: int
    files_searched: int
    bytes_searched: int
    keys_as_bytes: int
    keys_in_other_values: int
    files_left: int
    unsearched: tuple[str, ...]
    proven: bool
    instants: tuple[str, ...]
    notes: tuple[str, ...]
    salt: str
    key_digest: str


def key_digest(keys: pa.Array, salt: str) -> str:
    """A digest of a set of keys that is slow to make, so that short keys cannot be guessed.

    Args:
        keys: order and repeated ones make no difference.
        salt: hex digits.

    Returns:
        64 hex digits: scrypt over the keys in byte order, each after its length.
    """
    texts = KeySet.of(keys).texts.to_pylist()
    state = hashlib.sha256()
    for text in texts:
        state.update(len(text.encode()).to_bytes(4, "big") + text.encode())
    made = hashlib.scrypt(state.digest(), salt=bytes.fromhex(salt), n=1 << 14, r=8, p=1, dklen=32)
    return made.hex()


@dataclass(slots=True)
class _Tally:
    """What was done so far."""

    deleted: set[int] = field(default_factory=set)
    files_rewritten: int = 0
    slices_retired: int = 0
    groups: set[tuple[str, str]] = field(default_factory=set)
    metadata_files_deleted: int = 0
    instants: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Purger:
    """Erases keys from one table.

    Attributes:
        writer: the table, for writes and services.
        progress: receives how many files were searched.
    """

    writer: Writer
    progress: Progress
    _tally: _Tally = field(default_factory=_Tally)

    def run(self, keys: pa.Array) -> PurgeReport:
        """Erase keys and prove it.

        Raises:
            InputError: a savepoint keeps a key, a build is under way, or a key can be none; nothing
                was changed.
            StorageError: a file that is needed cannot be read; nothing was changed. Or a file
                cannot be written or deleted.
            CorruptFileError: a file is damaged, so its content is unknown.
        """
        _check_keys(keys)
        asked = KeySet.of(keys)
        with hold_recovered(self.writer):
            state = TableState.load(self.writer.storage)
            self._refuse(state, asked)
            _refuse_unreadable_index(state)
            stored, _ = survey(state.storage)
            paths = {path for path in stored if is_base_file(path)} | listed_files(state).keys()
            places = self._holding(paths, asked, needed={f.path for f in state.snapshot.files})
            traces: Places = {}
        for _ in range(_ROUNDS):
            self._delete(state, asked, places, traces)
            with hold_recovered(self.writer) as lease:
                state = TableState.load(lease.storage)
                self._refuse(state, asked)
                check = ErasureCheck(
                    storage=lease.storage,
                    runner=self.writer.runner,
                    asked=asked,
                    progress=self.progress,
                    state=state,
                )
                self._erase(check, lease, places)
            places, traces = check.undeleted(), check.traces()
            if not places and not traces:
                break
        # A power cut must not bring back what is proven to be gone.
        check.state.storage.sync()
        return self._report(asked, check)

    def _refuse(self, state: TableState, asked: KeySet) -> None:
        """Refuse what could bring a key back."""
        refuse_while_building(state.storage, state.config)
        saved = savepoint_paths(state)
        paths = {path for kept in saved.values() for path in kept}
        there = {path for path in paths if self.writer.storage.exists(path)}
        held = self._holding(there, asked, needed=there)
        holding = sorted(time for time, kept in saved.items() if kept & held.keys())
        if holding:
            raise InputError(
                f"files of savepoints hold keys that are to be purged: drop {', '.join(holding)} "
                "first"
            )

    def _holding(self, paths: Collection[str], asked: KeySet, needed: Collection[str]) -> Places:
        """The base files that have one of the keys as a record key.

        Files that cannot be read are left out; StorageError if one of those is needed.
        """
        storage = self.writer.storage
        stored = StoredKeys.of(load_config(storage))
        works, weights = [], []
        for path in sorted(paths):
            try:
                weights.append(storage.open(path).size)
            except FileNotFoundError as error:
                if path in needed:
                    raise StorageError(f"cannot read {path}: the table lists it") from error
            except StorageError:
                if path in needed:
                    raise
            else:
                works.append(QuickSearch(storage, path, asked, stored))
        steps = ProgressRunner(self.writer.runner, self.progress, "files")
        found = steps.run(record_keys_in, works, weights=weights)
        return {work.path: rows for work, rows in zip(works, found, strict=True) if rows}

    def _delete(self, state: TableState, asked: KeySet, places: Places, traces: Places) -> None:
        """Take the keys away from the current rows, and traces of keys from current files."""
        current = {file.path: file for file in state.snapshot.files}
        rows = [(row, current[path]) for path in places if path in current for row in places[path]]
        known = [(row, current[path]) for path in traces if path in current for row in traces[path]]
        hits = rows + known
        if not hits:
            return
        columns = {
            "key": asked.texts.take(pa.array([row for row, _ in hits])),
            "partition_path": pa.array([file.partition_path for _, file in hits], pa.string()),
            "file_id": pa.array([file.file_id for _, file in hits], pa.string()),
        }
        result = delete_found(self.writer, pa.table(columns))
        self._tally.deleted.update(row for row, _ in rows)
        self._tally.files_rewritten += result.files_written
        self._tally.instants.append(result.instant)

    def _erase(self, check: ErasureCheck, lease: Lease, places: Places) -> None:
        """Do away with everything but current rows that holds a key, and look at what is left."""
        current = {file.path for file in check.state.snapshot.files}
        self._retire(check, lease, [path for path in places if path not in current])
        check.look(is_base_file)
        check.refuse_unread_rows()
        self._retire(check, lease, check.outdated())
        runner, progress = self.writer.runner, self.progress
        indexes = ValueIndexes(lease=lease, runner=runner, progress=progress)
        indexes.erase(check.asked.texts)
        _sweep(check.state)
        if check.state.metadata is not None:
            check.look(lambda path: path.startswith(f"{METADATA}/"))
            self._compact(check, lease)
        check.look(lambda _: True)

    def _retire(self, check: ErasureCheck, lease: Lease, paths: Iterable[str]) -> None:
        """Delete base files that are not current, as a clean."""
        files: dict[str, list[str]] = {}
        for path in sorted(paths):
            if check.storage.exists(path):
                partition, _, name = path.rpartition("/")
                files.setdefault(partition, []).append(name)
        cleaner = Cleaner(check.storage, self.writer.clock, lease)
        instant = cleaner.clean(check.state, files, None)
        if instant is not None:
            self._tally.slices_retired += sum(len(names) for names in files.values())
            self._tally.instants.append(instant)
            check.state = TableState.load(check.storage)

    def _compact(self, check: ErasureCheck, lease: Lease) -> None:
        """Merge the groups of the metadata table that hold a key, delete their older slices."""
        found = check.groups()
        if not found:
            return
        state = with_room(check.state)
        assert state.metadata is not None
        current = _current_files(state.metadata, {partition for partition, _ in found})
        chosen: dict[str, set[str]] = {}
        for (partition, file_id), paths in found.items():
            if paths & current:
                chosen.setdefault(partition, set()).add(file_id)
                self._tally.groups.add((partition, file_id))
        compactor = Compactor(
            metadata=state.metadata,
            partitions=state.config.metadata_partitions,
            listing=state.listing,
            block_size=self.writer.options.integer("hoodie.hfile.block.size"),
            memory=self.writer.options.integer(TASK_MEMORY),
            runner=self.writer.runner,
            lease=lease,
        )
        compactor.run(Chosen(chosen, _without_rows(check).cast(pa.binary())))
        check.state = TableState.load(check.storage)
        assert check.state.metadata is not None
        old = _old_files(check.state.metadata, found)
        if old:
            delete_slices(check.state.metadata, old, None)
            self._tally.metadata_files_deleted += sum(len(names) for names in old.values())

    def _erase_entries(self, check: ErasureCheck) -> tuple[str, ...]:
        """Erase the keys' entries in an index that is outside the table."""
        writer = self.writer
        entries = external_entries(writer.index, writer.options, writer.runner)
        if entries is None:
            return ()
        context = entries.context(TableState.load(writer.storage))
        return (entries.index.erase(_without_rows(check), context),)

    def _report(self, asked: KeySet, check: ErasureCheck) -> PurgeReport:
        tally, left = self._tally, check.left()
        salt = secrets.token_hex(16)
        exempt = check.exempt
        return PurgeReport(
            keys=len(asked.texts),
            deleted=len(tally.deleted),
            files_rewritten=tally.files_rewritten,
            slices_retired=tally.slices_retired,
            shards_compacted=len(tally.groups),
            metadata_files_deleted=tally.metadata_files_deleted,
            files_searched=len(check.matches),
            bytes_searched=sum(found.size for found in check.matches.values()),
            keys_as_bytes=len(frozenset(asked.needles.owners.tolist()) - exempt),
            keys_in_other_values=len(exempt),
            files_left=len(left),
            unsearched=_lines(asked, check.unsearched),
            proven=not left and not check.unsearched,
            instants=tuple(tally.instants),
            notes=(
                *self._erase_entries(check),
                *_notes_on_names(check),
                *_notes_on_files(asked, left),
            ),
            salt=salt,
            key_digest=key_digest(asked.texts, salt),
        )


def _check_keys(keys: pa.Array) -> None:
    offsets, _ = string_buffers(keys)
    if len(keys) == 0:
        raise InputError("no keys are given")
    lengths = offsets[1:] - offsets[:-1]
    if lengths.min() < 1 or lengths.max() > _KEY_BYTES_MAX:
        raise InputError(f"a key of {lengths.min() or lengths.max()} bytes, not 1 to 32767")


def _refuse_unreadable_index(state: TableState) -> None:
    """StorageError if a file of the metadata table that readers need cannot be read."""
    if state.metadata is None:
        return
    for path in sorted(_current_files(state.metadata, state.config.metadata_partitions)):
        try:
            state.storage.open(path)
        except FileNotFoundError as error:
            raise StorageError(f"cannot read {path}: the table needs it") from error


def _without_rows(check: ErasureCheck) -> pa.Array:
    """The keys (strings) that no current row has: their entries may go."""
    with_rows = union(check.undeleted().values())
    chosen = [row for row in range(len(check.asked.texts)) if row not in with_rows]
    return check.asked.texts.take(pa.array(chosen, pa.int64()))


def _lines(asked: KeySet, reasons: Mapping[str, str]) -> tuple[str, ...]:
    """`path: reason` of each, as text that holds no long key."""
    lines = []
    for path, reason in sorted(reasons.items())[:_LINES_MAX]:
        line = f"{path or '.'}: {reason}".encode(errors="surrogateescape")
        for row in sorted(asked.inside(line)):
            line = line.replace(asked.texts[row].as_py().encode(), b"(a key)")
        lines.append(line.decode(errors="backslashreplace"))
    if len(reasons) > _LINES_MAX:
        lines.append(f"and {len(reasons) - _LINES_MAX} more")
    return tuple(lines)


def _notes_on_names(check: ErasureCheck) -> tuple[str, ...]:
    """What to know of keys that occur in names of partitions."""
    if not check.names:
        return ()
    count = f"{len(check.names)} of the keys occur in the name of a partition, which stays"
    if names_hold_keys(check.state.config):
        return (f"{count}; such names are made from a key column, so they are traces of the keys",)
    return (f"{count}: no partition column is part of the record key",)


def _notes_on_files(asked: KeySet, left: Sequence[str]) -> tuple[str, ...]:
    """Which files still hold a key, and what to do about those of a recovery."""
    torn = [path for path in left if path.startswith(f"{TORN}/")]
    others = dict.fromkeys(set(left).difference(torn), "still holds a key")
    if not torn:
        return _lines(asked, others)
    note = (
        f"{len(torn)} files that `table recover` moved to {TORN} still hold a key: delete that "
        "folder if nothing in it is needed, then purge again"
    )
    return (note, *_lines(asked, others))


def _sweep(state: TableState) -> None:
    """Delete what writers, builds and dropped indexes left: no reader asks for it."""
    # The staging folder is in use by this holder of the lease, and swept of all others.
    marked = {s.path.split("/")[2] for s in state.storage.walk(TEMP) if s.path.count("/") > 2}
    for folder in (*(f"{TEMP}/{time}" for time in sorted(marked)), BUILD):
        if folder != STAGING and state.storage.exists(folder):
            state.storage.delete_tree(folder)
    declared = {folder_of(column) for column in state.config.secondary_columns}
    if state.config.key_runs:
        declared.add(record_keys(state.config, state.config.key_runs).folder)
    for folder in (SECONDARY, KEY_RUNS, HASH_RUNS):
        for path in survey(state.storage, folder)[0]:
            if path.rpartition("/")[0] not in declared:
                state.storage.delete(path)
    named = {HOODIE, *state.config.maintained}
    inside, _ = survey(state.storage, METADATA)
    names = [path.removeprefix(f"{METADATA}/").partition("/") for path in inside]
    folders = {folder for folder, slash, _ in names if slash}
    for folder in sorted(folders - named):
        state.storage.delete_tree(f"{METADATA}/{folder}")


def _current_files(metadata: MetadataTable, partitions: Iterable[str]) -> set[str]:
    """Paths of the files of current slices."""
    found = set()
    for partition in partitions:
        for item in metadata.slices(partition):
            found |= {f"{METADATA}/{log.path}" for log in item.log_files}
            if item.base_file is not None:
                found.add(f"{METADATA}/{item.base_file.path}")
    return found


def _old_files(metadata: MetadataTable, groups: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Names of the files of older slices of some groups, by partition."""
    wanted = set(groups)
    partitions = sorted({partition for partition, _ in wanted})
    versions = metadata.slice_files(partitions)
    old: dict[str, list[str]] = {}
    for partition in partitions:
        for item in metadata.slices(partition):
            if (partition, item.file_id) not in wanted:
                continue
            for time, names in versions[partition][item.file_id].items():
                if time != item.base_instant_time:
                    old.setdefault(partition, []).extend(names)
    return old
