"""Tasks over the entries of an HBase index: get, enter and put them, each with one connection.

Entries travel as columns: key, and the place that each names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from keymark.indexes.hbase import client as hbase_client
from keymark.indexes.hbase.client import (
    COMMIT_TS,
    FILE_NAME,
    PARTITION_PATH,
    Access,
    Row,
    ThriftClient,
)
from keymark.indexes.hbase.rate_limit import RateLimit, Throttle
from keymark.table.errors import CorruptFileError
from keymark.table.index.build.scan import record_keys
from keymark.table.index.dedup import sorted_last
from keymark.table.index.external import CHANGES, KeyPart
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.model import BaseFile
from keymark.table.layout.view import Snapshot
from keymark.table.storage.storage import Storage
from keymark.table.timeline.timeline import Timeline

_COLUMNS = (PARTITION_PATH, FILE_NAME, COMMIT_TS)


@dataclass(frozen=True, slots=True)
class Rule:
    r"""Which entries count: their commit is visible, and their file group is in the snapshot.

    Attributes:
        timeline: read after the entries, or while nobody else writes.
        places: `<partition path>\n<file id>` of the snapshot's file groups.
    """

    timeline: Timeline
    places: pa.Array

    @classmethod
    def of(cls, timeline: Timeline, snapshot: Snapshot) -> Rule:
        """The rule of one moment."""
        places = [f"{file.partition_path}\n{file.file_id}" for file in snapshot.files]
        return cls(timeline, pa.array(places, pa.string()))

    def committed(self, entries: pa.Table) -> pa.Array:
        """For each entry (rows of CHANGES) whether its commit is visible."""
        times = entries["instant_time"].combine_chunks()
        visible = sorted(self.timeline.visible(times.unique().to_pylist()))
        return pc.is_in(times, value_set=pa.array(visible, pa.string()))

    def placed(self, entries: pa.Table) -> pa.Array:
        """For each entry whether its file group is there."""
        columns = [entries[name].combine_chunks() for name in ("partition_path", "file_id")]
        place = pc.binary_join_element_wise(*columns, "\n")
        return pc.is_in(place, value_set=self.places)


@dataclass(frozen=True, slots=True)
class GetWork:
    """Keys (distinct) whose entries are asked for."""

    access: Access
    pace: RateLimit
    keys: pa.Array


@dataclass(frozen=True, slots=True, kw_only=True)
class EnterWork:
    """Stretches of key files whose keys get entries that name an instant.

    Attributes:
        stretches: key part, and number of the stretch in its file.
        rule: which entries count already and are left alone; None: none does.
    """

    access: Access
    pace: RateLimit
    storage: Storage
    stretches: tuple[tuple[KeyPart, int], ...]
    instant: str
    rule: Rule | None


@dataclass(frozen=True, slots=True)
class FileWork:
    """A base file whose keys get entries, and the instant that these name."""

    access: Access
    pace: RateLimit
    storage: Storage
    file: BaseFile
    keys: StoredKeys
    instant: str


def get_entries(work: GetWork) -> pa.Table:
    """The entries of keys that have one (rows of CHANGES), in any order."""
    throttle = Throttle(work.pace.gets_a_second)
    with hbase_client.connected(work.access) as client:
        found = _gotten(client, work.keys, work.pace, throttle)
    return entries_of(found, work.access)


def enter_keys(work: EnterWork) -> pa.Table:
    """Put entries for keys without one that counts; the others (rows of CHANGES)."""
    gets, puts = Throttle(work.pace.gets_a_second), Throttle(work.pace.put_batch)
    known = []
    with hbase_client.connected(work.access) as client:
        for part, number in work.stretches:
            changes = _stretch(work, part, number)
            if work.rule is not None:
                rows = _gotten(client, changes["key"].combine_chunks(), work.pace, gets)
                entries = entries_of(rows, work.access)
                counts = pc.and_(work.rule.committed(entries), work.rule.placed(entries))
                counting = entries["key"].combine_chunks().filter(counts)
                is_known = pc.is_in(changes["key"].combine_chunks(), value_set=counting)
                known.append(changes.filter(is_known))
                changes = changes.filter(pc.invert(is_known))
            put_entries(client, changes, work.pace, puts)
    return pa.concat_tables([CHANGES.empty_table(), *known])


def enter_file(work: FileWork) -> int:
    """Put the entries of a base file's keys; how many there are. A task for a runner."""
    throttle, count, file = Throttle(work.pace.put_batch), 0, work.file
    with hbase_client.connected(work.access) as client:
        for keys in record_keys(work.storage, file, work.keys):
            place = (file.partition_path, file.file_id, work.instant)
            columns = [pa.repeat(pa.scalar(text, pa.string()), len(keys)) for text in place]
            changes = pa.table([keys.cast(pa.string()), *columns], schema=CHANGES)
            put_entries(client, changes, work.pace, throttle)
            count += len(keys)
    return count


def put_entries(
    client: ThriftClient, changes: pa.Table, pace: RateLimit, throttle: Throttle
) -> None:
    """Put the entries of keys with a place (rows of CHANGES), in the order of the rows."""
    for batch in changes.to_batches(max_chunksize=pace.put_batch):
        columns = [batch[name].cast(pa.binary()).to_pylist() for name in CHANGES.names]
        rows = [
            (key, dict(zip(_COLUMNS, place, strict=True)))
            for key, *place in zip(*columns, strict=True)
        ]
        throttle.take(len(rows))
        client.put(rows)


def delete_entries(
    client: ThriftClient, keys: pa.Array, pace: RateLimit, throttle: Throttle
) -> None:
    """Delete the entries of keys."""
    for batch in _batches(keys, pace.put_batch):
        throttle.take(len(batch))
        client.delete(batch)


def entries_of(rows: Sequence[Row], access: Access) -> pa.Table:
    """Rows of HBase as entries (rows of CHANGES).

    Raises:
        CorruptFileError: a row lacks a column, or holds what is not UTF-8.
    """
    try:
        columns = [[key for key, _ in rows], *([cells[c] for _, cells in rows] for c in _COLUMNS)]
        arrays = [pa.array(column, pa.binary()).cast(pa.string()) for column in columns]
    except (KeyError, pa.ArrowInvalid) as error:
        raise CorruptFileError(str(access), 0, f"a row is not an index entry: {error}") from error
    return pa.table(arrays, schema=CHANGES)


def _gotten(client: ThriftClient, keys: pa.Array, pace: RateLimit, throttle: Throttle) -> list[Row]:
    """The rows of keys, asked in their order: neighbours of a sorted batch share blocks."""
    found: list[Row] = []
    for batch in _batches(keys, pace.get_batch):
        throttle.take(len(batch))
        found.extend(client.get(batch))
    return found


def _batches(keys: pa.Array, size: int) -> Iterator[list[bytes]]:
    for start in range(0, len(keys), size):
        yield keys.slice(start, size).cast(pa.binary()).to_pylist()


def _stretch(work: EnterWork, part: KeyPart, number: int) -> pa.Table:
    """The new entries (rows of CHANGES) of a stretch, sorted; of a repeated key the last."""
    table = part.keys.read(work.storage, number).combine_chunks()
    keys, files = table["key"].combine_chunks(), table["file"].combine_chunks()
    keys, positions = sorted_last(keys)
    files = files.take(positions)
    known = [pa.array(texts, pa.string()) for texts in zip(*part.places, strict=True)]
    places = [texts.take(files) for texts in known]
    instant = pa.repeat(pa.scalar(work.instant, pa.string()), len(keys))
    return pa.table([keys, *places, instant], schema=CHANGES)
