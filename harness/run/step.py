"""A step of a repetition: its name, one taking of it with the clock around it, what came of it.

On the clock is only the engine's own call: input data frames are made before it, listings,
translations and verification come after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from keymark.harness.engines import is_native, is_without_spark
from keymark.harness.engines.base import Engine, MeasuredTable
from keymark.harness.measure import processor_time
from keymark.harness.run.context import Inputs, RunContext
from keymark.harness.run.lookup_model import Point
from keymark.harness.scenario.matrix import Cell, Trial
from keymark.harness.tables import page_cache
from keymark.harness.tables.probes import Listing

BULK_INSERT = "bulk_insert"
BUILD = "build"
BUILD_INDEX = "build_index"
NULL_COLUMNS = "null_columns"
DELETE = "delete"
PURGE = "purge"
SPREAD = "spread"
LOOKUP = "lookup"
LOOKUP_AGAIN = "lookup_again"
LOOKUP_FEW = "lookup_few"
POINT_QUERY = "point_query"
POINT_QUERY_SPARK = "point_query_spark"
POINT_QUERY_OPTIMIZED = "point_query_optimized"
COLUMN_QUERY = "column_query"
RANGE_QUERY = "range_query"
POINT_QUERY_COLD = "point_query_cold"
RANGE_QUERY_COLD = "range_query_cold"
COMPACT_ROWS = "compact_rows"
COMPACT = "compact"

_ROUND = re.compile(r"_\d+$")

Values = dict[tuple[str, str], float]
"""Numbers of a step by (phase, metric), in base units."""

WHOLE = ("total", "wall_s")
"""The number that every step has: its time on the harness's own clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a repetition.

    Attributes:
        name: its name.
        round: number of change batches applied when it ends.
        deleted: whether the delete step was taken before.
        nulled: whether the rows of that step are there with columns nulled when it ends.
        points: what a step of the lookup model measures, each under a name of its own.
        is_once: whether it is taken in the first repetition of a cell only.
        engines: the engines that take it; empty: all do.
        column: whose rows with one value, or a range of values, are read.
        width: of the range.
        variants: the variants of tables that take it; empty: all tables do.
    """

    name: str
    round: int
    deleted: bool = False
    nulled: bool = False
    points: tuple[Point, ...] = ()
    is_once: bool = False
    column: str = ""
    width: float = 0.0
    engines: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()

    @property
    def measured(self) -> tuple[str, ...]:
        """The names under which its numbers are kept."""
        return tuple(point.step for point in self.points) or (self.name,)

    @property
    def kind(self) -> str:
        """What it does: its name without the round after which it is taken once more."""
        return _ROUND.sub("", self.name)

    @property
    def is_cold(self) -> bool:
        """Whether the table's files are out of the system's cache when its clock starts."""
        return self.name in (POINT_QUERY_COLD, RANGE_QUERY_COLD)

    @property
    def changes_rows(self) -> bool:
        """Whether the table holds other rows, or other files, after it."""
        lookups = (LOOKUP, LOOKUP_AGAIN, LOOKUP_FEW)
        points = (POINT_QUERY, POINT_QUERY_SPARK, POINT_QUERY_OPTIMIZED)
        queries = (*points, COLUMN_QUERY, RANGE_QUERY)
        reads = (*lookups, *queries, POINT_QUERY_COLD, RANGE_QUERY_COLD)
        return self.kind not in (*reads, COMPACT) and not self.points

    def is_taken(self, cell: str, *, repetition: int, warmup: bool) -> bool:
        """Whether a repetition of a cell, named by its id, has the step."""
        engine, _, *parts = cell.split("/")
        if self.variants and not set(self.variants) & set(parts):
            return False
        if self.engines and engine not in self.engines:
            return False
        by_spark = is_native(engine) and not is_without_spark(engine)
        if self.kind == POINT_QUERY_SPARK and not by_spark:
            return False  # other engines have one point query
        return not self.is_once or (repetition == 0 and not warmup)


LOAD = Step(name=BULK_INSERT, round=0)
BUILD_ON_LOAD = Step(name=BUILD_INDEX, round=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """The result of a step.

    Attributes:
        step: the step.
        values: its numbers; of a failed step only the time until it failed.
        mistake: why the result is wrong; None if it was verified.
        failed: the step raised instead of ending.
        ended: why the step has no numbers although nothing is wrong; empty if it has.
    """

    step: Step
    values: Values
    mistake: str | None = None
    failed: bool = False
    ended: str = ""

    @classmethod
    def of_failure(cls, step: Step, spent: float, error: BaseException) -> StepResult:
        """The result of a step that raised an error after `spent` seconds."""
        mistake = f"failed: {first_line(error)}"
        return cls(step=step, values={WHOLE: spent}, mistake=mistake, failed=True)


def label(trial: Trial, step: Step) -> str:
    """Name of a step in Spark's event log."""
    return f"{trial.label}|{step.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRun:
    """One step, taken in one trial on the trial's table.

    Attributes:
        context: what the run works with.
        trial: the repetition of a cell that the step belongs to.
        step: the step.
        path: of the table in the run folder.
        table: the open table.
        reads_whole: whether the table is read whole after the step, however large it is.
        deadline: time on the context's clock at which the step is ended; None for never.
    """

    context: RunContext
    trial: Trial
    step: Step
    path: Path
    table: MeasuredTable
    reads_whole: bool = False
    deadline: float | None = None

    @property
    def cell(self) -> Cell:
        """The cell under test."""
        return self.trial.cell

    @property
    def inputs(self) -> Inputs:
        """The rows of the run."""
        return self.context.inputs

    @property
    def engine(self) -> Engine:
        """The cell's engine."""
        return self.context.engines[self.cell.engine]

    @property
    def label(self) -> str:
        """Name of the step in Spark's event log."""
        return label(self.trial, self.step)

    def files(self) -> Path:
        """The folder of the table, with its files as they are now."""
        return self.context.tables.seen(self.path)

    def listing(self) -> Listing:
        """The files of the table as they are now."""
        return Listing.of(self.files())

    @contextmanager
    def timed(self) -> Iterator[Values]:
        """Put the block on the clock; what it took is in the values when the block has ended."""
        values: Values = {}
        if self.step.is_cold:
            page_cache.drop(self.path)
        before = processor_time.spent()
        with ExitStack() as stack:
            if self.deadline is not None:
                left = self.deadline - self.context.clock()
                stack.enter_context(self.engine.limited(left))
            cost = stack.enter_context(self.engine.step(self.label))
            asked = self.engine.requests()
            start = self.context.clock()
            yield values
            values[WHOLE] = self.context.clock() - start
            for kind, requests in self.engine.requests().items():
                values["total", f"{kind}_requests"] = requests - asked.get(kind, 0)
        if cost is not None and cost.seconds is not None:
            values["total", "measuring_s"] = cost.seconds
        after = processor_time.spent()
        if before is not None and after is not None:
            spent = after.since(before)
            values["total", "cpu_s"] = spent.total
            values["total", "python_worker_s"] = spent.workers
        if self.step.is_cold:
            page_cache.fill(self.path)


def first_line(error: BaseException) -> str:
    """Kind and first line of an error; those of Spark carry pages of Java stack."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
