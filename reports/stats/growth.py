"""Tables or batches of several sizes: how a measure grows, and where two indexes' lines meet.

Along one axis the other is held at its largest, and each shape of keys has lines of its own.
Within a repetition, the values of one cell over the sizes are fitted by a straight line, each value
weighted by its inverse, so that a deviation counts by its share. Where the lines of two indexes
meet, they cost the same; outside of the sizes measured that is an extrapolation. Every repetition
has its own meeting point, so that the points have a median and an interval like any value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from keymark.indexes.spec import UNKNOWN, IndexSpec
from keymark.reports.model.measures import Measure
from keymark.reports.model.projection import CellView, Trial
from keymark.reports.stats.statistics import Summary, paired_ratio, summarize

PUBLISHED_ROWS = 2_000_000_000
"""Rows of the table for which the record index's authors published figures."""

_PARALLEL = 1e-12


class Axis(StrEnum):
    """What grows."""

    ROWS = "rows"
    BATCH = "batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One measure of one engine, index and shape of keys over sizes.

    Attributes:
        engine: engine name.
        index: index name.
        spec: of the index.
        name: the index, with the variant of the table's options where it has several.
        shape: name of the keys' shape; empty where the run has none.
        values: by rows of the table or of the batch, ascending, the values by trial.
    """

    engine: str
    index: str
    spec: IndexSpec = UNKNOWN
    name: str
    shape: str = ""
    values: Mapping[int, Mapping[Trial, float]]

    def summaries(self) -> dict[int, Summary]:
        """Median and interval of each size."""
        return {rows: summarize(list(trials.values())) for rows, trials in self.values.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """A line against that of another index of the same engine and shape of keys.

    Attributes:
        line: the one.
        other: the other.
        ratios: by size, the one as a multiple of the other, paired; None where the other is zero.
        meeting: size at which the lines meet; None unless they do in more than half of the trials.
        met: in how many trials they meet, of `trials`.
        trials: that have a value of both at every size.
    """

    line: Line
    other: Line
    ratios: Mapping[int, Summary | None]
    meeting: Summary | None
    met: int
    trials: int


def lines(cells: Iterable[CellView], measure: Measure, axis: Axis = Axis.ROWS) -> list[Line]:
    """The lines of the cells of one run along an axis, those that have two sizes at least."""
    found: dict[tuple[str, str, str, str], dict[int, Mapping[Trial, float]]] = {}
    specs: dict[str, IndexSpec] = {}
    for cell in at_largest(cells, but=axis):
        values, size = measure.values(cell), _size(cell, axis)
        if size and values:
            key = (cell.engine, cell.index, cell.data.shape, cell.variant)
            found.setdefault(key, {})[size] = values
            specs[cell.index] = cell.spec
    twins = Counter(key[:3] for key in found)
    return [
        Line(
            engine=key[0],
            index=key[1],
            spec=specs[key[1]],
            name=" · ".join([key[1], *([key[3]] if twins[key[:3]] > 1 else [])]),
            shape=key[2],
            values=dict(sorted(values.items())),
        )
        for key, values in found.items()
        if len(values) > 1
    ]


def at_largest(cells: Iterable[CellView], *, but: Axis) -> list[CellView]:
    """The cells of one run that are at the largest of the axis which does not grow."""
    every = list(cells)
    (other,) = set(Axis) - {but}
    most = max((_size(cell, other) for cell in every), default=0)
    return [cell for cell in every if _size(cell, other) == most]


def _size(cell: CellView, axis: Axis) -> int:
    return (cell.data.rows if axis is Axis.ROWS else cell.data.batch) or 0


def contests(found: Sequence[Line]) -> list[Contest]:
    """The first index of each engine and shape, in the order of reports, against each other one."""
    made = []
    for panel in panels(found):
        mine = sorted(panel, key=lambda line: (line.spec.order, line.index))
        made += [_contest(mine[0], other) for other in mine[1:]]
    return made


def panels(found: Sequence[Line]) -> list[list[Line]]:
    """Lines that stand against each other: those of one engine and one shape of keys."""
    together: dict[tuple[str, str], list[Line]] = {}
    for line in found:
        together.setdefault((line.engine, line.shape), []).append(line)
    return list(together.values())


def _contest(line: Line, other: Line) -> Contest:
    shared = [rows for rows in line.values if rows in other.values]
    ratios = {rows: paired_ratio(other.values[rows], line.values[rows])[0] for rows in shared}
    sides = [side.values[rows] for side in (line, other) for rows in shared]
    trials = sorted(set.intersection(*(set(side) for side in sides))) if sides else []
    points = [
        meeting_point(
            shared,
            [line.values[rows][trial] for rows in shared],
            [other.values[rows][trial] for rows in shared],
        )
        for trial in trials
    ]
    found = [point for point in points if point is not None]
    enough = 2 * len(found) > len(trials)
    return Contest(
        line=line,
        other=other,
        ratios=ratios,
        meeting=summarize(found) if enough else None,
        met=len(found),
        trials=len(trials),
    )


def carried_on(line: Line, rows: int) -> Summary | None:
    """What the fitted line of each trial is at a size, which may be far beyond those measured.

    The interval is that of the trials: how far they differ. It does not know whether the line stays
    straight. None without a trial that has every size.
    """
    sizes = list(line.values)
    trials = sorted(set.intersection(*(set(values) for values in line.values.values())))
    found = []
    for trial in trials:
        start, slope = fitted(sizes, [line.values[size][trial] for size in sizes])
        found.append(max(0.0, start + slope * rows))
    return summarize(found) if found else None


def meeting_point(
    rows: Sequence[int], values: Sequence[float], others: Sequence[float]
) -> float | None:
    """The size at which two fitted lines cost the same; None if they do at no positive number."""
    (start, slope), (other_start, other_slope) = fitted(rows, values), fitted(rows, others)
    apart = slope - other_slope
    if abs(apart) <= _PARALLEL * max(abs(slope), abs(other_slope)):
        return None
    at = (other_start - start) / apart
    return at if at > 0 else None


def fitted(rows: Sequence[int], values: Sequence[float]) -> tuple[float, float]:
    """Start and slope of the straight line over the sizes, by relative least squares."""
    if len(rows) < 2 or not any(values):
        return 0.0, 0.0
    least = min(value for value in values if value) / 2
    weights = [1 / max(value, least) for value in values]
    slope, start = np.polyfit(np.array(rows, float), np.array(values, float), 1, w=weights)
    return float(start), float(slope)
