"""What Apache Hudi's indexes have in common, as amounts of work. All of it is done by Spark.

A write of Hudi's keeps the tagged rows and counts them for the workload profile before it writes:
tagging is done when its stages are. What the driver does between them is in `around`. Every join of
rows with locations shuffles both sides: Hudi broadcasts nothing.
Source: BaseSparkCommitActionExecutor, HoodieIndexUtils.tagGlobalLocationBackToRecords of Hudi 1.2.
"""

from __future__ import annotations

from collections.abc import Mapping

from keymark.indexes.spec import Equation
from keymark.indexes.workload import Workload, rewritten, touched

KEY_HEAP = 120
"""Bytes of a record key in a JVM's heap beside its characters: a string with its array (40), a
`HoodieKey` (24) with its part of a pair (24) and of a list or map (32)."""
LOCATION_HEAP = 136
"""Bytes of a `HoodieRecordGlobalLocation`: object (40), file id (36 characters), instant."""


STATS_TASKS = 200
"""Hudi's `hoodie.metadata.index.column.stats.parallelism`."""
STATS_SINCE = {"described": "1.0.0", "paths": "1.0.0"}
"""Amounts of `described` by the release of Hudi that began the work."""


def key_heap(at: Workload) -> float:
    """Bytes of a record key in a task's heap."""
    return at.key_bytes + KEY_HEAP


_OF_A_CALL = ("once", "files", "footers")


def looked_up(tagging: Mapping[str, float]) -> dict[str, float]:
    """The amounts of tagging, for a lookup, which is a call of its own and not a step of a write.

    What a call and each file of it cost are constants of lookups. What a key, a row or a file group
    of an index costs is that of tagging: a calibration looks up one number of keys only.
    """
    return {_in_a_lookup(name): amount for name, amount in tagging.items()}


def _in_a_lookup(amount: str) -> str:
    name = amount.removesuffix("_tasks")
    return f"{name}_lookup" if name in _OF_A_CALL else amount


def described(at: Workload, _mode: str) -> dict[str, float]:
    """What the metadata table says about new files: their names, and from 1.0 on statistics.

    Those of columns are made in a task for each file, up to a number of tasks: files beyond it add
    too little to be measured. Those of a partition path are made in a task for each, which reads
    what the metadata table says about its other files.
    Source: HoodieTableMetadataUtil.convertMetadataToRecords, convertMetadataToPartitionStatRecords.
    """
    files = rewritten(at)
    return {
        "once_tasks": 1.0,
        "described": min(files, STATS_TASKS) / at.cores,
        "paths": min(files, touched(at.partitions, at.batch)) / at.cores,
    }


DESCRIBED = Equation("index/all", described)
"""The step `index` of an index that is not in the metadata table."""


def joined(at: Workload) -> dict[str, float]:
    """Bytes that the batch's rows take to be joined with what the index found.

    Keys that grow with time compress better. A key that is found brings its location along. A
    calibration with one share of updates cannot tell this from the bytes of a row, whose constant
    then has both.
    """
    kind = "ordered" if at.ordered else "random"
    return {"once": 1.0, f"keys_{kind}": at.batch, "found": at.updates}
