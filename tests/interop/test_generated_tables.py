"""Three of the tables that `run_generated.py` makes a hundred of, and what seeds draw."""

from __future__ import annotations

from collections import Counter

import pytest
from drawn_table import INDEX_TYPES, draw
from generated_tables import run_table
from hudi_judge import VERSIONS
from interop_cells import shared

SEEDS = {f"1/{number}": VERSIONS[number % 2] for number in range(3)}


def test_a_seed_draws_the_same_steps_each_time_and_seeds_draw_all_kinds():
    seeds = [f"1/{number}" for number in range(200)]
    drawn = [draw(seed) for seed in seeds]
    assert drawn == [draw(seed) for seed in seeds]
    assert {table.index for table, _ in drawn} == {*INDEX_TYPES}
    steps = [step for _, steps in drawn for step in steps]
    deaths = Counter(step.operation for step in steps if step.dies)
    assert {"upsert", "insert", "delete", "bulk_insert", "reshard"} <= deaths.keys()
    assert {"index", "hashes", "secondary", "compact", "clean"} <= deaths.keys()
    assert not [step for step in steps if step.dies and step.writer == "hudi"]
    for _, steps in drawn:
        assert steps[-1].compares
        assert {step.writer for step in steps} == {"keymark", "hudi"}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("seed", shared(SEEDS), ids=str)
def test_a_generated_table(hudi, seed, tmp_path):
    figures, found = run_table(hudi, seed, tmp_path)
    assert found == []
    assert figures.comparisons
