"""Which phase a stage of Delta's belongs to: Delta describes its jobs.

A description has the harness's label and, after it, what Delta does, from the outermost activity to
the innermost (`DeltaProgressReporter.withStatusCode`, `MergeIntoCommand` and its executors):

    Delta: <label>: Writing modified data - MERGE operation - Rewriting 4 files
    <label> - MERGE operation - scanning files for matches

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
    ("tag", r"^scanning files"),
    ("prepare", r"^materializ"),
    ("write", r"^Rewriting|^[Ww]riting"),
    ("commit", r"[Cc]heckpoint"),
    ("open", r"^Compute snapshot|^Filtering files"),
    ("services", r"^Optimizing"),
)
_BETWEEN = re.compile(r": | - ")
_LABEL = "|"
"""In every label of the harness, and in nothing that Delta says."""

_PLACE = re.compile(r"^.*<br/>| \(.*$")
"""Table and partition, around what OPTIMIZE does."""


def description_parts(description: str) -> tuple[str, ...]:
    """What Delta says about a job, from the outermost activity to the innermost."""
    parts = _BETWEEN.split(_PLACE.sub("", description))
    return tuple(part for part in parts if part != "Delta" and _LABEL not in part)


def phase_of(description: str) -> str | None:
    """The phase of a stage by its job's description; None where Delta does not say."""
    for part in reversed(description_parts(description)):
        for phase, pattern in _RULES:
            if re.search(pattern, part):
                return phase
    return None
