"""A small table with an index of runs, and what the tests of each such index do to it."""

from __future__ import annotations

import itertools
import shutil
import threading
import warnings
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from faults import Killed, every_fault
from hypothesis import strategies as st
from index_cases import batch, create

from keymark import Table
from keymark.table.errors import StorageError, TableWarning
from keymark.table.values.indexed import Indexed

SMALL_LIMIT = {"hoodie.parquet.small.file.limit": "0"}
KINDS = ("upsert", "upsert", "upsert", "delete", "insert", "bulk_insert", "rollback")
"""Kinds of random changes, the common one more often."""


def three_files(path, name):
    """Three files: a0..a9 in a, b0..b9 in b, and in b one of b10..b19."""
    table = create(path, name, options=SMALL_LIMIT)
    table.insert(batch([f"a{n}" for n in range(10)], "a"))
    table.insert(batch([f"b{n}" for n in range(10)], "b"))
    table.insert(batch([f"b{n}" for n in range(10, 20)], "b"))
    return table


@dataclass
class Interrupted:
    """A storage on which others work right before its `at`-th look at a folder or file."""

    inner: Any
    at: int
    work: Any
    looks: int = 0
    _lock: Any = field(default_factory=threading.Lock)

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def list(self, path):
        self._look()
        return self.inner.list(path)

    def open(self, path):
        self._look()
        return self.inner.open(path)

    def _look(self):
        with self._lock:
            self.looks += 1
            if self.looks == self.at:
                self.work()


def interrupted(table, work, every=1):
    """Handles on which `work` is done before an `every`-th look, until none comes any more."""
    for at in itertools.count(1, every):
        storage = Interrupted(table.storage, at, work)
        yield Table(storage)
        if storage.looks < at:
            return


def rebuild_behind_the_first_look(table, monkeypatch, module, name):
    """Build the index anew once a function of a module has found its runs for the first time."""
    real, looks = getattr(module, name), []

    def late(*args):
        found = real(*args)
        if not looks:
            looks.append(1)
            table.build_index()
        return found

    monkeypatch.setattr(module, name, late)


def newest(paths):
    return max(paths, key=lambda path: path.stat().st_mtime_ns)


def garbled(path):
    """Damage the first page or block: the end stays whole."""
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(bytes(data))


def build_without_a1(table):
    """Build the index from keys of which `a1` is read as `wrong`."""
    real = Indexed.distinct

    def misread(*args):
        return pa.array(["wrong" if key == "a1" else key for key in real(*args).to_pylist()])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Indexed, "distinct", misread)
        table.build_index()


@st.composite
def changes(draw, kinds=KINDS):
    """Kind, numbers of keys, partitions, and whether others make the change."""
    keys = draw(st.lists(st.integers(0, 15), min_size=1, max_size=5, unique=True))
    partitions = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=2))
    return draw(st.sampled_from(kinds)), keys, partitions, draw(st.booleans())


def keys_of(number, kind, numbers):
    """The keys of a change; new ones where it would add others a second time."""
    fresh = f"{number}-" if kind in ("insert", "bulk_insert") else ""
    return [f"k{fresh}{key}" for key in numbers]


def rows_of(number, keys, partitions):
    """The rows of a change, its partitions in turns."""
    paths = list(itertools.islice(itertools.cycle(partitions), len(keys)))
    return batch(keys, paths, ts=number)


def survivors(table, folder, kind, act):
    """What is left of copies in a folder after `act` met a fault at each storage call."""
    numbers = itertools.count()
    copies = lambda: str(shutil.copytree(table.storage.root, folder / f"copy{next(numbers)}"))  # noqa: E731
    for _, storage in every_fault(kind, copies):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TableWarning)
                act(Table(storage))
        except (Killed, StorageError):
            pass
        yield Table.open(storage.root)
