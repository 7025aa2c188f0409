"""Random histories of all that a table can be asked to do, against a dict that knows time.

Strategy: a seed draws the table's shape and a history of writes, services, rollbacks, builds and
drops of partitions; steps die at a storage call, and builds run while others write. After every
step all that can be read is compared with the model, exactly. `make test-long` runs thousands.
"""

from __future__ import annotations

import random

import pytest
from history_run import run_history

from keymark.table.errors import TableError
from keymark.table.services import clean
from keymark.table.services.recover import restore
from keymark.table.write import client

SEEDS = 30
OF_RUNS = 4
OF_EVERYTHING = 2
PLANTED_TRIES = 60


@pytest.mark.slow
@pytest.mark.parametrize("number", range(SEEDS))
def test_history_of_a_seed(number):
    assert run_history(f"1/{number}").histories == 1


@pytest.mark.slow
@pytest.mark.parametrize("number", range(OF_RUNS))
def test_history_with_runs_of_hashes(number):
    """Of the shapes that seeds draw, one in four has this index."""
    assert run_history(f"runs/{number}", index="compact").histories == 1


@pytest.mark.slow
@pytest.mark.parametrize("number", range(OF_EVERYTHING))
def test_history_with_everything(number):
    assert run_history(f"every/{number}", everything=True).histories == 1


def _forget_deletes(real):
    def update(*args, **how):
        found = real(*args, **how)
        return type(found)(
            keys=found.keys, codes=found.codes, locations=found.locations, deletes=found.keys[:0]
        )

    return update


PLANTED = {
    "deletes stay in the index": (client, "index_changes", _forget_deletes),
    "a rollback forgets the index": (
        restore,
        "log_returns",
        lambda _: lambda *_, **__: [],
    ),
    "cleaning knows no savepoints": (
        clean,
        "savepoint_files",
        lambda _: lambda _: set(),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name, monkeypatch):
    """The histories can fail: each of these faults is one that a reader of code may miss."""
    module, attribute, breaking = PLANTED[name]
    monkeypatch.setattr(module, attribute, breaking(getattr(module, attribute)))
    for number in range(PLANTED_TRIES):
        try:
            run_history(f"planted/{number}")
        except (AssertionError, TableError):
            return
    raise AssertionError(f"{PLANTED_TRIES} histories did not find it")


def test_a_history_is_the_same_each_time():
    """I24: the same seed does the same steps and checks, whatever names files get."""
    first, second = (run_history("same/3") for _ in range(2))
    assert first == second
    assert random.Random("same/3").random() == random.Random("same/3").random()
