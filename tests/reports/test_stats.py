from __future__ import annotations

import math
import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from keymark.reports.stats.statistics import (
    CaveatKind,
    Summary,
    interval_depth,
    paired_ratio,
    summarize,
)

numbers = st.floats(min_value=1e-6, max_value=1e12, allow_nan=False)


def test_few_values_give_the_range_and_say_so():
    summary = summarize([3.0, 1.0, 2.0])
    assert (summary.median, summary.low, summary.high, summary.n) == (2.0, 1.0, 3.0, 3)
    assert summary.coverage == 0.75
    assert [caveat.kind for caveat in summary.caveats] == [CaveatKind.FEW_SAMPLES]
    assert "3 values" in summary.caveats[0].detail


def test_one_value_has_no_spread():
    summary = summarize([5.0])
    assert (summary.low, summary.high, summary.coverage) == (5.0, 5.0, 0.0)
    assert "unknown" in summary.caveats[0].detail


def test_six_values_reach_the_confidence_without_caveat():
    summary = summarize([1, 2, 3, 4, 5, 6])
    assert summary.coverage == 1 - 2 / 64
    assert (summary.low, summary.high, summary.caveats) == (1, 6, ())


@pytest.mark.parametrize("n", [6, 7, 8, 9, 10, 15, 20, 21, 50, 101, 1024, 2001])
def test_depth_is_the_deepest_that_reaches_the_confidence(n):
    depth, coverage = interval_depth(n)
    assert coverage == pytest.approx(1 - 2 * binom.cdf(depth, n, 0.5))
    assert coverage >= 0.95
    assert 1 - 2 * binom.cdf(depth + 1, n, 0.5) < 0.95


def test_interval_covers_the_true_median_as_often_as_promised():
    draw = random.Random(7)
    trials, hits = 4000, 0
    for _ in range(trials):
        summary = summarize([math.exp(draw.gauss(0, 1)) for _ in range(10)])
        hits += summary.low <= 1.0 <= summary.high
    _, promised = interval_depth(10)
    assert hits / trials == pytest.approx(promised, abs=0.012)


@given(st.lists(numbers, min_size=1, max_size=60))
def test_median_lies_in_its_interval_whatever_the_order(values):
    summary = summarize(values)
    assert summary.low <= summary.median <= summary.high
    assert summary.median == median(values)
    assert summarize(values[::-1]) == summary


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf]])
def test_nothing_and_not_finite_is_refused(values):
    with pytest.raises(ValueError, match="finite"):
        summarize(values)


def test_overlap_includes_the_touching_end():
    def of(low: float, high: float) -> Summary:
        return Summary(median=low, low=low, high=high, n=3, coverage=0.75)

    assert of(1, 2).overlaps(of(2, 3))
    assert of(2, 3).overlaps(of(1, 2))
    assert not of(1, 2).overlaps(of(2.1, 3))
    assert not of(2.1, 3).overlaps(of(1, 2))


def test_pairing_takes_out_what_both_sides_share():
    drift = [1.0, 5.0, 2.0, 9.0, 3.0, 4.0]
    baseline = {(rep, 1): 2.0 * slow for rep, slow in enumerate(drift)}
    candidate = {(rep, 1): 3.0 * slow for rep, slow in enumerate(drift)}
    ratio, caveats = paired_ratio(baseline, candidate)
    assert ratio is not None
    assert (ratio.median, ratio.low, ratio.high, caveats) == (1.5, 1.5, 1.5, ())


def test_pairs_left_out_are_told():
    ratio, caveats = paired_ratio({1: 2.0, 2: 0.0, 3: 4.0}, {1: 4.0, 2: 1.0, 4: 1.0})
    assert ratio is not None
    assert (ratio.median, ratio.n) == (2.0, 1)
    kinds = {caveat.kind for caveat in caveats}
    assert kinds == {CaveatKind.FEW_SAMPLES, CaveatKind.UNPAIRED, CaveatKind.ZERO_BASE}


def test_no_pair_no_ratio():
    ratio, caveats = paired_ratio({1: 0.0}, {1: 3.0})
    assert ratio is None
    assert [caveat.kind for caveat in caveats] == [CaveatKind.ZERO_BASE]
