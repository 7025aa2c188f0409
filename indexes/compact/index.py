"""The compact index: hashes of keys lead to candidates, which stored keys prove.

    runs         hash of a key -> base files that may hold it (table/values/hash_runs)
    candidates   pairs of key and file; of an absent key hardly ever one
    proof        the key column of the candidates' files
    the rest     base files that no run covers, as after a write of Hudi's: their keys are read

A write that merges a file group finds out by itself whether the key is there. So tagging proves
only the candidates that decide where a row goes: those of a key that has several, and those that
would move a row. A lookup proves all of them.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.indexes.compact.spec import SPEC
from keymark.indexes.shared.hash_candidates import candidates
from keymark.indexes.shared.key_scan import first_of_each, locations, prove, search_files
from keymark.indexes.shared.lookup_index import LookupIndex
from keymark.indexes.shared.scope import Scope
from keymark.indexes.spec import IndexSpec
from keymark.table.index.protocol import IndexContext

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
        rows, numbers, searched = _all_candidates(keys, context)
        held = searched.copy()
        held[~searched] = prove(keys, rows[~searched], numbers[~searched], context)
        return locations(first_of_each(len(keys), rows[held], numbers[held]), context)

    def tag(self, keys: pa.Array, partitions: pa.Array, context: IndexContext) -> pa.Table:
        """Locate keys; an only candidate in the partition of its row is not proven.

        Neither is one of a row without a partition: it is a delete, which changes nothing where
        the key is not.
        """
        rows, numbers, searched = _all_candidates(keys, context)
        paths = pa.array([file.partition_path for file in context.snapshot.files], pa.string())
        stays = pc.equal(paths.take(pa.array(numbers)), partitions.take(pa.array(rows)))
        stays = pc.fill_null(stays, fill_value=True).to_numpy(zero_copy_only=False)
        alone = np.bincount(rows, minlength=len(keys))[rows] == 1
        held = searched | (alone & stays)
        left = ~held
        held[left] = prove(keys, rows[left], numbers[left], context)
        return locations(first_of_each(len(keys), rows[held], numbers[held]), context)


def _all_candidates(
    keys: pa.Array, context: IndexContext
) -> tuple[_Numbers, _Numbers, npt.NDArray[np.bool_]]:
    """Row of the key and number of the file of each candidate, and whether it is proven.

    Those are proven that were found in files without a run.
    """
    files = len(context.snapshot.files)
    if not len(keys) or not files:
        return _NOTHING, _NOTHING, np.zeros(0, bool)
    found = candidates(keys, context)
    rows, numbers, uncovered = found or (_NOTHING, _NOTHING, np.arange(files))
    context.stats.candidates += len(rows)
    context.stats.files_read += len(uncovered)
    every = np.arange(len(keys))
    stretches = np.split(uncovered, np.flatnonzero(np.diff(uncovered) > 1) + 1)
    asked = [Scope(every, range(int(s[0]), int(s[-1]) + 1)) for s in stretches if len(s)]
    more_rows, more_numbers = search_files(keys, asked, context)
    searched = np.arange(len(rows) + len(more_rows)) >= len(rows)
    return np.concatenate([rows, more_rows]), np.concatenate([numbers, more_numbers]), searched
