"""The system's cache of file contents: take a table out of it, so that a query reads the disk.

Pages that are written leave the cache when they are on the disk (`fsync`) and the system knows
that nobody needs them (`posix_fadvise` with `POSIX_FADV_DONTNEED`). That is an advice, which a file
system in memory cannot follow, so the cache is looked at afterwards (`mincore`).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from keymark.harness.errors import HarnessError

_LEFT = 0.01
"""Share of a table that may stay: other programs may read a file at the same time."""

_CHUNK = 1 << 20


def check(folder: Path) -> None:
    """Check that files in a folder can be dropped.

    Raises:
        HarnessError: the system or the file system cannot do it.
    """
    if not hasattr(os, "posix_fadvise"):
        raise HarnessError(
            "workload.cold: this system drops no files from its cache; measure on Linux, or set "
            "workload.cold=false"
        )
    with tempfile.TemporaryDirectory(dir=folder) as probe:
        (Path(probe) / "probe").write_bytes(bytes(16 * mmap.PAGESIZE))
        drop(Path(probe))


def drop(folder: Path) -> None:
    """Drop the files of a folder from the system's cache.

    Raises:
        HarnessError: they stay in it.
    """
    files = list(_files(folder))
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
    size, left = sum(path.stat().st_size for path in files), sum(map(cached_bytes, files))
    if left > _LEFT * size:
        raise HarnessError(
            f"workload.cold: {left:,} of {size:,} bytes in {folder} stay in the system's cache; "
            "write to a disk (--out), or set workload.cold=false"
        )


def fill(folder: Path) -> None:
    """Read the files of a folder, so that the next step finds them in the cache again."""
    for path in _files(folder):
        with path.open("rb", buffering=0) as file:
            while file.read(_CHUNK):
                pass


def cached_bytes(path: Path) -> int:
    """How many bytes of a file are in the system's cache, in whole pages."""
    size = path.stat().st_size
    if not size:
        return 0
    pages = np.zeros(-(-size // mmap.PAGESIZE), dtype=np.uint8)
    system = ctypes.CDLL(None, use_errno=True)
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as mapped,
    ):
        start = np.frombuffer(mapped, dtype=np.uint8).ctypes.data
        status = system.mincore(
            ctypes.c_void_p(start), ctypes.c_size_t(size), ctypes.c_void_p(pages.ctypes.data)
        )
    if status:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(path))
    return int(np.count_nonzero(pages & 1)) * mmap.PAGESIZE


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
