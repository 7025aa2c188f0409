"""Settings that contradict the scenario are told before a run."""

from __future__ import annotations

import pytest

from keymark.harness.errors import ScenarioError
from keymark.harness.scenario import scenario

EVERY = "dataset.settings.delete_every"


def test_deletes_between_the_rounds_are_no_step_of_a_run():
    with pytest.raises(ScenarioError) as caught:
        scenario.load("ci", sets=[f"{EVERY}=1", "workload.rounds=3"])
    told = f"{EVERY}: a run deletes once, after all of its 3 rounds (workload.rounds)"
    assert caught.value.mistakes == (told,)
    for rounds, every in ((1, 1), (2, 2), (2, 5), (0, 1)):
        scenario.load("ci", sets=[f"{EVERY}={every}", f"workload.rounds={rounds}"])
