"""Tables of several sizes: how a measure grows with the rows, and where two indexes' lines meet.

Within a repetition, the values of one cell over the sizes are fitted by a straight line, each value
weighted by its inverse, so that a deviation counts by its share. Where the lines of two indexes
meet, they cost the same; outside of the sizes measured that is an extrapolation. Every repetition
has its own meeting point, so that the points have a median and an interval like any value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from reports.projection import INDEX_ORDER, CellView, Trial, place_in
from reports.stats import Summary, paired_ratio, summarize
from reports.tables import Measure

_PARALLEL = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One measure of one engine and index over the sizes of the table.

    Attributes:
        engine: engine name.
        index: index name.
        values: by rows, ascending, the values by trial.
    """

    engine: str
    index: str
    values: Mapping[int, Mapping[Trial, float]]

    def summaries(self) -> dict[int, Summary]:
        """Median and interval of each size."""
        return {rows: summarize(list(trials.values())) for rows, trials in self.values.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """A line against that of another index of the same engine.

    Attributes:
        line: the one.
        other: the other.
        ratios: by rows, the one as a multiple of the other, paired; None where the other is zero.
        meeting: rows at which the lines meet; None unless they do in more than half of the trials.
        met: in how many trials they meet, of `trials`.
        trials: that have a value of both at every size.
    """

    line: Line
    other: Line
    ratios: Mapping[int, Summary | None]
    meeting: Summary | None
    met: int
    trials: int


def lines(cells: Iterable[CellView], measure: Measure) -> list[Line]:
    """The lines of the cells of one run, those that have two sizes at least."""
    found: dict[tuple[str, str], dict[int, Mapping[Trial, float]]] = {}
    for cell in cells:
        values = measure.values(cell)
        if cell.rows and values:
            found.setdefault((cell.engine, cell.index), {})[cell.rows] = values
    return [
        Line(engine=engine, index=index, values=dict(sorted(values.items())))
        for (engine, index), values in found.items()
        if len(values) > 1
    ]


def contests(found: Sequence[Line]) -> list[Contest]:
    """The first index of each engine, in the order of reports, against each other one."""
    made = []
    for engine in dict.fromkeys(line.engine for line in found):
        mine = sorted(
            (line for line in found if line.engine == engine),
            key=lambda line: place_in(line.index, INDEX_ORDER),
        )
        made += [_contest(mine[0], other) for other in mine[1:]]
    return made


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


def meeting_point(
    rows: Sequence[int], values: Sequence[float], others: Sequence[float]
) -> float | None:
    """The rows at which two fitted lines cost the same; None if they do at no positive number."""
    (start, slope), (other_start, other_slope) = fitted(rows, values), fitted(rows, others)
    apart = slope - other_slope
    if abs(apart) <= _PARALLEL * max(abs(slope), abs(other_slope)):
        return None
    at = (other_start - start) / apart
    return at if at > 0 else None


def fitted(rows: Sequence[int], values: Sequence[float]) -> tuple[float, float]:
    """Start and slope of the straight line over the rows, by relative least squares."""
    if len(rows) < 2 or not any(values):
        return 0.0, 0.0
    least = min(value for value in values if value) / 2
    weights = [1 / max(value, least) for value in values]
    slope, start = np.polyfit(np.array(rows, float), np.array(values, float), 1, w=weights)
    return float(start), float(slope)
