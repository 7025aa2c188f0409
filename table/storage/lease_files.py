"""The files of the lease: their names, and what they say (lease.py has the protocol)."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

from keymark.table.layout.naming import LEASE
from keymark.table.storage.storage import Storage

_DIGITS = 12


def lease_path(number: int) -> str:
    """The file of a lease's number."""
    return f"{LEASE}/{number:0{_DIGITS}d}"


def until_path(number: int) -> str:
    """The file that says until when a number is held."""
    return f"{lease_path(number)}.until"


def lease_number(name: str) -> int:
    """The number in the name of a file of the lease, or of a ticket; 0 if it has none."""
    digits = name.partition(".")[0]
    return int(digits) if digits.isdecimal() and len(digits) == _DIGITS else 0


def highest_number(storage: Storage) -> int:
    """The highest number that was made; 0 before the first."""
    return max((lease_number(status.name) for status in storage.list(LEASE)), default=0)


def read_lease(storage: Storage, number: int) -> dict[str, Any]:
    """What the file of a number says; nothing where it is gone or damaged."""
    try:
        found = json.loads(storage.read(lease_path(number)))
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def expires_at(storage: Storage, number: int) -> int:
    """When a lease runs out, in epoch milliseconds; a damaged one ends with its holder only."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        return int(storage.read(until_path(number)))
    try:
        return int(read_lease(storage, number)["expires"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return sys.maxsize
