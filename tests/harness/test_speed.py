"""The scenario of the steps whose speed is a goal."""

from __future__ import annotations

import pytest

from keymark.harness.errors import ScenarioError
from keymark.harness.run import workload
from keymark.harness.scenario import matrix, scenario


def test_speed_measures_two_batches_and_two_lookups_in_the_same_engines():
    loaded = scenario.load("speed")
    cells = [cell.cell_id for cell in matrix.expand(loaded)]
    engines = ("native", "hudi@0.15.0", "hudi@1.2.0-v6")
    batches = (100, 30_000)
    assert sorted(cells) == sorted(f"{e}/record/batch-{n}" for e in engines for n in batches)
    steps = workload.steps(loaded.workload)
    queries = ["point_query", "point_query_spark"]
    assert [step.name for step in steps] == ["upsert_1", "lookup", *queries, "lookup_few"]
    taken = {
        cell.partition("/")[0]: [
            step.name for step in steps if step.is_taken(cell, repetition=1, warmup=False)
        ]
        for cell in cells
    }
    assert queries[1] in taken["native"]
    assert all(queries[1] not in taken[engine] for engine in engines[1:])


def test_a_lookup_of_few_keys_needs_as_many():
    sets = ["workload.lookup_present=60", "workload.lookup_absent=20"]
    with pytest.raises(ScenarioError, match=r"workload\.lookup_few: at most"):
        scenario.load("ci", sets=[*sets, "workload.lookup_few=81"])
    assert scenario.load("ci", sets=[*sets, "workload.lookup_few=80"]).workload.lookup_few == 80
