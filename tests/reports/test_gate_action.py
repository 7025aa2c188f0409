"""action.yml and the script behind it, with a `gh` that notes how it is called."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from job_cases import git, job

sys.path.append(str(Path(__file__).parents[1] / "measured"))

import run_action

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"
SCRIPT = ROOT / ".ci" / "gate_action.sh"

GH = """#!/bin/sh
printf '%s\\n' "$*" >> "$CALLS"
case "$*" in *--jq*) printf '%s' "$KNOWN";; esac
"""


@pytest.fixture
def action(tmp_path):
    """Runs a step of the action; answers with its exit code and what it printed."""
    given = {
        "CALLS": str(tmp_path / "calls"), "KNOWN": "", "OUT": str(tmp_path / "out"),
        "JOB": str(job(tmp_path / "repository", repetitions=3)), "BASE": "shuffled=1000",
        "CANDIDATE": "shuffled=2000", "POLICY": "", "COMMENT": "true", "PULL_REQUEST": "7",
        "COMMIT": "0123456789ab", "GITHUB_REPOSITORY": "o/r", "UNDECIDED": "pass",
        "GITHUB_OUTPUT": str(tmp_path / "outputs"), "GITHUB_STEP_SUMMARY": str(tmp_path / "page"),
        "KEYMARK": str(tmp_path / "bin" / "keymark"), "BRANCH": "history",
    }  # fmt: skip
    (tmp_path / "bin").mkdir()
    for name, text in (
        ("gh", GH),
        ("keymark", f'#!/bin/sh\nexec {sys.executable} -m keymark "$@"\n'),
    ):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"

    def run(step, cwd=ROOT, **more):
        environment = {**os.environ, **given, "PATH": path, **more}
        made = subprocess.run(
            ["bash", str(SCRIPT), step],
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        return made.returncode, made.stdout + made.stderr

    return run


def verdict(tmp_path):
    lines = (tmp_path / "outputs").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)["verdict"]


def calls(tmp_path):
    return (tmp_path / "calls").read_text().splitlines()


def test_a_regression_is_commented_and_fails(tmp_path, action):
    code, said = action("judge")
    assert (code, verdict(tmp_path)) == (0, "regression"), said
    assert action("tell", VERDICT="regression")[0] == 0
    status, asked, comment = calls(tmp_path)
    assert "repos/o/r/statuses/0123456789ab -f state=failure -f context=keymark/job" in status
    assert "description=regression: Regression: " in status
    assert asked.startswith("api repos/o/r/issues/7/comments --paginate")
    assert comment == f"pr comment 7 --body-file {tmp_path / 'out' / 'comment.md'}"
    text = (tmp_path / "out" / "comment.md").read_text()
    assert text == (GOLDEN / "action_comment.md").read_text()
    assert action("end", VERDICT="regression")[0] == 1
    assert (tmp_path / "page").read_text() in text


def test_the_comment_of_an_earlier_push_is_updated(tmp_path, action):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "gate.md").write_text("## Keymark gate: pass\n")
    (tmp_path / "out" / "gate.said").write_text("pass: No regression\n")
    action("tell", VERDICT="pass", KNOWN="4711")
    assert "--method PATCH repos/o/r/issues/comments/4711" in calls(tmp_path)[-1]
    assert "state=success" in calls(tmp_path)[0]
    action("tell", VERDICT="pass", PULL_REQUEST="")
    assert len(calls(tmp_path)) == 4


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"JOB": "none.toml"}, "none.toml cannot be read"),
        ({"BASE": "HEAD~99"}, "HEAD~99"),
        ({"BASE": "how=fail"}, "cannot be a base"),
        ({"BASE": "", "CANDIDATE": ""}, None),
        ({"POLICY": "none.toml"}, "no policy file"),
    ],
)
def test_what_did_not_run_is_no_pass(tmp_path, action, given, said):
    code, told = action("judge", **given)
    assert code == 0, told
    if said is None:
        assert verdict(tmp_path) == "measured"
        assert action("end", VERDICT="measured")[0] == 0
        return
    assert verdict(tmp_path) == "did_not_run"
    action("tell", VERDICT="did_not_run", **given)
    status, *_ = calls(tmp_path)
    assert "-f state=error" in status
    assert "description=did not run: " in status
    text = (tmp_path / "out" / "comment.md").read_text()
    assert "## Keymark gate: did not run\n\nNothing was compared, so this is no pass.\n" in text
    assert said in text
    code, told = action("end", VERDICT="did_not_run")
    assert code == 2
    assert "did not run" in told


def test_what_cannot_be_decided_may_fail(action):
    assert action("end", VERDICT="inconclusive")[0] == 0
    assert action("end", VERDICT="inconclusive", UNDECIDED="fail")[0] == 3
    assert action("end", VERDICT="")[0] == 2


def test_summaries_are_kept_on_a_branch(tmp_path, action):
    origin, clone = tmp_path / "origin.git", tmp_path / "clone"
    git(tmp_path, "init", "--quiet", "--bare", str(origin))
    git(tmp_path, "clone", "--quiet", str(origin), str(clone))
    (clone / "file").write_text("x")
    git(clone, "add", ".")
    git(clone, "commit", "--quiet", "--message", "one")
    (tmp_path / "out" / "run").mkdir(parents=True)
    (tmp_path / "out" / "run" / "summary.json").write_text('{"run_id": "1"}')
    for _ in range(2):
        code, said = action("keep", cwd=clone)
        assert code == 0, said
        subprocess.run(["sleep", "1.1"], check=True)
    listed = subprocess.run(
        ["git", "-C", str(origin), "ls-tree", "-r", "--name-only", "history"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert len(listed) == 2
    assert all(name.startswith("job/") and name.endswith(".json") for name in listed)


def test_the_action_gives_the_script_what_it_asks_for():
    document = yaml.safe_load((ROOT / "action.yml").read_text())
    assert document["runs"]["using"] == "composite"
    steps = document["runs"]["steps"]
    named = {
        word.rpartition(" ")[2]: step.get("env", {})
        for step in steps
        if "gate_action.sh" in (word := step.get("run", "").strip())
    }
    wanted = {
        "judge": {"KEYMARK", "JOB", "BASE", "CANDIDATE", "POLICY", "OUT"},
        "tell": {"GH_TOKEN", "JOB", "OUT", "COMMENT", "PULL_REQUEST", "COMMIT", "VERDICT"},
        "keep": {"BRANCH", "JOB", "OUT"},
        "end": {"VERDICT", "UNDECIDED"},
    }
    assert {name: set(each) for name, each in named.items()} == wanted
    inputs = set(document["inputs"])
    used = json.dumps(steps)
    assert all(f"inputs.{name}" in used for name in inputs)
    # No input stands within a script: it could say anything there.
    assert not any("${{" in step.get("run", "") for step in steps)


def test_a_runners_expressions_are_those_of_the_action():
    """`tests/measured/run_action.py` plays the steps as a runner does."""
    known = {"github.event_name": "push", "inputs.history-branch": "kept", "github.sha": "01ab",
             "steps.gate.outputs.verdict": "pass"}  # fmt: skip
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    conditions = {step["name"]: step["if"] for step in steps if "if" in step}
    keeps = conditions["history on a branch"]
    assert run_action.value(keeps, known) is True
    assert run_action.value(keeps, {**known, "github.event_name": "pull_request"}) is False
    assert run_action.value(keeps, {**known, "inputs.history-branch": ""}) is False
    assert run_action.value(keeps, {**known, "steps.gate.outputs.verdict": "did_not_run"}) is False
    (tell,) = (step["env"] for step in steps if step["name"] == "comment and status")
    assert run_action.filled(tell["COMMIT"], known) == "01ab"
    assert run_action.filled(tell["PULL_REQUEST"], known) == ""
    assert "keymark gate" in "\n".join(run_action.snippet()["script"])
