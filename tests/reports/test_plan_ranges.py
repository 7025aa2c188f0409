"""The command `plan` over ranges of inputs, for engines of Hudi, and with requests of a store."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace

import pytest
from plan_cases import PRICES, plan
from synthetic_plan import plan_run

from keymark.indexes.workload import Workload, rewritten
from keymark.reports.plan import calibration
from keymark.reports.plan.answer import PlanRequest
from keymark.reports.plan.answer import plan as answer
from keymark.reports.plan.calibration import SeenError
from keymark.reports.plan.decide import laid_out
from keymark.reports.plan.inputs import Inputs
from keymark.reports.plan.predict import (
    PARTS,
    beyond,
    distance_error,
    likely,
    likely_added,
    quantity,
)
from keymark.reports.plan.regret import _turn, regrets
from keymark.reports.plan.render import over_ranges
from keymark.reports.plan.spans import Span

RANGES = ("--records", "1e6..1e7", "--batch", "1000..100k")


def test_inputs_may_be_ranges(capsys, fitted):
    code, said = plan(capsys, *RANGES, "--calibration", fitted["fit"], "--json")
    assert code == 0
    found = json.loads(said)
    over = found["over_ranges"]
    assert over["ranges"] == {
        "records": {"low": 1e6, "high": 1e7},
        "batch": {"low": 1e3, "high": 1e5},
    }
    worst = [each["worst"] for each in over["order"]]
    assert worst == sorted(worst)
    assert found["recommended"] in (None, over["order"][0]["index"])
    assert {each["index"] for each in over["order"]} == set(found["candidates"])
    # Each index's worst place is no better for it than the corners.
    assert found["situation"]["rows"] == pytest.approx((1e6 * 1e7) ** 0.5)
    _, text = plan(capsys, *RANGES, "--calibration", fitted["fit"])
    assert "over records 1,000,000 to 10,000,000, batch 1,000 to 100,000" in text
    assert "of a write more" in text


def test_a_page_says_what_ranges_its_table_is_the_middle_of(capsys, fitted, tmp_path):
    words = ("--calibration", fitted["fit"])
    page = tmp_path / "plan.html"
    code, _ = plan(capsys, *RANGES, *words, "--html", page)
    assert code == 0
    text = page.read_text(encoding="utf-8")
    assert (
        "<p>Over records 1,000,000 to 10,000,000, batch 1,000 to 100,000 (the table below is of "
        "their middle):</p>" in text
    )
    assert "of a write more" in text
    plan(capsys, "--records", "1e6", "--batch", "1000", *words, "--html", page)
    assert "of their middle" not in page.read_text(encoding="utf-8")


def test_regret_is_the_worst_of_the_places():
    """By hand: one input, two indexes, nine places."""
    known = calibration.load()
    spans = {"records": Span(1e5, 1e7), "batch": Span.of(1e3)}

    def workload(values):
        at = Workload(rows=values["records"], batch=values["batch"], files=20, local_bytes=0)
        return replace(at, broadcast_bytes=-1)

    found = regrets(known, spans, workload, ["record", "global_simple"])
    by_index = {each.index: each for each in found.order}
    scan = by_index["global_simple"]
    assert scan.at["records"] == pytest.approx(1e7)
    assert scan.better == "record"
    assert 0 < scan.worst < 1
    assert regrets(known, {"records": Span.of(5)}, workload, ["record"]) is None


def test_what_changes_the_answer_says_by_how_much():
    """By hand: what the other end's choice costs more, at each end, of the write there."""
    known = calibration.load()
    spans = {"records": Span(2e4, 1e8), "batch": Span.of(100.0)}

    def workload(values):
        return Workload(rows=values["records"], batch=100, files=20, partitions=10)

    (change,) = regrets(known, spans, workload, ["record", "global_simple"]).changes
    assert (change.along, change.low, change.high) == ("records", "global_simple", "record")
    for rows, better, worse, told in (
        (2e4, change.low, change.high, change.low_regret),
        (1e8, change.high, change.low, change.high_regret),
    ):
        at, _ = laid_out(known, workload({"records": rows}))
        cost = {name: likely_added(known, name, at) for name in (better, worse)}
        whole = sum(likely(known, part, worse, at) for part in PARTS)
        assert told == pytest.approx((cost[worse] - cost[better]) / whole)
        assert told > 0
    assert change.above == "record"
    at, _ = laid_out(known, workload({"records": change.at}))
    scan, record = (likely_added(known, name, at) for name in ("global_simple", "record"))
    assert scan == pytest.approx(record, rel=0.02)
    said = over_ranges(regrets(known, spans, workload, ["record", "global_simple"]))[-1]
    assert f"records changes it at {change.at:,.0f}: below, global_simple adds least" in said
    assert said.endswith("more)")
    assert "and record at the high end" not in said


@pytest.mark.parametrize(
    ("span", "costs", "turn"),
    [
        (Span(10, 1e6), {"a": 1.0, "b": 500.0, "c": 2e5}, (500.0, "b")),
        (Span(0, 1), {"a": 0.0, "c": 0.25}, (0.25, "c")),
        (Span(0, 1), {"a": 0.0, "c": 1e-9}, (5.96e-08, "c")),
    ],
)
def test_where_the_choice_turns(span, costs, turn):
    """By hand: each index adds least from its value on; between `a` and `c` there may be a `b`."""

    def costs_of(value):
        best = max((name for name in costs if costs[name] <= value), key=costs.__getitem__)
        return {name: (float(name != best), 1.0) for name in costs}

    assert _turn(costs_of, span, "a", "c") == turn


def test_a_plan_takes_less_than_a_second_however_many_ranges():
    """Two calibrations over nine ranges, in a process that has begun."""
    spans = {
        "records": Span(1e9, 4e9),
        "batch": Span(2e5, 1e6),
        "partitions": Span(100, 1_000),
        "executors": Span(5, 20),
        "cores": Span(4, 16),
        "files": Span(2e3, 2e4),
        "row_bytes": Span(100, 500),
        "key_bytes": Span(20, 40),
        "new_share": Span(0.1, 0.5),
    }
    inputs = Inputs(
        spans=spans, shards=0, buckets=None, ordered=False, local_bytes=0, broadcast_bytes=0
    )
    known = calibration.load()
    wish = PlanRequest(at=inputs.workload(inputs.middle), keys_stay=True)
    began = time.process_time()
    made = [answer(known, wish, inputs) for _ in range(2)]
    assert time.process_time() - began < 1.0
    assert len(made[0].regrets.ranges) == 9
    assert len(made[0].regrets.order) == 7


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--records", "5e6..1e6"), "goes the wrong way round: write 1e6..5e6"),
        (("--records", "1e6..x"), "'1e6..x' is no number of rows"),
        (("--records", "1..2..3"), "is no number of rows"),
        (("--records", "5", "--new-share", "0.5..2"), "is no share between 0 and 1"),
        (("--records", "5", "--partitions", "0"), "is no whole number"),
        (("--records", "5", "--row-bytes", "nan"), "is no number of bytes"),
    ],
)
def test_ranges_that_are_none(capsys, words, told):
    code, said = plan(capsys, *words, "--batch", 5)
    assert code == 2
    assert told in said


def test_an_engine_without_a_calibration(capsys, fitted):
    code, said = plan(capsys, "--records", 5, "--batch", 5, "--engine", "hudi@0.16.0")
    assert code == 2
    assert "there is no calibration of hudi@0.16.0 (native" in said
    assert "keymark run calibrate_hudi --engine hudi@0.16.0" in said
    words = ("--engine", "hudi@1.2.0", "--calibration", fitted["fit"])
    code, said = plan(capsys, "--records", 5, "--batch", 5, *words)
    assert code == 2
    assert "is a calibration of native, not of hudi@1.2.0" in said


def test_requests_are_predicted_and_paid_for(capsys, tmp_path):
    run = plan_run(tmp_path / "run", repetitions=1, on_store=True)
    prices = tmp_path / "prices.toml"
    free = "executor_hour = 0\nstorage_gb_month = 0\nwrites_per_day = 1000\n[requests_1000]\n"
    prices.write_text(free + "get = 0.4\nput = 5\n")
    size = ("--records", 100_000, "--batch", 1_000, "--partitions", 10, "--files", 20)
    words = (*size, "--shards", 4, "--calibration", run, "--prices", prices, "--index", "record")
    code, said = plan(capsys, *words, "--json")
    assert code == 0
    told = {
        each["metric"]: each["value"]
        for each in json.loads(said)["predictions"]
        if each["index"] == "record"
    }
    at = Workload(rows=1e5, batch=1e3, partitions=10, files=20, shards=4)
    asked = 0.2 + 3.0 * rewritten(at) + 1.5 * 4
    assert told["get_requests"] == pytest.approx(asked, rel=1e-3)
    month = 1000 * 365.25 / 12 * asked / 1000
    assert told["cost_month"] == pytest.approx(month * 5.4, rel=1e-3)
    _, text = plan(capsys, *words)
    assert "PUT" in text


def test_requests_that_no_calibration_knows_are_said_to_be_left_out(capsys, tmp_path, fitted):
    prices = tmp_path / "prices.toml"
    prices.write_text(f"{PRICES.partition('[')[0]}[requests_1000]\nget = 1\n")
    words = ("--records", 1000, "--batch", 10, "--calibration", fitted["fit"], "--prices", prices)
    code, said = plan(capsys, *words)
    assert code == 0
    assert "requests are not in the cost" in said
    assert "keymark run calibrate --tables" in said
    prices.write_text(f"{PRICES.partition('[')[0]}[requests_1000]\nasks = 1\n")
    code, said = plan(capsys, *words)
    assert code == 2
    assert "kinds of requests are get, head, list, put, delete" in said


def test_ranges_are_widened_by_what_a_score_has_seen():
    seen = [
        SeenError(quantity="tag", index="record", beyond=10.0, off=0.3),
        SeenError(quantity="tag", index="record", beyond=100.0, off=0.2),
    ]
    assert distance_error(0.1, seen, 1.0) == pytest.approx(0.1)
    assert distance_error(0.1, seen, 10**0.5) == pytest.approx(0.2)
    assert distance_error(0.1, seen, 10.0) == pytest.approx(0.3)
    # A larger distance that happened to fit better makes nothing surer.
    assert distance_error(0.1, seen, 100.0) == pytest.approx(0.3)
    assert distance_error(0.1, seen, 1e4) > 0.3
    # Nobody has scored it: half as much again for each factor e.
    # Of other indexes that were scored at one distance, the largest error counts.
    alike = [replace(seen[0], off=off) for off in (0.15, 0.5, 0.2)]
    assert distance_error(0.1, alike, alike[0].beyond) == pytest.approx(0.5)
    assert distance_error(0.1, [], math.e) == pytest.approx(0.15)
    known = calibration.load()
    at = Workload(rows=1e8, batch=1e3)
    before = quantity(known, "tag", "record", at)
    far = max(beyond(known.ranges, at).values())
    told = SeenError(quantity="tag", index="record", beyond=far, off=1.5)
    after = quantity(replace(known, errors=(told,)), "tag", "record", at)
    assert after.value == before.value
    assert after.high / after.value >= math.exp(1.5) > before.high / before.value
