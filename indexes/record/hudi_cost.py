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
from keymark.indexes.shared.hudi_cost import (
    DESCRIBED,
    LOCATION_HEAP,
    STATS_SINCE,
    described,
    joined,
    key_heap,
    looked_up,
)
from keymark.indexes.spec import TASKS, Equation, IndexCost
from keymark.indexes.workload import BLOCK_BYTES, Workload, rewritten


def tag(at: Workload, _mode: str) -> dict[str, float]:
    """A task a file group: K + (M/n)*c. The join of the batch is in the constant of a key."""
    return cost.tag(at, TASKS)


def lookup(at: Workload, mode: str) -> dict[str, float]:
    """As tagging. Before it, from 1.1 on, a task for each file group samples the keys.

    Such a task takes longer the more file groups there are: 12 ms of 10, 47 ms of 80 (measured).
    Source: HoodieSparkEngineContext.mapGroupsByKey, ConditionalRangePartitioner.
    """
    return {**looked_up(tag(at, mode)), "sampled": at.shards**2 / at.lanes}


def index(at: Workload, mode: str) -> dict[str, float]:
    """A log block for each file group that gets a new key; entries and statistics of new files."""
    return {
        **cost.index(at, mode),
        **described(at, mode),
        "keys": at.inserts / at.lanes,
        "files": rewritten(at) / at.cores,
    }


def bootstrap(at: Workload, _mode: str) -> dict[str, float]:
    """Every key is read, sorted within its shard and written; the table's files are listed."""
    return {**cost.bootstrap(at, TASKS), "files": at.files / at.cores}


def point_query(at: Workload, _mode: str) -> dict[str, float]:
    """The file groups of the index are listed, then one file is read."""
    return {**one_file(at), "listed_groups": at.shards}


def memory(at: Workload) -> float:
    """The keys that one file group is asked for, what it answers, and a block of its base file.

    Log files of the file group, which are merged in memory, are left out.
    """
    return at.batch / at.shards * (key_heap(at) + LOCATION_HEAP) + BLOCK_BYTES


HUDI_COST = IndexCost(
    equations={
        "tag": Equation("tag/record", tag),
        "lookup": Equation("tag/record", lookup),
        "index": Equation(DESCRIBED.name, index),
        "index_bytes": Equation("index_bytes/record", cost.index_bytes),
        "bootstrap": Equation("bootstrap/record", bootstrap),
        "shuffle": Equation("shuffle/record", lambda at, _mode: joined(at)),
        "point_query": Equation("point_query/record", point_query),
    },
    memory=memory,
    options=cost.options,
    fewest_shards=cost.fewest_shards,
    since={"sampled": "1.1.0", **STATS_SINCE},
)
