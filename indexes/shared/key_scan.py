"""Shared by the indexes that look into base files: reading the key column, and answers from it.

Files are numbered by their place in the snapshot, which is ordered by partition path and file id:
a key that is in several files belongs to the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.indexes.shared.cost import KEY_WEIGHT, PROBE_WEIGHT, SHARE_OF_FILE
from keymark.indexes.shared.scope import Scope
from keymark.table.format.parquet.base_file import read_metadata
from keymark.table.index.protocol import LOCATION_SCHEMA, IndexContext
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.model import BaseFile
from keymark.table.properties.config import TableConfig
from keymark.table.read.arrow import reading_base
from keymark.table.storage.storage import RangeReader, Storage

_Numbers = npt.NDArray[np.int64]

ABSENT = -1


@dataclass(frozen=True, slots=True)
class KeyProbe:
    """Distinct keys that neighbouring base files may hold.

    `first` is the number of the first of these files.
    """

    storage: Storage
    config: TableConfig
    first: int
    files: tuple[BaseFile, ...]
    keys: pa.Array

    @property
    def weight(self) -> int:
        """Bytes of work, for a runner."""
        return sum(map(file_weight, self.files)) + KEY_WEIGHT * len(self.keys)


@dataclass(frozen=True, slots=True)
class KeysFound:
    """Keys that are there: positions among those asked, and the number of each one's first file."""

    positions: _Numbers
    files: _Numbers


def file_weight(file: BaseFile) -> int:
    """Bytes of work to read the keys of a file."""
    return file.size // SHARE_OF_FILE


def read_keys(storage: Storage, config: TableConfig, file: BaseFile) -> pa.Array:
    """The record keys of a base file, in the order of its rows.

    Raises:
        CorruptFileError: the file is damaged, or has no keys.
        SnapshotExpiredError: it was cleaned, or taken back, meanwhile.
    """
    with reading_base(storage, file) as source:
        return stored_keys(source, config)


def stored_keys(source: RangeReader, config: TableConfig) -> pa.Array:
    """The same of an open file."""
    return StoredKeys.of(config).read(source, read_metadata(source))


def key_probes(scope: Scope, keys: pa.Array, context: IndexContext) -> list[KeyProbe]:
    """The tasks that look for keys (those of a scope) in the scope's files.

    Each takes files on which at least as much work is spent as on the hash table of the keys.
    """
    files = context.snapshot.files
    ends = np.cumsum([file_weight(files[number]) for number in scope.files])
    least = max(PROBE_WEIGHT, KEY_WEIGHT * len(keys))
    _, starts = np.unique(ends // least, return_index=True)
    cuts = [*(scope.files.start + starts).tolist(), scope.files.stop]
    return [
        KeyProbe(context.storage, context.config, start, files[start:stop], keys)
        for start, stop in pairwise(cuts)
    ]


def probe_keys(work: KeyProbe) -> KeysFound:
    """Find keys in files; a task that a runner distributes."""
    stored = [read_keys(work.storage, work.config, file) for file in work.files]
    # The hash table is made of the keys asked: they are fewer than those of the files.
    hits = pc.index_in(pa.concat_arrays(stored), value_set=work.keys)
    rows = np.flatnonzero(pc.is_valid(hits).to_numpy(zero_copy_only=False))
    ends = np.cumsum([len(keys) for keys in stored])
    first = np.full(len(work.keys), ABSENT, np.int64)
    # Backwards: of several files that hold a key the first is assigned last.
    first[hits.drop_null().to_numpy()[::-1]] = np.searchsorted(ends, rows[::-1], side="right")
    positions = np.flatnonzero(first != ABSENT)
    return KeysFound(positions, work.first + first[positions])


def search_files(
    keys: pa.Array, asked: Sequence[Scope], context: IndexContext
) -> tuple[_Numbers, _Numbers]:
    """Row of the key and number of the file for each match, found by reading the files' keys."""
    # Scopes with the same rows share their keys in memory.
    chosen: dict[int, pa.Array] = {}
    for scope in asked:
        if id(scope.rows) not in chosen:
            chosen[id(scope.rows)] = keys.take(pa.array(scope.rows))
    tasks = [
        (scope.rows, probe)
        for scope in asked
        for probe in key_probes(scope, chosen[id(scope.rows)], context)
    ]
    probes = [probe for _, probe in tasks]
    answers = context.runner.run(probe_keys, probes, weights=[probe.weight for probe in probes])
    nothing = np.empty(0, np.int64)
    matches = zip(tasks, answers, strict=True)
    rows = [rows[answer.positions] for (rows, _), answer in matches]
    numbers = [answer.files for answer in answers]
    return np.concatenate([nothing, *rows]), np.concatenate([nothing, *numbers])


def first_of_each(count: int, rows: _Numbers, numbers: _Numbers) -> _Numbers:
    """The first file number of each of `count` keys, ABSENT where no file holds it.

    Args:
        count: number of keys.
        rows: the row of the key of each match.
        numbers: the file number of each match.
    """
    return taken(numbers, first_matches(count, rows, numbers))


def first_matches(count: int, rows: _Numbers, numbers: _Numbers) -> _Numbers:
    """As `first_of_each`, but the place of the match instead of the number of its file."""
    found = np.full(count, ABSENT, np.int64)
    # The first of several files is assigned last, so that it stays.
    order = np.argsort(-numbers, kind="stable")
    found[rows[order]] = order
    return found


def taken(numbers: _Numbers, places: _Numbers) -> _Numbers:
    """The numbers at some places; ABSENT at a place that is ABSENT."""
    found = np.full(len(places), ABSENT, np.int64)
    known = places != ABSENT
    found[known] = numbers[places[known]]
    return found


def positions_in(stored: pa.Array, keys: pa.Array) -> _Numbers:
    """Positions of the keys (distinct) that are among the stored ones, ascending."""
    hits = pc.drop_null(pc.index_in(stored, value_set=keys)).to_numpy()
    found: _Numbers = np.unique(hits).astype(np.int64)
    return found


def first_files(count: int, answers: Sequence[tuple[int, _Numbers]]) -> _Numbers:
    """The file number of each of `count` keys, ABSENT where no file holds it.

    Args:
        count: number of keys.
        answers: file number, and the positions of the keys that the file holds.
    """
    numbers = np.full(count, ABSENT, np.int64)
    for number, positions in sorted(answers, key=lambda answer: -answer[0]):
        numbers[positions] = number
    return numbers


def locations(numbers: _Numbers, context: IndexContext) -> pa.Table:
    """The answer of an index (rows of LOCATION_SCHEMA) from the file number of each key."""
    files = context.snapshot.files
    place = pa.array(numbers, mask=numbers == ABSENT)
    columns = [
        pa.array([file.partition_path for file in files], pa.string()),
        pa.array([file.file_id for file in files], pa.string()),
        pa.array([file.instant_time for file in files], pa.string()),
    ]
    return pa.table([column.take(place) for column in columns], schema=LOCATION_SCHEMA)
