from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from gate_noise import calm, rough, two_sides

from keymark.reports.gate.compare import compare
from keymark.reports.gate.policy import Level, Policy, PolicyRule
from keymark.reports.gate.verdicts import Verdict

TIMES_REQUIRED = Policy(rule=(PolicyRule(metric="wall_s", level=Level.REQUIRED),))
# The median of three values has 0.67 of their spread.
ONE_OF_THREE = 1 / 0.67


def verdicts(gates, machine, *, seed, pairs=24, slow=0.0):
    draw = np.random.default_rng(seed)
    found = Counter()
    for _ in range(gates):
        answer = compare(*two_sides(draw, machine, pairs=pairs, slow=slow), TIMES_REQUIRED)
        found[answer.verdict] += 1
    return found


@pytest.mark.parametrize(
    ("machine", "gates"),
    [(calm(0.01), 30), (calm(0.03), 60), (calm(0.08), 60), (rough(0.01), 50), (rough(0.03), 100)],
    ids=str,
)
def test_no_alarm_where_nothing_changed(machine, gates):
    """300 gates in all."""
    assert verdicts(gates, machine, seed=7)[Verdict.REGRESSION] == 0


def test_quiet_gates_pass():
    assert verdicts(30, calm(0.01), seed=1)[Verdict.PASS] == 30


@pytest.mark.parametrize(("pairs", "white"), [(24, 0.03), (72, 0.03 * ONE_OF_THREE)])
def test_five_per_cent_are_caught(pairs, white):
    """Either 24 slots of three, or their 72 repetitions as they are."""
    gates = 100 if pairs == 24 else 40
    caught = verdicts(gates, calm(white), seed=3, pairs=pairs, slow=0.05)[Verdict.REGRESSION]
    assert caught >= 0.95 * gates


@pytest.mark.parametrize("machine", [calm(0.1), rough(0.06)], ids=str)
def test_noise_never_lets_a_slowdown_pass(machine):
    found = verdicts(50, machine, seed=4, slow=0.05)
    assert found[Verdict.PASS] == 0
    assert found[Verdict.INCONCLUSIVE] > 25


def test_the_pairs_that_are_needed_are_enough():
    draw = np.random.default_rng(5)
    answer = compare(*two_sides(draw, calm(0.06), pairs=12, slow=0.05), TIMES_REQUIRED)
    assert answer.verdict is Verdict.INCONCLUSIVE
    needed = max(each.judged.needed or 0 for each in answer.findings)
    assert 48 <= needed <= 300
    assert verdicts(20, calm(0.06), seed=6, pairs=needed, slow=0.05)[Verdict.REGRESSION] == 20


def test_a_gross_slowdown_is_caught_in_any_noise():
    found = verdicts(20, rough(0.08), seed=8, slow=0.6)
    assert found[Verdict.REGRESSION] == 20
