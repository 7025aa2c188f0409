"""What both simple indexes cost in Apache Hudi.

A task a base file reads the keys of all its rows; locations and rows are shuffled and joined. Spark
groups them by a hash, without sorting. Source: HoodieGlobalSimpleIndex, HoodieSimpleIndex,
HoodieKeyLocationFetchHandle.
"""

from __future__ import annotations

from keymark.indexes.shared.hudi_cost import key_heap, looked_up
from keymark.indexes.simple.cost import join_shuffle
from keymark.indexes.spec import Equation, IndexCost
from keymark.indexes.workload import Workload


def simple_tag(at: Workload, *, reach: float) -> dict[str, float]:
    """Read and shuffle the keys in reach (a share of all), and join the batch with them."""
    return {
        "once_tasks": 1.0,
        "files": reach * at.files / at.cores,
        "rows": reach * at.rows / at.cores,
        "keys": at.batch / at.cores,
    }


def memory(at: Workload) -> float:
    """The keys of a file, which 0.15 holds all at once; later releases read one after the other.

    What is joined is left out: Spark spills it.
    """
    return at.rows / at.files * key_heap(at)


def hudi_simple_cost(*, is_global: bool) -> IndexCost:
    """The cost of the simple index that looks everywhere, or where the batch's partitions say."""

    def reach(at: Workload) -> float:
        return 1.0 if is_global else at.reach

    return IndexCost(
        equations={
            "tag": Equation("tag/simple", lambda at, _mode: simple_tag(at, reach=reach(at))),
            "lookup": Equation(
                "tag/simple", lambda at, _mode: looked_up(simple_tag(at, reach=reach(at)))
            ),
            "shuffle": Equation(
                "shuffle/simple", lambda at, _mode: join_shuffle(at, reach=reach(at))
            ),
        },
        memory=memory,
    )
