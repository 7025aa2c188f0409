from __future__ import annotations

import json
import subprocess

import pytest
from gate_noise import side

from keymark.harness.store.run_record import RunRecord
from keymark.reports.errors import ReportError
from keymark.reports.gate import bisect, render
from keymark.reports.gate.compare import compare
from keymark.reports.gate.policy import Kind, Level, Policy, PolicyRule
from keymark.reports.gate.run_numbers import Key
from keymark.reports.gate.verdicts import Verdict

TASKS = Key("record", "upsert_1", "total", "tasks")
TIME = Key("record", "upsert_1", "tag", "wall_s")
REQUIRED = Policy(rule=(PolicyRule(metric="wall_s", level=Level.REQUIRED),))


def gate(kind, *, worse, noisy=False, policy=REQUIRED):
    """Base and a revision, by a counter and a time of one repetition or 24 pairs of times."""
    if kind is Kind.COUNTER:
        values = [
            {TASKS: {(0, 1): 4.0 + worse * at}, TIME: {(0, 1): 1.0 + 0.1 * at}} for at in (0, 1)
        ]
    else:
        wild = 0.5 if noisy else 0.001
        values = [
            {TIME: {(n, 1): 1.0 + at * (0.2 * worse + wild * (n % 2)) for n in range(24)}}
            for at in (0, 1)
        ]
    return compare(side("base", values[0]), side("revision", values[1]), policy)


def judged(first_bad, *, by=Kind.COUNTER, broken=(), noisy=(), policy=REQUIRED):
    asked = []

    def judge(revision, kind):
        asked.append((revision, kind))
        if revision in broken:
            return None
        worse = kind is by and revision >= first_bad
        wild = kind is Kind.TIME and revision in noisy
        return gate(kind, worse=worse, noisy=wild, policy=policy)

    return judge, asked


@pytest.mark.parametrize("by", list(Kind))
@pytest.mark.parametrize("first", range(16))
def test_the_first_bad_one_of_sixteen_takes_five_or_six_steps(first, by):
    line = [f"{n:02d}" for n in range(16)]
    judge, asked = judged(line[first], by=by)
    found = bisect.search(line, judge)
    assert found.first_bad == line[first]
    assert found.suspects == (line[first],)
    assert found.kind is by
    assert found.steps == len(asked) <= bisect.steps_at_most(line, by)
    assert bisect.steps_at_most(line, by) == (5 if by is Kind.COUNTER else 6)
    assert [each.key for each in found.findings] == [TASKS if by is Kind.COUNTER else TIME]


def test_times_are_asked_only_where_no_counter_tells():
    judge, asked = judged("1")
    bisect.search(["0", "1"], judge)
    assert {kind for _, kind in asked} == {Kind.COUNTER}


def test_nothing_became_worse():
    judge, asked = judged("9")
    found = bisect.search(["0", "1", "2"], judge)
    assert found.first_bad is None
    assert asked == [("2", Kind.COUNTER), ("2", Kind.TIME)]
    (line,) = render.search_lines(found, str)
    assert line == "pass: nothing became worse, 2 revisions judged"
    assert render.search_document(found)["found_by"] is None


def test_times_that_nobody_requires_are_not_asked():
    judge, asked = judged("9", policy=Policy())
    found = bisect.search(["0", "1", "2"], judge)
    assert asked == [("2", Kind.COUNTER)]
    assert found.gate.verdict is Verdict.PASS
    assert render.search_lines(found, str) == ["pass: nothing became worse, 1 revision judged"]


@pytest.mark.parametrize(
    ("line", "broken", "first", "suspects"),
    [
        ("0123456", "3", "5", ("5",)),
        ("0123456", "3", "4", ("3", "4")),
        ("0123456", "012345", "4", tuple("0123456")),
    ],
)
def test_what_cannot_be_measured_is_passed_over(line, broken, first, suspects):
    judge, _ = judged(first, broken=broken)
    found = bisect.search(list(line), judge)
    assert found.suspects == suspects
    assert found.first_bad == suspects[-1]
    said = render.search_lines(found, str)
    assert (f"one of {len(suspects)}" in said[0]) == (len(suspects) > 1)


def test_a_time_that_cannot_be_decided_accuses_nobody():
    judge, _ = judged("2", by=Kind.TIME, noisy="1")
    found = bisect.search(["0", "1", "2", "3"], judge)
    assert found.suspects == ("1", "2")


def test_a_candidate_that_cannot_be_measured_is_an_error():
    judge, _ = judged("0", broken="1")
    with pytest.raises(ReportError, match="cannot be measured"):
        bisect.search(["0", "1"], judge)


def git(root, *words):
    named = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(
        ["git", "-C", str(root), *named, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def history(tmp_path, monkeypatch):
    """Three commits, then a branch of one, merged."""
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "--quiet", "-b", "main")
    commits = []
    for name in ("one", "two", "three"):
        git(root, "commit", "--quiet", "--allow-empty", "-m", name)
        commits.append(git(root, "rev-parse", "HEAD"))
    git(root, "checkout", "--quiet", "-b", "side")
    git(root, "commit", "--quiet", "--allow-empty", "-m", "aside")
    git(root, "checkout", "--quiet", "main")
    git(root, "merge", "--quiet", "--no-ff", "-m", "merged \x1b[31m", "side")
    commits.append(git(root, "rev-parse", "HEAD"))
    monkeypatch.setattr(bisect, "CLONE", root)
    return commits


def test_the_line_is_that_of_first_parents(history):
    assert bisect.between("HEAD~3", "HEAD") == history[1:]
    assert bisect.subject("HEAD~1").endswith(" three")
    assert "\x1b" not in bisect.subject("HEAD")
    for base, candidate, said in (
        ("side", "HEAD", "not on the first-parent line"),
        ("HEAD", "HEAD~1", "not on the first-parent line"),
        ("HEAD", "main", "are one commit"),
        ("none", "HEAD", "Needed a single revision"),
        ("HEAD", "--all", "Needed a single revision"),
    ):
        with pytest.raises(ReportError, match=said):
            bisect.between(base, candidate)


def measuring(monkeypatch, history, codes):
    """Stand in for `run`, by the exit code of each revision; what was measured."""
    measured = []
    really = subprocess.run

    def stand_in(command, **options):
        if command[0] == "git":
            return really(command, **options)
        words = command[4:]
        out = words[words.index("--out") + 1]
        revision = words[words.index("--engine") + 3].removeprefix("native@")
        measured.append((revision, words[words.index("--set") + 1]))
        code = codes.get(revision, 0)
        if not code:
            write_run(out, revision, worse=history.index(revision) >= 2)
        return subprocess.CompletedProcess(command, code, stdout=b"{}")

    monkeypatch.setattr("keymark.reports.own_process.subprocess.run", stand_in)
    return measured


@pytest.mark.parametrize(("code", "ends"), [(2, 1), (130, 130)])
def test_what_cannot_be_run_is_passed_over_and_an_interruption_ends_it(
    history, tmp_path, monkeypatch, capsys, code, ends
):
    from keymark import cli as run_bench

    measured = measuring(monkeypatch, history, {history[1]: code})
    words = ["gate", "HEAD~3", "--bisect", "--out", str(tmp_path / "search")]
    assert run_bench.main(words) == ends
    assert [revision for revision, _ in measured][:2] == [history[3], history[1]]
    said = capsys.readouterr()
    assert ("passed over" in said.err) == ("revision" in said.out) == (ends == 1)


def test_a_rule_about_nothing_ends_a_search(history, tmp_path, monkeypatch, capsys):
    from keymark import cli as run_bench

    measured = measuring(monkeypatch, history, {})
    (tmp_path / "policy.toml").write_text('[[rule]]\ncell = "nothing"\nlevel = "required"\n')
    words = ["gate", "HEAD~3", "--bisect", "--out", str(tmp_path / "search")]
    assert run_bench.main([*words, "--policy", str(tmp_path / "policy.toml")]) == 2
    assert len(measured) == 1
    assert "nothing measured is meant" in capsys.readouterr().err


def test_a_search_on_the_command_line_keeps_its_runs(history, tmp_path, monkeypatch, capsys):
    from keymark import cli as run_bench

    measured = measuring(monkeypatch, history, {})
    words = ["gate", "HEAD~3", "--bisect", "--out", str(tmp_path / "search")]
    for _ in range(2):
        assert run_bench.main(words) == 1
        said = capsys.readouterr()
        steps = [line.partition(":")[0] for line in said.err.splitlines()]
        assert steps == [f"step {n} of at most 3" for n in (1, 2, 3)]
        assert said.err.endswith("s left at most)\n")
        said = said.out
        assert said.startswith(f"first bad revision: {history[2][:7]} three\n")
        assert "found by counters, 3 revisions judged" in said
        assert "record upsert_1 total tasks: regression, 4 to 5 (+25.0%)" in said
        assert len(measured) == 3
    assert {sets for _, sets in measured} == {"schedule.repetitions=1"}
    assert run_bench.main([*words, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["first_bad"] == history[2]
    assert document["found_by"] == "counter"
    assert document["gate"]["verdict"] == "regression"


def write_run(out, revision, *, worse):
    from pathlib import Path

    from synthetic_runs import sample

    from keymark.harness.store.store import RunFolder

    folder = RunFolder.create(Path(out))
    engines = ["native@base", f"native@{revision[:12]}"]
    for engine, tasks in zip(engines, (4, 4 + worse), strict=True):
        cell = {"cell": f"{engine}/record", "engine": engine, "index": "record"}
        folder.append([sample(run_id="r", **cell, metric="tasks", phase="total", value=tasks)])
    info = {"run_id": "r", "status": "complete", "scenario": {"engines": engines}}
    folder.write_record(RunRecord.model_validate(info))


def test_paths_are_not_searched(tmp_path, capsys):
    from keymark import cli as run_bench

    assert run_bench.main(["gate", str(tmp_path), str(tmp_path), "--bisect"]) == 2
    assert "--bisect needs two revisions" in capsys.readouterr().err
