"""What a metric is: its unit, which direction is better, whether it repeats exactly.

Values are always stored in the base unit (seconds, bytes, counts); `human` is for readers.
A direction is a fact of the metric, not of a report: more keys per batch is neither better nor
worse, more shuffled bytes is worse.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from keymark.indexes.installed import measured_specs
from keymark.table.storage.requests import Request


class Unit(StrEnum):
    """Base units; no other unit is ever stored."""

    SECONDS = "s"
    BYTES = "B"
    COUNT = "1"
    RATE = "1/s"


class Better(StrEnum):
    """The direction in which a metric improves."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric's facts.

    Attributes:
        name: as written in samples and summaries.
        unit: the base unit of its values.
        title: what a chart's axis says.
        better: the direction of improvement.
        counter: repeats within `tolerance` on the same data and code; False for times.
        tolerance: relative difference that unchanged code may show (random file ids and instants
            alter compressed sizes by up to 0.1 %); 0 means exact.
    """

    name: str
    unit: Unit
    title: str
    better: Better = Better.LOWER
    counter: bool = True
    tolerance: float = 0.0


def _time(name: str, title: str) -> Metric:
    return Metric(name=name, unit=Unit.SECONDS, counter=False, title=title)


def _bytes(name: str, title: str) -> Metric:
    return Metric(name=name, unit=Unit.BYTES, tolerance=0.001, title=title)


def _count(name: str, title: str, better: Better = Better.LOWER) -> Metric:
    return Metric(name=name, unit=Unit.COUNT, better=better, title=title)


REQUEST_COUNTS = {f"{kind}_requests": f"{kind.upper()} requests" for kind in Request}
"""The counters of requests to an object store, each with its title."""

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        _time("wall_s", "wall time"),
        _time("cpu_s", "processor time of all processes"),
        _time("python_worker_s", "processor time of Python workers"),
        _time("sync_s", "time of syncing files to disk, of all tasks"),
        _time("measuring_s", "processor time of Spark's event log"),
        _time("executor_cpu_s", "processor time of Spark's tasks"),
        _bytes("shuffle_write_bytes", "shuffle bytes written"),
        _bytes("shuffle_read_bytes", "shuffle bytes read"),
        _count("shuffle_write_records", "shuffle records written"),
        _count("shuffle_read_records", "shuffle records read"),
        _bytes("input_bytes", "bytes read by Spark"),
        _count("jobs", "Spark jobs"),
        _count("tasks", "Spark tasks"),
        # How rows are dealt out depends on file ids: a task too many for half a stage is found.
        Metric(
            name="task_records_max",
            unit=Unit.COUNT,
            tolerance=0.25,
            title="records read by the largest task",
        ),
        Metric(
            name="largest_tasks_records",
            unit=Unit.COUNT,
            tolerance=0.25,
            title="records read by the largest task of each stage, added up",
        ),
        _bytes("output_bytes", "bytes written by Spark"),
        _count("output_records", "records written by Spark", Better.NEITHER),
        # How much fits into memory depends on which tasks run side by side.
        Metric(
            name="spill_bytes",
            unit=Unit.BYTES,
            tolerance=0.25,
            title="bytes spilled to disk",
        ),
        *(_count(name, title) for name, title in REQUEST_COUNTS.items()),
        _count("files_read", "base files read"),
        _count("files_written", "base files written"),
        *(
            _count(each.name, each.title)
            for spec in measured_specs().values()
            for each in spec.counters
        ),
        _count("rows_written", "rows written to base files"),
        _count("commits", "commits of tables"),
        _count("files_touched", "files touched by commits"),
        _count("rows_changed", "rows changed by commits", Better.NEITHER),
        Metric(
            name="write_amplification",
            unit=Unit.COUNT,
            tolerance=0.001,
            title="rows written for each row changed",
        ),
        _bytes("bytes_written", "bytes written"),
        _bytes("index_bytes", "index bytes on storage"),
        _bytes("table_bytes", "bytes of all files of the table on storage"),
        _bytes("bytes_per_key", "index bytes per key"),
        _count("keys", "keys in the step", Better.NEITHER),
        Metric(
            name="keys_per_s",
            unit=Unit.RATE,
            title="keys per second",
            better=Better.HIGHER,
            counter=False,
        ),
        Metric(
            name="peak_memory_bytes",
            unit=Unit.BYTES,
            title="peak memory of the process",
            counter=False,
        ),
    )
}
