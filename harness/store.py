"""A run folder on disk: `run.json`, the append-only `samples.jsonl`, `events/`. A leaf module.

A block of samples is appended by one write and synced, so a run killed at any moment loses at
most the repetition that was being measured. Whatever a kill cut off is the unfinished last line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import RunFolderError
from harness.results import SCHEMA_VERSION, Sample


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one run.

    Attributes:
        path: the folder; created by `create`, required to hold a `run.json` by `open`.
    """

    path: Path

    @classmethod
    def create(cls, path: Path) -> RunFolder:
        """Make a new run folder; RunFolderError if the path holds a run or other files."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise RunFolderError(f"{path} exists and is not empty; choose another --out")
        path.mkdir(parents=True, exist_ok=True)
        folder = cls(path)
        folder.events.mkdir()
        folder.samples_file.touch()
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """An existing run folder; RunFolderError if the path is none."""
        folder = cls(path)
        if not folder.info_file.is_file():
            raise RunFolderError(f"{path} is not a run folder: it has no run.json")
        return folder

    @property
    def info_file(self) -> Path:
        """`run.json`: what was run, where, with what."""
        return self.path / "run.json"

    @property
    def samples_file(self) -> Path:
        """`samples.jsonl`: one number a line."""
        return self.path / "samples.jsonl"

    @property
    def events(self) -> Path:
        """Folder of the compressed Spark event logs."""
        return self.path / "events"

    @property
    def report(self) -> Path:
        """Folder of the derived report; written by `reports`."""
        return self.path / "report"

    def read_info(self) -> dict[str, Any]:
        """The content of `run.json`; RunFolderError if damaged or of a newer schema."""
        try:
            info = json.loads(self.info_file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunFolderError(f"{self.info_file} cannot be read: {error}") from error
        if not isinstance(info, dict) or not isinstance(info.get("schema_version"), int):
            raise RunFolderError(f"{self.info_file} is not the description of a run")
        if info["schema_version"] > SCHEMA_VERSION:
            raise RunFolderError(
                f"{self.info_file} has schema version {info['schema_version']}, "
                f"newer than {SCHEMA_VERSION}"
            )
        return info

    def write_info(self, info: Mapping[str, Any]) -> None:
        """Write `run.json` whole or not at all."""
        text = json.dumps({"schema_version": SCHEMA_VERSION, **info}, indent=2, ensure_ascii=False)
        _replace(self.info_file, text + "\n")

    def append(self, samples: Iterable[Sample]) -> None:
        """Add a block of samples by a single synced write."""
        block = "".join(sample.to_json() + "\n" for sample in samples).encode()
        with self.samples_file.open("ab", buffering=0) as file:
            file.write(block)
            os.fsync(file.fileno())

    def samples(self) -> list[Sample]:
        """All samples in the order they were taken; an unfinished last line is left out.

        Raises:
            RunFolderError: a finished line is no sample; says which.
        """
        try:
            content = self.samples_file.read_bytes()
        except OSError as error:
            raise RunFolderError(f"{self.samples_file} cannot be read: {error}") from error
        finished = content[: content.rfind(b"\n") + 1].split(b"\n")[:-1]
        return [self._parse(number, line) for number, line in enumerate(finished, start=1)]

    def _parse(self, number: int, line: bytes) -> Sample:
        try:
            return Sample.from_json(line)
        except ValueError as error:
            raise RunFolderError(f"{self.samples_file}, line {number}: {error}") from error

    def keep_only(self, keep: Callable[[Sample], bool]) -> None:
        """Drop what a killed run left unfinished: other samples, and a cut-off last line."""
        kept = "".join(sample.to_json() + "\n" for sample in self.samples() if keep(sample))
        if kept.encode() != self.samples_file.read_bytes():
            _replace(self.samples_file, kept)


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
