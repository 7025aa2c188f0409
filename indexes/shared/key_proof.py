"""Proving candidates: whether a base file holds a key, by the keys that are stored there.

Runs of hashes tell in which stretches of rows a key was when it came to its file. Only the pages
with such rows are inflated at first. A key that is not there is looked for in the whole column: a
row before it may have been deleted, or the hash is another key's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from keymark.indexes.shared.cost import KEY_WEIGHT
from keymark.indexes.shared.key_scan import ABSENT, file_weight
from keymark.table.format.compact.writer import STRETCH_ROWS, UNKNOWN_STRETCH
from keymark.table.format.parquet.base_file import read_columns, read_metadata
from keymark.table.format.parquet.checksums import Checksums
from keymark.table.format.parquet.chosen_rows import rows_and_pages
from keymark.table.format.parquet.plain_strings import plain_pages
from keymark.table.format.schema import COMMIT_TIME_COLUMN
from keymark.table.index.protocol import IndexContext
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.model import BaseFile
from keymark.table.properties.config import KEY_COLUMN, TableConfig
from keymark.table.read.arrow import reading_base
from keymark.table.storage.storage import RangeReader, Storage

_Numbers = npt.NDArray[np.int64]
_Masks = npt.NDArray[np.uint32]

_FEW_ROWS = 100
"""More of them are in most pages of a file."""
_ANY = np.uint32(1 << UNKNOWN_STRETCH)


@dataclass(frozen=True, slots=True)
class KeyCandidates:
    """Keys and base files that may hold them.

    Attributes:
        rows: of each the row of its key among those asked; no pair of row and file twice.
        numbers: the number of its file in the snapshot.
        stretches: a bit for each stretch of rows in which the key may be.
    """

    rows: _Numbers
    numbers: _Numbers
    stretches: _Masks

    @classmethod
    def anywhere(cls, rows: _Numbers, numbers: _Numbers) -> Self:
        """Candidates whose stretch of the file is not known."""
        return cls(rows, numbers, np.full(len(rows), _ANY))

    @classmethod
    def of_pairs(cls, pairs: _Numbers, stretches: npt.NDArray[np.int32], files: int) -> Self:
        """Candidates of pairs (row * files + number); a pair may repeat with another stretch."""
        order = np.argsort(pairs, kind="stable")
        found, starts = np.unique(pairs[order], return_index=True)
        bits = np.uint32(1) << stretches[order].astype(np.uint32)
        masks = np.bitwise_or.reduceat(bits, starts) if len(starts) else bits
        return cls(found // files, found % files, masks)

    def __len__(self) -> int:
        return len(self.rows)

    def plus(self, others: KeyCandidates) -> KeyCandidates:
        """These and others."""
        return KeyCandidates(
            np.concatenate([self.rows, others.rows]),
            np.concatenate([self.numbers, others.numbers]),
            np.concatenate([self.stretches, others.stretches]),
        )

    def take(self, chosen: npt.NDArray[np.bool_]) -> KeyCandidates:
        """Some of them."""
        return KeyCandidates(self.rows[chosen], self.numbers[chosen], self.stretches[chosen])


@dataclass(frozen=True, slots=True)
class KeyProof:
    """Distinct keys that a base file may hold.

    `stretches` are those of each; `timed` asks for the commit of each row, too.
    """

    storage: Storage
    config: TableConfig
    file: BaseFile
    keys: pa.Array
    stretches: _Masks
    timed: bool

    @property
    def weight(self) -> int:
        """Bytes of work, for a runner."""
        return file_weight(self.file) + KEY_WEIGHT * len(self.keys)


@dataclass(frozen=True, slots=True)
class Proof:
    """What a base file holds of the keys that were asked.

    Attributes:
        rows: of each key its row; ABSENT for one that is not there.
        times: for each of those that are there, if asked, the commit that wrote the row.
        pages: of keys, and of commits if asked, that were read.
    """

    rows: _Numbers
    times: pa.Array
    pages: int


@dataclass(frozen=True, slots=True)
class Proven:
    """What base files hold of candidates.

    Attributes:
        held: of each whether its file holds the key.
        times: of those that are held, if asked, the commit that wrote the row.
    """

    held: npt.NDArray[np.bool_]
    times: pa.Array


def prove_keys(work: KeyProof) -> Proof:
    """Look keys up in a base file; a task that a runner distributes.

    Raises:
        CorruptFileError: the file is damaged, or has no keys.
        SnapshotExpiredError: it was cleaned, or taken back, meanwhile.
    """
    with reading_base(work.storage, work.file) as source:
        metadata = read_metadata(source)
        rows, pages = np.full(len(work.keys), ABSENT, np.int64), 0
        for part in (_likely_pages(work, source, metadata), _all_pages(work, source, metadata)):
            for first, keys in part:
                pages += 1
                hits = pc.index_in(keys, value_set=work.keys)
                places = np.flatnonzero(pc.is_valid(hits).to_numpy(zero_copy_only=False))
                rows[hits.drop_null().to_numpy()] = first + places
            if (rows != ABSENT).all():
                break
        times = pa.array([], pa.string())
        if work.timed:
            times, read = _commit_times(source, metadata, rows[rows != ABSENT], work.file)
            pages += read
    return Proof(rows, times, pages)


def _likely_pages(
    work: KeyProof, source: RangeReader, metadata: pq.FileMetaData
) -> Iterator[tuple[int, pa.Array]]:
    """The pages with rows of the stretches of `work`, if these are few; as `_all_pages`."""
    all_stretches = int(np.bitwise_or.reduce(work.stretches))
    if all_stretches & int(_ANY) or StoredKeys.of(work.config).virtual:
        return

    def wanted(first: int, end: int) -> bool:
        stretches = range(first // STRETCH_ROWS, (end - 1) // STRETCH_ROWS + 1)
        return any(all_stretches >> stretch % UNKNOWN_STRETCH & 1 for stretch in stretches)

    yield from plain_pages(source, metadata, KEY_COLUMN, wanted) or ()


def _all_pages(
    work: KeyProof, source: RangeReader, metadata: pq.FileMetaData
) -> Iterator[tuple[int, pa.Array]]:
    """All keys, with the row of the first of each page."""
    first = 0
    for keys in StoredKeys.of(work.config).chunks(source, metadata):
        yield first, keys
        first += len(keys)


def _commit_times(
    source: RangeReader, metadata: pq.FileMetaData, rows: _Numbers, file: BaseFile
) -> tuple[pa.Array, int]:
    """The commit that wrote each of some rows, and how many pages were read for that.

    For a few rows of a file that Keymark wrote only their pages are read. If rows do not say it,
    the commit is that of their file.
    """
    if not len(rows):
        return pa.array([], pa.string()), 0
    pages = 0
    if len(rows) <= _FEW_ROWS and Checksums.of(metadata.metadata) is not None:
        order = np.argsort(rows, kind="stable")
        table, pages = rows_and_pages(source, metadata, rows[order], [COMMIT_TIME_COLUMN])
        places = np.argsort(order)
    else:
        table, places = read_columns(source, metadata, [COMMIT_TIME_COLUMN]), rows
    if not table.num_columns:
        return pa.array([file.instant_time] * len(rows), pa.string()), pages
    found = table[COMMIT_TIME_COLUMN].take(pa.array(places)).combine_chunks().cast(pa.string())
    return pc.fill_null(found, file.instant_time), pages


def prove(
    keys: pa.Array, asked: KeyCandidates, context: IndexContext, *, timed: bool = False
) -> Proven:
    """Which candidates are right.

    Args:
        keys: those asked for.
        asked: the candidates.
        context: the table.
        timed: whether to tell the commit of each row.
    """
    held, times = np.zeros(len(asked), bool), [pa.array([], pa.string())]
    if not len(asked):
        return Proven(held, times[0])
    order = np.argsort(asked.numbers, kind="stable")
    chosen, starts = np.unique(asked.numbers[order], return_index=True)
    members = np.split(order, starts[1:])
    works = [
        KeyProof(
            storage=context.storage,
            config=context.config,
            file=context.snapshot.files[number],
            keys=keys.take(pa.array(asked.rows[each])),
            stretches=asked.stretches[each],
            timed=timed,
        )
        for number, each in zip(chosen.tolist(), members, strict=True)
    ]
    proofs = context.runner.run(prove_keys, works, weights=[work.weight for work in works])
    right = [each[proof.rows != ABSENT] for each, proof in zip(members, proofs, strict=True)]
    found = np.concatenate(right)
    held[found] = True
    times += [proof.times for proof in proofs]
    stats = context.stats
    stats.files_read += len(works)
    stats.pages_read += sum(proof.pages for proof in proofs)
    stats.proven += len(found)
    stats.false_positives += len(asked) - len(found)
    ordered = pa.concat_arrays(times).take(pa.array(np.argsort(found))) if timed else times[0]
    return Proven(held, ordered)
