"""What the bucket index costs in Apache Hudi.

The names of the files of the batch's partitions say which buckets there are; the rest is a hash a
key. Source: HoodieSimpleBucketIndex.
"""

from __future__ import annotations

from keymark.indexes.bucket import cost
from keymark.indexes.shared.cost import every_file
from keymark.indexes.spec import TASKS, Equation, IndexCost
from keymark.indexes.workload import Workload

FILE_NAME_HEAP = 150
"""Bytes of a file group's name and place in a JVM's heap."""


def tag(at: Workload, _mode: str) -> dict[str, float]:
    """A hash for each key."""
    return {"once_tasks": 1.0, "files": at.reach * at.files, "keys": at.batch / at.cores}


HUDI_COST = IndexCost(
    equations={
        "tag": Equation("tag/bucket", tag),
        "bootstrap": Equation("bootstrap/bucket", lambda at, _mode: cost.bootstrap(at, TASKS)),
        # Releases from 1.0 on may leave out the files of other buckets: constants of its own.
        "point_query": Equation("point_query/bucket", lambda at, _mode: every_file(at)),
    },
    # A file group's name is asked for each key, one after the other: nothing of the index is held.
    memory=lambda at: at.reach * at.files * FILE_NAME_HEAP,
    options=cost.options,
)
