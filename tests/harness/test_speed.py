"""The scenario of the steps whose speed is a goal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keymark.harness.errors import ScenarioError
from keymark.harness.run import workload
from keymark.harness.scenario import matrix, scenario
from keymark.indexes.record.cost import BLOCK_SIZE, block_bytes
from keymark.indexes.workload import Workload


def test_speed_measures_two_batches_and_two_lookups_in_the_same_engines():
    """And in Keymark the same with the size of blocks that the planner chooses."""
    loaded = scenario.load("speed")
    cells = [cell.cell_id for cell in matrix.expand(loaded)]
    engines = ("native", "hudi@0.15.0", "hudi@1.2.0-v6")
    batches = (100, 30_000)
    named = [f"{engine}/record/default" for engine in engines] + ["native/record/blocks-64k"]
    assert sorted(cells) == sorted(f"{name}/batch-{n}" for name in named for n in batches)
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


def test_the_small_blocks_are_those_that_the_planner_chooses():
    """Cells of both sizes have the same tables but for that, and are asked the same keys."""
    loaded = scenario.load("speed")
    cells = {cell.cell_id: cell for cell in matrix.expand(loaded)}
    default, small = (
        cells[f"native/record/{name}/batch-100"] for name in ("default", "blocks-64k")
    )
    assert small.options == {**default.options, BLOCK_SIZE: str(1 << 16)}
    assert BLOCK_SIZE not in default.options
    assert (small.data, small.index) == (default.data, default.index)
    asked = Workload(rows=loaded.dataset.rows, batch=loaded.workload.lookup_few, shards=4)
    assert block_bytes(asked) == 1 << 16
    assert block_bytes(replace(asked, batch=50_000)) == 1 << 20


def test_a_lookup_of_few_keys_needs_as_many():
    sets = ["workload.lookup_present=60", "workload.lookup_absent=20"]
    with pytest.raises(ScenarioError, match=r"workload\.lookup_few: at most"):
        scenario.load("ci", sets=[*sets, "workload.lookup_few=81"])
    assert scenario.load("ci", sets=[*sets, "workload.lookup_few=80"]).workload.lookup_few == 80
