"""What the record index of each partition costs in Apache Hudi, from 1.1 on.

Every partition path has file groups of its own, one by default. Looking keys up in a file group,
writing to it and its bytes are as in the global index, and share its constants. But a lookup has a
task for each file group of the whole index, with keys or without, and each task lists the file
groups anew, since it gets the metadata table without what the driver knows of it. One with keys
deals them out to their partition paths besides. So tagging grows with the square of their number.
Source: SparkMetadataTableRecordLevelIndex, HoodieBackedTableMetadata.readIndexRecords of Hudi
1.2.0, and the measured tasks of docs/results/partitioned_index.md. (Later releases give a task
without keys nothing to do.)
"""

from __future__ import annotations

from dataclasses import replace

from keymark.indexes.record import cost as record
from keymark.indexes.record import hudi_cost as record_in_hudi
from keymark.indexes.shared.cost import every_file
from keymark.indexes.shared.hudi_cost import DESCRIBED, joined, looked_up
from keymark.indexes.spec import TASKS, Equation, IndexCost
from keymark.indexes.workload import Workload, touched

ENABLE = "hoodie.metadata.record.level.index.enable"
_COUNT = "hoodie.metadata.record.level.index.{}.filegroup.count"


def with_groups(at: Workload) -> Workload:
    """A workload whose shards are the file groups of all partition paths.

    Where no number is given: as few as have room for twice the rows of a partition path.
    """
    if at.local_shards:
        return replace(at, shards=round(at.local_shards))
    part = replace(at, rows=at.rows / at.partitions, files=at.files / at.partitions)
    fewest = record.fewest_shards(part)
    return replace(at, shards=at.partitions * fewest)


def tag(at: Workload, _mode: str) -> dict[str, float]:
    """The global index's work in the file groups that have keys, and the names that tasks list."""
    at = with_groups(at)
    asked = touched(at.shards, at.batch)
    return {
        **record.tag(at, TASKS),
        "shards_tasks": asked / at.lanes,
        "names": (at.shards + asked) * at.shards / at.lanes,
    }


def written(at: Workload) -> dict[str, float]:
    """A streaming write's last stage has a task for each file group, with rows or without."""
    at = with_groups(at)
    return {"groups": at.shards / at.lanes}


def index_bytes(at: Workload, mode: str) -> dict[str, float]:
    """As the global index; a file group names the files of one partition path."""
    return record.index_bytes(replace(with_groups(at), files=at.files / at.partitions), mode)


def options(at: Workload) -> dict[str, str]:
    """As many file groups a partition path as were predicted."""
    count = str(max(1, round(with_groups(at).shards / at.partitions)))
    return {ENABLE: "true", **{_COUNT.format(end): count for end in ("min", "max")}}


HUDI_COST = IndexCost(
    equations={
        "tag": Equation("tag/record", tag),
        "lookup": Equation("tag/record", lambda at, mode: looked_up(tag(at, mode))),
        "index": Equation(
            DESCRIBED.name, lambda at, mode: record_in_hudi.index(with_groups(at), mode)
        ),
        "index_bytes": Equation("index_bytes/record", index_bytes),
        "bootstrap": Equation(
            "bootstrap/record", lambda at, mode: record_in_hudi.bootstrap(with_groups(at), mode)
        ),
        "shuffle": Equation("shuffle/record", lambda at, _mode: joined(at)),
        # A key alone names no partition path: files of several are read, 194 of 2,000 as measured.
        "point_query": Equation("point_query/partitioned_record", lambda at, _mode: every_file(at)),
    },
    written=written,
    memory=lambda at: record_in_hudi.memory(with_groups(at)),
    options=options,
)
