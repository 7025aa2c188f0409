"""Predictions that are written down before a run, and scores by distance."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from plan_cases import plan
from synthetic_plan import plan_run

from keymark.harness.scenario.planned import planned
from keymark.reports.errors import ReportError
from keymark.reports.model.projection import load as load_runs
from keymark.reports.plan import ahead, calibration, fit
from keymark.reports.plan.calibration import SeenError
from keymark.reports.plan.observe import engine_in
from keymark.reports.plan.predict import quantity, widened_by
from keymark.reports.plan.render import score_lines, widening
from keymark.reports.plan.score import score, with_errors


@pytest.fixture(scope="module")
def held(fitted):
    return load_runs([fitted["other"]])


def test_predictions_of_a_planned_run_are_those_of_its_cells(known, held):
    """Files and rows that are only planned come out as they were measured."""
    made = ahead.predict(known, held[0].record)
    assert len(made.cells) == 72
    assert {cell.beyond for cell in made.cells} == {4.0}
    before, after = score(known, held, made), score(known, held)
    assert before.chosen == after.chosen
    for one, other in zip(before.off, after.off, strict=True):
        assert (one.quantity, one.index, one.cells) == (other.quantity, other.index, other.cells)
        assert one.error == pytest.approx(other.error, abs=0.01)


def test_a_run_is_judged_by_what_the_file_says(capsys, known, held, fitted, tmp_path):
    path = tmp_path / "predictions.json"
    document = json.loads(ahead.predict(known, held[0].record).to_json())
    for cell in document["cells"]:
        if cell["index"] == "record":
            for end in ("value", "low", "high"):
                cell["quantities"]["tag"][end] *= 2
    path.write_text(json.dumps(document))
    words = ("--calibration", fitted["fit"], "--score", fitted["other"], "--predictions", path)
    code, said = plan(capsys, *words, "--json")
    assert code == 0, said
    errors = {(e["quantity"], e["index"]): e["error"] for e in json.loads(said)["errors"]}
    assert errors["tag", "record"] == pytest.approx(1.0, abs=0.05)
    assert errors["tag", "bloom"] < 0.05


def test_predictions_of_a_scenario_are_kept(capsys, fitted, tmp_path):
    path = tmp_path / "predictions.json"
    words = ("--calibration", fitted["fit"], "--predict", "holdout_large", "--save", path)
    code, said = plan(capsys, *words)
    assert code == 0, said
    assert said == f"predictions of 12 cells for native: {path}\n"
    made = ahead.load(path, calibration.load(fitted["fit"]))
    assert made.scenario == "holdout_large"
    cells = {cell.cell: cell for cell in made.cells}
    large = cells["native/record/rows-100000000"]
    # 10 tasks make a file of each of 80 partitions.
    assert (large.at.files, large.at.partitions, large.at.shards) == (800, 80, 40)
    assert (large.at.batch, large.at.new_share) == (250_000, pytest.approx(0.2))
    assert large.beyond == 1000
    assert cells["native/bucket/rows-10000000"].at.files == 800
    assert {"tag", "whole", "lookup", "index_bytes", "point_query"} <= large.quantities.keys()
    settings = {(each.setting, each.among) for each in made.choices}
    assert len(settings) == 4
    code, said = plan(capsys, *words, "--json")
    assert code == 0
    assert json.loads(said) == json.loads(path.read_text())
    code, said = plan(capsys, "--calibration", fitted["fit"], "--predictions", path)
    assert code == 2
    assert "--predictions is for --score RUN" in said
    code, said = plan(capsys, "--calibration", fitted["fit"], "--predict", "no_such_scenario")
    assert code == 2
    assert said.startswith("error: ")


def test_tables_of_another_version_of_a_release_stand_for_it(tmp_path):
    """Those of version 6 can start from Keymark's load, which a release's own tables cannot."""
    names = ("native", "hudi@0.15.0", "hudi@1.2.0-v6")
    assert engine_in(names, "hudi@1.2.0") == "hudi@1.2.0-v6"
    assert engine_in((*names, "hudi@1.2.0"), "hudi@1.2.0") == "hudi@1.2.0"
    assert engine_in(names, "hudi@1.1.1") == "hudi@1.1.1"
    assert engine_in(names, "native") == "native"
    run = plan_run(tmp_path / "run", repetitions=1, engine="hudi@1.2.0")
    known = fit.calibrate(load_runs([run]), engine="hudi@1.2.0")
    other = plan_run(
        tmp_path / "v6", run_id="v6", repetitions=1, engine="hudi@1.2.0-v6", sizes=(400_000,)
    )
    scored = score(known, load_runs([other]))
    assert scored.engines == ("hudi@1.2.0-v6",)
    assert {each.quantity for each in scored.off}.isdisjoint({"index", "bootstrap", "whole"})
    (told,) = (line for line in score_lines(scored) if "stand in" in line)
    assert "cells of hudi@1.2.0-v6 stand in for hudi@1.2.0: tables of version 6 instead" in told
    made = ahead.predict(known, planned("holdout_large"))
    assert {cell.cell.partition("/")[0] for cell in made.cells} == {"hudi@1.2.0-v6"}
    assert {cell.index for cell in made.cells} == {"record", "global_simple"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda d: d.update(runs=["another"]), "not those of the calibration"),
        (lambda d: d.update(engine="hudi@1.2.0"), "predictions for hudi@1.2.0"),
        (lambda d: d.update(schema_version=7), "has no predictions"),
        (lambda d: d.pop("cells"), "has no predictions"),
        (lambda d: d["cells"][0].update(quantities={"tag": "long"}), "has no predictions"),
        (lambda d: d["cells"][0].update(beyond=float("nan")), "cannot be read"),
    ],
    ids=["runs", "engine", "newer", "cells", "text", "nan"],
)
def test_predictions_that_are_none_are_one_clear_line(known, held, tmp_path, change, told):
    document = json.loads(ahead.predict(known, held[0].record).to_json())
    change(document)
    path = tmp_path / "predictions.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ReportError, match=told) as caught:
        ahead.load(path, known)
    assert "predictions.json" in str(caught.value)
    with pytest.raises(ReportError, match="cannot be read"):
        ahead.load(tmp_path / "absent.json", known)


def test_a_lookup_that_is_tagging_is_scored_as_tagging(known, held):
    """The record index has no equation of its own for lookups in Keymark."""
    made = {(each.quantity, each.index): each for each in score(known, held).off}
    assert made["lookup", "record"].cells == 12
    assert made["lookup", "record"].error < 0.05
    cells = ahead.predict(known, held[0].record).cells
    assert all(cell.quantities["lookup"].value > 0 for cell in cells)
    assert all("shuffle_rest" not in cell.quantities for cell in cells)


def test_errors_are_told_by_distance_over_all_indexes(capsys, known, held, fitted):
    made = score(known, held)
    by_quantity = {each.quantity: each for each in made.distances}
    assert by_quantity["tag"].index == ""
    assert by_quantity["tag"].cells == by_quantity["whole"].cells == 72
    assert by_quantity["whole"].error < 0.05
    # Four times is nearer to ten than to one.
    assert {each.beyond for each in made.distances} == {4.0}
    _, said = plan(capsys, "--calibration", fitted["fit"], "--score", fitted["other"])
    assert "of all indexes, by distance" in said
    assert said.rstrip().splitlines()[-1].startswith("recommendation among all")


def test_the_answer_says_what_its_ranges_are_widened_by(capsys, known, held, fitted, tmp_path):
    size = ("--records", 10_000_000, "--batch", 50_000)
    _, said = plan(capsys, *size, "--calibration", fitted["fit"])
    assert "widened by a rule of thumb: no score has told" in said
    scored = replace(known, errors=with_errors((), score(known, held)))
    assert widening(scored) == (
        "widened by the errors that scores have seen about 10 times beyond the calibration"
    )
    path = tmp_path / "scored.json"
    path.write_text(scored.to_json())
    _, said = plan(capsys, *size, "--calibration", path, "--json")
    assert json.loads(said)["calibration"]["widened_by"] == "scores"
    inside = ahead.predict(known, held[0].record).cells[0].at
    assert widened_by(known, replace(inside, rows=50_000.0, batch=2_000.0)) == ""


def test_an_index_that_no_score_has_met_is_as_unsure_as_the_worst_that_one_has(known):
    at = ahead.predict(known, planned("holdout_large")).cells[0].at
    seen = SeenError(quantity="tag", index="record", beyond=1000.0, off=1.5)
    scored = replace(known, errors=(seen,))
    for index in ("record", "global_bloom"):
        before = quantity(known, "tag", index, at)
        after = quantity(scored, "tag", index, at)
        assert before.high < after.high, index
    assert quantity(scored, "write", "bloom", at) == quantity(known, "write", "bloom", at)
