"""Which phase a stage of Hudi's belongs to, by what Hudi says about it in the event log.

A stage carries the call stack that made it. Hudi also sets a description before most jobs
(`HoodieEngineContext.setJobStatus`), with the table's name at its end: `Building workload
profile:trips` is of the data, `Building workload profile:trips_metadata` of the metadata table. It
stays set until the next one, so it may be out of date; the stack never is, and goes first.

    prepare   reading the batch and combining its rows
    tag       the index's stages, and counting the tagged rows
    write     small files, then reading, merging and writing base files
    index     all of the metadata table: its `files` partition is written by the jobs of its indexes
    commit    collecting write statuses, marker files
    services  cleaning and archiving

Hudi is lazy: a stage's work is that of all steps since the last shuffle or cache. Rows are written
when the write statuses are first asked for: in 0.15 by a count before the commit, in 1.1 by
`SlimWriteStats` inside of it. Where 1.1 and later stream into the metadata table
(`hoodie.metadata.streaming.write.enabled`, their default), one job does both. Two of its stages ask
for the write statuses: that of `StreamingMetadataWriteHandler`, and the one that makes the metadata
table's records of them. Spark submits them together and in either order; until the first one has
ended both write the rows, and their time is `write`. Which of them writes which rows is a race, so
the counters of both are `write`. With a partitioned record index a job before it writes them: it
asks for the statuses to make file groups for new partitions. The job's last stage, under
`SlimWriteStats`, asks for the union of both: it writes the metadata table.

Time between the stages (timeline, plans, all other driver work) is in a step's total only: nothing
that Hudi writes down says what it was spent on.
"""

from __future__ import annotations

import re
from collections.abc import Collection

STACK_DEPTH = "spark.callstack.depth"
"""Java property: frames that Spark keeps of a stack. Its 20 do not reach the table's writer."""

_HUDI = r"org\.apache\.hudi\."
# The metadata table is merge-on-read, and takes rows that have places already ("prepped"). Those of
# a merge-on-read table of the user's own go through the executors without that word.
_TO_METADATA = (
    r"\.action\.deltacommit\.(?!(?:BaseSpark|Spark(?:Upsert|Insert|BulkInsert|Delete))Delta)"
)
_HANDLER = "StreamingMetadataWriteHandler.streamWriteToMetadataTable"
# The first frame, with which the stacks of both stages begin that need a streaming write's rows.
_MAP_TO_PAIR = r"^[^\n]*JavaRDDLike\.mapToPair\([^\n]*\n"
# The stage of this method that collects the write statuses.
_NEW_GROUPS = r"^[^\n]*collect\([^\n]*\n[^\n]*\n[^\n]*maybeInitializeNewFileGroupsForPartitionedRLI"
_STACKS: tuple[tuple[str, str], ...] = (
    # First: these stacks have the metadata table's writer in them, too, or its handler.
    ("write", _NEW_GROUPS),
    ("write", _MAP_TO_PAIR + r"[^\n]*" + re.escape(_HANDLER)),
    ("index", r"BackedTableMetadataWriter|SparkRDDMetadataWriteClient|" + _TO_METADATA),
    ("prepare", r"HoodieWriteHelper\.deduplicateRecords|HoodieDeleteHelper\.deduplicateKeys"),
    ("tag", _HUDI + r"index\.|HoodieWriteHelper\.tag\b"),
    ("tag", r"HoodieJavaRDD\.isEmpty\([^\n]*\n[^\n]*HoodieDeleteHelper\.execute"),
    ("commit", r"WriteMarkers|MarkerDirState|MarkerHandler"),
    ("services", r"\.action\.clean\.|TimelineArchiver"),
    ("tag", r"\.buildProfile\("),
    ("write", r"UpsertPartitioner|DatasetBulkInsert|\.mapPartitionsAsRDD\(|SlimWriteStats"),
)
_DESCRIPTIONS: tuple[tuple[str, str], ...] = (
    ("index", r"_metadata$|/\.hoodie/metadata/"),
    ("tag", r"Building workload profile"),
    ("write", r"Doing partition and writing data|Getting small files"),
    ("commit", r"Committing stats|/\.hoodie/\.temp/|marker files"),
)


def phase_of(*, details: str, description: str, operators: Collection[str] = ()) -> str | None:
    """The phase of a stage; None where it is none's or Hudi does not say.

    Args:
        details: the stage's call stack, a frame a line.
        description: the job's description.
        operators: the names of what Spark runs in it.
    """
    if "SlimWriteStats" in details and "union" in operators:
        return "index"
    for rules, text in ((_STACKS, details), (_DESCRIPTIONS, description)):
        for phase, pattern in rules:
            if re.search(pattern, text):
                return phase
    return None


def first_phase_of(details: str) -> str | None:
    """`write` for a stage of a streaming write that needs its rows; else None.

    The first one of a write writes them, which takes most of its time.
    """
    is_streamed = re.search(_MAP_TO_PAIR, details) and _HANDLER in details
    return "write" if is_streamed or re.search(_NEW_GROUPS, details) else None
