from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_runs import INFO, sample, write_run
from test_publish import Page

from keymark.reports.model import projection
from keymark.reports.publish import publish
from keymark.reports.stats.lookup_model import (
    block_cost,
    is_point,
    least_deviations,
    lookup_model,
    saturations,
)

STATES = list(itertools.product(("logs", "compacted"), ("cold", "warm"), ("present", "absent")))
NUMBERS = (1, 10, 100, 1_000, 10_000)
SHARDS = (1, 4, 10)
K, C, BLOCKS = 0.004, 2e-5, 40


def test_a_step_of_another_name_is_no_point():
    assert is_point("lookup_logs_cold_present_1")
    for name in ("lookup", "lookup_logs", "lookup_logs_cold_present_", "lookup_x_cold_absent_1"):
        assert not is_point(name)


def lookups(*, wall, repetitions=3, blocks=lambda keys: min(keys, BLOCKS), run_id="r1"):
    """Samples of a model run; `wall` gives seconds of (state, cache, keys, shards)."""
    made = []
    cases = itertools.product(SHARDS, STATES, NUMBERS, range(repetitions))
    for shards, (state, cache, kind), keys, repetition in cases:
        shared = {
            "run_id": run_id,
            "cell": f"native/record/shards-{shards}",
            "step": f"lookup_{state}_{cache}_{kind}_{keys}",
            "repetition": repetition,
        }
        made += [
            sample(**shared, value=wall(state, cache, keys, shards)),
            sample(**shared, metric="keys", value=keys),
            sample(**shared, metric="shards_read", value=min(shards, keys)),
            sample(**shared, metric="blocks_decoded",
                   value=blocks(keys) if cache == "cold" else 0),
        ]  # fmt: skip
    return made


def model_of(tmp_path, samples):
    (run,) = projection.load([write_run(tmp_path / "run", samples)])
    return lookup_model(run.cells)


def noisy(state, cache, keys, shards, draw=random.Random(3)):  # noqa: B008  one stream of noise
    c = C if cache == "cold" else C / 10
    wall = (K + keys / shards * c) * draw.uniform(0.95, 1.05)
    # One lookup in ten stumbles: a fit by squares would follow it.
    return wall * (5 if draw.random() < 0.1 else 1) * (2 if state == "logs" else 1)


def test_the_fit_finds_k_and_c_in_spite_of_slow_outliers(tmp_path):
    model = model_of(tmp_path, lookups(wall=noisy))
    assert len(model.fits) == 4 * (1 + len(SHARDS))
    assert model.shard_counts == SHARDS
    for state, cache in itertools.product(("logs", "compacted"), ("cold", "warm")):
        for shards in (None, *SHARDS):
            fit = model.of(state, cache, shards)
            scale = 2 if state == "logs" else 1
            c = scale * (C if cache == "cold" else C / 10)
            assert fit.k.value == pytest.approx(scale * K, rel=0.08)
            assert fit.c.value == pytest.approx(c, rel=0.12)
            assert fit.k.low <= fit.k.value <= fit.k.high
            assert fit.c.low <= fit.c.value <= fit.c.high
            assert 1 <= fit.off <= fit.worst
    pooled = model.of("compacted", "cold")
    assert pooled.k.low <= K <= pooled.k.high
    assert pooled.c.low <= C <= pooled.c.high


def deviations(loads, walls, k, c):
    return float(np.sum(np.abs(k + loads * c - walls) / walls))


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 6), st.floats(1e-3, 10.0)), min_size=2, max_size=12).filter(
        lambda points: len({load for load, _ in points}) > 1
    )
)
def test_no_line_through_two_values_has_smaller_deviations(points):
    loads = np.array([10.0**load for load, _ in points])
    walls = np.array([wall for _, wall in points])
    (k,), (c,) = least_deviations(loads, walls, np.ones((1, len(walls))))
    assert k >= 0
    assert c >= 0
    lines = [(0.0, wall / load) for load, wall in zip(loads, walls, strict=True)]
    lines += [(wall, 0.0) for wall in walls]
    for (x, t), (y, u) in itertools.combinations(zip(loads, walls, strict=True), 2):
        if x != y:
            slope = (u - t) / (y - x)
            lines.append((t - slope * x, slope))
    best = min(deviations(loads, walls, *line) for line in lines if min(line) >= 0)
    assert deviations(loads, walls, k, c) <= best * 1.05 + 1e-6


def test_a_line_of_counts_is_the_line_of_repeated_values():
    loads, walls = np.array([1.0, 10.0, 100.0, 50.0]), np.array([1.0, 2.0, 9.0, 7.0])
    counts = np.array([[1, 2, 1, 0]])
    times = counts[0]
    repeated = least_deviations(
        np.repeat(loads, times), np.repeat(walls, times), np.ones((1, times.sum()))
    )
    counted = least_deviations(loads, walls, counts)
    assert np.allclose(repeated, counted)


def test_where_all_blocks_are_decoded_the_model_is_told_to_fail(tmp_path):
    def wall(_state, cache, keys, _shards):
        inflating = 0.002 * min(keys, BLOCKS) if cache == "cold" else 0.0
        return 0.004 + inflating + 1e-7 * keys

    model = model_of(tmp_path, lookups(wall=wall))
    found = {(each.state, each.shards): each for each in saturations(model)}
    assert len(found) == 2 * len(SHARDS)
    one = found["logs", 1]
    assert (one.blocks, one.keys, one.more) == (BLOCKS, 100, 10_000)
    assert one.growth == pytest.approx(0.085 / 0.08401)
    flat = model_of(tmp_path / "flat", lookups(wall=wall, blocks=lambda keys: keys))
    assert saturations(flat) == []
    assert block_cost(model, "logs") == pytest.approx(0.002)


def test_a_run_without_points_has_no_model(tmp_path):
    assert model_of(tmp_path, [sample(step="lookup")]) is None
    path = write_run(tmp_path / "other", [sample(step="lookup")])
    published = publish([path])
    assert published.report.models == []
    assert "lookup_models" not in published.summary
    assert "Lookup model" not in published.index.read_text(encoding="utf-8")


def test_the_page_shows_the_model_once_per_run(tmp_path):
    samples = lookups(wall=noisy, repetitions=1, run_id="one")
    first = write_run(tmp_path / "a", samples, INFO | {"run_id": "one"})
    text = publish([first]).index.read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    pictures = [a["aria-label"] for a in page.of("svg") if "keys per shard" in a["aria-label"]]
    assert len(pictures) == 2
    assert "K + (M/N)·c" in text
    assert "lookup_logs_cold" not in text
    assert "100 keys decode all 40 blocks, in " in text
    charts = sorted(path.name for path in (first / "report" / "charts").glob("lookup_model_*"))
    assert charts == [
        f"lookup_model_{state}.{ending}"
        for state in ("compacted", "logs")
        for ending in ("png", "svg")
    ]
    samples = lookups(wall=noisy, repetitions=1, run_id="two")
    second = write_run(tmp_path / "b", samples, INFO | {"run_id": "two"})
    both = publish([first, second], tmp_path / "out")
    page = Page(both.index.read_text(encoding="utf-8"))
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert [part.name for part in both.report.models] == ["Run A: one", "Run B: two"]
    assert sorted(both.summary["lookup_models"]) == ["one", "two"]
    values = both.summary["lookup_models"]["one"][0]
    assert values["k_s_low"] <= values["k_s"] <= values["k_s_high"]
    assert "## Lookup model of Run B: two" in (tmp_path / "out" / "summary.md").read_text()


def test_a_variant_that_left_no_sample_is_named(tmp_path):
    info = {
        "run_id": "r1",
        "cells": [{"cell": f"native/record/{name}", "index": "record"} for name in "ab"],
        "scenario": {
            "engines": ["native"],
            "indexes": ["record"],
            "table": {"variants": {"a": {}, "b": {}}},
            "workload": {"model_keys": [1, 1000]},
        },
    }
    path = write_run(tmp_path / "run", [sample(cell="native/record/a")], info)
    published = publish([path])
    assert published.summary["missing"] == ["native/record/b"]
    assert "lookups of 1 to 1,000 keys, cold and warm" in published.report.runs[0].compared
    pair = [sample(cell=f"native/record/{name}") for name in "ab"]
    whole = publish([write_run(tmp_path / "whole", pair, info)])
    assert whole.report.verified
    labels = [row.label for row in whole.report.runs[0].answers[0].table.rows]
    assert labels == ["record · a", "record · b"]
