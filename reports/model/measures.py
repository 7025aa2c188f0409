"""What the columns of a report show: a step, a phase and a number of it. No rendering."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from keymark.harness.engines import is_native, is_without_spark
from keymark.harness.store.units import METRICS, Better, Unit
from keymark.reports.model.projection import UPSERT, CellView, Trial

LAST = "last"
"""Name of the step to take where only a table's final state counts."""

PHASES = ("open", "prepare", "tag", "place", "write", "index", "commit", "services")
_SCAN = re.compile(r"point_query(_[0-9]+)?")
"""The step, and what it is called between rounds."""
REST = "rest"
"""What the whole of a step holds beyond its phases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """What a column shows.

    Attributes:
        key: short name, for files and anchors.
        title: heading.
        what: the quantity, to stand before a colon.
        step: a step's name, ``UPSERT`` or ``LAST``.
        of_keymark: the step of Keymark's engines, where it is another one.
        by_spark: whether engines without Spark have no value.
        phase: a phase.
        metric: a name of ``keymark.harness.store.units.METRICS``.
    """

    key: str
    title: str
    what: str
    step: str
    of_keymark: str = ""
    by_spark: bool = False
    phase: str
    metric: str

    @property
    def unit(self) -> str:
        """Base unit of the values."""
        return METRICS[self.metric].unit.value

    @property
    def higher(self) -> bool:
        """Whether more is better."""
        return METRICS[self.metric].better is Better.HIGHER

    @property
    def is_time(self) -> bool:
        """Whether it varies with the machine's noise; counters repeat."""
        return METRICS[self.metric].unit in (Unit.SECONDS, Unit.RATE)

    def values(self, cell: CellView) -> Mapping[Trial, float]:
        """Values of a cell by trial; empty when it has none."""
        if self.phase == REST:
            return beyond_phases(cell, self.step, self.metric)
        if self.by_spark and is_without_spark(cell.engine):
            return {}
        if self.step != LAST:
            step = self.of_keymark if self.of_keymark and is_native(cell.engine) else self.step
            return cell.values(step, self.phase, self.metric)
        for step in reversed(cell.steps()):
            found = cell.values(step, self.phase, self.metric)
            if found:
                return found
        return {}


def time_of(step: str, title: str, what: str) -> Measure:
    """The whole time of a step."""
    return Measure(key=step, title=title, what=what, step=step, phase="total", metric="wall_s")


HEADLINE = (
    time_of("build", "Build", "Building the index of given keys"),
    time_of("build_index", "Index built", "Building the index of a table that has rows"),
    Measure(
        key="build_rate",
        title="Keys indexed",
        what="Keys indexed in a second",
        step="build_index",
        phase="total",
        metric="keys_per_s",
    ),
    Measure(
        key="write_latency",
        title="Upsert",
        what="Upsert batch",
        step=UPSERT,
        phase="total",
        metric="wall_s",
    ),
    Measure(
        key="tag",
        title="of it, tagging",
        what="Tagging of an upsert batch",
        step=UPSERT,
        phase="tag",
        metric="wall_s",
    ),
    time_of("spread", "Upsert all over", "Upsert of rows all over the table"),
    time_of("null_columns", "Columns nulled", "Nulling columns by key"),
    time_of("delete", "Delete", "Deleting by key"),
    time_of("purge", "Purge", "Purging deleted keys"),
    time_of("lookup", "Lookup", "Lookup"),
    time_of("lookup_again", "Looked up again", "Looking the same keys up again"),
    time_of("lookup_few", "Lookup of few", "Lookup of few keys"),
    Measure(
        key="lookup_rate",
        title="Keys looked up",
        what="Keys looked up in a second",
        step="lookup",
        phase="total",
        metric="keys_per_s",
    ),
    time_of("point_query", "Point query", "Point query"),
    # Engines beside Keymark's take one point query, those with Spark by a read of Spark's.
    Measure(
        key="point_query_spark",
        title="Point query by Spark",
        what="Point query by Spark",
        step="point_query",
        of_keymark="point_query_spark",
        by_spark=True,
        phase="total",
        metric="wall_s",
    ),
    time_of("column_query", "Column query", "Reading the rows of one value of a column"),
    time_of("range_query", "Range query", "Reading the rows of a range of a column"),
    time_of(
        "point_query_cold",
        "Point query, cold",
        "Point query of files that are out of the system's cache",
    ),
    time_of(
        "range_query_cold",
        "Range query, cold",
        "Reading a range of files that are out of the system's cache",
    ),
    Measure(
        key="shuffle",
        title="Shuffle per upsert",
        what="Shuffle of an upsert batch",
        step=UPSERT,
        phase="total",
        metric="shuffle_write_bytes",
    ),
    Measure(
        key="storage",
        title="Index on disk",
        what="Index on disk",
        step=LAST,
        phase="total",
        metric="index_bytes",
    ),
    Measure(
        key="key_bytes",
        title="Index per key",
        what="Index on disk per key",
        step=LAST,
        phase="total",
        metric="bytes_per_key",
    ),
    Measure(
        key="memory",
        title="Peak memory",
        what="Peak memory of the process",
        step=LAST,
        phase="total",
        metric="peak_memory_bytes",
    ),
)

BY_KEY = {measure.key: measure for measure in HEADLINE}


def measures_of(cells: Sequence[CellView]) -> dict[str, Measure]:
    """The measures of HEADLINE by key, as they stand for these cells.

    Where none of Keymark's cells has a scan there is one point query only: runs before schema 3
    have Keymark's read by Spark alone, and other engines have one.
    """
    own = [cell for cell in cells if is_native(cell.engine)]
    if any(_SCAN.fullmatch(step) for cell in own for step in cell.steps()):
        return dict(BY_KEY)
    by_spark = BY_KEY["point_query_spark"]
    alone = replace(BY_KEY["point_query"], of_keymark=by_spark.of_keymark)
    found = {**BY_KEY, alone.key: alone}
    del found[by_spark.key]
    return found


def beyond_phases(cell: CellView, step: str, metric: str) -> dict[Trial, float]:
    """What the whole of a step holds beyond its phases, by trial; empty where it has none."""
    found = [values for name in PHASES if (values := cell.values(step, name, metric))]
    if not found:
        return {}
    whole = cell.values(step, "total", metric)
    return {
        trial: max(value - sum(each.get(trial, 0.0) for each in found), 0.0)
        for trial, value in whole.items()
    }
