"""What the record index costs in Apache Hudi.

The keys are shuffled to a task for each file group, which reads its log files and seeks the keys in
the order of the base file's blocks; then the batch's rows are joined with the answers.
New keys, and the names of the files that were written, go to the metadata table. In tables of
version 8 and later streaming writes put the entries of the index from the write statuses, in a job
of their own.
Source: SparkMetadataTableGlobalRecordLevelIndex (SparkMetadataTableRecordIndex before 1.1),
HoodieBackedTableMetadataWriter.streamWriteToMetadataPartitions.
"""

from __future__ import annotations

from keymark.indexes.record import cost
from keymark.indexes.shared.cost import one_file
from keymark.indexes.shared.hudi_cost import LOCATION_HEAP, joined, key_heap, looked_up
from keymark.indexes.spec import TASKS, Equation, IndexCost
from keymark.indexes.workload import BLOCK_BYTES, Workload, rewritten


def tag(at: Workload, _mode: str) -> dict[str, float]:
    """A task a file group: K + (M/n)*c. The join of the batch is in the constant of a key."""
    return cost.tag(at, TASKS)


def index(at: Workload, _mode: str) -> dict[str, float]:
    """A log block for each file group that gets a new key, and the names of new files."""
    return {**cost.index(at, TASKS), "files": rewritten(at)}


def memory(at: Workload) -> float:
    """The keys that one file group is asked for, what it answers, and a block of its base file.

    Log files of the file group, which are merged in memory, are left out.
    """
    return at.batch / at.shards * (key_heap(at) + LOCATION_HEAP) + BLOCK_BYTES


HUDI_COST = IndexCost(
    equations={
        "tag": Equation("tag/record", tag),
        "lookup": Equation("tag/record", lambda at, mode: looked_up(tag(at, mode))),
        "index": Equation("index/record", index),
        "index_bytes": Equation("index_bytes/record", cost.index_bytes),
        "bootstrap": Equation("bootstrap/record", lambda at, _mode: cost.bootstrap(at, TASKS)),
        "shuffle": Equation("shuffle/record", lambda at, _mode: joined(at)),
        "point_query": Equation("point_query/record", lambda at, _mode: one_file(at)),
    },
    memory=memory,
    options=cost.options,
    fewest_shards=cost.fewest_shards,
)
