from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_runs import INFO, beats, quickstart, sample, write_run

from keymark.harness.store.beats import spreads
from keymark.reports.model.projection import load
from keymark.reports.model.report_warnings import run_warnings
from keymark.reports.publish import publish
from keymark.reports.stats import bootstrap
from keymark.reports.stats.noise import noise_part
from keymark.reports.stats.statistics import CaveatKind, shape_caveats


def run_with(path, taken, *, machine=None, schedule=None, samples=None):
    info = {"run_id": "r1", "machine": machine or {"cores": 2, "load_1m": 0.3}}
    info["scenario"] = {"schedule": schedule or {"warmups": 1}}
    folder = write_run(path, samples or [sample()], info)
    beats(folder, taken)
    (run,) = load([folder])
    return run


def kinds(run):
    return [caveat.kind for caveat in run_warnings(run)]


STEADY = [0.010, 0.0101, 0.0099] * 10


def test_the_spread_is_that_of_the_middle_four_fifths(tmp_path):
    run = run_with(tmp_path / "run", [*(0.010 + 0.0001 * n for n in range(11)), 5.0])
    processor, disk, memory = spreads(run.beats)
    assert [each.load for each in (processor, disk, memory)] == ["processor", "disk", "memory"]
    assert processor.middle == pytest.approx(0.01055)
    assert processor.worst == 5.0
    assert processor.share < 0.1
    assert disk.share == 0


def test_a_quiet_machine_is_not_warned_of(tmp_path):
    assert kinds(run_with(tmp_path / "run", STEADY)) == []


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        ([0.010, 0.013] * 10, [CaveatKind.NOISY_MACHINE]),
        ([0.010] * 10 + [0.0112] * 10, [CaveatKind.NOISY_MACHINE, CaveatKind.DRIFT]),
        ([0.010] * 28 + [0.1] * 2, []),
        ([0.010, 0.5], []),
    ],
    ids=["noisy", "slower", "a-spike", "too-few"],
)
def test_a_canary_that_varies_is_told(tmp_path, taken, expected):
    assert kinds(run_with(tmp_path / "run", taken)) == expected


def test_the_machine_is_warned_of(tmp_path):
    machine = {"cores": 2, "load_1m": 3.5, "governor": "powersave"}
    run = run_with(tmp_path / "run", STEADY, machine=machine, schedule={"warmups": 0})
    first, *rest = run.beats
    taken = (
        first,
        *(replace(beat, mhz=2100.0 + 20 * n, steal_s=1.0) for n, beat in enumerate(rest)),
    )
    run = replace(run, beats=(replace(first, mhz=2100.0), *taken[1:]))
    assert kinds(run) == [
        CaveatKind.LOADED,
        CaveatKind.CLOCK_RATE,
        CaveatKind.CLOCK_RATE,
        CaveatKind.STOLEN,
        CaveatKind.COLD,
    ]


def test_rounds_that_are_the_values_are_told(tmp_path):
    rounds = [sample(step=f"upsert_{n}", round=n, value=1.0) for n in (1, 2, 3)]
    assert kinds(run_with(tmp_path / "one", STEADY, samples=rounds)) == [CaveatKind.BY_ROUNDS]
    twice = [*rounds, *(replace(each, repetition=1) for each in rounds)]
    assert kinds(run_with(tmp_path / "two", STEADY, samples=twice)) == []


@pytest.mark.parametrize("machine", [{}, {"cores": 0, "load_1m": 9}, {"cores": -1}])
def test_a_machine_that_does_not_say_enough_is_not_warned_of(tmp_path, machine):
    assert kinds(run_with(tmp_path / "run", STEADY, machine=machine)) == []


def test_odd_series_are_told_once_and_only_where_they_are_many(tmp_path):
    slow = [sample(repetition=n, value=9.0 if n == 0 else 1.0 + n / 100) for n in range(6)]
    run = run_with(tmp_path / "run", STEADY, samples=slow)
    (caveat,) = run_warnings(run)
    assert caveat.kind is CaveatKind.FIRST_SLOWER
    assert "1 of 1 series" in caveat.detail
    assert "upsert_1 of record" in caveat.detail
    steady = [
        sample(repetition=n, step=f"lookup_{step}", value=1.0 + n / 100)
        for step in range(12)
        for n in range(6)
    ]
    assert kinds(run_with(tmp_path / "many", STEADY, samples=[*slow, *steady])) == []


def test_two_groups_of_values_are_seen_and_noise_is_not_taken_for_them():
    draw = random.Random(1)
    two = [draw.choice((1.0, 2.0)) + draw.uniform(0, 0.1) for _ in range(20)]
    (caveat,) = shape_caveats({(n, 0): value for n, value in enumerate(two)})
    assert caveat.kind is CaveatKind.TWO_GROUPS
    alarms = 0
    for _ in range(500):
        values = {(n, 0): 1 + 0.1 * draw.gauss(0, 1) for n in range(8)}
        alarms += bool(shape_caveats(values))
    assert alarms <= 15


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=40))
def test_a_bootstrap_interval_holds_the_median_whatever_the_order(values):
    low, high = bootstrap.median_interval(values)
    assert min(values) <= low <= np.median(values) <= high <= max(values)
    assert bootstrap.median_interval(values[::-1]) == (low, high)


def test_a_bootstrap_interval_is_that_of_the_binomial_distribution():
    """Of an odd number n of values the k-th is the drawn median's most in Bin(n, k/n) cases."""
    assert bootstrap.median_interval([1.0, 2.0, 3.0]) == (1.0, 3.0)
    assert bootstrap.median_interval([float(n) for n in range(1, 8)]) == (2.0, 6.0)
    assert bootstrap.median_interval([5.0]) == (5.0, 5.0)


def test_the_report_shows_the_noise_and_its_warnings(tmp_path):
    path = quickstart(tmp_path / "run")
    beats(path, [0.010, 0.013] * 10)
    published = publish([path])
    page = published.index.read_text(encoding="utf-8")
    assert 'id="noise"' in page
    assert "the machine was noisy" in page.lower()
    assert (path / "report" / "charts" / "noise.svg").is_file()
    markdown = (path / "summary.md").read_text(encoding="utf-8")
    assert "## The machine's noise" in markdown
    summary = json.loads((path / "summary.json").read_text())
    assert [each["kind"] for each in summary["cautions"]] == ["noisy_machine"]
    (processor, disk, _) = summary["noise"][INFO["run_id"]]
    assert (processor["n"], processor["load"], disk["spread"]) == (20, "processor", 0)
    metric = summary["cells"][0]["metrics"][0]
    assert metric["bootstrap_low"] <= metric["median"] <= metric["bootstrap_high"]


def test_noise_of_several_runs_has_charts_of_its_own(tmp_path):
    paths = [quickstart(tmp_path / name, run_id=name) for name in ("one", "two", "none")]
    for path in paths[:2]:
        beats(path, STEADY)
    published = publish(paths, tmp_path / "out")
    assert [part.name for part in published.report.noises] == ["Run A: one", "Run B: two"]
    assert {p.name for p in (tmp_path / "out" / "report" / "charts").glob("noise*.svg")} == {
        "noise_a.svg",
        "noise_b.svg",
    }


def test_times_that_cannot_be_are_no_noise(tmp_path):
    assert noise_part(run_with(tmp_path / "run", [0.01, -1.0, 0.01])) is None
