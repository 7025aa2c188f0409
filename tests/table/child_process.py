"""Run a function in a forked child with fewer rights or more mounts, and bring its outcome back.

Tests run as root here, whom no mode of a file stops. A child gives up all capabilities: it stays
the owner of its files, and modes count for it as they do for any user.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import select
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

_CAPABILITY_VERSION = 0x20080522
_NEW_MOUNTS, _BIND, _PRIVATE = 0x20000, 0x1000, (1 << 18) | 0x4000
_SECONDS = 60.0

Mounts = Sequence[tuple[Path, Path]]
"""Source and target of each bind mount"""


class HangError(AssertionError):
    """The child did not come to an end."""


def in_child(function: Callable[[], Any], *, mounts: Mounts = (), rights: bool = False) -> Any:
    """What the function returns, or raises, in a child with those mounts; without rights."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _run(function, writing, mounts, rights=rights)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        try:
            if not select.select([pipe], [], [], _SECONDS)[0]:
                os.kill(child, signal.SIGKILL)
                raise HangError(f"still running after {_SECONDS:.0f} s")
            data = pipe.read()
        finally:
            os.waitpid(child, 0)
    raised, value = pickle.loads(data)
    if raised:
        raise value
    return value


def _run(function: Callable[[], Any], writing: int, mounts: Mounts, *, rights: bool) -> None:
    outcome: tuple[bool, Any]
    try:
        for source, target in mounts:
            _bind(source, target)
        if not rights:
            _give_up_rights()
        outcome = False, function()
    except BaseException as error:  # noqa: BLE001  the parent raises it
        outcome = True, error
    try:
        data = pickle.dumps(outcome)
        pickle.loads(data)
    except Exception:  # noqa: BLE001  whatever cannot travel
        data = pickle.dumps((True, AssertionError(repr(outcome))))
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(data)
    os._exit(0)


def _libc(name: str, *arguments: Any) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _give_up_rights() -> None:
    """Drop all capabilities of this thread, the only one of a child."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    _libc("capset", header, (ctypes.c_uint32 * 6)())


def _bind(source: Path, target: Path) -> None:
    """Mount a file or folder a second time, seen by this process only."""
    _libc("unshare", _NEW_MOUNTS)
    _libc("mount", b"none", b"/", None, ctypes.c_ulong(_PRIVATE), None)
    _libc("mount", bytes(source), bytes(target), None, ctypes.c_ulong(_BIND), None)


def modes_count(folder: Path) -> bool:
    """Whether the mode of a file stops a child from reading it."""
    probe = folder / ".mode-probe"
    probe.write_bytes(b"x")
    try:
        with mode_of(probe, 0), contextlib.suppress(PermissionError):
            in_child(probe.read_bytes)
            return False
    except OSError:
        return False
    finally:
        probe.unlink()
    return True


def mounts_work(folder: Path) -> bool:
    """Whether this process may make bind mounts."""
    source, target = folder / ".mount-source", folder / ".mount-target"
    source.mkdir()
    target.mkdir()
    (source / "seen").write_bytes(b"x")
    try:
        return bool(in_child((target / "seen").exists, mounts=[(source, target)]))
    except OSError:
        return False
    finally:
        (source / "seen").unlink()
        source.rmdir()
        target.rmdir()


@contextlib.contextmanager
def mode_of(path: Path, mode: int) -> Iterator[None]:
    before = path.stat().st_mode
    path.chmod(mode)
    try:
        yield
    finally:
        path.chmod(before)
