"""The files that a step wrote: those that are new or changed after it, found by listing.

A file that was written and deleted again within the step is not seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from keymark.harness.errors import HarnessError
from keymark.table.errors import TableError
from keymark.table.storage.stores import storage_at

Seen = Mapping[str, tuple[int, ...]]
"""Size, and on a disk time of the last change and number, of each file by its path."""


@dataclass(frozen=True, slots=True)
class Written:
    """Files that a step wrote, and their bytes."""

    files: int
    bytes: int


def seen(places: Sequence[str], folder: Path) -> Seen:
    """All files at and below some places.

    Args:
        places: paths, or URLs of stores; what is not there has no files.
        folder: that relative paths are below.

    Raises:
        HarnessError: a place cannot be listed.
    """
    found: dict[str, tuple[int, ...]] = {}
    for place in places:
        try:
            found.update(_on_store(place) if "://" in place else _on_disk(folder / place))
        except (TableError, OSError) as error:
            raise HarnessError(f"job.writes: {place} cannot be listed: {error}") from error
    return found


def written(before: Seen, after: Seen) -> Written:
    """What is new or changed."""
    changed = [values for path, values in after.items() if before.get(path) != values]
    return Written(len(changed), sum(values[0] for values in changed))


def _on_store(place: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    for file in storage_at(place, {}).walk(""):
        yield f"{place}/{file.path}", (file.size,)


def _on_disk(place: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
    found = [place] if place.is_file() else []
    for parent, _, names in os.walk(place):
        found += [Path(parent, name) for name in names]
    for path in found:
        try:
            stat = path.lstat()
        except FileNotFoundError:
            continue  # it was removed meanwhile
        yield str(path), (stat.st_size, stat.st_mtime_ns, stat.st_ino)
