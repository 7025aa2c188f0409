"""Play action.yml and the GitLab snippet of docs/gate.md on this machine, as a runner would.

    python tests/measured/run_action.py --out DIR [--only github|gitlab]

A repository is made whose job shuffles twice as much in its work tree as in its first commit. The
`run:` steps of the action are then taken in order, the installation from `requirements.lock`
included, with the variables that a runner gives them and with a `gh` that notes what it is asked.
Of the snippet the lines of `script` and `after_script` are taken, with a clone of this repository
in the place of the one on the net, and a `curl` that notes what it sends. The comments are written
to DIR/github_comment.md and DIR/gitlab_comment.md. The exit code is 0 if both found the regression.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))

from job_cases import FAKE, git, job

ROOT = Path(__file__).parents[2]
GH = """#!/bin/sh
printf '%s\\n' "$*" >> "$CALLS"
while [ $# -gt 1 ]; do
	if [ "$1" = --body-file ]; then cp "$2" "$COMMENT_FILE"; fi
	shift
done
"""
CURL = """#!/bin/sh
for word in "$@"; do
	case "$word" in body@*) cp "${word#body@}" "$COMMENT_FILE";; esac
done
"""
_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


def value(expression: str, known: dict[str, Any]) -> Any:
    """The value of a runner's expression, as far as action.yml uses them.

    Args:
        expression: names with dots, texts in quotes, `always()`, `!=`, `&&` and `||`.
        known: values by name; what is not known is empty.
    """
    if "||" in expression:
        first, _, rest = expression.partition("||")
        return value(first, known) or value(rest, known)
    if "&&" in expression:
        first, _, rest = expression.partition("&&")
        return value(first, known) and value(rest, known)
    if "!=" in expression:
        first, _, rest = expression.partition("!=")
        return value(first, known) != value(rest, known)
    name = expression.strip()
    if name == "always()":
        return True
    return name.strip("'") if name.startswith("'") else known.get(name, "")


def filled(text: object, known: dict[str, Any]) -> str:
    """A text with its expressions replaced by their values."""
    return _EXPRESSION.sub(lambda found: str(value(found[1], known)), str(text))


@dataclass
class Runner:
    """Takes the steps of a composite action.

    Attributes:
        workspace: the checked-out repository of the job.
        temporary: a folder of the runner's.
        environment: variables of all steps.
        known: values of expressions.
        failed: name of the first step that failed.
    """

    workspace: Path
    temporary: Path
    environment: dict[str, str]
    known: dict[str, Any]
    failed: str = ""
    code: int = field(default=0, init=False)

    def take(self, step: dict[str, Any]) -> None:
        """Take a step, unless its condition or an earlier failure leaves it out."""
        condition = str(step.get("if", ""))
        if (self.failed and "always()" not in condition) or (
            condition and not value(condition, self.known)
        ):
            print(f"left out: {step['name']}")
            return
        if "run" not in step:
            paths = filled(step["with"]["path"], self.known).split()
            kept = [found for path in paths for found in sorted(self.workspace.glob(path))]
            print(f"{step['name']}: {len(kept)} files and folders would be kept")
            return
        print(f"step: {step['name']}", flush=True)
        output = self.temporary / "output"
        output.write_text("")
        own = {name: filled(text, self.known) for name, text in step.get("env", {}).items()}
        script = self.temporary / "step.sh"
        script.write_text(step["run"])
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=self.workspace,
            env={**self.environment, "GITHUB_OUTPUT": str(output), **own},
            check=False,
        )
        for line in output.read_text().splitlines():
            name, _, said = line.partition("=")
            self.known[f"steps.{step.get('id', '')}.outputs.{name}"] = said
        if done.returncode and not step.get("continue-on-error"):
            self.failed, self.code = self.failed or step["name"], self.code or done.returncode


def repository(folder: Path) -> str:
    """A repository with a job that got worse since its first commit; the id of that commit."""
    path = job(folder / "jobs", repetitions=3)
    path.rename(path.with_name("nightly.toml"))
    (folder / "requirements.txt").write_text("")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "a job")
    twice = FAKE.replace("int(shuffled)", "2 * int(shuffled)")
    (folder / "jobs" / "fake.py").write_text(twice)
    git(folder, "commit", "--quiet", "--all", "--message", "twice the shuffle")
    told = subprocess.run(
        ["git", "rev-parse", "HEAD~1"], cwd=folder, check=True, capture_output=True, text=True
    )
    return told.stdout.strip()


def stand_in(folder: Path, name: str, text: str) -> None:
    """Put a program into a folder of the search path."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def play_github(out: Path, job_repository: Path, base: str) -> int:
    """Take the steps of action.yml for a pull request; the exit code of the job."""
    temporary, own = out / "runner", out / "action"
    temporary.mkdir()
    # A runner has a copy of the action's repository, as it was committed.
    subprocess.run(["git", "clone", "--quiet", f"file://{ROOT}", str(own)], check=True)
    action = yaml.safe_load((own / "action.yml").read_text())
    stand_in(out / "bin", "gh", GH)
    known: dict[str, Any] = {
        "github.event.pull_request.base.sha": base,
        "github.event.pull_request.number": "7",
        "github.event_name": "pull_request",
        "github.sha": "0123456789ab",
        "github.token": "a token",
        "runner.temp": str(temporary),
    }
    given = {"job": "jobs/nightly.toml"}
    for name, told in action["inputs"].items():
        known[f"inputs.{name}"] = given.get(name, filled(told.get("default", ""), known))
    environment = {
        **os.environ,
        "PATH": f"{out / 'bin'}:{os.environ['PATH']}",
        "RUNNER_TEMP": str(temporary),
        "GITHUB_ACTION_PATH": str(own),
        "GITHUB_REPOSITORY": "owner/repository",
        "GITHUB_STEP_SUMMARY": str(out / "github_summary.md"),
        "CALLS": str(out / "github_calls.txt"),
        "COMMENT_FILE": str(out / "github_comment.md"),
    }
    runner = Runner(job_repository, temporary, environment, known)
    for step in action["runs"]["steps"]:
        runner.take(step)
    verdict = filled(action["outputs"]["verdict"]["value"], known)
    print(f"github: verdict {verdict}, exit code {runner.code} ({runner.failed or 'all passed'})")
    return runner.code


def snippet() -> dict[str, Any]:
    """The job of the GitLab snippet in docs/gate.md."""
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "gate.md").read_text(), re.DOTALL)
    found: dict[str, Any] = next(
        document["nightly-job"]
        for document in map(yaml.safe_load, blocks)
        if "nightly-job" in document
    )
    return found


def play_gitlab(out: Path, job_repository: Path, base: str) -> int:
    """Take the lines of the snippet for a merge request; the exit code of the job."""
    told = snippet()
    stand_in(out / "bin", "curl", CURL)
    places = {"https://github.com/OWNER/keymark.git": f"file://{ROOT}",
              "/opt/keymark": str(out / "keymark")}  # fmt: skip
    environment = {
        **os.environ,
        "PATH": f"{out / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": base,
        "CI_API_V4_URL": "https://gitlab.example/api/v4",
        "CI_PROJECT_ID": "1",
        "CI_MERGE_REQUEST_IID": "7",
        "GATE_TOKEN": "a token",
        "COMMENT_FILE": str(out / "gitlab_comment.md"),
    }
    codes = []
    for part in ("script", "after_script"):
        lines = "\n".join(told[part])
        for old, new in places.items():
            lines = lines.replace(old, new)
        script = ["bash", "-eo", "pipefail", "-c", lines]
        done = subprocess.run(script, cwd=job_repository, env=environment, check=False)
        codes.append(done.returncode)
    print(f"gitlab: exit code {codes[0]}, of what comes after it {codes[1]}")
    return codes[0]


def main() -> int:
    """Play both; 0 if both found the regression and told of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="a folder that is not there yet")
    parser.add_argument("--only", choices=("github", "gitlab"), help="one of the two")
    asked = parser.parse_args()
    out = asked.out.absolute()
    out.mkdir(parents=True)
    right = True
    for name, play in (("github", play_github), ("gitlab", play_gitlab)):
        if asked.only in (None, name):
            job_repository = out / f"{name}_repository"
            code = play(out, job_repository, repository(job_repository))
            comment = out / f"{name}_comment.md"
            told = comment.read_text() if comment.exists() else ""
            right = right and code == 1 and "Keymark gate: regression" in told
            print(f"comment: {comment}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
