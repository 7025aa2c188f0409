from __future__ import annotations

import json

from synthetic_runs import quickstart, sample, write_run
from typer.testing import CliRunner

from keymark.reports.cli import app
from keymark.reports.errors import ReportError


def run(*words, **environment):
    return CliRunner(env=environment).invoke(app, [str(word) for word in words])


def test_json_is_one_document_equal_to_summary_json(tmp_path):
    path = quickstart(tmp_path / "run")
    result = run(path, "--json")
    assert result.exit_code == 0
    printed = json.loads(result.stdout)
    assert printed == json.loads((path / "summary.json").read_text())
    assert set(printed) >= {"schema_version", "run_id", "verified", "cells"}
    assert printed["verified"] is True
    record = printed["cells"][0]
    assert (record["engine"], record["index"], record["verified"]) == ("native", "record", True)
    wall = [m for m in record["metrics"] if (m["step"], m["phase"], m["metric"]) ==
            ("upsert_1", "total", "wall_s")]  # fmt: skip
    assert set(wall[0]) >= {"step", "phase", "metric", "unit", "median", "low", "high", "n"}
    assert (wall[0]["unit"], wall[0]["n"]) == ("s", 3)


def test_people_get_the_table_and_the_path(tmp_path):
    path = small(tmp_path / "run")
    result = run(path, "--out", tmp_path / "out", COLUMNS="80")
    assert result.exit_code == 0
    assert "global_simple" in result.stdout
    assert "is best" in result.stdout
    assert "* best or joint best" in result.stdout
    assert f"report: {tmp_path / 'out' / 'report' / 'index.html'}" in result.stdout


def test_a_table_without_a_best_explains_no_star(tmp_path):
    result = run(small(tmp_path / "run", repetitions=1), "--out", tmp_path / "out")
    assert "too few repetitions" in result.stdout
    assert "joint best" not in result.stdout


def small(path, repetitions=3):
    values = {"record": 1.0, "global_simple": 3.0}
    return write_run(
        path,
        [
            sample(cell=index, index=index, value=value, repetition=at)
            for index, value in values.items()
            for at in range(repetitions)
        ],
    )


def test_names_cannot_write_to_the_terminal(tmp_path):
    name = "\x1b[2J[red]x[/red]"
    path = write_run(tmp_path / "run", [sample(index=name), sample(cell="b", index="b")])
    result = run(path)
    assert result.exit_code == 0
    assert "\x1b[2J" not in result.stdout
    assert "[red]x[/red]" in result.stdout


def test_bad_input_raises_what_the_command_line_turns_into_exit_2(tmp_path):
    result = run(tmp_path)
    assert isinstance(result.exception, ReportError)
    assert result.exception.exit_code == 2
