"""The child's end of a pipe (`pipe.py`). A leaf: a child of another revision loads it as a file."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

CANCEL = "cancel"
"""A message without an answer of its own: what is being done ends, with an error."""


def serve(handler: object, *, explain: Callable[[Exception], str]) -> None:
    """Answer messages by the handler's methods until `close` or the pipe's end.

    Args:
        handler: object with a method per message, `close` among them.
        explain: one line about an exception.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt ends
    pipe = Connection(int(sys.argv[-1]))
    os.set_inheritable(pipe.fileno(), False)  # noqa: FBT003 - has no keyword
    asked: queue.SimpleQueue[tuple[str, dict[str, Any]]] = queue.SimpleQueue()
    cancel = getattr(handler, CANCEL, lambda: None)
    threading.Thread(target=_listen, args=(pipe, asked, cancel), daemon=True).start()
    name = ""
    while name != "close":
        name, arguments = asked.get()
        try:
            answer = True, getattr(handler, name)(**arguments)
        except Exception as error:  # noqa: BLE001 - the parent is told of all of them
            traceback.print_exception(error)  # into the log
            answer = False, explain(error)
        pipe.send(answer)


def _listen(
    pipe: Connection,
    asked: queue.SimpleQueue[tuple[str, dict[str, Any]]],
    cancel: Callable[[], None],
) -> None:
    while True:
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            os._exit(1)  # the parent is gone or has closed
        if message[0] == CANCEL:
            cancel()
        else:
            asked.put(message)
