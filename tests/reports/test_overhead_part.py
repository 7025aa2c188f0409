"""What measuring costs: which times are pairs, and what is said about the promise."""

from __future__ import annotations

import json

import pytest
from synthetic_runs import sample, write_run

from keymark.reports.model.projection import load
from keymark.reports.publish import publish
from keymark.reports.sections.overhead_part import overhead_part, verdict
from keymark.reports.stats.statistics import summarize


def run_of(path, *, times=1.005, repetitions=8, engines=("native", "native@bare")):
    """A run in which the measured side takes `times` as long; its first upsert is missing."""
    made = []
    for engine in engines:
        for at in range(repetitions):
            for step, seconds in (("upsert_1", 1.0), ("lookup", 0.5)):
                if (engine, at, step) == ("native", 0, "upsert_1"):
                    continue
                slow = times if engine == "native" else 1.0
                cell = {"cell": f"{engine}/record", "engine": engine, "repetition": at}
                made.append(sample(**cell, step=step, value=seconds * slow * (1 + at / 10)))
        cell = {"cell": f"{engine}/record", "engine": engine}
        made.append(sample(**cell, step="bulk_insert", round=0, value=99.0))
    return write_run(path, made)


def test_the_steps_of_a_repetition_are_one_pair(tmp_path):
    (run,) = load([run_of(tmp_path / "run")])
    part = overhead_part(run)
    assert [row.entries[2].value for row in part.grid.rows] == ["+0.50%"]
    (values,) = part.values
    assert values["n"] == 7
    assert values["overhead"] == pytest.approx(0.005)
    assert part.verdict.startswith("Measuring adds less than 1%")


def test_what_the_log_takes_itself_is_a_share_of_the_same_steps(tmp_path):
    path = run_of(tmp_path / "run")
    lines = []
    for line in (path / "samples.jsonl").read_text().splitlines():
        taken = json.loads(line)
        logged = {**taken, "metric": "measuring_s", "value": taken["value"] * 0.004}
        lines += [line] + [json.dumps(logged)] * (taken["engine"] == "native")
    (path / "samples.jsonl").write_text("\n".join(lines) + "\n")
    part = overhead_part(load([path])[0])
    assert [row.entries[2].value for row in part.grid.rows] == ["+0.50%", "0.40%"]
    log = part.values[1]
    assert (log["metric"], log["n"]) == ("measuring_s", 7)
    assert log["overhead"] == pytest.approx(0.004)
    assert part.verdict.endswith("takes 0.40% of the time at most, less than the promised 1%.")


@pytest.mark.parametrize("engines", [("native",), ("native@bare",), ("native", "hudi@0.15.0")])
def test_one_side_alone_says_nothing(tmp_path, engines):
    (run,) = load([run_of(tmp_path / "run", engines=engines)])
    assert overhead_part(run) is None


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        ([1.0, 1.005, 1.009], "adds less than 1% to the time"),
        ([1.02, 1.03, 1.04], "adds more than 1%"),
        ([0.9, 1.0, 1.1], "reaches beyond 1%"),
    ],
)
def test_the_verdict_is_the_intervals(ratios, words):
    assert words in verdict([summarize(ratios)], "time")
    assert words in verdict([summarize([1.0, 1.0]), summarize(ratios)], "time")


def test_the_report_says_it(tmp_path):
    path = run_of(tmp_path / "run")
    published = publish([path])
    assert "What measuring costs" in published.index.read_text(encoding="utf-8")
    assert "## What measuring costs" in (path / "summary.md").read_text(encoding="utf-8")
    summary = json.loads((path / "summary.json").read_text())
    assert summary["overhead"]["r1"][0]["index"] == "record"
