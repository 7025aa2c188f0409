"""Each step on a large shard grows a process by the memory of a task, and not with the shard."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("measured_steps.py")
KEYS, MEMORY = 1_000_000, 8 << 20
# What was moved or deleted in the index, and not in the data.
WRONG, MISSING = 98_000, 100


def run(folder: Path, step: str) -> str:
    done = subprocess.run(
        [sys.executable, SCRIPT, folder, str(KEYS), str(MEMORY), step],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("shard")
    run(made, "make")
    return made


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("digest", str(KEYS - MISSING)),
        (
            "differences",
            f"Differences(keys={KEYS}, missing={MISSING}, extra=0, wrong={WRONG}, repeated=0)",
        ),
        ("compaction", str(KEYS - MISSING)),
        ("repair", str(KEYS)),
        ("returning", str(KEYS)),
    ],
)
def test_a_step_takes_the_memory_of_a_task(folder, step, told):
    """In memory the keys alone are 40 MB, with places and order five times as much."""
    grown, _, done = run(folder, step).partition(" ")
    assert done == told
    assert int(grown) < 48 << 20
