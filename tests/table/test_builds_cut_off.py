"""A build, a drop, an abort that dies anywhere: the next write leaves nothing of it about."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from pathlib import Path

import pytest
from faults import DEAD, FaultStorage, Killed, every_fault
from table_cases import create, rows

from keymark import Table
from keymark.table.layout.naming import PROPERTIES
from keymark.table.properties.config import load_config
from keymark.table.storage.local_storage import LocalStorage


def bare(path):
    create(path, index="global_simple").insert(rows(range(8)))
    Table.open(str(path)).drop_index("files")


def with_files(path):
    create(path, index="global_simple").insert(rows(range(8)))


def scheduled(path):
    with_files(path)
    Table.open(str(path)).schedule_index("record_index")


def indexed(path):
    with_files(path)
    Table.open(str(path)).build_index("bloom_filters")


def copies_of(origin):
    """A function that copies a table beside it, and tells where."""
    numbers = itertools.count()
    return lambda: str(shutil.copytree(origin, origin.parent / str(next(numbers))))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "act"),
    [
        (bare, lambda table: table.build_index("record_index")),
        (scheduled, lambda table: table.run_index("record_index")),
        (scheduled, lambda table: table.abort_index("record_index")),
        (indexed, lambda table: table.drop_index("bloom_filters")),
    ],
)
def test_nothing_is_left_about(tmp_path, start, act):
    start(tmp_path / "origin")
    for number, storage in every_fault(DEAD, copies_of(tmp_path / "origin")):
        with contextlib.suppress(Killed):
            act(Table(storage, {}))
        table = Table(LocalStorage.at(storage.root), {})
        table.upsert(rows([1, 100], ts=2))
        assert_tidy(Path(storage.root), number)
        if start is bare:
            table.build_index("record_index")
            assert table.check().ok
    assert number > 3


@pytest.mark.slow
def test_built_at_once_again(tmp_path):
    """The next build follows the dead one, with no write between."""
    with_files(tmp_path / "origin")
    for number, storage in every_fault(DEAD, copies_of(tmp_path / "origin")):
        with contextlib.suppress(Killed):
            Table(storage, {}).build_index("bloom_filters")
        table = Table(LocalStorage.at(storage.root), {})
        table.build_index("bloom_filters")
        table.upsert(rows([1, 100], ts=2))
        assert_tidy(Path(storage.root), number)
        assert set(load_config(table.storage).metadata_partitions) >= {"bloom_filters"}


@pytest.mark.slow
def test_dead_right_after_its_commit_and_again(tmp_path):
    """A commit names the base files: a second attempt that makes them anew must not lose them."""
    with_files(tmp_path / "origin")
    Table.open(str(tmp_path / "origin")).schedule_index("column_stats")
    shutil.copytree(tmp_path / "origin", tmp_path / "whole")
    whole = FaultStorage(LocalStorage.at(str(tmp_path / "whole")))
    Table(whole, {}).run_index("column_stats")
    (named,) = (n for n, call in enumerate(whole.log, 1) if call == f"replace {PROPERTIES}")
    dying = FaultStorage(LocalStorage.at(str(tmp_path / "origin")), DEAD, named)
    with pytest.raises(Killed):
        Table(dying, {}).run_index("column_stats")
    for number, storage in every_fault(DEAD, copies_of(tmp_path / "origin")):
        with contextlib.suppress(Killed):
            Table(storage, {}).run_index("column_stats")
        table = Table(LocalStorage.at(storage.root), {})
        if "column_stats" in load_config(table.storage).building:
            table.run_index("column_stats")
        table.upsert(rows([1, 100], ts=2))
        assert_tidy(Path(storage.root), number)
        assert load_config(table.storage).maintained[0] == "column_stats"


def assert_tidy(root, number):
    """Only what hoodie.properties names is there: partitions, builds and the pins of builds."""
    config = load_config(LocalStorage.at(str(root)))
    stored = {path.name for path in (root / ".hoodie/metadata").glob("[!.]*")}
    assert stored == set(config.maintained), number
    for folder in ("build", "pins"):
        kept = {path.name for path in (root / f".hoodie/.keymark/{folder}").glob("*")}
        assert kept <= set(config.building), number
    assert bool(list((root / ".hoodie").glob("*.indexing.requested"))) >= bool(config.building)
    assert not list((root / ".hoodie").glob("*.backup"))
