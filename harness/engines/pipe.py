"""An engine in a process of its own, spoken to over a pipe.

A message is (name of a method, its arguments), the answer its value or the text of its error;
both are pickled by `multiprocessing`'s connections, between two processes of one program.
`pipe_server.py` is the child's end. The child dies with its parent, however that ends: a thread of
the child waits at the pipe, and the end of the pipe ends the process. (Its JVM ends with it:
PySpark's gateway waits at a pipe, too.)
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from keymark.harness.engines.pipe_server import CANCEL
from keymark.harness.errors import CellError

PATIENCE_S = 3_600.0
"""How long the process of an engine may be silent, in seconds, where nothing says otherwise.

Loading 100,000,000 rows on two cores takes a tenth of it.
"""
_CLOSING_S = 60.0
_OUT_OF_MEMORY = "java.lang.OutOfMemoryError"


class Asked(Protocol):
    """Whatever answers messages: `Child`, or a stand-in of the tests."""

    def call(self, name: str, /, **arguments: Any) -> Any:
        """The answer to a message."""

    def close(self) -> None:
        """End it."""


class Child:
    """The parent's end.

    Args:
        command: what to run; the number of its file descriptor is added as the last argument.
        log: where its standard output and error go.
        name: how errors name it.

    Attributes:
        patience_s: seconds that an answer may take; the child is killed after that. None: it takes
            as long as it takes.
    """

    patience_s: float | None = None

    def __init__(self, command: Sequence[str], *, log: Path, name: str) -> None:
        ours, theirs = socket.socketpair()
        self._name, self._log = name, log
        log.parent.mkdir(parents=True, exist_ok=True)
        with theirs, log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [*command, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self._pipe = Connection(ours.detach())

    def call(self, name: str, /, **arguments: Any) -> Any:
        """The child's answer to a message.

        Raises:
            CellError: the child's method raised, or the child is gone or was silent for too long.
        """
        try:
            self._pipe.send((name, arguments))
            if not self._pipe.poll(self.patience_s):
                self._process.kill()
                self._process.wait(_CLOSING_S)
                silence = f"{self._name} gave no answer for {self.patience_s:,.0f} s"
                raise CellError(f"{silence}{self._last_words()}")
            ok, value = self._pipe.recv()
        except (EOFError, OSError) as error:
            self._process.wait(_CLOSING_S)
            raise CellError(f"{self._name} died{self._last_words()}") from error
        except KeyboardInterrupt:
            self._cancel()
            raise
        if not ok:
            raise CellError(str(value))
        return value

    def _cancel(self) -> None:
        """Let the child give up what it does; its answer would be taken for the next message's.

        Who interrupts once more does not wait for it.
        """
        try:
            self._pipe.send((CANCEL, {}))
            self._pipe.recv()
        except (EOFError, OSError):
            pass
        except KeyboardInterrupt:
            self._process.kill()
            raise

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    def kill(self) -> None:
        """End its process at once; whoever waits for an answer gets an error."""
        self._process.kill()

    @property
    def is_dead(self) -> bool:
        """Whether its process has ended."""
        return self._process.poll() is not None

    def close(self) -> None:
        """Let the child end; returns when it has."""
        with suppress(CellError):
            self.call("close")
        self._pipe.close()
        try:
            self._process.wait(_CLOSING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _last_words(self) -> str:
        with suppress(OSError):
            lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
            filled = [line.strip() for line in lines if line.strip()]
            # What follows on it, in logs of Java, are stacks and what fails because of it.
            memory = [line for line in filled if line.startswith(_OUT_OF_MEMORY)]
            return f": {(memory or filled)[-1]}" if filled else ""
        return ""
