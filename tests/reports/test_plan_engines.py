"""The command `plan` where calibrations of Hudi ship: whose predictions an answer has."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from plan_cases import plan
from synthetic_plan import plan_run

from keymark.reports.model.projection import load as load_runs
from keymark.reports.plan import calibration, fit
from keymark.reports.plan.calibration import load_for

SIZE = ("--records", 1_000_000, "--batch", 10_000)
HUDI = "hudi@1.2.0"


@pytest.fixture(scope="module")
def hudi_run(tmp_path_factory):
    """A calibration run of a release of Hudi."""
    folder = tmp_path_factory.mktemp("hudi")
    return plan_run(folder / "run", run_id="hudi", repetitions=1, engine=HUDI)


@pytest.fixture(scope="module")
def shipped(hudi_run, tmp_path_factory):
    """A folder of calibrations as the package may bring them: Keymark's own and one of Hudi."""
    folder = tmp_path_factory.mktemp("shipped")
    shutil.copy(calibration.DEFAULT, folder / "default.json")
    known = fit.calibrate(load_runs([hudi_run]), engine=HUDI)
    (folder / f"{HUDI}.json").write_text(known.to_json())
    return folder


@pytest.fixture
def ships(shipped, monkeypatch):
    monkeypatch.setattr(calibration, "FOLDER", shipped)


@pytest.mark.usefixtures("ships")
def test_without_an_engine_the_answer_is_hudis_and_keymarks_stands_beside_it(capsys, tmp_path):
    page = tmp_path / "plan.html"
    code, said = plan(capsys, *SIZE, "--json", "--html", page)
    assert code == 0, said
    found = json.loads(said)
    assert found["engine"] == HUDI
    assert found["calibration"]["name"] == "default"
    metrics = {each["metric"] for each in found["predictions"]}
    assert {"memory_bytes", "write_shuffle_bytes", "point_query_s"} <= metrics
    assert found["also"]["engine"] == "native"
    assert found["also"]["recommended"] in (None, *found["also"]["candidates"])
    assert "also" not in found["also"]
    _, text = plan(capsys, *SIZE)
    assert text.splitlines()[0] == "Predictions for Apache Hudi 1.2.0, tables of version 9."
    other = "of native the choice would be"
    differs = found["recommended"] != found["also"]["recommended"]
    assert (other in text) == differs
    assert (other[1:] in page.read_text()) == differs
    assert "Apache Hudi 1.2.0" in page.read_text()


@pytest.mark.usefixtures("ships")
def test_keymarks_own_choice_is_told_where_it_is_another_one(capsys, tmp_path, monkeypatch):
    """By indexes that only one of the two engines may choose from."""
    kept = calibration.load

    def without_bloom(path=calibration.DEFAULT):
        found = kept(path)
        names = [name for name in found.equations if not name.endswith("/record")]
        made = {name: found.equations[name] for name in names}
        return found if found.model.of_hudi else replace(found, equations=made)

    monkeypatch.setattr(calibration, "load", without_bloom)
    page = tmp_path / "plan.html"
    # A record index is what Hudi has and Keymark's calibration here has not.
    words = (*SIZE, "--partitions", 200, "--files", 2_000)
    code, said = plan(capsys, *words, "--html", page)
    assert code == 0, said
    first, second = said.splitlines()[1:3]
    assert "recommended: record" in first + second
    (line,) = (line for line in said.splitlines() if line.startswith("of native the choice"))
    assert line.endswith("--engine native shows it")
    assert "Of native the choice would be" in page.read_text()


@pytest.mark.usefixtures("ships")
def test_an_engine_that_is_named_stands_alone(capsys):
    for engine in (HUDI, "native"):
        _, said = plan(capsys, *SIZE, "--engine", engine, "--json")
        found = json.loads(said)
        assert found["engine"] == engine
        assert "also" not in found


@pytest.mark.usefixtures("ships")
def test_engines_that_have_a_calibration_are_named(capsys):
    code, said = plan(capsys, *SIZE, "--engine", "hudi@1.1.1")
    assert code == 2
    assert "there is no calibration of hudi@1.1.1 (native, hudi@1.2.0 have one)" in said


def test_a_run_of_one_engine_is_fitted_without_naming_it(capsys, hudi_run):
    code, said = plan(capsys, *SIZE, "--calibration", hudi_run, "--json")
    assert code == 0, said
    assert json.loads(said)["engine"] == HUDI


def test_runs_of_several_engines_ask_which(capsys, hudi_run, fitted):
    words = (*SIZE, "--calibration", hudi_run, "--calibration", fitted["run"])
    code, said = plan(capsys, *words)
    assert code == 2
    assert "cells of hudi@1.2.0, native; --engine says whose constants are asked for" in said
    code, said = plan(capsys, *words, "--engine", "native", "--json")
    assert code == 0, said
    assert json.loads(said)["engine"] == "native"


def test_what_a_kernel_of_keymarks_takes_is_no_floor_of_hudis(shipped, tmp_path):
    document = json.loads((shipped / f"{HUDI}.json").read_text())
    bloom = document["equations"]["tag/bloom"]
    place = bloom["amounts"].index("pairs")
    for constants in (bloom["values"], *bloom["draws"]):
        constants[place] = 1e-12
    path = tmp_path / "fit.json"
    path.write_text(json.dumps(document))
    assert load_for(None, path).equations["tag/bloom"].values[place] == 1e-12
