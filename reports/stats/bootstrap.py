"""Bootstrap intervals of medians, for readers who compare with other tools.

The percentile bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, chapter 13): the
values are drawn again with replacement, many times, and the middle 95 % of the medians drawn are
the interval. The draws depend on the number of values alone and have a fixed seed, so that equal
samples give equal reports. With few values it promises too much (of 7 values it holds the true
median in 88 % of cases, not 95 %), so verdicts rest on the exact interval of `stats`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from keymark.reports.stats.statistics import CONFIDENCE

_DRAWS = 5_000
_SEED = 1


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """The interval of the median of finite values, at least one."""
    if min(values) == max(values):
        return float(values[0]), float(values[0])
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    if len(ordered) % 2:
        low, high = ordered[_ends(len(ordered))]
    else:
        lower, upper = _middles(len(ordered))
        low, high = _interval((ordered[lower] + ordered[upper]) / 2)
    return float(low), float(high)


@cache
def _ends(n: int) -> npt.NDArray[np.int64]:
    """Which of an odd number of ordered values the interval ends at: each median is one of them."""
    return _interval(_middles(n)[0])


def _interval(medians: npt.NDArray[Any]) -> npt.NDArray[Any]:
    tail = 100 * (1 - CONFIDENCE) / 2
    ends: npt.NDArray[Any] = np.percentile(
        medians, (tail, 100 - tail), method="closest_observation"
    )
    return ends


@cache
def _middles(n: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Which of n ordered values are in the middle of each draw."""
    drawn = np.sort(np.random.default_rng(_SEED).integers(0, n, size=(_DRAWS, n)), axis=1)
    return drawn[:, (n - 1) // 2].copy(), drawn[:, n // 2].copy()
