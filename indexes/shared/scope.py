"""Which base files may hold which of the keys asked.

A global index looks for every key in every file. A partition-local one looks for a key in the
files of the partition path that it came with: files of one path are neighbours in a snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.layout.view import Snapshot


@dataclass(frozen=True, slots=True)
class Scope:
    """Keys, and the only files that may hold them.

    Attributes:
        rows: positions of the keys among those asked.
        files: numbers of the files in the snapshot.
    """

    rows: npt.NDArray[np.int64]
    files: range


def scopes(count: int, snapshot: Snapshot, partitions: pa.Array | None) -> list[Scope]:
    """What has to be searched; scopes without keys or without files are left out.

    Args:
        count: number of keys asked.
        snapshot: the table's files.
        partitions: the partition path of each key; None where a key may be in any file.
    """
    if not count or not snapshot.files:
        return []
    if partitions is None:
        return [Scope(np.arange(count), range(len(snapshot.files)))]
    paths, starts = np.unique(
        np.array([file.partition_path for file in snapshot.files], object), return_index=True
    )
    ends = [*starts[1:].tolist(), len(snapshot.files)]
    wanted = pc.index_in(partitions, value_set=pa.array(paths, pa.string()))
    rows = np.flatnonzero(pc.is_valid(wanted).to_numpy(zero_copy_only=False))
    owners = wanted.drop_null().to_numpy()
    order = np.argsort(owners, kind="stable")
    found, cuts = np.unique(owners[order], return_index=True)
    groups = np.split(rows[order], cuts[1:])
    return [
        Scope(group, range(int(starts[owner]), ends[owner]))
        for owner, group in zip(found.tolist(), groups, strict=False)
    ]
