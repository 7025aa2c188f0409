"""Checks of a published `run.json`: names, times, versions, machine, secrets, paths."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from keymark.harness.redaction import REDACTED, is_sensitive, redact_text
from keymark.harness.store.run_record import MachineRecord, RunRecord
from keymark.harness.store.store import is_run_name
from keymark.reports.published.run import INFO, Finding, PublishedRun, in_file
from keymark.reports.render.text import without_folders

_VERSIONS = ("keymark", "python")
_REVISION = re.compile(r"[0-9a-f]{12}")
_TOLD = ("system", "release", "architecture", "processor", "cores", "memory_bytes", "disk")
_DISK_TOLD = datetime(2026, 11, 26, tzinfo=UTC)
"""Runs that began before it did not ask the system for the disk."""
_PAGE = 4096
# Options of Spark that say what a secret is called, and so look like some.
_DEFINES = "spark.redaction."


def record_findings(run: PublishedRun) -> Iterator[Finding]:
    """What is wrong with `run.json`, whatever the samples say."""
    record = run.record
    if not is_run_name(record.run_id):
        yield _wrong("run_id", "cannot name a folder")
    elif run.path.resolve().name != record.run_id:
        yield _wrong("run_id", f"is {record.run_id}; its folder is to be called so")
    began, ended = at(record.started), at(record.finished)
    if began is None or ended is None or ended < began:
        yield _wrong("started, finished", "are not the times of a begin and of an end")
    if record.repetitions < 1:
        yield _wrong("repetitions", "is not the number that was taken of each cell")
    yield from _versions(record)
    yield from _machine(record.machine, began)
    yield from _texts(run.document, "")


def at(time: str) -> datetime | None:
    """A time of `run.json`; None where it is none."""
    try:
        found = datetime.fromisoformat(time)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def portable(value: object) -> Any:
    """A document of JSON's types without folders of the machine that it comes from."""
    if isinstance(value, Mapping):
        return {
            key: inner if str(key).startswith(_DEFINES) else portable(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [portable(inner) for inner in value]
    return without_folders(value) if isinstance(value, str) else value


def _versions(record: RunRecord) -> Iterator[Finding]:
    for name in _VERSIONS:
        if not record.versions.get(name):
            yield _wrong(f"versions.{name}", "is not there")
    revision = record.versions.get("revision", "")
    if revision.endswith("+"):
        mistake = f"{revision} had changes that were not committed: nobody can repeat the run"
        yield _wrong("versions.revision", mistake)
    elif revision and not _REVISION.fullmatch(revision):
        yield _wrong("versions.revision", "is no commit of 12 letters")


def _machine(machine: MachineRecord, began: datetime | None) -> Iterator[Finding]:
    is_old = began is not None and began < _DISK_TOLD
    for name in _TOLD:
        if not getattr(machine, name) and not (is_old and name == "disk"):
            yield _wrong(f"machine.{name}", "is not there; every system tells it")
    size = machine.disk.get("bytes", 0)
    if machine.disk and not (type(size) is int and size > 0):
        yield _wrong("machine.disk.bytes", "is not the size of a disk")
    if machine.cores < 0 or machine.memory_bytes % _PAGE or machine.memory_bytes < 0:
        mistake = "are not what a system tells: whole cores, whole pages of memory"
        yield _wrong("machine.cores, machine.memory_bytes", mistake)
    if not (machine.load_1m >= 0 and machine.megahertz >= 0):
        yield _wrong("machine.load_1m, machine.megahertz", "are below zero")
    for name in machine.model_extra or ():
        # The public type of a machine counts only where the cloud's metadata names it.
        yield _wrong(f"machine.{name}", "is nothing that a run asks the system for")


def _texts(value: object, place: str) -> Iterable[Finding]:
    """Secrets and folders of a machine, at any depth."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            inside = f"{place}.{key}" if place else str(key)
            if str(key).startswith(_DEFINES):
                continue
            if is_sensitive(str(key)) and inner != REDACTED:
                yield _wrong(inside, "is called like a secret, and its value is there")
            else:
                yield from _texts(inner, inside)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _texts(inner, f"{place}[{number}]")
    elif isinstance(value, str):
        if redact_text(value) != value:
            yield _wrong(place, "holds a secret")
        if without_folders(value) != value:
            yield _wrong(place, "names a folder of the machine")


def _wrong(place: str, mistake: str) -> Finding:
    return in_file(INFO, place, mistake)
