"""What a file of a run folder holds: as it was written, or packed as runs are published. A leaf.

Published runs come from strangers: what is packed is unpacked up to a bound.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from keymark.harness.errors import RunFolderError

PACKED = ".gz"
"""Ends the name of a packed file."""

MOST_BYTES = 128 << 20
"""The largest size of an unpacked file: some 400,000 samples."""


def content(path: Path) -> bytes:
    """The bytes of a file; where it is not there, those of its packed form.

    Raises:
        FileNotFoundError: neither is there.
        OSError: it cannot be read.
        RunFolderError: the packed form is damaged or holds too much.
    """
    packed = path.with_name(path.name + PACKED)
    if path.exists() or not packed.exists():
        return path.read_bytes()
    try:
        with gzip.open(packed) as file:
            found = file.read(MOST_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise RunFolderError(f"{packed} is damaged: {error}") from error
    if len(found) > MOST_BYTES:
        raise RunFolderError(f"{packed} unpacks to more than {MOST_BYTES:,} bytes")
    return found


def pack(data: bytes) -> bytes:
    """The packed form of a content; equal contents have equal ones."""
    return gzip.compress(data, compresslevel=9, mtime=0)
