"""What commits of a Hudi, Delta or Iceberg table say: rows, files touched, write amplification.

Nothing of a table is read but what its writers say about their commits:

    Hudi     the completed instants of the timeline, of table version 6, 8 and 9
    Delta    `_delta_log/<version>.json`: actions `add`, `remove` and `commitInfo`
    Iceberg  the snapshots in the newest `metadata/*.metadata.json`

Sources: the Delta transaction log protocol (actions, per-file statistics) and the operation metrics
of Delta's history; the Iceberg table specification (table metadata, snapshot summaries).
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from keymark.harness.errors import HarnessError
from keymark.table.errors import TableError
from keymark.table.layout.naming import HOODIE
from keymark.table.storage.storage import Storage
from keymark.table.storage.stores import storage_at
from keymark.table.survey.commits import decode
from keymark.table.survey.instants import TIMELINE, WRITES, SurveyInstant, instants
from keymark.table.survey.survey import table_version

_OWN_TIMELINE = 8
_DELTA, _ICEBERG = "_delta_log", "metadata"
_DELTA_COMMIT = re.compile(r"\d{20}\.json")
_ICEBERG_METADATA = re.compile(r"v?(\d{1,18})\b.*\.metadata\.json(?:\.gz)?")
_BAD = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What a commit says about itself.

    Attributes:
        files: that it added and removed; of Hudi file groups that it wrote to.
        rows_written: of all files that it wrote, copied ones included.
        rows_changed: that were inserted, updated and deleted; None where it does not say.
    """

    files: int
    rows_written: int
    rows_changed: int | None


Commits = Mapping[str, Callable[[], Commit]]
"""How each commit of a table is read, by its name."""


def commits(place: str) -> Commits | None:
    """The commits of a table; None where there is no table yet.

    Args:
        place: path or URL of the table.

    Raises:
        HarnessError: it cannot be read.
    """
    try:
        storage = storage_at(place, {})
        if storage.exists(f"{HOODIE}/hoodie.properties"):
            return _hudi(storage)
        if storage.exists(_DELTA):
            return _delta(storage)
        return _iceberg(storage)
    except (TableError, *_BAD) as error:
        raise HarnessError(f"job.tables: {place} cannot be read: {error}") from error


def added(place: str, before: Commits | None) -> list[Commit] | None:
    """What the commits say that were not there before; None where there is no table.

    Raises:
        HarnessError: the table, or a commit of it, cannot be read.
    """
    now = commits(place)
    if now is None:
        return None
    try:
        return [read() for name, read in now.items() if name not in (before or {})]
    except (TableError, *_BAD) as error:
        raise HarnessError(f"job.tables: a commit of {place} cannot be read: {error}") from error


def values(found: Iterable[Commit]) -> Iterator[tuple[str, float]]:
    """(metric, value) of some commits; amplification only where all say how much they changed."""
    found = list(found)
    written = sum(each.rows_written for each in found)
    yield "commits", len(found)
    yield "files_touched", sum(each.files for each in found)
    yield "rows_written", written
    known = [each.rows_changed for each in found if each.rows_changed is not None]
    if len(known) == len(found):
        yield "rows_changed", sum(known)
        if sum(known):
            yield "write_amplification", written / sum(known)


def _hudi(storage: Storage) -> Commits:
    folder = TIMELINE if table_version(storage) >= _OWN_TIMELINE else HOODIE
    known = instants((file.path for file in storage.list(folder)), folder)
    return {
        f"{each.time}.{each.action}": partial(_hudi_commit, storage, each)
        for each in known
        if each.completed and each.action in WRITES
    }


def _hudi_commit(storage: Storage, instant: SurveyInstant) -> Commit:
    facts = decode(storage.read(instant.path), instant).facts
    return Commit(
        files=facts.files,
        rows_written=facts.rows_written,
        rows_changed=facts.updated + facts.inserted + facts.deleted,
    )


def _delta(storage: Storage) -> Commits:
    names = [file.path for file in storage.list(_DELTA) if _DELTA_COMMIT.fullmatch(file.name)]
    return {name: partial(_delta_commit, storage, name) for name in names}


def _delta_commit(storage: Storage, name: str) -> Commit:
    actions = [json.loads(line) for line in storage.read(name).splitlines() if line.strip()]
    adds = [each["add"] for each in actions if "add" in each]
    removes = sum("remove" in each for each in actions)
    info: Mapping[str, Any] = next(
        (each["commitInfo"] for each in actions if "commitInfo" in each), {}
    )
    metrics = {key: int(value) for key, value in (info.get("operationMetrics") or {}).items()
            if str(value).lstrip("-").isdecimal()}  # fmt: skip
    counted = [_delta_rows(each) for each in adds]
    known = [rows for rows in counted if rows is not None]
    written = sum(known) if len(known) == len(counted) else metrics.get("numOutputRows", 0)
    changed: int | None = None
    parts = [metrics[name] for name in _DELTA_CHANGED if name in metrics]
    if all(each.get("dataChange") is False for each in adds) and adds:
        changed = 0  # files were put together
    elif parts:
        changed = sum(parts)
    elif not removes:
        changed = written
    return Commit(files=len(adds) + removes, rows_written=written, rows_changed=changed)


_DELTA_CHANGED = (
    *("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"),
    *("numUpdatedRows", "numDeletedRows"),
)
"""Metrics of MERGE, UPDATE and DELETE that count changed rows."""


def _delta_rows(add: Mapping[str, Any]) -> int | None:
    """The rows of a file, where its statistics say so."""
    stats = json.loads(add.get("stats") or "{}")
    rows = stats.get("numRecords")
    return rows if isinstance(rows, int) else None


def _iceberg(storage: Storage) -> Commits | None:
    numbered = [
        (int(match[1]), file.path)
        for file in storage.list(_ICEBERG)
        if (match := _ICEBERG_METADATA.fullmatch(file.name))
    ]
    if not numbered:
        return None
    data = storage.read(max(numbered)[1])
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    snapshots = json.loads(data).get("snapshots") or ()
    summaries = {str(each["snapshot-id"]): each.get("summary") or {} for each in snapshots}
    return {name: partial(_iceberg_commit, summary) for name, summary in summaries.items()}


def _iceberg_commit(summary: Mapping[str, str]) -> Commit:
    def count(*names: str) -> int:
        return sum(int(summary.get(name, 0)) for name in names)

    written = count("added-records")
    removed = count("deleted-data-files")
    changed: int | None = written + count("added-position-deletes", "added-equality-deletes")
    if summary.get("operation") == "replace":
        changed = 0  # files were put together
    elif removed and written:
        changed = None  # of files written anew, nothing says how many of their rows changed
    elif removed:
        changed = count("deleted-records")
    return Commit(
        files=count("added-data-files", "added-delete-files") + removed,
        rows_written=written,
        rows_changed=changed,
    )
