"""A run folder on disk: `run.json`, `samples.jsonl`, `canary.jsonl`, `events/`. A leaf module.

All text that is written goes through `keymark.harness.redaction` here.

A block of samples is appended by one write and synced, so a run killed at any moment loses at
most the repetition that was being measured. Whatever a kill cut off is the unfinished last line.

The last `run.json` of a run holds the digest of all that it left: from then on a file that was cut
off, mixed up or edited does not pass for what was measured.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from keymark.harness.errors import RunFolderError
from keymark.harness.redaction import redact_document, redact_text
from keymark.harness.store.contents import PACKED, content
from keymark.harness.store.results import (
    SCHEMA_VERSION,
    Beat,
    Sample,
    Stage,
    with_table_versions,
)
from keymark.harness.store.run_record import COMPLETE, RunRecord

LONGEST_NAME = 120
"""Characters of the name of a run"""

_DIGEST = "digest"


def unwatched() -> None:
    """Called after each write to a folder that is not copied: does nothing."""


def is_run_name(name: object) -> bool:
    """Whether a run, or the scenario that it is named after, may be called so: it names folders."""
    return (
        isinstance(name, str)
        and 0 < len(name) <= LONGEST_NAME
        and name.isprintable()
        and not name.startswith(".")
        and not {"/", "\\"} & set(name)
    )


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one run.

    Attributes:
        path: the folder; created by `create`, required to hold a `run.json` by `open`.
        kept: called whenever a block or a file is complete.
    """

    path: Path
    kept: Callable[[], None] = unwatched

    @classmethod
    def create(cls, path: Path, kept: Callable[[], None] = unwatched) -> RunFolder:
        """Make a new run folder; RunFolderError if the path holds a run or other files."""
        folder = cls(path, kept)
        if path.exists() and not folder.is_blank:
            raise RunFolderError(f"{path} exists and is not empty; choose another --out")
        path.mkdir(parents=True, exist_ok=True)
        folder.events.mkdir(exist_ok=True)
        folder.samples_file.touch()
        return folder

    @classmethod
    def open(cls, path: Path, kept: Callable[[], None] = unwatched) -> RunFolder:
        """An existing run folder; RunFolderError if the path is none."""
        folder = cls(path, kept)
        if not folder.info_file.is_file():
            raise RunFolderError(f"{path} is not a run folder: it has no run.json")
        return folder

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing but what a run has made that was killed before it began."""
        made = (self.samples_file.name, self.events.name, _temporary(self.info_file).name)
        return self.path.is_dir() and all(
            each.name in made
            and not each.is_symlink()
            and (not each.stat().st_size or each.suffix == ".tmp" or each.is_dir())
            for each in self.path.iterdir()
        )

    @property
    def is_packed(self) -> bool:
        """Whether its samples are packed, as those of published runs are."""
        return self.samples_file.with_name(self.samples_file.name + PACKED).exists()

    def refuse_links(self) -> None:
        """Check that nothing which a run writes to is a link, which may lead anywhere.

        Raises:
            RunFolderError: something is; says what.
        """
        for path in (*self.path.iterdir(), *(self.path / "work").glob("*"), *self.events.glob("*")):
            if path.is_symlink():
                raise RunFolderError(f"{path} is a link: a run folder with links is not resumed")

    @property
    def info_file(self) -> Path:
        """`run.json`: what was run, where, with what."""
        return self.path / "run.json"

    @property
    def samples_file(self) -> Path:
        """`samples.jsonl`: one number a line."""
        return self.path / "samples.jsonl"

    @property
    def canary_file(self) -> Path:
        """`canary.jsonl`: one beat of the canary a line; not there where none was taken."""
        return self.path / "canary.jsonl"

    @property
    def stages_file(self) -> Path:
        """`stages.jsonl`: what Spark's stages did, one kind in one step a line."""
        return self.path / "stages.jsonl"

    @property
    def events(self) -> Path:
        """Folder of the compressed Spark event logs."""
        return self.path / "events"

    @property
    def report(self) -> Path:
        """Folder of the derived report; written by `reports`."""
        return self.path / "report"

    def read_record(self) -> RunRecord:
        """The content of `run.json`; RunFolderError if damaged or of a newer schema."""
        try:
            text = self.info_file.read_text(encoding="utf-8")
            document = json.loads(with_table_versions(text, _schema_version(text)))
        except (OSError, ValueError, RecursionError) as error:
            raise RunFolderError(f"{self.info_file} cannot be read: {error}") from error
        return RunRecord.parse(document, str(self.info_file))

    def write_record(self, record: RunRecord) -> None:
        """Write `run.json` of a run that is not ended, whole or not at all; it has no digest."""
        self._write_info(_document(record))

    def finish(self, record: RunRecord) -> None:
        """Write `run.json` of a run that came to its end, with the digest of all that it left."""
        document = _document(record.but(status=COMPLETE))
        self._write_info({**document, _DIGEST: self.digest(document)})

    def digest(self, document: Mapping[str, Any]) -> dict[str, str]:
        """SHA-256 of what a run left, by file: of `run.json` of all else that it says.

        Args:
            document: what `run.json` says.

        Raises:
            OSError: a file cannot be read.
            RunFolderError: a packed file is damaged.
        """
        recorded = {key: value for key, value in document.items() if key != _DIGEST}
        # However it is indented or ordered, it says the same.
        plain = json.dumps(recorded, sort_keys=True, separators=(",", ":"))
        found = {self.info_file.name: _sha256(plain.encode())}
        for path in (self.samples_file, self.stages_file, self.canary_file):
            with suppress(FileNotFoundError):
                found[path.name] = _sha256(content(path))
        return found

    def _write_info(self, document: Mapping[str, Any]) -> None:
        _replace(self.info_file, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        self.kept()

    def append(self, samples: Iterable[Sample]) -> None:
        """Add a block of samples by a single synced write."""
        redacted = (replace(each, reason=redact_text(each.reason)) for each in samples)
        block = "".join(f"{sample.to_json()}\n" for sample in redacted)
        with _named(self.samples_file), self.samples_file.open("ab") as file:
            file.write(block.encode(errors="backslashreplace"))
            file.flush()
            os.fsync(file.fileno())
        self.kept()

    def append_beat(self, beat: Beat) -> None:
        """Add a beat of the canary; it is not synced, which would be a load of its own."""
        with _named(self.canary_file), self.canary_file.open("ab") as file:
            file.write(f"{beat.to_json()}\n".encode())

    def beats(self) -> list[Beat]:
        """All beats in the order they were taken; lines that a kill cut off are left out."""
        found = []
        with suppress(FileNotFoundError):
            written = content(self.canary_file).decode(errors="replace")
            for line in with_table_versions(written, self._version).split("\n"):
                with suppress(ValueError):
                    found.append(Beat.from_json(line))
        return found

    def write_stages(self, stages: Iterable[Stage]) -> None:
        """Write what the stages did, whole or not at all."""
        redacted = (replace(each, name=redact_text(each.name)) for each in stages)
        _replace(self.stages_file, "".join(f"{stage.to_json()}\n" for stage in redacted))
        self.kept()

    def stages(self) -> list[Stage]:
        """What the stages did; nothing where the run tells nothing.

        Raises:
            RunFolderError: the file cannot be read, or a line is no stage; says which.
        """
        try:
            lines = content(self.stages_file).decode(errors="replace").split("\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise RunFolderError(f"{self.stages_file} cannot be read: {error}") from error
        found, version = [], self._version
        for number, line in enumerate(filter(None, lines), start=1):
            try:
                found.append(Stage.of_run(line, version))
            except ValueError as error:
                raise RunFolderError(f"{self.stages_file}, line {number}: {error}") from error
        return found

    def samples(self) -> list[Sample]:
        """All samples in the order they were taken; an unfinished last line is left out.

        Raises:
            RunFolderError: a finished line is no sample; says which.
        """
        try:
            written = content(self.samples_file)
        except OSError as error:
            raise RunFolderError(f"{self.samples_file} cannot be read: {error}") from error
        finished = written[: written.rfind(b"\n") + 1].split(b"\n")[:-1]
        return [self._parse(number, line) for number, line in enumerate(finished, start=1)]

    def _parse(self, number: int, line: bytes) -> Sample:
        try:
            return Sample.from_json(line)
        except ValueError as error:
            raise RunFolderError(f"{self.samples_file}, line {number}: {error}") from error

    @property
    def _version(self) -> object:
        """The schema version of files whose lines have none: that of `run.json`."""
        try:
            return _schema_version(self.info_file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None

    def keep_only(self, keep: Callable[[Sample], bool]) -> None:
        """Drop what a killed run left unfinished: other samples, and a cut-off last line."""
        kept = "".join(sample.to_json() + "\n" for sample in self.samples() if keep(sample))
        if kept.encode() != self.samples_file.read_bytes():
            _replace(self.samples_file, kept)


def _document(record: RunRecord) -> dict[str, Any]:
    """What `run.json` says about a run, without secrets and without a digest."""
    content = {key: value for key, value in record.document.items() if key != _DIGEST}
    document: dict[str, Any] = redact_document({"schema_version": SCHEMA_VERSION, **content})
    return document


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _schema_version(text: str) -> object:
    document = json.loads(text)
    return document.get("schema_version") if isinstance(document, dict) else None


def _replace(path: Path, text: str) -> None:
    temporary = _temporary(path)
    # What a killed run left may be a link, if the folder came from somebody else.
    temporary.unlink(missing_ok=True)
    # What is not valid Unicode, such as a file name of the command line, is escaped.
    with (
        _named(path),
        temporary.open("x", encoding="utf-8", errors="backslashreplace") as file,
    ):
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors name the file: those of writing and syncing do not."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.tmp")
