"""What a user of the command line sees first: version, numbers, rows, widths, Ctrl-C."""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pytest

from keymark import Table, cli, counts
from keymark.harness.scenario import scenario
from keymark.reports import own_process
from keymark.reports.errors import ReportError
from keymark.reports.gate import measure_revisions


def say(capsys, *words, code=0):
    """What a command prints."""
    assert cli.main([str(word) for word in words]) == code
    said = capsys.readouterr()
    return said.err if code else said.out


def test_the_version(capsys):
    assert say(capsys, "--version") == f"keymark {importlib.metadata.version('keymark')}\n"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("2e9", 2 * 10**9), ("2B", 2 * 10**9), ("400k", 400_000), ("1.5m", 1_500_000)),
        *(("12,000", 12_000), ("7_000", 7_000), ("0", 0), ("0.5", None), ("-3", None)),
        *(("1e30", None), ("many", None), ("k", None), ("", None), ("nan", None)),
    ],
)
def test_numbers_as_people_write_them(text, number):
    assert counts.count(text) == number


def test_every_command_with_rows_takes_such_numbers(capsys):
    resolved = scenario.load("ci", sets=["dataset.rows=40k", "dataset.batch_rows=2e3"])
    assert (resolved.dataset.rows, resolved.dataset.batch_rows) == (40_000, 2000)
    for said in ("400k", "4e5"):
        sets = ("--set", f"rows={said}", "--set", "updates=2k", "--set", "round=1", "--json")
        described = json.loads(say(capsys, "data", "describe", "trips", *sets))
        assert (described["rows"], described["updates"]) == (400_000, 2000)
    words = ("--records", "2B", "--batch", "400k", "--json")
    situation = json.loads(say(capsys, "plan", *words))["situation"]
    assert (situation["rows"], situation["batch"]) == (2 * 10**9, 400_000)
    assert "rows" in say(capsys, "data", "describe", "trips", "--set", "rows=4q", code=2)


@pytest.fixture(scope="module")
def trips(tmp_path_factory):
    """A small table of three columns, one of them long."""
    path = tmp_path_factory.mktemp("table") / "trips"
    table = Table.create(str(path), record_key="id", partition_path="day", ordering="ts")
    rows = {"id": ["a", "b", "c"], "day": ["d1", "d1", "d2"], "ts": [1, 2, 3]}
    table.upsert(pa.table(rows | {"note": ["n" * 300] * 3}))
    return path


def test_a_row_is_read_by_its_key_and_by_a_condition(trips, capsys):
    said = say(capsys, "table", "read", trips, "--key", "b")
    assert [line.split()[:2] for line in said.splitlines()][:3] == [
        ["id", "b"],
        ["day", "d1"],
        ["ts", "2"],
    ]
    found = json.loads(say(capsys, "table", "read", trips, "--key", "b", "--json"))
    assert (found["rows"], found["records"][0]["ts"]) == (1, 2)
    where = json.loads(say(capsys, "table", "read", trips, "--where", "ts > 1", "--json"))
    assert (where["rows"], [each["id"] for each in where["records"]]) == (2, ["b", "c"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("services", "restore", "--instant", "{T}", "--drop"), "--drop is for savepoint"),
        (("services", "clean", "--instant", "{T}", "--drop"), "--drop is for savepoint"),
        (("services", "compact", "--instant", "{T}"), "takes no --instant"),
        (("services", "savepoint", "--drop"), "savepoint needs --instant T"),
        (("index", "repair", "column_stats", "--shard", "0"), "only record_index has shards"),
    ],
)
def test_an_option_of_another_service_changes_nothing(trips, capsys, words, message):
    kept = Table.open(str(trips)).savepoint()
    group, verb, *rest = words
    asked = [word.replace("{T}", kept) for word in rest]
    before = (verb,) if group == "index" else ()
    after = () if group == "index" else (verb,)
    said = say(capsys, "table", group, *before, trips, *after, *asked, code=2)
    assert said.startswith("error: ")
    assert message in said
    # The savepoint is still there.
    assert Table.open(str(trips)).drop_savepoint(kept)


@pytest.mark.parametrize("command", ["read", "lookup", "delete", "purge"])
def test_a_key_of_bytes_that_are_no_text_is_refused(trips, capsys, command):
    said = say(capsys, "table", command, trips, "--key", os.fsdecode(b"b\xff"), code=2)
    assert "a text that is not valid Unicode" in said


def test_rows_in_json_are_whole_and_without_nan(tmp_path, capsys):
    table = Table.create(str(tmp_path / "t"), record_key="id")
    fares = [float("nan"), float("inf"), *[1.5] * 23]
    table.upsert(pa.table({"id": [f"k{number:02d}" for number in range(25)], "fare": fares}))
    said = say(capsys, "table", "read", tmp_path / "t", "--where", "id >= 'k00'", "--json")
    found = json.loads(said, parse_constant=pytest.fail)
    assert len(found["records"]) == found["rows"] == 25
    assert {each["id"]: each["fare"] for each in found["records"]}["k01"] is None


def test_a_place_that_is_printed_steers_no_terminal(tmp_path, capsys):
    table = Table.create(str(tmp_path / "t"), record_key="id", partition_path="p")
    table.upsert(pa.table({"id": ["a"], "p": ["x\x1b[31m\ty"]}))
    said = say(capsys, "table", "lookup", tmp_path / "t", "--key", "a")
    assert said.startswith("a\tx\\x1b[31m\\ty ")


def test_json_names_files_whose_names_are_not_utf_8(tmp_path, capsys):
    table = Table.create(str(tmp_path / "t"), record_key="id")
    table.upsert(pa.table({"id": ["a"]}))
    (file,) = (tmp_path / "t").glob("*.parquet")
    folder = tmp_path / "t" / "odd\udcff"
    folder.mkdir()
    late = file.name.replace(file.name.rpartition("_")[2], "20200101000000000.parquet")
    (folder / late).write_bytes(file.read_bytes())
    assert cli.main(["table", "check", str(tmp_path / "t"), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert f"odd\udcff/{late}" in [*said["late_paths"], *said["unlisted_paths"]]


@pytest.mark.parametrize("columns", [40, 100])
def test_tables_are_as_wide_as_columns_says(trips, capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = say(capsys, "table", "read", trips, "--where", "ts > 1").splitlines()
    assert 10 < max(map(len, lines)) <= columns


def interrupted(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (
            ["gate", "v0", "v1", "--out", "runs/x"],
            (
                "what was measured is kept in runs/x; go on with: "
                "keymark gate v0 v1 --resume --out runs/x"
            ),
        ),
        (["gate", "v0"], "the work tree may change, so that the same command begins anew"),
    ],
)
def test_an_interrupted_gate_says_how_to_go_on(capsys, monkeypatch, words, kept):
    monkeypatch.setattr(own_process.subprocess, "run", interrupted)
    monkeypatch.setattr(sys, "argv", ["keymark", *words])
    assert say(capsys, *words, code=130) == f"interrupted: {kept}\n"


def test_a_gate_without_a_folder_names_the_one_that_it_made(capsys, monkeypatch):
    monkeypatch.setattr(own_process.subprocess, "run", interrupted)
    monkeypatch.setattr(sys, "argv", ["keymark", "gate", "v0", "v1"])
    said = say(capsys, "gate", "v0", "v1", code=130)
    assert said.rstrip().endswith("-gate")
    assert "--resume --out runs/" in said


def test_what_a_gate_calls_leaves_the_telling_to_it(monkeypatch, tmp_path):
    given = {}

    def run(*_, env, **__):
        given.update(env)
        return subprocess.CompletedProcess([], 0, b"")

    monkeypatch.setattr(own_process.subprocess, "run", run)
    with pytest.raises(ReportError, match="left nothing to judge"):
        measure_revisions.measure(
            "v0", "v1", measure_revisions.MeasureRequest(scenario="gate"), str(tmp_path)
        )
    assert given["KEYMARK_CALLED_BY"] == "gate"


@pytest.mark.parametrize(
    ("stand_in", "words", "kept"),
    [
        (
            "keymark.table.cli.services.open_table",
            ["table", "check", "t"],
            "the table holds what was committed, and the next write takes back the rest",
        ),
        (
            "keymark.reports.plan.cli.PlanRequest",
            ["plan", "--records", "5M", "--batch", "1k"],
            "the command did not end",
        ),
    ],
)
def test_ctrl_c_of_any_command_is_one_line(capsys, monkeypatch, stand_in, words, kept):
    monkeypatch.setattr(stand_in, interrupted)
    assert say(capsys, *words, code=130) == f"interrupted: {kept}\n"
    monkeypatch.setenv("KEYMARK_CALLED_BY", "gate")
    assert say(capsys, *words, code=130) == ""


def test_ctrl_c_of_a_write_of_rows_says_what_lies_there(tmp_path):
    """A real signal to a real process."""
    out = tmp_path / "rows"
    words = ("data", "write", "trips", "--set", "rows=2B", "--out", str(out))
    with subprocess.Popen(
        [sys.executable, "-m", "keymark", *words], stderr=subprocess.PIPE, text=True
    ) as process:
        for _ in range(600):
            if list(out.glob(".*.partial")):
                break
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    last = said.splitlines()[-1]
    assert last == f"interrupted: {out} holds a part of the rows; delete it to write them again"


@pytest.mark.spark
def test_spark_says_nothing_of_its_own(trips):
    """A process of its own: a session that runs already logs as it was started."""
    words = ["table", "read", str(trips), "--where", "ts > 1"]
    done = subprocess.run(
        [sys.executable, "-m", "keymark", *words], capture_output=True, text=True, check=True
    )
    # What Java says about the modules that Spark 4 asks for comes before any setting counts.
    said = [line for line in done.stderr.splitlines() if "incubator modules" not in line]
    assert said == []
