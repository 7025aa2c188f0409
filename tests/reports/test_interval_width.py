"""The pairs of cells that headline ratios are made of, and how wide the widest interval is."""

from __future__ import annotations

import json
import random

import pytest
from synthetic_runs import quickstart, sample, write_run
from test_model_part import lookups

from keymark import cli
from keymark.reports.model import projection
from keymark.reports.model.cell_pairs import cell_pairs
from keymark.reports.model.interval_width import widest


def cells_of(tmp_path, *names):
    """A run with an upsert of each cell."""
    samples = []
    for name in names:
        engine, index, *_ = name.split("/")
        samples.append(sample(cell=name, engine=engine, index=index))
    (run,) = projection.load([write_run(tmp_path / "run", samples)])
    return run.cells


def pairs(cells):
    return {(base.cell, other.cell) for base, other in cell_pairs(cells)}


def test_indexes_are_paired_within_and_across_engines(tmp_path):
    names = ("native/record", "native/bucket", "hudi@0.15.0/record", "hudi@0.15.0/bucket")
    assert pairs(cells_of(tmp_path, *names)) == {
        ("native/record", "native/bucket"),
        ("native/record", "hudi@0.15.0/record"),
        ("native/bucket", "hudi@0.15.0/bucket"),
        ("hudi@0.15.0/record", "hudi@0.15.0/bucket"),
    }


def test_modes_of_formats_are_paired_with_the_first_cell(tmp_path):
    names = ("native/record", "delta@3.3.2/merge", "delta@3.3.2/merge_dv", "deltalake@1.6.6/merge")
    assert pairs(cells_of(tmp_path, *names)) == {
        *(("native/record", name) for name in names[1:]),
        ("delta@3.3.2/merge", "delta@3.3.2/merge_dv"),
        ("delta@3.3.2/merge", "deltalake@1.6.6/merge"),
    }


def test_sides_of_a_job_are_one_pair_and_other_data_none(tmp_path):
    assert pairs(cells_of(tmp_path / "a", "base/nightly", "candidate/nightly")) == {
        ("base/nightly", "candidate/nightly")
    }
    assert pairs(cells_of(tmp_path / "b", "native/record")) == set()


def timed(name, values, *, step="upsert_1"):
    index = name.split("/")[1]
    return [
        sample(cell=name, index=index, step=step, repetition=number, value=value)
        for number, value in enumerate(values)
    ]


def width(tmp_path, samples):
    (run,) = projection.load([write_run(tmp_path / "run", samples)])
    return widest(run)


def test_the_interval_of_a_ratio_counts_where_there_is_a_base(tmp_path):
    slow = [1.0, 2.0, 4.0, 1.0, 2.0, 4.0]
    ratios = [2.0, 2.0, 2.2, 1.8, 2.0, 2.0]
    other = [one * ratio for one, ratio in zip(slow, ratios, strict=True)]
    samples = timed("native/record", slow) + timed("native/bucket", other)
    found = width(tmp_path, samples)
    assert found.half_width == pytest.approx(0.1)
    assert found.n == 6
    assert found.what == "Upsert batch, native/bucket to native/record"


def test_a_cell_alone_has_the_interval_of_its_median(tmp_path):
    found = width(tmp_path, timed("native/record", [9.0, 10.0, 10.0, 10.0, 10.0, 12.0]))
    assert found.half_width == pytest.approx(0.15)
    assert found.what == "Upsert batch, native/record"


def test_what_more_repetitions_do_not_narrow_is_left_out(tmp_path):
    steady = timed("native/record", [1.0] * 6)
    loads = timed("native/record", [1.0, 9.0] * 4, step="build_index")
    once = timed("native/record", [1.0, 7.0], step="delete")
    failed = timed("native/bucket", [1.0, 5.0])
    found = width(tmp_path, [*steady, *loads, *once, *failed])
    assert (found.half_width, found.n) == (0.0, 6)
    assert width(tmp_path / "loads", loads) is None


def test_constants_of_the_lookup_model_are_headlines(tmp_path):
    def wall(_state, _cache, keys, shards):
        return 0.004 + 2e-5 * keys / shards

    exact = lookups(wall=wall)
    assert width(tmp_path / "exact", exact).half_width < 1e-3
    noise = random.Random(1)

    def warm_logs(state, cache, keys, shards):
        """One state varies by the third, and has the widest interval."""
        share = noise.uniform(0.7, 1.3) if (state, cache) == ("logs", "warm") else 1.0
        return share * wall(state, cache, keys, shards)

    few, many = (
        width(tmp_path / str(number), lookups(wall=warm_logs, repetitions=number))
        for number in (3, 30)
    )
    assert few.what in {f"{name} of the lookup model, log blocks, warm" for name in "Kc"}
    # 3 numbers of shards, 5 numbers of keys, present and absent.
    assert (few.n, many.n) == (3 * 30, 30 * 30)
    assert 0.005 < many.half_width < few.half_width / 2


def test_the_command_tells_it_and_writes_nothing(tmp_path, capsys):
    path = quickstart(tmp_path / "run")
    before = sorted(path.rglob("*"))
    assert cli.main(["report", str(path), "--widest", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n"] == 3
    assert 0 < found["half_width"] < 1
    assert cli.main(["report", str(path), "--widest"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("The widest interval is ±")
    assert found["what"] in said
    assert sorted(path.rglob("*")) == before
    assert cli.main(["report", str(path), str(path), "--widest"]) == 2
    assert "is about one run" in capsys.readouterr().err
