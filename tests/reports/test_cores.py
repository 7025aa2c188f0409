"""Work that is spread over the cores of this machine."""

from __future__ import annotations

import gc
import math
import os

import pytest

from keymark.reports.cores import on_each_core


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


@pytest.fixture
def thresholds():
    """Of the collector, unlike those of others."""
    before, ours = gc.get_threshold(), (701, 11, 9)
    gc.set_threshold(*ours)
    yield ours
    gc.set_threshold(*before)


def test_what_is_made_has_the_order_of_the_work():
    assert on_each_core(math.sqrt, [each * each for each in range(40)]) == list(range(40))


def test_both_processes_work():
    made = on_each_core(_process, range(8))
    assert len(set(made)) == 2
    assert os.getpid() in made


def test_an_error_ends_the_work_and_leaves_the_collector_as_it_was(thresholds):
    with pytest.raises(ValueError, match="invalid literal"):
        on_each_core(int, ["1", "2", "3", "none"])
    assert gc.get_threshold() == thresholds


def _process(_):
    # Long enough that no process is through before the other one has started.
    sum(range(20_000_000))
    return os.getpid()
