"""Tables that have something to archive, and what tests of archiving read of them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults import FaultStorage
from table_cases import (
    by_hudi_rs,
    by_listing,
    create,
    data_rows,
    files_listed,
    rows,
)

from keymark import Table
from keymark.table.properties.config import load_config
from keymark.table.runtime.clock import SystemClock
from keymark.table.services.archive import Archived, Archiver, Limits
from keymark.table.storage.lease import LeaseTerms, hold
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.timeline.archived import decode_archive
from keymark.table.timeline.instant_name import parse_instant
from keymark.table.timeline.timeline import COMMIT_ACTIONS, Timeline

SMALL = {
    "hoodie.cleaner.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
    "hoodie.metadata.compact.max.delta.commits": "3",
}
BY_HAND = {**SMALL, "hoodie.archive.automatic": "false"}


def grow(table: Table, count: int, start: int = 0) -> list[str]:
    """Upserts of ten rows each; their instants."""
    for number in range(start, start + count):
        table.upsert(rows(range(number, number + 10), ts=number, value=f"{number} "))
    return [i.time for i in Timeline.load(table.storage).completed({"commit"})]


@dataclass(frozen=True)
class Case:
    """A table of several commits that was never archived, and its instants."""

    root: Path
    commits: list[str]

    @classmethod
    def made(cls, root: Path) -> Case:
        """Nine commits, each with a clean behind it once there are enough."""
        return cls(root, grow(create(root, BY_HAND), 9))

    def copied(self, root: Path) -> Case:
        """The same in another place."""
        shutil.copytree(self.root, root)
        return Case(root, self.commits)


def opened(root: Path, **options: str) -> Table:
    return Table.open(str(root), options={**BY_HAND, **options})


def readings(table: Table, instants: Any = ()) -> dict[str, Any]:
    """All that a reader can be told, by all ways of reading."""
    root = table.storage.root
    assert table.check().ok
    stored = by_listing(root)
    found = data_rows(table)
    assert found == {key: values for key, (_, values) in stored.items()}
    assert sorted(key for key, _, _ in by_hudi_rs(root)) == sorted(found)
    earlier = {time: data_rows(table, as_of=time) for time in instants}
    return {"rows": found, "listed": files_listed(table), "earlier": earlier}


def archived(root: Path, base: str = "") -> list[str]:
    """Names of the archived files, `<time>.<action>[.<state>]`, in order of the archives."""
    storage = LocalStorage.at(str(root))
    folder = f"{base}/.hoodie/archived" if base else ".hoodie/archived"
    files = sorted(storage.list(folder), key=lambda s: int(s.name.split(".")[3].split("_")[0]))
    entries = [e for status in files for e in decode_archive(storage.open(status.path))]
    return [f"{e.time}.{e.action}.{e.state}" for e in entries]


def active(root: Path, base: str = "") -> set[str]:
    """Names of the instants' files on a timeline, as `archived` has them."""
    storage = LocalStorage.at(str(root))
    instants = [
        parse_instant(s.name) for s in storage.list(f"{base}/.hoodie" if base else ".hoodie")
    ]
    return {f"{i.time}.{i.action}.{i.state}" for i in instants if i is not None}


def kept(root: Path, base: str = "") -> list[str]:
    """Times of the commits on a timeline."""
    timeline = Timeline.load(LocalStorage.at(str(root)), base)
    return [i.time for i in timeline.completed(COMMIT_ACTIONS)]


def rows_stored(root: Path) -> dict[str, Any]:
    return {key: values for key, (_, values) in by_listing(root).items()}


class Sealed(FaultStorage):
    """A storage that refuses to read files."""

    def open(self, path: str) -> Any:
        raise AssertionError(f"opened {path}")

    read = open  # noqa: A003  a method, within its class


def archive_alone(table: Table, storage: Any, metadata: Limits | None = None) -> Archived:
    """The archiver without the recovery that runs before it."""
    local = LocalStorage.at(storage.root)
    with hold(local, SystemClock(), LeaseTerms.of(table.options())) as lease:
        archiver = Archiver.load(storage, load_config(local), lease)
        return archiver.run(
            data=Limits.of(table.options()),
            metadata=metadata or Limits.of_metadata(table.options()),
        )
