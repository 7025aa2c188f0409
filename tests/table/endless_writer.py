"""A process that writes to a table until it is killed, and announces each storage call."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
from faults import FaultStorage
from table_cases import MOVES, SMALL_BLOOMS

from keymark import Table
from keymark.table.storage.local_storage import LocalStorage

OPTIONS = {MOVES: "true", **SMALL_BLOOMS}
CALL, DONE = b"c", b"d"
KEYS = 30


def batch(number: int) -> pa.Table:
    """The rows of write `number`: new, updated, moved and deleted keys."""
    fresh = list(range(number * 3, number * 3 + 3))
    known = [(number * 7 + i) % max(1, number * 3) for i in range(4)] if number else []
    keys = [*fresh, *[k for k in dict.fromkeys(known) if k not in fresh]]
    return pa.table(
        {
            "k": [f"k{key % KEYS}" for key in keys],
            "p": [f"p{(key + number) % 3}" for key in keys],
            "ts": pa.array([number] * len(keys), pa.int64()),
            "v": [f"{key} by {number}" for key in keys],
            "_hoodie_is_deleted": [(key + number) % 5 == 4 for key in keys],
        }
    )


def state_after(writes: int) -> dict[str, tuple[Any, ...]]:
    """The rows of the table after so many writes."""
    rows: dict[str, tuple[Any, ...]] = {}
    for number in range(writes):
        for row in batch(number).to_pylist():
            deleted = row.pop("_hoodie_is_deleted")
            rows.pop(row["k"], None)
            if not deleted:
                rows[row["k"]] = tuple(row.values())
    return rows


class _TellingStorage(FaultStorage):
    """Tells a pipe of every mutating call before it is made."""

    pipe: int = -1

    def _count(self, call: str, path: str, *, stores: bool) -> None:  # noqa: ARG002
        os.write(self.pipe, CALL)


def write_on(root: str, first: int, pipe: Any) -> None:
    """Write batches `first`, `first + 1`, ... until the end of this process."""
    os.setpgrp()
    storage = _TellingStorage(LocalStorage.at(root))
    storage.pipe = pipe.fileno()
    number = first
    while True:
        Table(storage, OPTIONS).upsert(batch(number))
        os.write(storage.pipe, DONE)
        number += 1
