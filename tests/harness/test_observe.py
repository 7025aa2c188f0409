"""Run folders made of event logs that exist already."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from job_cases import samples, say, value
from test_log_files import events, plain, zstd

from keymark.harness.store.store import RunFolder

DATA = Path(__file__).parents[1] / "data" / "event_log"


def log(path, **about):
    path.write_bytes(plain(events(**about)))
    return path


def observed(capsys, out, *logs, name="nightly", code=0):
    return say(capsys, "observe", *logs, "--name", name, "--out", out, code=code)


def test_logs_become_a_run_folder_that_a_gate_compares(capsys, tmp_path):
    base, now = tmp_path / "base", tmp_path / "now"
    observed(capsys, base, log(tmp_path / "a"), log(tmp_path / "b"))
    assert value(base, "shuffle_write_bytes", step="etl", repetition=1) == 210
    assert value(base, "wall_s", step="etl") == 8.0
    assert RunFolder.open(base).stages()[0].name == "save at x.py"
    said = json.loads((base / "run.json").read_text())
    assert said["versions"]["spark"] == "3.5.3"
    assert said["notes"] == ["The numbers are those of event logs; nothing was run or verified."]
    observed(capsys, now, log(tmp_path / "c", tasks=6))
    said, _ = say(capsys, "gate", base, now, code=1)
    assert "job/nightly etl total tasks: regression, 3 to 6 (+100.0%)" in said
    assert say(capsys, "gate", base, base)[0].rstrip().splitlines()[-1].startswith("pass: ")
    history, _ = say(capsys, "history", base, now, "--json", "--out", tmp_path / "h")
    assert {each["metric"] for each in json.loads(history)["changes"]} >= {"tasks"}


def test_numbers_of_a_log_that_was_cut_off_are_kept_and_not_used(capsys, tmp_path):
    out = tmp_path / "run"
    logs = log(tmp_path / "cut.inprogress", ended=False), log(tmp_path / "whole")
    _, told = observed(capsys, out, *logs)
    assert "note: etl: cut.inprogress is cut off: the application's end is not in it." in told
    kept = [each for each in samples(out) if each["metric"] == "tasks"]
    assert sorted(each["valid"] for each in kept) == [False, True]
    assert all(each["value"] == 3 for each in kept)


def test_rolled_logs_and_names(capsys, tmp_path):
    folder = tmp_path / "eventlog_v2_app"
    folder.mkdir()
    (folder / "events_1_app.zstd").write_bytes(zstd(plain(events())))
    out = tmp_path / "run"
    say(capsys, "observe", folder, "--step", "load", "--out", out)
    assert value(out, "tasks", cell="job/observed", step="load") == 3


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none", "there is no event log"),
        ("text", "holds no events of Spark"),
        ("app.lzf", "is compressed with lzf"),
        ("folder", "is no event log of Spark"),
    ],
)
def test_what_is_no_log_is_one_line(capsys, tmp_path, name, said):
    (tmp_path / "text").write_text("hello\n")
    (tmp_path / "app.lzf").write_bytes(b"ZV")
    (tmp_path / "folder").mkdir()
    _, told = observed(capsys, tmp_path / "run", tmp_path / name, code=2)
    assert told.startswith("error: ")
    assert told.count("\n") == 1
    assert said in told
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_taken_and_a_name_that_is_unfit(capsys, tmp_path):
    path = log(tmp_path / "a")
    observed(capsys, tmp_path / "run", path)
    _, told = observed(capsys, tmp_path / "run", path, code=2)
    assert "exists and is not empty" in told
    _, told = observed(capsys, tmp_path / "other", path, name="a b", code=2)
    assert "'a b' has other letters" in told


def test_a_log_of_real_spark_that_a_harness_labelled(capsys, tmp_path):
    shutil.copy(DATA / "spark-3.5.9.zstd", tmp_path / "app.zstd")
    _, told = observed(capsys, tmp_path / "run", tmp_path / "app.zstd")
    assert "the application's end is not in it" in told
    kept = [each["value"] for each in samples(tmp_path / "run") if each["metric"] == "tasks"]
    assert kept == [16]
