"""A real ext4 on a loop device: a shutdown without a flush of the journal cuts its power."""

from __future__ import annotations

import contextlib
import fcntl
import multiprocessing
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
_NO_LOG_FLUSH = 2
# The journal is written every second: what is not synced gets to the disk in parts.
_OPTIONS = "noauto_da_alloc,commit=1"
_IMAGE_BYTES = 96 << 20


@dataclass(frozen=True)
class Writer:
    """What a process does until the power is cut: `function(tell, *arguments)`."""

    function: Callable[..., None]
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class LoopDisk:
    """An image, and where it is mounted."""

    image: Path
    mount: Path

    @property
    def table(self) -> str:
        """The folder of the table on it."""
        return str(self.mount / "table")

    @contextlib.contextmanager
    def mounted(self) -> Iterator[None]:
        """Mount it, which replays the journal, and unmount it at the end."""
        _run("mount", "-o", f"loop,{_OPTIONS}", str(self.image), str(self.mount))
        try:
            yield
        finally:
            _run("umount", str(self.mount))

    def cut(self, writer: Writer, seconds: float) -> tuple[list[str], Any]:
        """Let a process write and cut the power some time after it began; what it told last."""
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe(duplex=False)
        with self.mounted():
            process = context.Process(target=_work, args=(writer, theirs), daemon=True)
            process.start()
            theirs.close()
            told = [ours.recv()] if ours.poll(60) else []
            # Now and then longer than the journal waits.
            time.sleep(seconds)
            folder = os.open(self.mount, os.O_RDONLY)
            fcntl.ioctl(folder, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
            os.close(folder)
            process.kill()
            process.join()
            with contextlib.suppress(EOFError):
                while ours.poll(0):
                    told.append(ours.recv())
        ours.close()
        return [name for name, _ in told], told[-1][1]


def _work(writer: Writer, pipe: Any) -> None:
    """In the process that writes: after the cut all calls fail, and it may say nothing more."""
    with contextlib.suppress(Exception):
        writer.function(pipe.send, *writer.arguments)


@contextlib.contextmanager
def made(folder: Path) -> Iterator[LoopDisk | None]:
    """A new file system in a folder; None where this process may not mount one."""
    disk = LoopDisk(folder / "image", folder / "mount")
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        yield None
        return
    disk.mount.mkdir()
    with disk.image.open("wb") as image:
        image.truncate(_IMAGE_BYTES)
    try:
        _run("mkfs.ext4", "-q", "-F", str(disk.image))
        with disk.mounted():
            Path(disk.table).mkdir()
    except (OSError, subprocess.CalledProcessError):
        yield None
        return
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk.mount)], check=False, capture_output=True)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
