"""Three of the tables that `run_generated.py` makes a hundred of."""

from __future__ import annotations

import pytest
from generated_tables import run_table
from hudi_judge import VERSIONS
from interop_cells import shared

SEEDS = {f"1/{number}": VERSIONS[number % 2] for number in range(3)}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("seed", shared(SEEDS), ids=str)
def test_a_generated_table(hudi, seed, tmp_path):
    figures, found = run_table(hudi, seed, tmp_path)
    assert found == []
    assert figures.comparisons
