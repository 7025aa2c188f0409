"""Giving up the stored keys of a table, or storing them again, in place and while it is used.

    on      every stored key is proved to be the one that is made
            hoodie.populate.meta.fields=false: from here on readers make the keys
            file groups with stored keys are written anew, some at a time, a commit each
    off     file groups without are written anew, some at a time
            hoodie.populate.meta.fields=true, once no file group is left without
    ignore  as off; keymark.recordkey.ignore.stored=true: keys are stored, and readers make them

A slice of a file group follows the one before, as after an update that changes nothing: readers
keep what they read, indexes name the same file groups. What was cut off resumes with the file
groups that are left: their footers tell. Other writers may write between two commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from keymark.table.errors import InputError
from keymark.table.format.parquet.base_file import BLOOM_ENTRY, read_base_file, read_metadata
from keymark.table.keygen.definition import KeyDefinition
from keymark.table.keygen.stored import StoredKeys
from keymark.table.keygen.virtual import virtual_facts
from keymark.table.layout.model import BaseFile, CommitResult
from keymark.table.properties.config import KEY_COLUMN, TableConfig, load_config, save_config
from keymark.table.properties.options import KEYS_IGNORED, META_FIELDS
from keymark.table.read.arrow import open_base
from keymark.table.runtime.runner import Progress
from keymark.table.state.table_state import TableState
from keymark.table.storage.lease import Lease
from keymark.table.storage.storage import Storage
from keymark.table.write.file_group import FileGroupWrite
from keymark.table.write.index_changes import NO_CHANGES
from keymark.table.write.rewrite import refuse_other_keys, rewrite_group
from keymark.table.write.transaction import Counts, WriteTransaction, begin, hold_recovered
from keymark.table.write.writer import BLOOM_ENABLED, Writer, base_file_options

TARGETS = ("on", "off", "ignore")
# File groups of a commit: what a dead rewriting does again at most.
_GROUPS_PER_COMMIT = 64
_NOTHING = pa.array([], pa.string())


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteReport:
    """What a rewriting did.

    Attributes:
        virtual_keys: what was asked for: on, off or ignore.
        file_groups: of the table.
        rewritten: those of them that were written anew.
        bytes_before: of their files, before.
        bytes_after: of their files, after.
        instants: of the commits.
    """

    virtual_keys: str
    file_groups: int
    rewritten: int
    bytes_before: int
    bytes_after: int
    instants: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Proof:
    """A base file whose stored keys are to be compared with those made."""

    storage: Storage
    file: BaseFile
    keys: StoredKeys


def prove_keys(work: _Proof) -> None:
    """Compare the keys of a file; a task for a runner."""
    source = open_base(work.storage, work.file)
    rows = read_base_file(source, [KEY_COLUMN, *work.keys.columns])
    refuse_other_keys(rows, work.keys.of_rows(rows, source.name), source.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewriter:
    """Rewrites one table.

    Attributes:
        writer: of the table.
        progress: receives how many file groups are done.
    """

    writer: Writer
    progress: Progress

    def run(self, target: str) -> RewriteReport:
        """Rewrite the table, or what is left of it to rewrite.

        Args:
            target: on, off or ignore.

        Raises:
            InputError: another target; a table without key fields.
            InvalidOptionError: the table's generator makes no virtual keys that Hudi could read.
            CorruptFileError: a stored key is not the one that its row makes.
        """
        if target not in TARGETS:
            raise InputError(f"virtual keys are {', '.join(TARGETS)}, not {target!r}")
        storage, stores = self.writer.storage, target != "on"
        with hold_recovered(self.writer) as lease:
            config = load_config(storage)
            _check(config, target)
            if config.stores_meta and target != "off":
                state = TableState.load(storage)
                keys = StoredKeys(KeyDefinition.of(config))
                works = [_Proof(storage, file, keys) for file in state.snapshot.files]
                self.writer.runner.run(prove_keys, works, weights=[w.file.size for w in works])
            if not stores:
                declare_keys(config, lease, stores=False, ignored=False)
        results: list[CommitResult] = []
        before = after = 0
        while True:
            left = self._left(stores=stores)
            if not left:
                if self._settled(target):
                    break
                continue
            own = {result.instant for result in results}
            assert not {file.instant_time for file in left} <= own, "it does not get done"
            for start in range(0, len(left), _GROUPS_PER_COMMIT):
                part = left[start : start + _GROUPS_PER_COMMIT]
                result, size = self._rewrite(part, stores=stores)
                results.append(result)
                after += size
                before += sum(file.size for file in part)
                self.progress(min(start + len(part), len(left)), len(left), "file groups")
        state = TableState.load(self.writer.storage)
        return RewriteReport(
            virtual_keys=target,
            file_groups=len(state.snapshot.files),
            rewritten=sum(result.files_written for result in results),
            bytes_before=before,
            bytes_after=after,
            instants=tuple(result.instant for result in results),
        )

    def _left(self, *, stores: bool) -> list[BaseFile]:
        """The files that are not yet as they are to be."""
        state = TableState.load(self.writer.storage)
        done = self._stores_all if stores else _stores_none
        if stores and state.config.stores_meta:
            return []
        files = state.snapshot.files
        return [f for f in files if not done(read_metadata(open_base(state.storage, f)))]

    def _stores_all(self, metadata: pq.FileMetaData) -> bool:
        """Whether every row of a file has a stored key, by its statistics.

        A file without rows counts by its filter, without which Hudi's bloom indexes fail.
        """
        stats = _key_statistics(metadata)
        if not stats and self.writer.options.flag(BLOOM_ENABLED):
            return BLOOM_ENTRY in (metadata.metadata or {})
        return all(s is not None and s.null_count == 0 and _ends(s)[0] != "" for s in stats)

    def _settled(self, target: str) -> bool:
        """Say in hoodie.properties that keys are stored; False if another writer left some out."""
        if target == "on":
            return True
        with hold_recovered(self.writer) as lease:
            if self._left(stores=True):
                return False
            config = load_config(self.writer.storage)
            ignored = target == "ignore"
            declare_keys(config, lease, stores=True, ignored=ignored)
        return True

    def _rewrite(self, files: Sequence[BaseFile], *, stores: bool) -> tuple[CommitResult, int]:
        """Write some file groups anew, in one commit; its result, and the bytes of the new files.

        No services run: older slices stay while the table is rewritten.
        """
        wanted = {(file.partition_path, file.file_id) for file in files}
        with begin(self.writer, "UPSERT", None, maintain=False) as tx:
            with tx.phase("write"):
                tx.start()
                # Another writer may have put a newer slice meanwhile: that one counts.
                current = tx.state.snapshot.files
                bases = [f for f in current if (f.partition_path, f.file_id) in wanted]
                tasks = _tasks(tx, bases, stores=stores)
                weights = [base.size for base in bases]
                results = self.writer.runner.run(rewrite_group, tasks, weights=weights)
            rows = sum(result.stat.num_writes for result in results if result.stat)
            size = sum(result.file.size for result in results if result.file)
            return tx.commit(results, NO_CHANGES, Counts(unchanged=rows)), size


def _tasks(
    tx: WriteTransaction, bases: Sequence[BaseFile], *, stores: bool
) -> list[FileGroupWrite]:
    config = tx.config
    facts = {**config.properties, META_FIELDS: str(stores).lower()}
    options = base_file_options(tx.options, replace(config, properties=facts), tx.target.schema)
    target = replace(
        tx.target,
        keys=StoredKeys(KeyDefinition.of(config)),
        stores_meta=stores,
        options=options,
    )
    nothing = np.empty(0, np.uint8)
    return [
        FileGroupWrite(
            target=target,
            partition_path=base.partition_path,
            file_id=base.file_id,
            base=base,
            number=number,
            keys=_NOTHING,
            ops=nothing,
            tagged=nothing,
            rows=None,
        )
        for number, base in enumerate(bases)
    ]


def _check(config: TableConfig, target: str) -> None:
    if config.generates_keys:
        raise InputError("virtual keys need key fields: generated keys are stored")
    if target != "off":
        wanted = {**config.properties, META_FIELDS: "false", KEYS_IGNORED: "false"}
        virtual_facts(config.record_key, config.key_generator, wanted)


def declare_keys(config: TableConfig, lease: Lease, *, stores: bool, ignored: bool) -> None:
    """Say in hoodie.properties whether keys are stored, and whether readers use stored ones."""
    facts = {**config.properties, META_FIELDS: str(stores).lower()}
    facts.pop(KEYS_IGNORED, None)
    if ignored:
        facts[KEYS_IGNORED] = "true"
    if facts != config.properties:
        with lease.fenced():
            save_config(lease.storage, facts)


def _stores_none(metadata: pq.FileMetaData) -> bool:
    """Whether no row of a file has a stored key, by its statistics; Hudi leaves empty ones."""
    stats = _key_statistics(metadata)
    if not stats:
        return BLOOM_ENTRY not in (metadata.metadata or {})
    return all(s is not None and (s.num_values == 0 or _ends(s)[1] == "") for s in stats)


def lacks_keys(metadata: pq.FileMetaData) -> bool:
    """Whether a row of a file has no stored key, as far as statistics tell."""
    stats = [s for s in _key_statistics(metadata) if s is not None]
    return any(s.null_count or _ends(s)[1] == "" for s in stats)


def _ends(statistics: pq.Statistics) -> tuple[Any, Any]:
    """Smallest and largest key; None where they are too long for statistics."""
    known = statistics.has_min_max
    return (statistics.min, statistics.max) if known else (None, None)


def _key_statistics(metadata: pq.FileMetaData) -> list[pq.Statistics | None]:
    """The statistics (or None) of the meta column of keys in each row group."""
    found = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns = [group.column(i) for i in range(group.num_columns)]
        found += [c.statistics for c in columns if c.path_in_schema == KEY_COLUMN] or [None]
    return found
