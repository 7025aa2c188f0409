"""The benchmark of 200 commits: its statistic on made-up times, and a few commits of it."""

from __future__ import annotations

import numpy as np
import pytest
from commit_slope import GROWTH_MAX, growth, measure, report

COMMITS = 200


def times(share: float, scatter: float, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Times of both tables on a machine that becomes slower by a half and fast again."""
    chosen = np.random.default_rng(seed)
    age = np.arange(COMMITS) / COMMITS
    machine = 0.1 * (1 + 0.5 * np.sin(np.pi * age))
    noise = chosen.normal(0, scatter, (2, COMMITS))
    return machine * (1 + share) ** age * np.exp(noise[0]), machine * np.exp(noise[1])


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5])
def test_growth_is_told_from_the_drift_of_the_machine(share):
    # Far enough from the limit for every seed: the interval is about two per cent either way.
    for seed in range(5):
        found = growth(*times(share, 0.02, seed))
        assert found.low < found.share < found.high
        assert found.share == pytest.approx(share, abs=0.04)
        assert found.needed is None
        assert (found.high < GROWTH_MAX) == (share < GROWTH_MAX)


def test_too_much_scatter_asks_for_more_commits():
    half = np.random.default_rng(1).normal(0, 1, COMMITS // 2)
    # The same backwards: no growth at all.
    noise = np.concatenate([half, half[::-1]])
    found = [growth(np.exp(scatter * noise), np.ones(COMMITS)) for scatter in (0.5, 1)]
    for one in found:
        assert one.share == pytest.approx(0, abs=1e-9)
        assert one.high > GROWTH_MAX > one.share
    little, much = (one.needed for one in found)
    assert little is not None
    assert much is not None
    assert COMMITS < little < much
    # As often the width of the interval, to the power of two thirds.
    assert much / little == pytest.approx(2 ** (2 / 3), rel=0.05)


def test_growth_beyond_the_limit_is_not_a_matter_of_more_commits():
    assert growth(*times(0.5, 0.15)).needed is None


def test_a_control_does_what_the_measured_table_did_at_that_age(tmp_path):
    ageing, lines = measure(str(tmp_path), 5, cycle=2)
    same = [line["measured"]["files_opened"] == line["control"]["files_opened"] for line in lines]
    assert same[:2] == [True, True]
    # Put back: these are the commits of that age again.
    for name in ("files_opened", "timeline_entries", "names_listed"):
        found = [line["control"][name] for line in lines]
        assert found[:2] == found[2:4]
        assert found[4] == found[0]
    answer = report(ageing, lines, cycle=2)
    assert answer["commits"] == 5
    assert all(answer["cycles"]["files_opened"])
