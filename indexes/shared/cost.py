"""Formulas that several indexes share, and the weights of work that the indexes count by."""

from __future__ import annotations

from keymark.indexes.workload import Workload

SLOT_BYTES = 4
"""Bytes of a number beside a key."""

SHARE_OF_FILE = 8
"""Reading a file's keys takes about an eighth of the time of writing it, which weights count."""
KEY_WEIGHT = 16
"""Bytes of work of a key that is looked for among a file's."""
PROBE_WEIGHT = 1 << 20
"""Bytes of work of the smallest task with several files."""


def scan_weight(at: Workload) -> float:
    """Bytes of work to read the key columns of all files."""
    return at.files * at.file_bytes / SHARE_OF_FILE


def asked_bytes(at: Workload) -> float:
    """What the keys of a batch take in memory."""
    return at.batch * (at.key_bytes + 3 * SLOT_BYTES)


def scan_memory(at: Workload) -> float:
    """The keys of a batch, and those of a file."""
    return asked_bytes(at) + at.rows / at.files * (at.key_bytes + 2 * SLOT_BYTES)


def every_file(at: Workload) -> dict[str, float]:
    """A query by key that no index answers: all base files are opened and their keys read.

    Footers leave out the rows of files whose range does not hold the key: of keys that grow with
    time all but those of one file in each partition path.
    """
    read = min(at.files, at.partitions) / at.files if at.ordered else 1.0
    return {"once": 1.0, "files": at.files / at.cores, "rows": read * at.rows / at.cores}


def one_file(at: Workload) -> dict[str, float]:
    """A query by key that an index answers: one file, found in the list of all, is read."""
    return {"once": 1.0, "listed": at.files, "rows": at.rows / at.files}


def entry_weight(at: Workload) -> float:
    """Bytes of a batch's keys as they are sent."""
    return at.batch * (at.key_bytes + SLOT_BYTES)
