"""Whether each key is in one row only, without an index that says so.

    1  hashes of 64 bits of all keys, in passes over a part of them each; hashes that repeat
    2  only if any does: the keys of these hashes, which tell repeated keys from a coincidence

Nothing is written: a check holds no lease. Memory holds the hashes of one pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.format.hashes.digest import entry_hashes, location_words
from keymark.table.format.hashes.hashing import string_buffers
from keymark.table.index.build.scan import record_keys
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.model import BaseFile
from keymark.table.runtime.runner import Progress, ProgressRunner, TaskRunner
from keymark.table.storage.storage import Storage

_HASHES_PER_PASS = 8_000_000
_KEYS_AT_ONCE = 1_000_000

_Hashes = npt.NDArray[np.uint64]
_NO_HASHES: _Hashes = np.empty(0, np.uint64)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTask:
    """A base file, and the part of its keys that a pass looks at.

    Attributes:
        storage: the table's storage.
        file: the base file.
        stored: how to get the keys of its rows.
        is_global: whether a key may be in one partition path only.
        part, parts: keys whose hash leaves `part` when divided by `parts`.
        wanted: sorted hashes whose keys are asked for.
    """

    storage: Storage
    file: BaseFile
    stored: StoredKeys
    is_global: bool
    part: int = 0
    parts: int = 1
    wanted: _Hashes


def key_hashes(work: KeyTask) -> _Hashes:
    """The hashes of a file's keys that belong to the pass; a task for a runner."""
    return np.concatenate([_NO_HASHES, *(hashes for _, hashes in _hashed(work))])


def keys_of_hashes(work: KeyTask) -> pa.Array:
    """The keys whose hash is wanted; a task for a runner."""
    found = [keys.filter(pa.array(np.isin(hashes, work.wanted))) for keys, hashes in _hashed(work)]
    return pa.concat_arrays([pa.array([], pa.string()), *(k.cast(pa.string()) for k in found)])


def _hashed(work: KeyTask) -> Iterator[tuple[pa.Array, _Hashes]]:
    # Where a key counts within its partition path, the path is part of what is hashed.
    words = location_words(["" if work.is_global else work.file.partition_path], [""])
    for keys in record_keys(work.storage, work.file, work.stored):
        offsets, text = string_buffers(keys)
        hashes = entry_hashes(text, offsets, words[0])
        if work.parts == 1:
            yield keys, hashes
            continue
        mine = hashes % np.uint64(work.parts) == work.part
        yield keys.filter(pa.array(mine)), hashes[mine]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCheckScan:
    """The files whose keys are compared with each other, and where tasks run."""

    storage: Storage
    files: Sequence[BaseFile]
    stored: StoredKeys
    is_global: bool
    runner: TaskRunner
    progress: Progress

    def repeated(self, rows: int) -> tuple[int, int]:
        """How many keys are in more than one row, and how many rows they are in.

        Args:
            rows: of all files.
        """
        parts = max(1, -(-rows // _HASHES_PER_PASS))
        keys = repeated_rows = 0
        for part in range(parts):
            suspects = self._repeated_hashes(part, parts)
            for start in range(0, len(suspects), _KEYS_AT_ONCE):
                found = self._repeated_keys(suspects[start : start + _KEYS_AT_ONCE])
                keys += found[0]
                repeated_rows += found[1]
        return keys, repeated_rows

    def _repeated_hashes(self, part: int, parts: int) -> _Hashes:
        """The distinct hashes that more than one row of a pass has, sorted."""
        works = [replace(self._work(file), part=part, parts=parts) for file in self.files]
        steps = ProgressRunner(self.runner, self.progress, "files compared with each other")
        found = steps.run(key_hashes, works, weights=[work.file.size for work in works])
        hashes = np.concatenate([_NO_HASHES, *found])
        del found
        hashes.sort()
        return np.unique(hashes[1:][hashes[1:] == hashes[:-1]])

    def _repeated_keys(self, suspects: _Hashes) -> tuple[int, int]:
        """How many keys with such a hash repeat, and in how many rows."""
        works = [replace(self._work(file), wanted=suspects) for file in self.files]
        steps = ProgressRunner(self.runner, self.progress, "files with repeated keys")
        found = steps.run(keys_of_hashes, works, weights=[work.file.size for work in works])
        tables = []
        for work, keys in zip(works, found, strict=True):
            path = "" if self.is_global else work.file.partition_path
            paths = pa.repeat(pa.scalar(path), len(keys))
            tables.append(pa.table({"path": paths, "key": keys}))
        counted = pa.concat_tables(tables).group_by(["path", "key"]).aggregate([([], "count_all")])
        counts = counted["count_all"].filter(pc.greater(counted["count_all"], 1))
        return len(counts), pc.sum(counts).as_py() or 0

    def _work(self, file: BaseFile) -> KeyTask:
        return KeyTask(
            storage=self.storage,
            file=file,
            stored=self.stored,
            is_global=self.is_global,
            wanted=_NO_HASHES,
        )
