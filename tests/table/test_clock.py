"""A clock far ahead: what the table and its storage say decides."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from table_cases import SHARDS, SMALL_BLOOMS, create, rows

from keymark import Table
from keymark.table.errors import InputError
from keymark.table.properties.options import CLOCK_DAYS
from keymark.table.runtime.clock import SystemClock
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.storage.stores import storage_at

DAY = 24 * 3600
FAR = 10**9


@dataclass
class Ahead(SystemClock):
    """The machine's clock, some seconds ahead."""

    ahead: float

    def millis(self) -> int:
        return super().millis() + int(self.ahead * 1000)


def opened(root: Path, ahead: float, **options: str) -> Table:
    given = {name.replace("__", "."): value for name, value in options.items()}
    return Table(LocalStorage.at(str(root)), given, clock=Ahead(ahead))


def instants(root: Path) -> list[str]:
    return sorted(path.name for path in (root / ".hoodie").iterdir() if path.is_file())


@pytest.fixture
def root(tmp_path):
    create(tmp_path / "t").upsert(rows(range(4)))
    return tmp_path / "t"


@pytest.mark.parametrize("ahead", [FAR, 366 * DAY, 10**12])
def test_a_clock_far_ahead_writes_nothing(root, ahead):
    before = instants(root)
    table = opened(root, ahead)
    for act in (
        lambda: table.upsert(rows([9])),
        lambda: table.bulk_insert(rows([9])),
        lambda: table.delete(["k1"]),
        table.savepoint,
        table.compact,
        lambda: table.purge(["k1"]),
    ):
        with pytest.raises(InputError, match=CLOCK_DAYS):
            act()
    assert instants(root) == before
    assert opened(root, 364 * DAY).upsert(rows([9])).inserted == 1


def test_the_option_lets_one_write_through(root):
    through = opened(root, FAR, keymark__clock__max__days__ahead="20000")
    assert through.upsert(rows([9])).instant > "2058"
    assert Table.open(str(root)).upsert(rows([10])).instant > "2058"


def test_an_option_that_lets_any_clock_pass_makes_a_table_on_a_store(tmp_path):
    """There is no object yet whose date could be asked for."""
    options = {CLOCK_DAYS: "100000", **SHARDS, **SMALL_BLOOMS}
    table = create(f"memory://{tmp_path.name}/t", options)
    assert table.upsert(rows([1])).inserted == 1


def test_a_table_that_nobody_wrote_to_for_long(root):
    """Its newest instant and file time are what a disk has."""
    old = time.time() - 800 * DAY
    for path in (root / ".hoodie").iterdir():
        os.utime(path, (old, old))
    # The time at which a copy was made counts as well.
    assert Table.open(str(root)).upsert(rows([9])).inserted == 1


def test_a_file_that_is_new_enough_ends_the_search(root, monkeypatch):
    """A long timeline is not looked at file by file before each write."""
    folder, looked_at = root / ".hoodie", []
    for number in range(50):
        (folder / f"200001010000000{number:02d}.commit").touch()
    storage, lstat = LocalStorage.at(str(root)), os.lstat
    monkeypatch.setattr(os, "lstat", lambda path: looked_at.append(path) or lstat(path))
    now = time.time() * 1000
    assert abs(storage.time(int(now - DAY * 1000)) - now) < DAY * 1000
    few = len(looked_at)
    newest = max(path.stat().st_mtime for path in folder.iterdir() if path.is_file())
    assert storage.time(2**62) >= int(newest * 1000)
    assert few < 10
    assert len(looked_at) - few >= 50


def test_a_new_table(tmp_path):
    with pytest.raises(InputError, match=CLOCK_DAYS):
        create(tmp_path / "t", clock=Ahead(FAR))
    assert not list((tmp_path / "t").iterdir())
    create(tmp_path / "t", clock=Ahead(300 * DAY))


def test_a_store_says_its_own_date(s3):
    given = {**SHARDS, **SMALL_BLOOMS, **s3.options}
    path = f"{s3.bucket()}/t"
    with pytest.raises(InputError, match=CLOCK_DAYS):
        Table.create(path, record_key="k", options=given, clock=Ahead(FAR))
    table = Table.create(path, record_key="k", partition_path="p", ordering="ts", options=given)
    assert table.upsert(rows(range(3))).inserted == 3
    storage = storage_at(path, given)
    far = Table(storage, given, clock=Ahead(FAR))
    with pytest.raises(InputError, match=CLOCK_DAYS):
        far.upsert(rows([9]))
    assert not [s.path for s in storage.walk("") if "/probe/" in s.path]
    assert abs(storage.time(2**62) - time.time() * 1000) < 3600 * 1000
    assert Table(storage, given).upsert(rows([9])).inserted == 1
