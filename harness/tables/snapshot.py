"""Copies of tables: every repetition starts from the same bytes.

Base files and HFiles are never changed once written, so a copy links to them where the file
system can; log files, timeline and properties are copied.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

IMMUTABLE = (".parquet", ".hfile")


def restore(snapshot: Path, target: Path) -> None:
    """Replace `target` by a copy of `snapshot` that shares its immutable files."""
    remove(target)
    shutil.copytree(snapshot, target, copy_function=_link_or_copy)


def copy(source: Path, target: Path) -> None:
    """Replace `target` by a full copy of `source`; nothing is shared, the source is only read."""
    remove(target)
    shutil.copytree(source, target)


def remove(target: Path) -> None:
    """Delete a copy; nothing if it is not there."""
    shutil.rmtree(target, ignore_errors=True)


def _link_or_copy(source: str, target: str) -> str:
    if source.endswith(IMMUTABLE):
        try:
            os.link(source, target)
        except OSError:
            return str(shutil.copy2(source, target))
        return target
    return str(shutil.copy2(source, target))
