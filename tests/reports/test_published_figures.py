"""Predictions for the published figures: written once, judged by the factor of their range."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from synthetic_plan import plan_run

from keymark.reports.errors import ReportError
from keymark.reports.model.projection import load as load_runs
from keymark.reports.plan import fit
from keymark.reports.plan.predict import Estimate
from keymark.reports.plan.published_figures import FIGURES, Foretold, foresee, load, page

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests" / "measured" / "published_figures.py"
HUDI = "hudi@0.15.0"


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """A calibration of Hudi by arithmetic."""
    path = tmp_path_factory.mktemp("run") / "run"
    return fit.calibrate(load_runs([plan_run(path, repetitions=1, engine=HUDI)]), engine=HUDI)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (Estimate(10.0, 5.0, 20.0), "inside"),
        (Estimate(10.0, 11.5, 12.5), "inside"),
        (Estimate(10.0, 5.0, 11.0), "outside"),
        (Estimate(10.0, 5.0, 20.1), "cannot tell"),
        (Estimate(10.0, 0.0, 20.0), "cannot tell"),
        (None, "cannot tell"),
    ],
)
def test_a_range_of_more_than_a_factor_of_four_tells_nothing(found, verdict):
    assert Foretold(key="x", estimate=found, beyond=1.0, open="").verdict(12.0) == verdict


def test_shares_are_of_global_simple_and_bytes_of_one_index(known):
    made = {each.key: each for each in foresee(known).figures}
    # 37 bytes a row and 41 a key for random keys, as the run was made.
    shuffled = made["shuffle_without"].estimate
    assert shuffled.value == pytest.approx(2e9 * 37 + 4e5 * 41, rel=0.01)
    assert made["write"].estimate.value < 1
    assert made["lookup"].estimate.low <= made["lookup"].estimate.value
    opened, listed = made["query_without"].estimate, made["query_with"].estimate
    assert opened.value == pytest.approx(0.2 + 4e-3 * 20_000 / 160 + 2e-6 * 8e8 / 160, rel=0.02)
    assert listed.value == pytest.approx(
        0.2 + 3e-5 * 20_000 + 1e-4 * 1_000 + 2e-6 * 40_000, rel=0.05
    )
    # A file in a list is not told by tables of 80 files: the range is open to what it might be.
    assert listed.high > 4 * listed.value
    assert "dataset.shapes.random.date_partitions=400" in made["query_with"].open
    assert made["write"].beyond == pytest.approx(20_000, rel=0.01)


def test_figures_without_constants_cannot_be_told(known):
    equations = {name: e for name, e in known.equations.items() if "point_query" not in name}
    made = foresee(replace(known, equations=equations))
    by_key = {each.key: each for each in made.figures}
    assert by_key["query_with"].estimate is None
    text = page(made, {}, file="f.json", command="c")
    assert "no constants for it" in text


def test_the_page_begins_with_its_finding_and_has_the_reasons(known, tmp_path):
    path = tmp_path / "predictions.json"
    path.write_text(foresee(known).to_json())
    text = page(load(path), {"write": "The table is small."}, file="f.json", command="make it")
    lines = text.splitlines()
    assert lines[0] == "# The published figures, predicted"
    assert lines[2].startswith("Of 6 figures that Hudi's authors published")
    assert "hudi@0.15.0" in text
    rows = [line for line in lines if line.startswith("| ") and line.count("|") == 7]
    assert len(rows) == 1 + len(FIGURES)
    assert "The table is small. |" in rows[1]
    assert "would tell it" in rows[-1]
    assert max(map(len, text.replace(" | ", "\n").splitlines())) < 300


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(schema_version=2),
        lambda d: d["figures"].pop(),
        lambda d: d["figures"][0].update(estimate="much"),
    ],
    ids=["newer", "fewer", "text"],
)
def test_damaged_predictions_are_one_clear_line(known, tmp_path, change):
    document = json.loads(foresee(known).to_json())
    change(document)
    path = tmp_path / "predictions.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ReportError, match=r"predictions\.json has "):
        load(path)


def test_one_command_predicts_once_and_makes_the_page(known, tmp_path, monkeypatch):
    kept = tmp_path / "fit.json"
    kept.write_text(known.to_json())
    words = [sys.executable, str(SCRIPT), "--root", str(tmp_path), "--calibration", str(kept)]
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    subprocess.run(words, check=True, capture_output=True)
    predictions = tmp_path / "results/published_figures/predictions.json"
    before = predictions.read_bytes()
    document = json.loads(kept.read_text())
    document["runs"] = ["another"]
    kept.write_text(json.dumps(document))
    (predictions.parent / "why.toml").write_text('write = "Because."\n')
    again = subprocess.run(words, check=True, capture_output=True, text=True)
    assert predictions.read_bytes() == before
    assert "predictions:" not in again.stdout
    assert "Because." in (tmp_path / "docs/results/published_figures.md").read_text()
    words[-1] = str(tmp_path / "absent.json")
    predictions.unlink()
    wrong = subprocess.run(words, check=False, capture_output=True, text=True)
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("error: ")
