"""Which phase a stage of Delta's belongs to: Delta describes its jobs.

A description is `Delta: <what the harness says>: <what Delta does>`, and inside of one activity
another one stands in front and behind once more (`DeltaProgressReporter.withStatusCode`). The steps
of a MERGE are named by `MergeIntoCommand` and its executors:

    prepare   materializing the source, which reads the batch and keeps one row a key
    tag       scanning files for matches
    write     rewriting files, writing deletion vectors, writing inserted rows
    open      computing the table's state from its log
    commit    checkpoints of the log
    services  OPTIMIZE

Times of `prepare`, `tag` and `write` of a MERGE are Delta's own (`dialect.py`); those of the other
phases are the times during which one of their stages ran. The commit itself starts no job.
"""

from __future__ import annotations

import re

_RULES = (
    ("tag", r"MERGE operation - scanning"),
    ("prepare", r"MERGE operation - materializ"),
    ("write", r"MERGE operation|Writing merged data"),
    ("commit", r"[Cc]heckpoint"),
    ("open", r"Compute snapshot|Filtering files|state reconstruction"),
    ("services", r"[Oo]ptimiz"),
)


def said(description: str) -> tuple[str, ...]:
    """What Delta says of a job, from the outermost activity to the innermost."""
    parts = description.split(": ")
    outer = next((number for number, part in enumerate(parts) if part != "Delta"), len(parts))
    return tuple(parts[outer + 1 :]) if outer else ()


def phase_of(description: str) -> str | None:
    """The phase of a stage by its job's description; None where Delta does not say."""
    for part in reversed(said(description)):
        for phase, pattern in _RULES:
            if re.search(pattern, part):
                return phase
    return None
