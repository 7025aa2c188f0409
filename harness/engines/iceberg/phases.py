"""Which phase a stage of Iceberg's belongs to, by the operators that run in it.

Iceberg reports no times, and its MERGE is one query of Spark's, whose stages are:

    prepare   reading the batch and keeping one row a key: no operator of the table's scan is in it
    tag       reading the table for the join, and the search for files with a match, which Spark
              runs before the query in jobs of its own (group filters, broadcasts)
    write     joining and merging rows (`MergeRows`), dealing them out, writing files
    services  rewriting data files and position deletes: Iceberg names these jobs

Where Spark sends the batch to all tasks (a broadcast join), the scan of the table and the merging
are one stage, and count as `write`; so finding rows and rewriting them cannot be separated there.
The commit starts no job.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_SCAN, _MERGE = "BatchScan", "MergeRows"
_APART = "withThreadLocalCaptured"
"""In the name of a stage that Spark runs beside the query: a subquery or a broadcast."""

_BATCH = ("Scan parquet", "Window", "WindowGroupLimit")
_WRITES = re.compile(r"\|(bulk_insert|upsert_\d+|null_columns|delete|spread)$")
"""End of the harness's label of a step that writes: the stages of a query are no phase's."""

_SERVICES = re.compile(r"REWRITE|[Rr]ewriting")


def phase_of(name: str, operators: Collection[str], description: str) -> str | None:
    """The phase of a stage; None where it is none's.

    Args:
        name: of the stage, as Spark says it.
        operators: that run in it.
        description: the job's: the harness's label, unless Iceberg says what it does.
    """
    if _SERVICES.search(description):
        return "services"
    if not _WRITES.search(description):
        return None

    def has(*wanted: str) -> bool:
        return any(each.startswith(wanted) for each in operators)

    if has(_MERGE):
        return "write"
    if has(_SCAN):
        return "tag"
    if has(*_BATCH):
        return "prepare"
    return "tag" if _APART in name else "write"
