"""Tables for campaigns that damage files, and the answers that a damaged table may give.

A damaged table gives the answer of the whole one, or a typed error; an upsert into it fails, or it
leaves the rows that it leaves in the whole table, once the damaged files are put right.
"""

from __future__ import annotations

import atexit
import functools
import json
import re
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from bounded import Answer
from campaign import Outcome
from table_cases import SHARDS, SMALL_BLOOMS, create, rows, unpack
from table_cases import files as all_files

from keymark import Table
from keymark.table.errors import TableError

OPTIONS = {
    **SHARDS,
    **SMALL_BLOOMS,
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.hfile.block.size": "400",
}
STATISTICS = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
}
OURS: dict[str, tuple[str, dict[str, str]]] = {
    "record": ("record", {}),
    "record with statistics": ("record", STATISTICS),
    "bloom": ("bloom", {}),
    "simple": ("simple", {}),
    "bucket": ("bucket", {}),
    "virtual keys": ("global_simple", {"hoodie.populate.meta.fields": "false"}),
}
HUDIS = {
    "Hudi, all indexes": ("hudi-0.15.0-states.tar.gz", "a_6_before_fail"),
    "Hudi, no partitions": ("hudi-0.15.0-variants.tar.gz", "b_np"),
    "Hudi, virtual keys": ("hudi-0.15.0-keys.tar.gz", "virtual_simple"),
    "Hudi 1.1.1": ("hudi-1.1.1-keys.tar.gz", "named_key"),
}
TABLES = (*OURS, *HUDIS)
ACTIONS = ("scan", "lookup", "check")
PROPERTIES = "hoodie.properties"
"""Another campaign damages these files."""
_NUMBERS = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+")


@functools.cache
def prepared(name: str) -> Path:
    """The table of that name, made once a process; nobody may write to it."""
    folder = Path(tempfile.mkdtemp(prefix="damage-", dir="/dev/shm"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if name in HUDIS:
        archive, member = HUDIS[name]
        unpack(archive, folder)
        return next(path.parent for path in folder.glob(f"**/{member}/.hoodie"))
    index, options = OURS[name]
    root = folder / "t"
    table = create(root, {**OPTIONS, **options}, index=index)
    table.bulk_insert(rows(range(30)))
    table.upsert(rows(range(24, 36), ts=3))
    table.delete(rows([1, 2], partition=["p1", "p2"]).select(["k", "p"]))
    table.upsert(rows(range(30, 39), ts=4))
    return root


@dataclass(frozen=True)
class Whole:
    """A whole table, and what it answers.

    Attributes:
        found: each action's answer by the action's name.
        after: the rows after the upsert.
    """

    root: Path
    found: dict[str, Any]
    after: list[str]


@functools.cache
def whole(name: str) -> Whole:
    """The answers of a whole table."""
    root = prepared(name)
    found = {action: answer(action, root, root) for action in ACTIONS}
    with copied(root) as copy:
        upsert(copy, root)
        return Whole(root, found, content(copy))


@contextmanager
def copied(root: Path) -> Iterator[Path]:
    """A copy of a table."""
    folder = Path(tempfile.mkdtemp(prefix="damage-", dir="/dev/shm"))
    try:
        yield shutil.copytree(root, folder / "t")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def opened(root: Path) -> Table:
    """The table, without the warnings that damage makes."""
    warnings.simplefilter("ignore")
    return Table.open(str(root))


def content(root: Path) -> list[str]:
    """The rows that a scan reads, data columns only."""
    found = []
    for part in opened(root).scan().tables():
        names = [name for name in part.column_names if not name.startswith("_hoodie_")]
        found += [str(row) for row in part.select(names).to_pylist()]
    return sorted(found)


@functools.cache
def data(root: Path) -> pa.Table:
    """The rows of a whole table."""
    parts = pa.concat_tables(list(opened(root).scan().tables()))
    names = [name for name in parts.column_names if not name.startswith("_hoodie_")]
    return parts.select(names)


def upsert(root: Path, rows_of: Path) -> None:
    """Write some rows of a whole table again; tables of ours get other values."""
    some = data(rows_of).slice(0, 7)
    if some.column_names == ["k", "p", "ts", "v"]:
        changed = pa.array([f"new {key}" for key in some["k"].to_pylist()])
        some = some.set_column(2, "ts", pa.array([99] * len(some))).set_column(3, "v", changed)
    opened(root).upsert(some)


def answer(action: str, root: Path, rows_of: Path) -> object:
    """What a table answers to a scan, a lookup of the keys of a whole table, or a check."""
    if action == "scan":
        return content(root)
    table = opened(root)
    if action == "check":
        return table.check().ok
    asked = data(rows_of)
    local = table.choice.name in ("simple", "bloom", "bucket")
    return table.lookup(asked if local else table.keys_of(asked)).to_pylist()


def kind(path: str) -> str:
    """What kind of file a path is; files of a kind can take each other's place."""
    folder, _, name = path.rpartition("/")
    if not folder.startswith(".hoodie"):
        folder = ""
    return f"{folder}: {_NUMBERS.sub('#', name)}"


def damageable(root: Path) -> list[str]:
    """Paths of the files that a table needs."""
    return [
        path
        for path in all_files(root)
        if PROPERTIES not in path and "/.keymark" not in path and "/.temp" not in path
    ]


@dataclass
class Trial:
    """A copy of a table that is damaged, asked, and put right again.

    Attributes:
        name: of the table.
        root: the copy.
        counts: of damages and answers.
        failures: a line for each wrong answer.
    """

    name: str
    root: Path
    counts: Counter[str]
    failures: list[str]

    def damaged(self, what: str, changes: Mapping[str, bytes | None], *, writes: bool) -> None:
        """Ask the table while some files have other content, or none.

        Args:
            what: the damage, for failures.
            changes: content by path.
            writes: whether to upsert at last; then the copy cannot be used again.
        """
        before = {path: self._read(path) for path in changes}
        if before == changes:
            return
        self._put(changes)
        self.counts["damages"] += 1
        for action in ACTIONS:
            found = self._answer(action)
            if found is not None and found != whole(self.name).found[action] and action != "check":
                self.failures.append(f"{self.name}: {what}: {action} answers {str(found)[:300]}")
        done = self._upsert() if writes else False
        self._put(before)
        if writes:
            wanted = whole(self.name).after if done else whole(self.name).found["scan"]
            self._compare(f"{what}: an upsert that {'passed' if done else 'failed'}", wanted)

    def _read(self, path: str) -> bytes | None:
        return (self.root / path).read_bytes() if (self.root / path).exists() else None

    def _put(self, contents: Mapping[str, bytes | None]) -> None:
        for path, content_ in contents.items():
            if content_ is None:
                (self.root / path).unlink(missing_ok=True)
            else:
                (self.root / path).write_bytes(content_)

    def _answer(self, action: str) -> object:
        try:
            found = answer(action, self.root, prepared(self.name))
        except TableError:
            self.counts["answers: typed error"] += 1
            return None
        told = action == "check" and not found
        self.counts["answers: told by the check" if told else "answers: right"] += 1
        return found

    def _upsert(self) -> bool:
        try:
            upsert(self.root, prepared(self.name))
        except TableError:
            self.counts["answers: typed error"] += 1
            return False
        self.counts["answers: right"] += 1
        return True

    def _compare(self, what: str, wanted: list[str]) -> None:
        found = content(self.root)
        if found != wanted:
            more, less = sorted(set(found) - set(wanted)), sorted(set(wanted) - set(found))
            self.failures.append(
                f"{self.name}: {what} left {len(found)} rows instead of {len(wanted)}: "
                f"{more[:3]} instead of {less[:3]}"
            )


def told(case: str, answered: Answer, folder: Path) -> Outcome:
    """The outcome of a child process that puts counts and failures into a file."""
    broken = answered.broken()
    if broken is not None or answered.kind != "right":
        at = (folder / "at").read_text() if (folder / "at").exists() else ""
        return Outcome(failures=[f"{case}: {at}: {broken or answered.text}"])
    counts, failures = json.loads((folder / "found.json").read_text())
    return Outcome(Counter(counts), failures)
