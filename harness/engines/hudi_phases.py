"""Which phase a stage of Hudi's belongs to, told from what Hudi says of it in the event log.

Hudi sets a job group (the class at work) and a description (`HoodieEngineContext.setJobStatus`)
before most jobs, with the table's name at its end: `Building workload profile:trips` is of the
data, `Building workload profile:trips_metadata` of the metadata table. Both stay set until the next
ones, so they may be out of date; the call stack of the stage never is, and goes first.

    tag     combining the batch, tagging, counting the tagged rows (`buildProfile`)
    write   small files, then reading, merging and writing base files
    index   all of the metadata table: its `files` partition is written in the jobs of its indexes
    commit  collecting write statuses, marker files, what is to be cleaned

Time between the stages (timeline, plans, driver work) is in the step's total only.
"""

from __future__ import annotations

import re

from harness.results import PHASES

_STACKS = (
    ("index", re.compile(r"BackedTableMetadataWriter|HoodieSparkMergeOnReadTable")),
    ("commit", re.compile(r"WriteMarkers|MarkerDirState|\.clean\.|TimelineArchiver")),
    (
        "tag",
        re.compile(r"org\.apache\.hudi\.index\.|Hoodie(?:Write|Delete)Helper\b|\.buildProfile\("),
    ),
    ("write", re.compile(r"UpsertPartitioner|DatasetBulkInsert|\.mapPartitionsAsRDD\(")),
)
_DESCRIPTIONS = (
    ("index", re.compile(r"_metadata$|/\.hoodie/metadata/")),
    ("tag", re.compile(r"Building workload profile")),
    ("write", re.compile(r"Doing partition and writing data|Getting small files")),
    ("commit", re.compile(r"Committing stats|/\.hoodie/\.temp/|marker files")),
)


def phase_of(*, details: str, description: str) -> str | None:
    """The phase of a stage; None where Hudi does not say.

    Args:
        details: the stage's call stack, a frame a line.
        description: the job's description.
    """
    if _DESCRIPTIONS[0][1].search(description) and not _STACKS[2][1].search(details):
        return PHASES[2]
    for rules, text in ((_STACKS, details), (_DESCRIPTIONS, description)):
        for phase, pattern in rules:
            if pattern.search(text):
                return phase
    return None
