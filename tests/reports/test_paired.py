from __future__ import annotations

from itertools import product
from math import inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from keymark.reports.gate.paired import adjusted, log_ratios, p_above, pairs_needed, shift

LOGS = st.lists(st.integers(-6, 6).map(lambda n: n / 8), min_size=1, max_size=9)


def by_all_signs(values):
    """The signed rank test's p-value by going through all signs."""
    sizes = np.abs(values)
    ranks = stats.rankdata(sizes)[sizes > 0]
    signs = np.sign(values)[sizes > 0]
    if not len(ranks):
        return 1.0
    reached = ranks[signs > 0].sum()
    sums = [np.dot(ranks, each) for each in product((0, 1), repeat=len(ranks))]
    return float(np.mean(np.array(sums) >= reached - 1e-9))


@given(LOGS)
def test_p_values_are_exact_with_ties_and_zeros(logs):
    assert p_above(np.array(logs)) == pytest.approx(by_all_signs(np.array(logs)))


def test_p_values_are_scipys():
    draw = np.random.default_rng(1)
    for n in (5, 12, 24, 40):
        values = draw.normal(0.3, 1.0, n)
        theirs = stats.wilcoxon(values, alternative="greater", method="exact").pvalue
        assert p_above(values) == pytest.approx(theirs)


@given(LOGS)
def test_a_shift_has_a_mirror_image(logs):
    found = shift(logs, bound_confidence=0.9)
    mirror = shift([-value for value in logs], bound_confidence=0.9)
    assert found.estimate == pytest.approx(-mirror.estimate)
    assert (found.low, found.high) == (-mirror.high, -mirror.low)
    assert found.p_above == mirror.p_below
    assert found.low <= found.estimate <= found.high


def test_few_pairs_have_no_interval_and_no_bound():
    found = shift([0.1] * 5, bound_confidence=0.995)
    assert (found.low, found.high, found.bound) == (-inf, inf, inf)
    assert shift([0.1] * 6, bound_confidence=0.995).high == 0.1
    assert shift([0.1] * 7, bound_confidence=0.995).bound == inf
    assert shift([0.1] * 8, bound_confidence=0.995).bound == 0.1


def test_intervals_hold_the_shift_as_often_as_they_say():
    draw = np.random.default_rng(2)
    found = [shift(draw.laplace(0.0, 1.0, 11), bound_confidence=0.99) for _ in range(2000)]
    assert 0.94 <= np.mean([each.low <= 0.0 <= each.high for each in found]) <= 0.965
    # Eleven pairs have no bound of just 99%; theirs has 99.1%.
    assert 0.985 <= np.mean([each.bound > 0.0 for each in found]) <= 0.997


def test_spread_is_that_of_one_side_and_no_burst_moves_it():
    draw = np.random.default_rng(3)
    sides = draw.normal(0.0, 0.03, (2, 400))
    logs = sides[1] - sides[0]
    logs[:30] += 2.0
    assert shift(logs, bound_confidence=0.99).spread == pytest.approx(0.03, rel=0.15)


def test_p_values_are_adjusted_for_their_number():
    assert adjusted([]) == []
    assert adjusted([0.04]) == [0.04]
    assert adjusted([0.01, 0.04, 0.01, 0.9]) == pytest.approx([0.02, 0.16 / 3, 0.02, 0.9])


def test_pairs_needed_grow_with_noise_and_with_care():
    needed = [pairs_needed(spread, log(1.05), level=0.0005) for spread in (0.01, 0.03, 0.06)]
    assert needed == sorted(needed)
    assert needed[1] == 26
    assert all(count % 2 == 0 for count in needed)
    assert pairs_needed(0.03, log(1.05), level=0.0005 / 24) > needed[1]
    # No noise at all: as many as it takes for a p-value to be so small.
    assert pairs_needed(0.0, log(1.05), level=0.0005) == 12


def test_pairs_needed_are_enough():
    draw = np.random.default_rng(5)
    for level in (0.001, 0.0005 / 40):
        n = pairs_needed(0.04, log(1.05), level=level)
        logs = log(1.05) + draw.normal(0.0, 0.04 * 2**0.5, (400, n))
        assert 0.93 <= np.mean([p_above(each) <= level for each in logs]) <= 0.98


def test_pairs_without_a_ratio_are_left_out():
    assert log_ratios([1.0, 0.0, 2.0, 1.0], [1.0, 1.0, 4.0, 0.0]) == [0.0, log(2.0)]
