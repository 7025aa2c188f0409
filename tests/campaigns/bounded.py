"""An action in a child process whose memory is limited, and what it answered."""

from __future__ import annotations

import json
import os
import resource
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PROCESS_BYTES = 192 << 20
"""A process that has imported the packages and read a table."""
MOST_BYTES = 512 << 20
"""What it may have in all while it reads hostile input."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a child process did.

    Attributes:
        kind: "right" (no error), "refused" (a typed error), "untyped" or "died".
        text: the answer, or the error.
        peak: the most memory in bytes that a new process would have had; 0 if it died. What the
            parent had when it forked, such as the hostile file itself, does not count.
    """

    kind: str
    text: str
    peak: int

    def broken(self) -> str | None:
        """The promise that it broke; None if it kept all."""
        if self.kind in ("untyped", "died"):
            return f"{self.kind}: {self.text}"
        if self.peak > MOST_BYTES:
            return f"{self.peak >> 20} MB of memory"
        return None


def bounded(action: Callable[[], object], folder: Path) -> Answer:
    """Run an action in a child process with little address space left.

    A typed error is one with an exit code, as all errors of the packages have.
    """
    answer = folder / ".answer.json"
    answer.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        try:
            _limit()
            before = _peak()
            kind, text = _done(action)
            answer.write_text(json.dumps([kind, text, PROCESS_BYTES + _peak() - before]))
        finally:
            os._exit(0)
    try:
        status = os.waitpid(child, 0)[1]
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    if not answer.exists():
        return Answer("died", f"status {status}", 0)
    return Answer(*json.loads(answer.read_text()))


def _done(action: Callable[[], object]) -> tuple[str, str]:
    try:
        kind, text = "right", str(action())
    except Exception as error:  # noqa: BLE001  whatever it is, it is the answer
        kind = "refused" if isinstance(getattr(error, "exit_code", None), int) else "untyped"
        text = f"{type(error).__name__}: {error}"
        if kind == "untyped":
            text += traceback.format_exc()[-3000:]
    return kind, text[:4000]


def _limit() -> None:
    """Forget the parent's peak, and end what takes more address space than twice the limit."""
    Path("/proc/self/clear_refs").write_text("5")
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    most = size + 2 * MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _peak() -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])
