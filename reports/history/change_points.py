"""Where a series of runs changed its level.

A counter repeats, so each change of it is one. A time is divided where the ranks of a stretch of
runs differ most from all others (the scan of circular binary segmentation, Olshen, Venkatraman,
Lucito and Wigler 2004, with Mann and Whitney's statistic, so that there and back is found as well
as there), and each part again, as long as the largest difference is one that shuffled runs show at
most once in a thousand times. There is a change between two levels if their medians differ by what
is worth reporting. Ranks keep a single slow run from being taken for a change, as do at least
`SHORTEST` runs of a level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from statistics import median

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

LEVEL = 0.001
"""Probability of a change point in a stretch of a time that never changed."""
SHORTEST = 5
"""Runs on either side of a time's change."""
WORTH = 0.05
"""Relative change of a time that is reported."""

_SHUFFLES = 2_999
_AT_ONCE = 4_000_000
_SEED = 1

_Floats = npt.NDArray[np.float64]
_Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelChange:
    """A change of level.

    Attributes:
        at: place of the first run with the new level.
        before: median of the level before.
        after: median of the level from there on.
        p: probability of so large a difference among shuffled runs; 0 for counters.
    """

    at: int
    before: float
    after: float
    p: float

    @property
    def ratio(self) -> float | None:
        """New level by old one; None where the old one is zero."""
        return self.after / self.before if self.before else None


def counter_changes(values: Sequence[float], tolerance: float) -> tuple[LevelChange, ...]:
    """Every place where a counter differs from the run before.

    Args:
        values: one for each run, in order.
        tolerance: relative difference that is none.
    """
    places = [
        at
        for at in range(1, len(values))
        if abs(values[at] - values[at - 1]) > tolerance * max(map(abs, values[at - 1 : at + 1]))
    ]
    return _changes(values, dict.fromkeys(places, 0.0))


def time_changes(values: Sequence[float]) -> tuple[LevelChange, ...]:
    """Where the times of runs changed their level.

    Args:
        values: one for each run, in order; finite.
    """
    places: dict[int, float] = {}
    _divide(np.asarray(values, dtype=np.float64), 0, places)
    changes = _changes(values, places)
    while small := [
        each for each in changes if abs(each.after - each.before) < WORTH * abs(each.before)
    ]:
        del places[min(small, key=lambda each: abs(each.after - each.before)).at]
        changes = _changes(values, places)
    return changes


def _divide(values: _Floats, first: int, places: dict[int, float]) -> None:
    """Add the change points of a stretch that begins at `first`."""
    n = len(values)
    if n < 2 * SHORTEST:
        return
    starts, stops = _stretches(n)
    heights = _heights(rankdata(values)[None, :])[0]
    best = int(np.argmax(heights))
    null = _null(n)
    p = (1 + int(np.count_nonzero(null >= heights[best] - 1e-9))) / (1 + len(null))
    if p > LEVEL:
        return
    edges = [0, int(starts[best]), int(stops[best]), n]
    for start, stop in pairwise(edges):
        if stop > start:
            _divide(values[start:stop], first + start, places)
    places.update({first + edge: p for edge in edges[1:3] if 0 < edge < n})


@lru_cache(maxsize=64)
def _stretches(n: int) -> tuple[_Places, _Places]:
    """Starts and ends of all stretches of n runs that leave whole levels.

    A stretch and what it leaves on either side have at least `SHORTEST` runs, or none.
    """
    start, stop = np.triu_indices(n + 1, SHORTEST)
    whole = [(edge == 0) | (edge >= SHORTEST) for edge in (start, n - stop)]
    kept = whole[0] & whole[1] & (stop - start < n)
    return start[kept], stop[kept]


def _heights(ranks: _Floats) -> _Floats:
    """How far the ranks of each stretch are from their mean, in standard deviations.

    Args:
        ranks: a series in each row, (rows, n).

    Returns:
        Of shape (rows, stretches).
    """
    rows, n = ranks.shape
    starts, stops = _stretches(n)
    length = stops - starts
    sums = np.concatenate([np.zeros((rows, 1)), np.cumsum(ranks, axis=1)], axis=1)
    deviation = np.sqrt(length * (n - length) * (n + 1) / 12.0)
    away: _Floats = np.abs(sums[:, stops] - sums[:, starts] - length * (n + 1) / 2.0) / deviation
    return away


@lru_cache(maxsize=64)
def _null(n: int) -> _Floats:
    """The largest height of each of many shuffled series of n runs."""
    draw = np.random.default_rng([_SEED, n])
    ranks = np.tile(np.arange(1.0, n + 1.0), (_SHUFFLES, 1))
    shuffled = draw.permuted(ranks, axis=1)
    # Some at a time: every series has about n * n / 2 stretches.
    parts = np.array_split(shuffled, 1 + len(_stretches(n)[0]) * _SHUFFLES // _AT_ONCE)
    return np.concatenate([_heights(part).max(axis=1) for part in parts])


def _changes(values: Sequence[float], places: dict[int, float]) -> tuple[LevelChange, ...]:
    """Levels lie between one change and the next."""
    ends = [0, *sorted(places), len(values)]
    return tuple(
        LevelChange(
            at=at,
            before=median(values[start:at]),
            after=median(values[at:stop]),
            p=places[at],
        )
        for start, at, stop in zip(ends, ends[1:], ends[2:], strict=False)
    )
