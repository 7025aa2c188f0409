"""A table, a batch and a cluster as the user gives them, into workloads; numbers may be ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from keymark.indexes.workload import Workload, files_for
from keymark.reports.plan.spans import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of a plan.

    Attributes:
        spans: by name: records, batch, partitions, executors, cores (of an executor), row_bytes,
            key_bytes, new_share; and files, where they are said.
        shards: of the record index; 0: to be chosen.
        buckets: of a partition path; None: its files.
        ordered: keys grow with time.
        local_bytes, broadcast_bytes: options of the table's and of Spark's.
    """

    spans: Mapping[str, Span]
    shards: int
    buckets: int | None
    ordered: bool
    local_bytes: float
    broadcast_bytes: float

    @property
    def middle(self) -> dict[str, float]:
        """The middle of each input."""
        return {name: span.middle for name, span in self.spans.items()}

    def ends(self) -> list[Workload]:
        """The workloads of the lowest and highest values of all inputs, in every combination."""
        pairs = (sorted({span.low, span.high}) for span in self.spans.values())
        return [
            self.workload(dict(zip(self.spans, values, strict=True))) for values in product(*pairs)
        ]

    def workload(self, values: Mapping[str, float]) -> Workload:
        """The workload of one value for each input."""
        rows, partitions = values["records"], max(1, round(values["partitions"]))
        count = values.get("files")
        files = round(count) if count else files_for(rows, values["row_bytes"], partitions)
        return Workload(
            rows=rows,
            batch=values["batch"],
            cores=max(1, round(values["executors"])) * max(1, round(values["cores"])),
            partitions=partitions,
            files=max(files, partitions),
            shards=self.shards,
            buckets=partitions * (self.buckets or -(-files // partitions)),
            new_share=values["new_share"],
            key_bytes=values["key_bytes"],
            row_bytes=values["row_bytes"],
            ordered=self.ordered,
            local_bytes=self.local_bytes,
            broadcast_bytes=self.broadcast_bytes,
        )
