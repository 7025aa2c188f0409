"""Shared by the indexes that look into base files: reading the key column, and answers from it.

Files are numbered by their place in the snapshot, which is ordered by partition path and file id:
a key that is in several files belongs to the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from table.errors import CorruptFileError
from table.format.parquet import read_base_file
from table.model import BaseFile
from table.read.arrow import open_base
from table.storage import Storage
from table.write.file_group import KEY_COLUMN
from table.write.index import LOCATION_SCHEMA, IndexContext

# Reading a file's keys takes about an eighth of the time of writing it anew, which is what the
# weights of a runner count.
_SHARE_OF_FILE = 8
ABSENT = -1


@dataclass(frozen=True, slots=True)
class KeyProbe:
    """Distinct keys (pa.Array of string) that a base file may hold."""

    storage: Storage
    file: BaseFile
    keys: Any

    @property
    def weight(self) -> int:
        """Bytes of work, for a runner."""
        return probe_weight(self.file, len(self.keys))


def probe_weight(file: BaseFile, keys: int) -> int:
    """Bytes of work to check a number of keys against a file's own."""
    return file.size // _SHARE_OF_FILE + 16 * keys


def read_keys(storage: Storage, file: BaseFile) -> Any:
    """The record keys (pa.Array of string) of a base file, in the order of its rows."""
    table = read_base_file(open_base(storage, file), [KEY_COLUMN])
    if table.column_names != [KEY_COLUMN]:
        raise CorruptFileError(file.path, 0, f"the base file has no column {KEY_COLUMN}")
    column = table[KEY_COLUMN].cast(pa.string())
    return pa.concat_arrays([pa.array([], pa.string()), *column.chunks])


def probe_keys(work: KeyProbe) -> npt.NDArray[np.int64]:
    """Positions of the keys that the file holds, ascending; a task that a runner distributes."""
    return positions_in(read_keys(work.storage, work.file), work.keys)


def positions_in(stored: Any, keys: Any) -> npt.NDArray[np.int64]:
    """Positions of the keys (pa.Array, distinct) that are among the stored ones, ascending."""
    # The hash table is made of the keys asked: they are fewer than a file's.
    hits = pc.drop_null(pc.index_in(stored, value_set=keys)).to_numpy()
    found: npt.NDArray[np.int64] = np.unique(hits).astype(np.int64)
    return found


def first_files(
    count: int, answers: Sequence[tuple[int, npt.NDArray[np.int64]]]
) -> npt.NDArray[np.int64]:
    """The file number of each of `count` keys, ABSENT where no file holds it.

    Args:
        count: number of keys.
        answers: file number, and the positions of the keys that the file holds.
    """
    numbers = np.full(count, ABSENT, np.int64)
    for number, positions in sorted(answers, key=lambda answer: -answer[0]):
        numbers[positions] = number
    return numbers


def locations(numbers: npt.NDArray[np.int64], context: IndexContext) -> Any:
    """The answer of an index (pa.Table of LOCATION_SCHEMA) from the file number of each key."""
    files = context.snapshot.files
    place = pa.array(numbers, mask=numbers == ABSENT)
    columns = [
        pa.array([file.partition_path for file in files], pa.string()),
        pa.array([file.file_id for file in files], pa.string()),
        pa.array([file.instant_time for file in files], pa.string()),
    ]
    return pa.table([column.take(place) for column in columns], schema=LOCATION_SCHEMA)
