"""What the record index costs in Apache Hudi.

The keys are shuffled to a task for each file group, which reads its log files and seeks the keys in
the order of the base file's blocks; then the batch's rows are joined with the answers.
Source: SparkMetadataTableGlobalRecordLevelIndex (SparkMetadataTableRecordIndex before 1.1),
HoodieBackedTableMetadataWriter.
"""

from __future__ import annotations

from keymark.indexes.record import cost
from keymark.indexes.shared.hudi_cost import joined
from keymark.indexes.spec import TASKS, Equation, IndexCost
from keymark.indexes.workload import Workload


def tag(at: Workload, _mode: str) -> dict[str, float]:
    """A task a file group: K + (M/n)*c. The join of the batch is in the constant of a key."""
    return cost.tag(at, TASKS)


def index(at: Workload, _mode: str) -> dict[str, float]:
    """A log block for each file group that gets a new key, and the names of new files."""
    return cost.index(at, TASKS)


HUDI_COST = IndexCost(
    equations={
        "tag": Equation("tag/record", tag),
        "lookup": Equation("lookup/record", tag),
        "index": Equation("index/record", index),
        "index_bytes": Equation("index_bytes/record", cost.index_bytes),
        "bootstrap": Equation("bootstrap/record", lambda at, _mode: cost.bootstrap(at, TASKS)),
        "shuffle": Equation("shuffle/record", lambda at, _mode: joined(at)),
    },
    options=cost.options,
    fewest_shards=cost.fewest_shards,
)
