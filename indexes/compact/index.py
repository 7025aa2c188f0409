"""The compact index: hashes of keys lead to candidates, which stored keys prove.

    runs         hash of a key -> base files that may hold it (table/values/hash_runs)
    candidates   pairs of key and file; of an absent key hardly ever one
    proof        the keys that are stored in the candidates' files, first where they likely are
    the rest     base files that no run covers, as after a write of Hudi's: their keys are read

A write that merges a file group sees whether the key is there. So tagging proves only the
candidates that decide where a row goes: those of a key that has several, and those that would move
a row. A lookup proves all of them.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.indexes.compact.spec import SPEC
from keymark.indexes.shared.hash_candidates import candidates
from keymark.indexes.shared.key_proof import KeyCandidates, prove
from keymark.indexes.shared.key_scan import (
    ABSENT,
    first_matches,
    first_of_each,
    locations,
    search_files,
    taken,
)
from keymark.indexes.shared.lookup_index import LookupIndex
from keymark.indexes.shared.scope import Scope
from keymark.indexes.spec import IndexSpec
from keymark.table.index.protocol import LOCATION_SCHEMA, IndexContext

_Numbers = npt.NDArray[np.int64]
_NOTHING: _Numbers = np.empty(0, np.int64)


class CompactIndex(LookupIndex):
    """Global; a tag may be of a key that is not there, a lookup is proven."""

    spec: ClassVar[IndexSpec] = SPEC
    name: ClassVar[str] = SPEC.name
    is_global: ClassVar[bool] = True
    is_exact: ClassVar[bool] = False

    def lookup(
        self, keys: pa.Array, context: IndexContext, partitions: pa.Array | None = None
    ) -> pa.Table:
        """Locate keys: candidates of runs that are proven, and keys of files without a run."""
        del partitions
        asked, _ = _all_candidates(keys, context)
        proven = prove(keys, asked, context, timed=True)
        rows, numbers = asked.rows[proven.held], asked.numbers[proven.held]
        first = first_matches(len(keys), rows, numbers)
        found = locations(taken(numbers, first), context)
        times = proven.times.take(pa.array(first, mask=first == ABSENT))
        return pa.table([*found.columns[:-1], times], schema=LOCATION_SCHEMA)

    def tag(self, keys: pa.Array, partitions: pa.Array, context: IndexContext) -> pa.Table:
        """Locate keys; an only candidate in the partition of its row is not proven.

        Neither is one of a row without a partition: it is a delete, which changes nothing where
        the key is not.
        """
        asked, searched = _all_candidates(keys, context)
        rows, numbers = asked.rows, asked.numbers
        paths = pa.array([file.partition_path for file in context.snapshot.files], pa.string())
        stays = pc.equal(paths.take(pa.array(numbers)), partitions.take(pa.array(rows)))
        stays = pc.fill_null(stays, fill_value=True).to_numpy(zero_copy_only=False)
        alone = np.bincount(rows, minlength=len(keys))[rows] == 1
        held = searched | (alone & stays)
        left = ~held
        held[left] = prove(keys, asked.take(left), context).held
        return locations(first_of_each(len(keys), rows[held], numbers[held]), context)


def _all_candidates(
    keys: pa.Array, context: IndexContext
) -> tuple[KeyCandidates, npt.NDArray[np.bool_]]:
    """The base files that may hold keys, and whether the key was seen there.

    It was in files without a run, whose keys are read.
    """
    files = len(context.snapshot.files)
    nothing = KeyCandidates.anywhere(_NOTHING, _NOTHING)
    if not len(keys) or not files:
        return nothing, np.zeros(0, bool)
    known, uncovered = candidates(keys, context) or (nothing, np.arange(files))
    context.stats.candidates += len(known)
    context.stats.files_read += len(uncovered)
    every = np.arange(len(keys))
    ranges = np.split(uncovered, np.flatnonzero(np.diff(uncovered) > 1) + 1)
    scopes = [Scope(every, range(int(each[0]), int(each[-1]) + 1)) for each in ranges if len(each)]
    seen = KeyCandidates.anywhere(*search_files(keys, scopes, context))
    searched = np.arange(len(known) + len(seen)) >= len(known)
    return known.plus(seen), searched
