"""Constants from runs: known ones are found again, disturbed repetitions do not move them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from synthetic_plan import INDEXES, TRUE, place, plan_run, true

from keymark.reports.errors import ReportError
from keymark.reports.model.projection import load as load_runs
from keymark.reports.plan import fit
from keymark.reports.plan.answer import PlanRequest, plan
from keymark.reports.plan.calibration import load
from keymark.reports.plan.formulas import HUDI
from keymark.reports.plan.observe import observations, pooled
from keymark.reports.plan.predict import PARTS, beyond, quantity
from keymark.reports.plan.score import score


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    return {
        "clean": load_runs([plan_run(folder / "clean")]),
        "noisy": load_runs([plan_run(folder / "noisy", noise=0.4, repetitions=4)]),
        "held": load_runs(
            [
                plan_run(
                    folder / "held", run_id="h1", sizes=(400_000, 800_000), batches=(2_000, 32_000)
                )
            ]
        ),
    }


@pytest.fixture(scope="module")
def calibrations(runs):
    return {name: fit.calibrate(runs[name]) for name in ("clean", "noisy")}


def test_constants_are_found_again():
    table = np.array([[1.0, rows, keys] for rows in (1e4, 1e5) for keys in (1e3, 1e4, 1e5)])
    constants = np.array([0.2, 2e-6, 1e-5])
    found = fit.robust_constants(table, table @ constants)
    assert found == pytest.approx(constants, rel=1e-6)


def test_one_slow_cell_moves_little():
    table = np.array([[1.0, rows] for rows in (1e4, 2e4, 4e4, 8e4, 1.6e5)])
    measured = table @ np.array([0.2, 2e-6])
    measured[1] *= 3
    assert fit.robust_constants(table, measured) == pytest.approx([0.2, 2e-6], rel=0.03)


def test_constants_are_never_negative():
    table = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    assert (fit.robust_constants(table, np.array([3.0, 2.0, 1.0])) >= 0).all()


def test_constants_are_at_least_their_floors_and_the_others_make_up_for_it():
    table = np.array([[1.0, rows] for rows in (1e4, 2e4, 4e4)])
    found = fit.robust_constants(table, np.full(3, 0.2), np.array([0.01, 1e-6]))
    assert found[1] == 1e-6
    assert 0.17 < found[0] < 0.19


def test_every_quantity_of_a_run_is_observed(runs):
    found = list(observations(runs["clean"][0]))
    record = [each for each in found if each.index == "record" and each.quantity == "tag"]
    assert len(record) == 24
    assert {each.at.files for each in record} == {20, 80}
    assert {each.at.shards for each in record} == {4, 16}
    assert {each.at.ordered for each in record} == {False, True}
    assert record[0].at.row_bytes == pytest.approx(110)
    joined = [
        each for each in found if each.equation == "shuffle/simple" and each.index == "simple"
    ]
    assert len(joined) == 16


def test_tables_that_share_a_load_have_its_files(tmp_path):
    """All but the tables of `global_simple` and `bucket` started from the former's files."""
    alone = load_runs([plan_run(tmp_path / "alone", repetitions=1)])[0]
    sharing = load_runs([plan_run(tmp_path / "sharing", repetitions=1, on_one_load=True)])[0]
    every = {(each.cell, each.quantity): each for each in observations(alone)}
    found = {(each.cell, each.quantity): each for each in observations(sharing)}
    assert {key: each.at for key, each in found.items()} == {key: every[key].at for key in found}
    lost = {quantity for _, quantity in every.keys() - found.keys()}
    assert lost == {"bootstrap"}
    kept = [each for (_, quantity), each in found.items() if quantity == "index_bytes"]
    assert {each.index for each in kept if each.value} == {"record"}
    assert all(each.value == every[each.cell, "index_bytes"].value for each in kept)


def test_tables_of_a_load_that_no_cell_measured_have_files_like_those_of_the_upsert(tmp_path):
    """As where `--index record` leaves out the cells that load."""
    alone = load_runs([plan_run(tmp_path / "alone", repetitions=1)])[0]
    of_record = plan_run(
        tmp_path / "record", repetitions=1, on_one_load=True, indexes=("record", "bucket")
    )
    every = {(each.cell, each.quantity): each for each in observations(alone)}
    found = [each for each in observations(load_runs([of_record])[0]) if each.index == "record"]
    assert {each.quantity for each in found} >= {"tag", "write", "whole", "lookup", "index_bytes"}
    for each in found:
        at = every[each.cell, each.quantity].at
        assert (each.at.files, each.at.row_bytes) == pytest.approx((at.files, at.row_bytes))


def test_a_run_that_only_reads_tells_queries_by_key(tmp_path):
    """As the scenario `point_query_files`, whose tables have the most files of all."""
    path = plan_run(tmp_path / "run", repetitions=1, on_one_load=True)
    samples = path / "samples.jsonl"
    kept = [line for line in samples.read_text().splitlines() if '"upsert_1"' not in line]
    samples.write_text("".join(f"{line}\n" for line in kept if '"lookup"' not in line))
    record = path / "run.json"
    document = json.loads(record.read_text())
    document["scenario"]["dataset"].update(batch_rows=0)
    for cell in document["cells"]:
        cell["batch"] = 0
    record.write_text(json.dumps(document))
    found = list(observations(load_runs([path])[0]))
    queries = [each for each in found if each.quantity == "point_query"]
    assert {each.index for each in queries} == set(INDEXES)
    assert {each.at.batch for each in queries} == {1.0}
    # Of tables that were not loaded here nothing else: files of few rows have other bytes a key.
    assert {each.quantity for each in found if each.index == "record"} == {"point_query"}


def test_a_query_by_key_costs_the_files_that_it_opens(calibrations):
    at = place(rows=800_000, batch=32_000)
    known = calibrations["clean"]
    opened = quantity(known, "point_query", "global_simple", at).value
    assert opened == pytest.approx(0.2 + 4e-3 * 20 / 2 + 2e-6 * 800_000 / 2, rel=1e-3)
    assert opened == quantity(known, "point_query", "bucket", at).value
    listed = quantity(known, "point_query", "record", at).value
    assert listed == pytest.approx(0.2 + 3e-5 * 20 + 2e-6 * 40_000, rel=1e-3)
    assert quantity(known, "point_query_spark", "record", at).value == 0


def test_constants_of_hudi_are_found_again(tmp_path):
    run = load_runs([plan_run(tmp_path / "run", repetitions=1, engine="hudi@1.2.0")])
    known = fit.calibrate(run, engine="hudi@1.2.0")
    at = place(rows=800_000, batch=32_000, shards=8)
    for index in ("record", "global_simple", "global_bloom", "bucket"):
        for part in (*PARTS, "lookup", "shuffle", "shuffle_rest", "point_query"):
            expected = true(part, index, at, HUDI)
            said = quantity(known, part, index, at).value
            assert said == pytest.approx(expected, rel=0.02), (index, part)


def test_cells_that_are_the_same_work_count_together(runs):
    found = [each for each in observations(runs["clean"][0]) if each.quantity == "tag"]
    together = pooled(found)
    # A hash knows neither rows, shards nor tasks; Spark joins alike however many shards there are.
    kinds = {"bucket": (24, 4, 12), "simple": (24, 16, 2), "record": (24, 12, 4)}
    for index, (cells, works, repetitions) in kinds.items():
        assert sum(each.index == index for each in found) == cells
        merged = [each for each in together if each.index == index]
        assert len(merged) == works
        assert min(len(each.values) for each in merged) == repetitions
    many = pooled([*found, *found])
    assert [each.value for each in many] == [each.value for each in together]


@pytest.mark.parametrize("index", ["record", "global_simple", "simple", "global_bloom", "bucket"])
@pytest.mark.parametrize("part", PARTS)
def test_what_was_not_measured_is_predicted(calibrations, index, part):
    at = place(rows=800_000, batch=32_000, shards=8)
    said = quantity(calibrations["clean"], part, index, at)
    assert said.value == pytest.approx(true(part, index, at), rel=0.05)


def test_hbase_is_calibrated_by_a_run_of_its_own(tmp_path):
    """What a key costs that is there, and one that is not, its lookup tells apart."""
    known = fit.calibrate(load_runs([plan_run(tmp_path / "run", indexes=("hbase",))]))
    assert known.indexes == ("hbase",)
    assert known.ranges["batch"] == (1_000, 8_000)
    for share in (0.1, 0.5, 0.9):
        at = replace(place(rows=800_000, batch=32_000), new_share=share)
        for part in ("tag", "lookup", "index"):
            said = quantity(known, part, "hbase", at)
            assert said.value == pytest.approx(true(part, "hbase", at), rel=0.01)


def test_fewer_kinds_of_work_than_constants_are_not_fitted(tmp_path):
    run = plan_run(tmp_path / "run", sizes=(25_000,), batches=(1_000,))
    assert "tag/bucket" not in fit.calibrate(load_runs([run])).equations


def test_shuffle_is_predicted_to_the_byte(calibrations):
    at = place(rows=800_000, batch=32_000, shape="ordered")
    said = quantity(calibrations["clean"], "shuffle", "simple", at)
    assert said.value == pytest.approx(true("shuffle", "simple", at), rel=1e-6)
    constants = calibrations["clean"].equations["shuffle/simple"]
    found = dict(zip(constants.amounts, constants.values, strict=True))
    assert found["rows_random"] == pytest.approx(TRUE["rows_random"], rel=1e-6)


def test_what_a_found_key_brings_to_a_shuffle_is_told_by_another_share_of_new_keys(
    tmp_path, monkeypatch
):
    """With one share its location is in the constant of a key, right for batches of that share."""
    monkeypatch.setitem(TRUE, "found", 50.0)
    engine = "hudi@1.2.0"
    one = plan_run(tmp_path / "one", engine=engine, indexes=("record",))
    words = {
        "run_id": "c2",
        "engine": engine,
        "indexes": ("record",),
        "new_shares": {"random": 1.0},
    }
    two = plan_run(tmp_path / "two", **words)
    half = place(rows=800_000, batch=32_000, shards=16)
    known = fit.calibrate(load_runs([one]), engine=engine)
    model = known.model
    assert quantity(known, "shuffle", "record", half).value == pytest.approx(
        true("shuffle", "record", half, model), rel=1e-6
    )
    assert known.equations["shuffle/record"].amounts == ("once", "keys_random", "keys_ordered")
    known = fit.calibrate(load_runs([one, two]), engine=engine)
    for share in (0.2, 0.5, 0.8):
        at = replace(half, new_share=share)
        said = quantity(known, "shuffle", "record", at)
        assert said.value == pytest.approx(true("shuffle", "record", at, model), rel=1e-6)


def test_what_is_predicted_is_the_typical_time(calibrations):
    """Disturbed by 0 to 40 %, a time is 20 % longer in the middle."""
    at = place(rows=100_000, batch=8_000)
    for index in ("record", "global_simple", "global_bloom"):
        said = quantity(calibrations["noisy"], "tag", index, at)
        assert said.value == pytest.approx(1.2 * true("tag", index, at), rel=0.1)
        assert said.low <= said.value <= said.high


def test_how_far_a_cell_is_off_is_told_by_single_cells(calibrations, runs):
    """Not by the medians of those that are the same work, which the constants follow."""
    equation = calibrations["noisy"].equations["tag/bucket"]
    cells = [each for each in observations(runs["noisy"][0]) if each.equation == "tag/bucket"]
    off = [abs(np.log(each.value / (1.2 * true("tag", "bucket", each.at)))) for each in cells]
    assert (len(cells), equation.cells) == (24, 4)
    assert equation.spread == pytest.approx(np.median(off), rel=0.25)


def test_ranges_of_the_calibration_are_those_of_its_cells(calibrations):
    ranges = calibrations["clean"].ranges
    assert ranges == {
        "rows": (25_000, 100_000),
        "batch": (1_000, 8_000),
        "files": (20, 80),
        "shards": (4, 16),
        "cores": (2, 2),
    }
    assert beyond(ranges, place(rows=100_000, batch=8_000)) == {}
    assert beyond(ranges, place(rows=400_000, batch=500)) == {"rows": 4, "batch": 2}


def test_a_calibration_is_kept_and_read_again(calibrations, tmp_path):
    path = tmp_path / "fit.json"
    path.write_text(calibrations["noisy"].to_json())
    again = load(path)
    assert again.ranges == calibrations["noisy"].ranges
    at = place(rows=100_000, batch=8_000)
    for index in again.indexes:
        said = quantity(again, "tag", index, at)
        assert said.value == pytest.approx(
            quantity(calibrations["noisy"], "tag", index, at).value, rel=1e-3
        )


def test_equal_runs_give_equal_calibrations(runs, calibrations):
    assert fit.calibrate(runs["noisy"]) == calibrations["noisy"]


def test_a_run_without_upserts_is_refused(tmp_path):
    empty = load_runs(
        [plan_run(tmp_path / "none", indexes=("record",), sizes=(25_000,), batches=())]
    )
    with pytest.raises(ReportError, match="too few cells"):
        fit.calibrate(empty)


def test_predictions_of_a_true_model_score_well(calibrations, runs):
    made = score(calibrations["clean"], runs["held"])
    assert made.cells == made.outside == 144
    assert made.factors == (4, 8)
    for each in made.off:
        assert each.error < 0.05, each
    right, count, none = made.hits("all")
    assert right == count
    assert count + none == 24


def test_cells_of_several_runs_are_scored_apart_though_they_have_one_name(calibrations, tmp_path):
    known, size = calibrations["clean"], {"sizes": (400_000,), "repetitions": 1}
    first = load_runs([plan_run(tmp_path / "a", run_id="a", **size)])
    # Of its settings the other run knows one index, so that it chooses among none.
    other = load_runs([plan_run(tmp_path / "b", run_id="b", indexes=("record",), **size)])
    both, alone, more = (score(known, runs) for runs in ((*first, *other), first, other))
    assert both.cells == alone.cells + more.cells
    assert both.chosen == alone.chosen
    assert more.chosen == ()


def test_errors_are_shares_of_the_measured_value(calibrations, tmp_path):
    run = load_runs([plan_run(tmp_path / "run", run_id="h2", repetitions=1)])
    known = calibrations["clean"]
    halved = {
        name: replace(each, values=tuple(value / 2 for value in each.values))
        for name, each in known.equations.items()
        if name == "tag/record"
    }
    tag = next(
        each for each in score(replace(known, equations=halved), run).off if each.quantity == "tag"
    )
    assert tag.error == pytest.approx(0.5, abs=0.01)
    assert (tag.index, tag.cells) == ("record", 24)


def test_the_runs_of_the_fit_are_no_score(calibrations, runs):
    with pytest.raises(ReportError, match="fitted to"):
        score(calibrations["clean"], runs["clean"])


def test_a_run_may_hold_out_its_larger_tables(tmp_path):
    """One interleaved run is fitted and scored, so that both parts met the same machine."""
    run = load_runs([plan_run(tmp_path / "both", sizes=(25_000, 100_000, 400_000))])
    known = fit.calibrate(run, most_rows=100_000)
    alone = fit.calibrate(load_runs([plan_run(tmp_path / "small", sizes=(25_000, 100_000))]))
    assert known.ranges == alone.ranges
    assert known.equations["write/all"].values == pytest.approx(alone.equations["write/all"].values)
    made = score(known, run)
    assert made.cells == made.outside == 72
    assert made.factors == (4, 4)
    assert max(each.error for each in made.off) < 0.05


def test_the_plan_of_a_true_model_is_its_cheapest_index(calibrations):
    at = place(rows=50_000_000, batch=10_000, local=float(64 << 20))
    scored = replace(calibrations["clean"], scored_rows=500_000)
    made = plan(scored, PlanRequest(at=at))
    costs = {
        index: sum(true(part, index, made.wish.at) for part in ("tag", "index"))
        for index in made.candidates
    }
    assert made.choice.recommended == min(costs, key=costs.get) == "record"
    assert made.outside["rows"] == 500
    assert all(each.extrapolated for each in made.predictions)
