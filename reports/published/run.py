"""A published run, read to the last line: its files, what they hold, whether it is all there.

A folder `results/<run id>/` holds `run.json`, `samples.jsonl`, `canary.jsonl`, `stages.jsonl` (of
runs with Spark) and `summary.json`; all but the first may be packed by gzip. It may come from
anyone, so that nothing is followed, unpacked or read without a bound.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from keymark.harness.errors import RunFolderError
from keymark.harness.store.contents import PACKED, content
from keymark.harness.store.results import Beat, Sample, Stage, with_table_versions
from keymark.harness.store.run_record import COMPLETE, RunRecord
from keymark.harness.store.store import RunFolder
from keymark.reports.model.projection import Run, of_lines
from keymark.reports.render.text import clean

INFO, SAMPLES, CANARY, STAGES = "run.json", "samples.jsonl", "canary.jsonl", "stages.jsonl"
SUMMARY = "summary.json"

MOST_BYTES = 8 << 20
"""The largest size of a published folder, packed as it is."""

PACKABLE = (SAMPLES, CANARY, STAGES, SUMMARY)
_ALLOWED = (INFO, "README.md", *PACKABLE, *(f"{name}{PACKED}" for name in PACKABLE))
_NEEDED = (INFO, SAMPLES, CANARY, SUMMARY)
_MANY = 10
"""Lines of one file that are named if they are no lines of a run."""

Line = TypeVar("Line", Sample, Beat, Stage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something in a published run that is not as it must be; safe to show.

    Attributes:
        file: its name in the folder; empty for the folder itself.
        place: line or field in it; empty for the whole file.
        mistake: what is wrong.
    """

    file: str
    place: str
    mistake: str

    def __str__(self) -> str:
        """One line: `samples.jsonl, line 3, value: ...`."""
        return f"{', '.join(filter(None, [self.file or 'the folder', self.place]))}: {self.mistake}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRun:
    """What the files of a folder hold.

    Attributes:
        path: the folder.
        document: what `run.json` says.
        record: the same, typed.
        samples: with the number of the line of each.
        beats: the same of the canary.
        stages: the same of Spark's stages.
    """

    path: Path
    document: Mapping[str, Any]
    record: RunRecord
    samples: Sequence[tuple[int, Sample]]
    beats: Sequence[tuple[int, Beat]]
    stages: Sequence[tuple[int, Stage]]

    def projected(self) -> Run:
        """The run as reports see it.

        Raises:
            ReportError: a sample is of another run.
        """
        samples, beats = [each for _, each in self.samples], [each for _, each in self.beats]
        return of_lines(self.path, self.record, samples, beats)


def in_file(file: str, place: str, mistake: str) -> Finding:
    """A finding whose texts may be foreign."""
    return Finding(file=clean(file, 80), place=clean(place, 200), mistake=clean(mistake, 600))


def in_line(file: str, number: int, field: str, mistake: str) -> Finding:
    """A finding in one line of a file."""
    return in_file(file, f"line {number}" + (f", {field}" if field else ""), mistake)


def read(path: Path) -> tuple[PublishedRun | None, list[Finding]]:
    """Read a folder; None where it is not to be read any further, which a finding says.

    Raises:
        OSError: a file cannot be read.
    """
    found = list(_files(path))
    try:
        text, document, record = _info(path / INFO)
        if record.status != COMPLETE:
            # A run that is not ended explains whatever else is missing.
            mistake = "not ended; `keymark run ... --resume --out DIR` continues a run"
            return None, [in_file(INFO, f"status {record.status!r}", mistake)]
        if found:
            return None, found
        found += _digest(RunFolder(path), text, record)
        samples, wrong = _parsed(path / SAMPLES, Sample.from_json)
        # These lines have no schema version: that of `run.json` holds.
        version = record.schema_version
        beats, cut = _parsed(
            path / CANARY, lambda line: Beat.from_json(with_table_versions(line.decode(), version))
        )
        stages, torn = _parsed(path / STAGES, lambda line: Stage.of_run(line.decode(), version))
    except RunFolderError as error:
        return None, [*found, in_file("", "", str(error))]
    found += [*wrong, *cut, *torn]
    if wrong or cut or torn:
        return None, found
    run = PublishedRun(
        path=path, document=document, record=record, samples=samples, beats=beats, stages=stages
    )
    return run, found


def _info(path: Path) -> tuple[str, dict[str, Any], RunRecord]:
    """The text of run.json, what it says, and the same typed."""
    if path.is_symlink() or path.stat().st_size > MOST_BYTES:
        raise RunFolderError(f"{INFO} is a link or too large, and is not read")
    try:
        text = path.read_text(encoding="utf-8")
        document = json.loads(with_table_versions(text, _version(text)))
    except (ValueError, RecursionError) as error:
        raise RunFolderError(f"{INFO} cannot be read: {error}") from error
    return text, document, RunRecord.parse(document, INFO)


def _files(path: Path) -> Iterable[Finding]:
    """What is there that must not be, and what is not there."""
    size, there = 0, sorted(path.iterdir())
    for each in there:
        if each.is_symlink() or not each.is_file():
            yield in_file(each.name, "", "is no plain file")
        elif each.name not in _ALLOWED:
            yield in_file(each.name, "", f"is none of {', '.join(_ALLOWED)}")
        else:
            size += each.stat().st_size
    if size > MOST_BYTES:
        yield in_file("", "", f"holds {size:,} bytes; a published run has {MOST_BYTES:,} at most")
    names = {each.name for each in there}
    for name in PACKABLE:
        if {name, f"{name}{PACKED}"} <= names:
            yield in_file(name, "", "is there twice, plain and packed")
    for name in _NEEDED:
        if not {name, f"{name}{PACKED}"} & names:
            yield in_file(name, "", "is not there")


def _version(text: str) -> object:
    document = json.loads(text)
    return document.get("schema_version") if isinstance(document, dict) else None


def _digest(folder: RunFolder, text: str, record: RunRecord) -> Iterable[Finding]:
    """Which files are not those that the run left."""
    if not record.digest:
        mistake = "is not there: a version before it ended the run; `keymark results add` makes it"
        yield in_file(INFO, "digest", mistake)
        return
    now = folder.digest(json.loads(text))
    for name in sorted({*now, *record.digest}):
        if name not in now:
            yield in_file(name, "", "is not there; the digest of the run names it")
        elif now[name] != record.digest.get(name):
            what = "what else it says" if name == INFO else "the file"
            kept = record.digest.get(name, "nothing")[:12]
            mistake = f"{what} is not what the run left: SHA-256 {now[name][:12]}…, not {kept}…"
            yield in_file(name, "", mistake)


def _parsed(
    path: Path, parse: Callable[[bytes], Line]
) -> tuple[list[tuple[int, Line]], list[Finding]]:
    """The lines of a file, and those that are none; nothing of a file that is not there."""
    try:
        written = content(path)
    except FileNotFoundError:
        return [], []
    *lines, rest = written.split(b"\n")
    good: list[tuple[int, Line]] = []
    wrong: list[Finding] = []
    for number, line in enumerate(lines, start=1):
        try:
            good.append((number, parse(line)))
        except (ValueError, RecursionError) as error:
            wrong.append(in_line(path.name, number, "", str(error)))
    if len(wrong) > _MANY:
        more = in_file(path.name, "", f"{len(wrong) - _MANY:,} more lines are no lines of a run")
        wrong = [*wrong[:_MANY], more]
    if rest:
        wrong.append(in_line(path.name, len(lines) + 1, "", "is cut off"))
    return good, wrong
