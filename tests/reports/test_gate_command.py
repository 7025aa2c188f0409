"""The command `gate` on run folders and summaries, through the door that users take."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from synthetic_runs import INDEXES, quickstart, sample, write_run

from keymark import cli as run_bench
from keymark.reports.publish import publish

HOSTILE = '<b>&"]]>|`\x1b[2J\x00\u202e\ud800'


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of one scenario; their times differ, their counters do not."""
    folder = tmp_path_factory.mktemp("gate")
    return [
        quickstart(folder / name, seed=seed, run_id=name)
        for seed, name in enumerate(("first", "second"))
    ]


@pytest.fixture(scope="module")
def kept(runs):
    """The summary of the first run, as a repository keeps it."""
    publish([runs[0]])
    return runs[0] / "summary.json"


def gate(capsys, *words):
    """Exit code, and what the command printed."""
    code = run_bench.main(["gate", *(str(word) for word in words)])
    said = capsys.readouterr()
    return code, said.out if code in (0, 1, 3) else said.err


def edited(run: Path, out: Path, change) -> Path:
    """A copy of a run whose samples went through `change`."""
    lines = (json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines())
    (out / "events").mkdir(parents=True)
    (out / "run.json").write_text((run / "run.json").read_text())
    text = "".join(json.dumps(change(line)) + "\n" for line in lines)
    (out / "samples.jsonl").write_text(text)
    return out


def one_more_task(line):
    hit = line["metric"] == "tasks" and line["step"] == "upsert_2" and line["index"] == "record"
    return line | {"value": line["value"] + hit}


def test_runs_that_differ_in_times_only_pass(capsys, runs):
    code, said = gate(capsys, *runs)
    assert code == 0
    assert "times are not compared" in said
    assert said.rstrip().splitlines()[-1].startswith("pass: No regression: ")


def test_the_json_is_the_contracts(capsys, runs):
    code, said = gate(capsys, *runs, "--json")
    answer = json.loads(said)
    assert (code, answer["verdict"], answer["interleaved"]) == (0, "pass", False)
    for finding in answer["findings"]:
        assert set(finding) >= {
            "cell", "metric", "baseline", "candidate", "ratio", "low", "high", "verdict",
        }  # fmt: skip
    cells = {finding["cell"] for finding in answer["findings"]}
    assert cells == {f"native/{index}" for index in INDEXES}


@pytest.mark.parametrize("base", ["folder", "summary"])
def test_one_more_task_is_a_regression_everywhere(capsys, tmp_path, runs, kept, base):
    worse = edited(runs[1], tmp_path / "worse", one_more_task)
    junit, markdown = tmp_path / "gate.xml", tmp_path / "gate.md"
    files = ["--junit", junit, "--markdown", markdown]
    code, said = gate(capsys, kept if base == "summary" else runs[0], worse, *files)
    assert code == 1
    assert "native/record upsert_2 total tasks: regression, 60 to 61 (+1.7%)" in said
    suites = ET.parse(junit).getroot()
    (failure,) = suites.iter("failure")
    assert failure.get("message").startswith("regression, 60 to 61")
    assert [s.get("failures") for s in suites if s.get("name") == "native/record"] == ["1"]
    text = markdown.read_text()
    assert "## Keymark gate: regression" in text
    assert "| **required** | native/record | upsert_2 | total | tasks | regression" in text


def test_a_summary_is_as_good_a_candidate(capsys, runs, kept):
    assert gate(capsys, runs[1], kept)[0] == 0
    assert gate(capsys, kept, kept)[0] == 0


def test_a_summary_whose_counters_differ_is_judged(capsys, tmp_path, runs, kept):
    worse = edited(runs[1], tmp_path / "worse", one_more_task)
    publish([worse])
    code, said = gate(capsys, runs[0], worse / "summary.json")
    assert code == 1
    assert "native/record upsert_2 total tasks: regression, 60 to 61 (+1.7%)" in said
    assert gate(capsys, worse, kept)[0] == 0


def two_engines(path, *, slow, repetitions=24):
    """A run with two engines side by side; the second one is slower by a factor."""
    samples = []
    for repetition in range(repetitions):
        for engine, factor in (("hudi@0.15.0", 1.0), ("hudi@1.1.1-v6", slow)):
            value = factor * (1 + 0.01 * (repetition * 7 % 5))
            changes = {"repetition": repetition, "engine": engine, "cell": f"{engine}/record"}
            samples.append(sample(**changes, value=value))
            samples.append(sample(**changes, metric="files_read", value=3))
    return write_run(path, samples)


REQUIRED = '[[rule]]\nmetric = "wall_s"\nlevel = "required"\n'
ENGINES = ["--base-engine", "hudi@0.15.0", "--candidate-engine", "hudi@1.1.1-v6"]


@pytest.mark.parametrize(("slow", "code"), [(1.0, 0), (1.05, 1), (1.06, 3), (0.8, 0)])
def test_engines_of_one_run_are_judged_by_their_times(capsys, tmp_path, slow, code):
    run = two_engines(tmp_path / "run", slow=slow, repetitions=24 if slow != 1.06 else 8)
    (tmp_path / "policy.toml").write_text(REQUIRED)
    found, said = gate(capsys, run, *ENGINES, "--policy", tmp_path / "policy.toml", "--json")
    answer = json.loads(said)
    assert found == code
    assert answer["interleaved"]
    assert answer["base"] == f"{run} (hudi@0.15.0)"
    (wall,) = [each for each in answer["findings"] if each["metric"] == "wall_s"]
    assert wall["cell"] == "record"
    assert wall["ratio"] == pytest.approx(slow)
    assert (wall["pairs_needed"] is not None) == (code == 3)


def test_a_required_time_of_separate_runs_is_inconclusive(capsys, tmp_path, runs):
    (tmp_path / "policy.toml").write_text(REQUIRED)
    code, said = gate(capsys, *runs, "--policy", tmp_path / "policy.toml")
    assert code == 3
    assert "not measured side by side in one run" in said
    assert gate(capsys, runs[0], runs[0], "--policy", tmp_path / "policy.toml")[0] == 0


def broken(name):
    documents = {
        "no object": "[]",
        "no cells": '{"schema_version": 1}',
        "newer": '{"schema_version": 99, "cells": []}',
        "empty": '{"schema_version": 1, "cells": []}',
        "text for a number": '{"schema_version": 1, "cells": [{"engine": 3}]}',
        "cut off": '{"schema_version": 1, "cells": [',
        "deep": "[" * 100_000,
        "huge": '{"schema_version": 1, "cells": [{"engine": "native", "index": "i", "verified": '
        'true, "metrics": [{"step": "s", "phase": "total", "metric": "tasks", "unit": "1", '
        f'"median": 1{"0" * 400}, "low": 1, "high": 2, "n": 1}}]}}]}}',
        "nan": '{"schema_version": 1, "cells": [{"engine": "native", "index": "i", "verified": '
        'true, "metrics": [{"step": "s", "phase": "total", "metric": "tasks", "unit": "1", '
        '"median": NaN, "low": 1, "high": 2, "n": 1}]}]}',
        "turned": '{"schema_version": 1, "cells": [{"engine": "native", "index": "i", "verified": '
        'true, "metrics": [{"step": "s", "phase": "total", "metric": "tasks", "unit": "1", '
        '"median": 3, "low": 4, "high": 5, "n": 1}]}]}',
        "twice": '{"schema_version": 1, "cells": ['
        + ", ".join(['{"engine": "native", "index": "i", "verified": false}'] * 2)
        + "]}",
    }
    return documents[name] if name else list(documents)


@pytest.mark.parametrize("name", broken(""))
def test_a_damaged_summary_is_one_line(capsys, tmp_path, runs, name):
    path = tmp_path / "summary.json"
    path.write_text(broken(name))
    for sides in ((path, runs[0]), (runs[0], path)):
        code, said = gate(capsys, *sides)
        assert code == 2
        assert said.startswith("error: ")
        assert said.count("\n") == 1


def test_other_bad_input_is_one_line(capsys, tmp_path, runs):
    (tmp_path / "p.toml").write_text('[[rule]]\ncell = "native/recod"\n')
    unverified = edited(runs[0], tmp_path / "u", lambda line: line | {"verified": False})
    cut = edited(runs[0], tmp_path / "cut", dict)
    info = json.loads((cut / "run.json").read_text())
    (cut / "run.json").write_text(json.dumps(info | {"status": "running"}))
    other = edited(runs[0], tmp_path / "other", dict)
    info["scenario"]["dataset"]["rows"] = 7
    (other / "run.json").write_text(json.dumps(info))
    for words, said in (
        ((tmp_path / "none", runs[0]), "none does not exist; a revision is compared with another"),
        ((tmp_path, runs[0]), "is not a run folder"),
        ((runs[0],), "name a CANDIDATE that "),
        ((unverified, runs[0]), "cannot be a base"),
        ((cut, runs[0]), "is not complete"),
        ((other, runs[0]), "dataset.rows is 7 there and 200,000 in the candidate"),
        ((*runs, "--policy", tmp_path / "p.toml"), "did you mean 'native/record'?"),
        ((*runs, "--base-engine", "native"), "go together"),
        ((*runs, *ENGINES[:3], "hudi@1.0.2"), "hudi@1.0.2 makes tables of version 8"),
        ((*runs, *ENGINES), "holds no cells of engine hudi@0.15.0"),
        ((*runs, "--junit", tmp_path / "no" / "x.xml"), "cannot be written"),
        ((*runs, "--set", "x=1"), "--set is for revisions, which are measured now"),
        ((*runs, "--scenario", "ci"), "--scenario is for revisions"),
        ((*runs, "--out", tmp_path / "out"), "--out is for revisions"),
        (("v1", "v2", *ENGINES), "are for runs, not for revisions"),
    ):
        code, line = gate(capsys, *words)
        assert (code, line.count("\n")) == (2, 1), line
        assert said in line


def test_a_candidate_with_wrong_answers_is_a_regression(capsys, tmp_path, runs):
    def wrong(line):
        return line | {"verified": line["index"] != "bucket", "reason": "3 rows differ"}

    bad = edited(runs[1], tmp_path / "bad", wrong)
    code, said = gate(capsys, runs[0], bad)
    assert code == 1
    assert "native/bucket: regression" in said
    assert "3 rows differ" in said


def test_hostile_names_stay_text(capsys, tmp_path):
    """Of cells, steps and reasons, in every form of the answer."""

    def run(name, value):
        shared = {"metric": "tasks", "run_id": name}
        lines = [
            sample(cell=HOSTILE, index=HOSTILE, step=HOSTILE, **shared, value=value),
            sample(cell="other", index="other", **shared, value=1),
        ]
        out = tmp_path / name
        (out / "events").mkdir(parents=True)
        (out / "run.json").write_text(json.dumps({"schema_version": 1, "run_id": name}))
        text = "".join(json.dumps(json.loads(line.to_json())) + "\n" for line in lines)
        (out / "samples.jsonl").write_text(text)
        return out

    files = tmp_path / "x.xml", tmp_path / "x.md"
    sides = run("a", 1), run("b", 2)
    code, said = gate(capsys, *sides, "--junit", files[0], "--markdown", files[1])
    assert code == 1
    (failure,) = ET.parse(files[0]).getroot().iter("failure")
    texts = [said, files[1].read_text(), failure.get("message"), gate(capsys, *sides, "--json")[1]]
    for text in texts:
        assert not set(text) & {"\x1b", "\x00", "\u202e", "\ud800"}
    rows = [line for line in texts[1].splitlines() if line.startswith("| **")]
    assert all(line.replace("\\|", "").count("|") == 7 for line in rows)
    assert "<b>" not in texts[1]


def measured_by(monkeypatch, run, code=0):
    """A `run` that leaves a run folder without measuring; the words that it was called with."""
    words = []

    def stand_in(command, **_):
        words.extend(command[4:])
        text = json.dumps({"run_id": run.name}).encode()
        return subprocess.CompletedProcess(command, code, stdout=text)

    monkeypatch.setattr("keymark.reports.own_process.subprocess.run", stand_in)
    return words


def test_revisions_are_measured_in_turns_and_judged(capsys, tmp_path, monkeypatch):
    run = two_engines(tmp_path / "both", slow=1.2)
    info = {"run_id": "r1", "scenario": {"engines": ["hudi@0.15.0", "hudi@1.1.1-v6"]}}
    (run / "run.json").write_text(json.dumps({"schema_version": 1, **info}))
    (tmp_path / "policy.toml").write_text(REQUIRED)
    words = measured_by(monkeypatch, run)
    options = ["--policy", tmp_path / "policy.toml", "--set", "dataset.rows=9", "--out", run]
    code, said = gate(capsys, "HEAD~3", *options)
    assert code == 1
    assert "all steps" not in said
    assert words[:3] == ["run", "gate", "--json"]
    assert words[3:7] == ["--engine", "native@HEAD~3", "--engine", "native@worktree"]
    assert words[7:9] == ["--set", "dataset.rows=9"]
    words.clear()
    gate(capsys, "v1", "v2", "--scenario", "ci", "--out", run, "--master", "yarn")
    assert words[:2] == ["run", "ci"]
    assert "native@v2" in words
    assert words[words.index("--set") + 1] == "spark.master=yarn"


def test_a_run_of_revisions_is_resumed(capsys, tmp_path, monkeypatch):
    run = two_engines(tmp_path / "both", slow=1.0)
    info = {"run_id": "r1", "scenario": {"engines": ["hudi@0.15.0", "hudi@1.1.1-v6"]}}
    (run / "run.json").write_text(json.dumps({"schema_version": 1, **info}))
    words = measured_by(monkeypatch, run)
    assert gate(capsys, "v1", "v2", "--out", run, "--resume")[0] in {0, 3}
    assert "--resume" in words
    for kept_back in (["v1", "v2"], ["v1", "--out", run], [run, run, "--out", run]):
        code, said = gate(capsys, *kept_back, "--resume")
        assert code == 2
        assert said.startswith("error: --resume needs --out and two revisions")


def test_revisions_wait_for_a_quiet_machine_where_they_are_asked_to(
    capsys, tmp_path, monkeypatch, runs
):
    run = two_engines(tmp_path / "both", slow=1.0)
    info = {"run_id": "r1", "scenario": {"engines": ["hudi@0.15.0", "hudi@1.1.1-v6"]}}
    (run / "run.json").write_text(json.dumps({"schema_version": 1, **info}))
    words = measured_by(monkeypatch, run)
    for kind in ([], ["--kernels"]):
        assert gate(capsys, "v1", "v2", "--out", run, "--when-quiet", "30m", *kind)[0] in {0, 3}
        assert words[words.index("--when-quiet") + 1] == "30m"
        assert ("kernels" in words) == bool(kind)
        words.clear()
    code, said = gate(capsys, *runs, "--when-quiet", "30m")
    assert (code, words) == (2, [])
    assert said == "error: --when-quiet is for revisions, which are measured now\n"


def test_a_name_with_a_nul_is_refused_before_anything_is_started(capsys):
    for words in (["v\0", "v2"], ["v1", "v\0"], ["v1", "v2", "--out", "x\0"]):
        code, said = gate(capsys, *words)
        assert (code, said.count("error: ")) == (2, 1)
        assert "NUL character" in said


def test_a_master_is_for_tables_that_are_measured_now(capsys, runs):
    for words in (runs, ("v1", "v2", "--kernels")):
        code, said = gate(capsys, *words, "--master", "yarn")
        assert code == 2
        assert said.count("error: ") == 1
        assert "--master is for revisions" in said


def test_a_run_that_was_not_made_says_so_itself(capsys, tmp_path, monkeypatch):
    measured_by(monkeypatch, tmp_path / "none", code=2)
    assert gate(capsys, "no-such-revision") == (2, "")
    measured_by(monkeypatch, tmp_path / "none", code=1)
    assert "left nothing to judge" in gate(capsys, "no-such-revision")[1]
    measured_by(monkeypatch, tmp_path / "none", code=-9)
    code, said = gate(capsys, "no-such-revision")
    assert (code, said) == (2, "error: the run was killed by signal 9\n")
