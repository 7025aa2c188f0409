"""What pairs measured side by side say about a shift: exact p-values, intervals, pairs needed.

The unit is the logarithm of candidate / base of one pair. Under "no difference" the two sides of
a pair could have changed places, so every logarithm could as well have the other sign, whatever
the noise looks like: drift, bursts and heavy tails strike both signs alike. Wilcoxon's signed rank
statistic over all 2^n signs is therefore exact (Hollander, Wolfe and Chicken, Nonparametric
Statistical Methods, section 3.1); its inversion through the Walsh averages gives the estimate
(Hodges and Lehmann) and the interval, so test and interval never contradict each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf, log, log2
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

# Relative efficiency of signed ranks against the mean where noise is normal: 3 / pi.
_EFFICIENCY = 0.955
# A median absolute deviation of normal noise, in standard deviations, inverted.
_MAD_TO_SD = 1.4826

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """What the pairs of one metric say.

    Attributes:
        n: number of pairs.
        estimate: Hodges-Lehmann estimate of the shift, a logarithm.
        low: lower end of its 95% interval; -inf where there are too few pairs for one.
        high: upper end of it.
        bound: the shift is below it with the confidence that was asked for; inf as above.
        p_above: probability of so much evidence for a shift above zero if there is none.
        p_below: the same for a shift below zero.
        spread: standard deviation of one side of a pair, by the median absolute deviation of the
            pairs, which a few bursts do not move; 0 for one pair.
    """

    n: int
    estimate: float
    low: float
    high: float
    bound: float
    p_above: float
    p_below: float
    spread: float


def shift(logs: Sequence[float], *, bound_confidence: float) -> Shift:
    """Say what logarithms of paired ratios show.

    Args:
        logs: at least one finite logarithm.
        bound_confidence: one-sided confidence of `Shift.bound`.
    """
    values = np.asarray(logs, dtype=np.float64)
    first, second = np.triu_indices(len(values))
    walsh = np.sort((values[first] + values[second]) / 2.0)
    low, high = _order_bounds(walsh, len(values), 0.025)
    _, bound = _order_bounds(walsh, len(values), 1.0 - bound_confidence)
    middle = float(np.median(values))
    deviation = _MAD_TO_SD * float(np.median(np.abs(values - middle)))
    return Shift(
        n=len(values),
        estimate=float(np.median(walsh)),
        low=low,
        high=high,
        bound=bound,
        p_above=p_above(values),
        p_below=p_above(-values),
        spread=deviation / 2**0.5,
    )


def p_above(values: _Floats) -> float:
    """One-sided p-value of the signed rank test, exact also with ties and zeros.

    Zeros keep their ranks and count for neither sign (Pratt); ties share their mean rank.

    Args:
        values: logarithms.
    """
    _, place, counts = np.unique(np.abs(values), return_inverse=True, return_counts=True)
    # Twice the ranks, so that the mean rank of a tie is whole.
    ranks = (2 * np.cumsum(counts) - counts + 1)[place]
    used = ranks[values != 0]
    if not len(used):
        return 1.0
    reached = int(used[values[values != 0] > 0].sum())
    # Rounding may carry the sum a little above 1.
    return min(1.0, float(_null(tuple(sorted(used.tolist())))[reached:].sum()))


def adjusted(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for their number: compared with a level, they keep the false discovery rate.

    Where nothing changed at all, any finding is a false one, and the rate is the probability of a
    false alarm: the same protection as Holm's procedure gives. Where something did change, the
    further findings that it brings need less evidence each (Benjamini and Hochberg).
    """
    if not p_values:
        return []
    from scipy.stats import false_discovery_control  # noqa: PLC0415  slow to import

    found: list[float] = false_discovery_control(p_values, method="bh").tolist()
    return found


def pairs_needed(spread: float, shift_log: float, *, level: float, power: float = 0.95) -> int:
    """How many pairs show a shift of that size with that power at a one-sided level.

    Args:
        spread: standard deviation of one side of a pair, a logarithm.
        shift_log: the shift to be found, a logarithm above zero.
        level: of the test, already divided by the number of metrics.
        power: probability of finding it.

    Returns:
        An even number, so that both orders within a pair occur equally often.
    """
    normal = NormalDist()
    rare = normal.inv_cdf(1.0 - level)
    reach = rare + normal.inv_cdf(power)
    # The spread is not known but estimated: Guenther's term, as for the t test.
    by_noise = (reach * spread * 2**0.5 / shift_log) ** 2 / _EFFICIENCY + rare**2 / 2
    # With n pairs no p-value is smaller than 2^-n.
    count = ceil(max(by_noise, -log2(level)))
    return count + count % 2


def log_ratios(base: Sequence[float], candidate: Sequence[float]) -> list[float]:
    """Logarithms of candidate / base; pairs with a value that is not above zero are left out."""
    return [log(c / b) for b, c in zip(base, candidate, strict=True) if b > 0 and c > 0]


def _order_bounds(walsh: _Floats, n: int, tail: float) -> tuple[float, float]:
    """The Walsh averages beyond which the shift lies with at most the probability `tail` each."""
    reached = np.cumsum(_null(tuple(range(2, 2 * n + 1, 2)))[::2])
    out = int(np.searchsorted(reached, tail, side="right"))
    if out == 0:
        return -inf, inf
    return float(walsh[out - 1]), float(walsh[len(walsh) - out])


@lru_cache(maxsize=64)
def _null(ranks: tuple[int, ...]) -> _Floats:
    """Probability of each sum of ranks when every sign is equally likely."""
    chances = np.zeros(sum(ranks) + 1)
    chances[0] = 1.0
    for rank in ranks:
        chances = 0.5 * chances + 0.5 * np.roll(chances, rank)
    return chances
