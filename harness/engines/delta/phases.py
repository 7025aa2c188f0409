"""Which phase a stage of Delta's belongs to: Delta describes its jobs.

A description is `Delta: <what the harness says>: <what Delta does>`
(`DeltaProgressReporter.withStatusCode`). The steps of a MERGE are named by `MergeIntoCommand` and
its executors:

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


def phase_of(description: str) -> str | None:
    """The phase of a stage by its job's description; None where Delta does not say."""
    said = description.rpartition(": ")[2] if description.startswith("Delta: ") else ""
    return next((phase for phase, pattern in _RULES if said and re.search(pattern, said)), None)
