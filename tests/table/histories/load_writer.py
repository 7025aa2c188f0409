"""A writer that commits without end, and a process that builds an index until it is killed."""

from __future__ import annotations

import os
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Self

import pyarrow as pa

from keymark import Table

# A table without a record index: what its writers look keys up in.
OPTIONS = {
    "hoodie.bloom.index.update.partition.path": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "4",
    "hoodie.metadata.record.index.max.filegroup.count": "4",
    "hoodie.index.bloom.num_entries": "6000",
    "hoodie.bloom.index.filter.dynamic.max.entries": "10000",
    "hoodie.index.bloom.fpp": "0.001",
}
PARTITIONS = 10


def key(number: int) -> str:
    return f"{number * 2_654_435_761 % (1 << 32):08x}-key-{number}"


def rows(numbers: Any, version: int, *, deleted: Any = None) -> pa.Table:
    """Rows of those numbers; the partition changes with the version of every seventh."""
    columns = {
        "k": [key(n) for n in numbers],
        "p": [f"p{(n + (version if n % 7 == 0 else 0)) % PARTITIONS}" for n in numbers],
        "ts": pa.array([version] * len(numbers), pa.int64()),
    }
    if deleted is not None:
        columns["_hoodie_is_deleted"] = pa.array(deleted, pa.bool_())
    return pa.table(columns)


def create(root: str, count: int) -> Table:
    """A table of so many rows in ten partitions, without a record index."""
    table = Table.create(
        root,
        name="t",
        record_key="k",
        partition_path="p",
        ordering="ts",
        index="global_bloom",
        options=OPTIONS,
    )
    table.bulk_insert(rows(range(count), 0))
    return table


@dataclass
class LoadWriter:
    """Commits batch after batch in a thread: updates, moves, deletes, new keys.

    Attributes:
        versions: of each number the version that the table must hold.
        seconds: how long each commit took, and when it began.
        error: what a commit failed with.
    """

    root: str
    count: int
    batch: int = 40
    versions: dict[int, int] = field(default_factory=dict)
    seconds: list[tuple[float, float]] = field(default_factory=list)
    error: BaseException | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _rng: random.Random = field(default_factory=lambda: random.Random(5))
    _done: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self.versions = dict.fromkeys(range(self.count), 0)
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self.error is not None:
            raise AssertionError("a commit failed") from self.error

    def wait(self, commits: int) -> None:
        """Until so many more commits are done."""
        with self._done:
            wanted = len(self.seconds) + commits
            self._done.wait_for(lambda: len(self.seconds) >= wanted or self.error, timeout=300)

    def _work(self) -> None:
        try:
            while not self._stop.is_set():
                self.commit()
        except BaseException as error:  # noqa: BLE001  told by the main thread
            self.error = error
        with self._done:
            self._done.notify_all()

    def commit(self) -> None:
        """One batch."""
        version = len(self.seconds) + 1
        numbers = self._rng.sample(range(self.count + version * 10), self.batch)
        deleted = [self._rng.random() < 0.2 for _ in numbers]
        started = time.perf_counter()
        Table.open(self.root, options=OPTIONS).upsert(rows(numbers, version, deleted=deleted))
        with self._done:
            self.seconds.append((started, time.perf_counter() - started))
            self._done.notify_all()
        for number, gone in zip(numbers, deleted, strict=True):
            self.versions.pop(number, None)
            if not gone:
                self.versions[number] = version

    def expected(self) -> dict[str, int]:
        """Key -> version."""
        return {key(number): version for number, version in self.versions.items()}


def stored(table: Table) -> dict[str, int]:
    """Key -> version of every row of the table."""
    found: dict[str, int] = {}
    for part in table.scan(columns=["k", "ts"]).tables():
        fresh = dict(zip(part["k"].to_pylist(), part["ts"].to_pylist(), strict=True))
        assert not fresh.keys() & found.keys()
        found |= fresh
    return found


def index_on(root: str, pipe: Any) -> None:
    """Run the scheduled build in this process, and tell a pipe of its progress."""
    os.setpgrp()

    def tell(done: int, total: int, unit: str) -> None:
        os.write(pipe.fileno(), f"{unit} {done}/{total}\n".encode())

    Table.open(root, options=OPTIONS).run_index("record_index", tell)
    os.write(pipe.fileno(), b"end\n")
