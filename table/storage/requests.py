"""Requests to an object store, counted by kind: what a store's owner pays for.

Many processes make requests: the driver's Python and each of Spark's Python workers. Each appends
one letter a request to a file of its own in a folder on this machine, so that nothing is lost with
a process that dies, and a reader sees the sum at any time. Requests that the connection sends again
by itself, after an error of the store, are not counted.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

PAGE = 1000
"""Entries of one answer to a listing, and keys of one request that deletes many."""


class Request(StrEnum):
    """A kind of request; the value is its name in counters."""

    GET = "get"
    HEAD = "head"
    LIST = "list"
    PUT = "put"
    DELETE = "delete"


_LETTERS = {kind: kind.value[0].encode() for kind in Request}


def count(folder: str, kind: Request, requests: int = 1) -> None:
    """Note requests of this process; nothing where no folder is named.

    Raises:
        OSError: the folder is not there, or cannot be written to.
    """
    if folder:
        os.write(_opened(folder, os.getpid()), _LETTERS[kind] * requests)


def counted(folder: Path) -> Mapping[str, int]:
    """The requests of all processes so far."""
    letters: Counter[int] = Counter()
    for path in folder.iterdir():
        letters.update(path.read_bytes())
    return {kind.value: letters[letter[0]] for kind, letter in _LETTERS.items()}


def pages(entries: int) -> int:
    """Requests of a listing or a deletion, by its number of entries."""
    return max(1, -(-entries // PAGE))


@functools.cache
def _opened(folder: str, process: int) -> int:
    """The file of a process; a forked one opens its own."""
    path = os.path.join(folder, str(process))  # noqa: PTH118 - called for each request
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
