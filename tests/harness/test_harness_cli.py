from __future__ import annotations

import json
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from keymark import cli as keymark_cli
from keymark.harness import cli
from keymark.harness.engines import jars
from keymark.harness.errors import HarnessError, ScenarioError
from keymark.harness.scenario.schema import scenario_schema
from keymark.harness.store.store import RunFolder

runner = CliRunner()


def test_what_is_done_and_the_time_left_are_one_line(capsys):
    with cli.Shown() as shown:
        shown.begin("starting Spark")
        shown.plan(5)
        shown.end()
        shown.begin("native/bloom: repetition 3")
        shown.warn("noisy\x1b[31m")
        shown.begin("native/bloom: repetition 4", 1158.0)
    assert capsys.readouterr().err.splitlines() == [
        "starting Spark",
        "[1/5] native/bloom: repetition 3",
        "warning: noisy\\x1b[31m",
        "[1/5] native/bloom: repetition 4 (about 19 min left)",
    ]


@pytest.fixture
def app():
    made = typer.Typer()
    made.command()(cli.run)
    made.command()(cli.scenarios)
    return made


def test_scenarios_lists_the_built_in_ones(app):
    answer = runner.invoke(app, ["scenarios", "--json"])
    assert [each["name"] for each in json.loads(answer.stdout)["scenarios"]] == [
        "at_size",
        "at_size_shuffle",
        "block_size",
        "bootstrap",
        "calibrate",
        "calibrate_hudi",
        "canary",
        "ci",
        "compaction",
        "formats",
        "formats_codec",
        "formats_large",
        "formats_limits",
        "formats_sorted",
        "formats_tuned",
        "gate",
        "gdpr_delete",
        "growth",
        "holdout",
        "holdout_large",
        "holdout_medium",
        "hudi_matrix",
        "hudi_metadata",
        "hudi_vs_native",
        "index_matrix",
        "lookup",
        "lookup_model",
        "mappings",
        "partitioned_index",
        "point_query",
        "point_query_files",
        "quickstart",
        "releases",
        "scaling",
        "secondary_index",
        "shuffle",
        "skew",
        "speed",
        "tagging",
        "virtual_keys",
        "write_latency",
    ]
    assert "quickstart" in runner.invoke(app, ["scenarios"]).stdout


def test_the_schema_of_scenario_files_is_printed(app):
    answer = runner.invoke(app, ["scenarios", "--schema"])
    assert json.loads(answer.stdout) == scenario_schema()


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("1.5h", 5400), ("45", 45)]
)
def test_durations(text, seconds):
    assert cli.parse_duration("--budget", text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0m", "-1m", "10 days", "m", "1e3"])
def test_durations_that_are_none(text):
    with pytest.raises(HarnessError, match="--when-quiet"):
        cli.parse_duration("--when-quiet", text)


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "quikstart"],
        ["run", "--set", "dataset.rows=0"],
        ["run", "--index", "recrod"],
        ["run", "--engine", "hudi@0.15"],
        ["run", "--set", "dataset.name=tripz"],
    ],
)
def test_mistakes_are_found_before_spark_starts(app, arguments):
    answer = runner.invoke(app, arguments)
    assert isinstance(answer.exception, ScenarioError)
    assert answer.exception.exit_code == 2


def test_a_run_whose_disk_is_full_names_the_file_and_says_how_to_go_on(
    tmp_path, monkeypatch, capsys
):
    from keymark.harness.run import bench

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    def measuring(request, _progress):
        folder = RunFolder.create(request.folder)
        (request.folder / "run.json").write_text("{}")
        monkeypatch.setattr("keymark.harness.store.store.os.fsync", full)
        folder.append([])

    monkeypatch.setattr(bench, "run", measuring)
    monkeypatch.chdir(tmp_path)
    words = ["run", "ci", "--set", "dataset.rows=2k"]
    monkeypatch.setattr("sys.argv", ["/usr/bin/keymark", *words])
    assert keymark_cli.main([*words, "--out", "here"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "error: here/samples.jsonl: No space left on device; what was measured is kept in here; "
        f"go on with: keymark {' '.join(words)} --resume --out here"
    )


def test_an_error_of_the_system_without_a_file_is_told_as_it_is(tmp_path, monkeypatch, capsys):
    from keymark.harness.run import bench

    def unreachable(_request, _progress):
        raise OSError("no route to the store")

    monkeypatch.setattr(bench, "run", unreachable)
    assert keymark_cli.main(["run", "ci", "--out", str(tmp_path / "here")]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == "error: no route to the store; nothing was measured yet"


@pytest.mark.parametrize("begun", [True, False])
def test_an_interrupted_run_says_how_to_go_on(tmp_path, monkeypatch, capsys, begun):
    from keymark.harness.run import bench

    def interrupted(request, progress):
        progress.begin("loading")
        if begun:
            request.folder.mkdir(parents=True)
            (request.folder / "run.json").write_text("{}")
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "run", interrupted)
    monkeypatch.chdir(tmp_path)
    words = ["run", "ci", "--set", "dataset.rows=2k"]
    monkeypatch.setattr("sys.argv", ["/usr/bin/keymark", *words])
    assert keymark_cli.main(words) == 130
    said = capsys.readouterr().err.splitlines()[-1]
    kept = "runs/" + next((each.name for each in tmp_path.glob("runs/*")), "")
    again = f"keymark {' '.join(words)} --resume --out {kept}"
    assert said == "interrupted: " + (
        f"what was measured is kept in {kept}; go on with: {again}"
        if begun
        else "nothing was measured yet"
    )


def test_listing_scenarios_loads_no_spark():
    code = "import keymark.harness.cli, sys; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture
def engines():
    return cli.engine_app


def test_engines_are_listed_and_installed_by_name(engines, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert runner.invoke(engines, ["list"]).stdout.split() == ["native", "native@without-spark"]
    jar = jars.bundle("1.1.1")
    jar.parent.mkdir(parents=True)
    jar.touch()
    answer = runner.invoke(engines, ["install", "hudi@1.1.1", "--json"])
    assert json.loads(answer.stdout) == {"engines": [{"engine": "hudi@1.1.1", "path": str(jar)}]}
    listed = json.loads(runner.invoke(engines, ["list", "--json"]).stdout)
    assert listed == {"engines": ["native", "native@without-spark", "hudi@1.1.1"]}


@pytest.mark.parametrize("name", ["native", "hudi", "spark"])
def test_what_cannot_be_installed_is_refused(engines, name):
    answer = runner.invoke(engines, ["install", name])
    assert isinstance(answer.exception, HarnessError)
    assert repr(name) in str(answer.exception)
