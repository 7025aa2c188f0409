"""Runs of a job in plain Python: what is measured, pairs, what goes wrong, going on."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from job_cases import git, job, samples, say, value

from keymark.harness.store.store import RunFolder


def record(folder):
    return json.loads((folder / "run.json").read_text())


def test_a_run_has_counters_files_times_and_stages(capsys, tmp_path):
    path, out = job(tmp_path), tmp_path / "run"
    _, told = say(capsys, "run", path, "--out", out)
    assert json.loads((out / "summary.json").read_text())["verified"]
    assert "note: The job has no command that verifies" in told
    counted = {
        "shuffle_write_bytes": 2000, "shuffle_write_records": 18, "input_bytes": 800, "tasks": 2,
        "output_bytes": 200, "output_records": 18, "spill_bytes": 0, "task_records_max": 40,
        "largest_tasks_records": 40,
        "executor_cpu_s": 0.5, "files_written": 1, "bytes_written": 100,
    }  # fmt: skip
    for repetition in (0, 1):
        for metric, wanted in counted.items():
            assert value(out, metric, repetition=repetition) == wanted
    assert value(out, "wall_s") > 0
    assert value(out, "cpu_s") > 0
    (stage, again) = RunFolder.open(out).stages()
    assert (stage.name, stage.wall_s, again.repetition) == ("save at job.py (Exchange)", 2.0, 1)
    said = record(out)
    assert (said["status"], said["failed"], said["versions"]["spark"]) == ("complete", {}, "3.5.3")
    assert said["scenario"]["sides"]["job"]["values"] == {"shuffled": "1000", "how": "well"}
    assert not (out / "work").exists()
    assert len((out / "canary.jsonl").read_text().splitlines()) == 2


def test_report_history_and_results_read_it(capsys, tmp_path):
    path, out = job(tmp_path, repetitions=3), tmp_path / "run"
    say(capsys, "run", path, "--out", out)
    said, _ = say(capsys, "report", out)
    assert said.startswith("Step load takes ")
    page = (out / "summary.md").read_text().replace("\\", "")
    assert "# nightly compared" in page
    assert "## Work done by step load" in page
    assert "| nightly | 2,000 B" in page or "1.95 KiB" in page
    say(capsys, "run", path, "--out", tmp_path / "next", "--set", "job.values.shuffled=1500")
    history, _ = say(capsys, "history", out, tmp_path / "next", "--json", "--out", tmp_path / "h")
    changed = {each["metric"] for each in json.loads(history)["changes"]}
    assert changed == {"shuffle_write_bytes"}
    _, told = say(capsys, "results", "add", out, "--to", tmp_path / "published")
    assert told == ""


def test_a_setting_that_doubles_the_shuffle_is_the_cause(capsys, tmp_path):
    path = job(tmp_path)
    for name, shuffled in (("base", 1000), ("now", 2000)):
        say(
            capsys,
            "run",
            path,
            "--out",
            tmp_path / name,
            "--set",
            f"job.values.shuffled={shuffled}",
        )
    comment = tmp_path / "gate.md"
    words = ["gate", tmp_path / "base", tmp_path / "now", "--markdown", comment]
    said, _ = say(capsys, *words, code=1)
    assert "job/nightly load total shuffle_write_bytes: regression, 1.95 KiB to 3.91 KiB" in said
    assert "stage `save at job.py (Exchange)`: shuffle_write_bytes 1.95 KiB to 3.91 KiB" in said
    cause = "`job.values.shuffled` went from 1000 to 2000"
    assert f"**Shuffle bytes written of load grew 100 %: {cause}.**" in comment.read_text()
    assert comment.read_text().startswith("<!-- keymark gate: nightly -->\n")


def test_two_configurations_take_turns_and_are_judged(capsys, tmp_path):
    path, out = job(tmp_path, repetitions=3), tmp_path / "pair"
    words = ["--base", "shuffled=1000", "--candidate", "shuffled=2000"]
    say(capsys, "run", path, *words, "--out", out)
    order = [each["cell"] for each in samples(out) if each["metric"] == "wall_s"]
    sides = ["base/nightly", "candidate/nightly"]
    assert order == [*sides, *sides[::-1], *sides]
    comment = tmp_path / "gate.md"
    said, _ = say(capsys, "gate", out, "--markdown", comment, "--json", code=1)
    answer = json.loads(said)
    assert answer["interleaved"]
    worse = {each["metric"] for each in answer["findings"] if each["verdict"] == "regression"}
    assert worse == {"shuffle_write_bytes"}
    text = comment.read_text().replace("\\", "")
    assert "Base: shuffled=1000. Candidate: shuffled=2000." in text
    assert "`job.values.shuffled` went from 1000 to 2000" in text
    page = (out / "summary.md").read_text()
    assert "nightly · base" in page


def test_two_revisions_take_turns(capsys, tmp_path):
    path, out = job(tmp_path / "repository" / "jobs"), tmp_path / "pair"
    root = tmp_path / "repository"
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "one")
    program = path.with_name("fake.py")
    program.write_text(program.read_text().replace("int(shuffled)", "2 * int(shuffled)"))
    words = ["run", path, "--base", "HEAD", "--candidate", "worktree", "--out", out]
    say(capsys, *words)
    assert value(out, "shuffle_write_bytes", cell="base/nightly") == 2000
    assert value(out, "shuffle_write_bytes", cell="candidate/nightly") == 4000
    said, _ = say(capsys, "gate", out, code=1)
    assert "shuffle_write_bytes: regression" in said
    assert "to the work tree" in said
    titles = {name: each["title"] for name, each in record(out)["processes"].items()}
    assert titles["base"].startswith("commit ")
    assert titles["candidate"] == "the work tree"
    _, told = say(capsys, "run", path, "--base", "HEAD~7", "--candidate", "worktree", code=2)
    assert "'HEAD~7' is neither a file nor a revision that git knows" in told


@pytest.mark.parametrize(
    ("how", "more", "said"),
    [
        ("fail", {}, "load: exit code 1: ValueError: no such column: uuid"),
        ("hang", {"timeout": "2s"}, "load: did not end in time"),
        ("well", {"more": 'verify = "false"\n'}, "verify: exit code 1"),
        ("well", {"more": 'verify = "no-such-program"\n'}, "verify: exit code 127"),
    ],
)
def test_a_job_that_goes_wrong_fails_its_cell(capsys, tmp_path, how, more, said):
    path, out = job(tmp_path, how=how, **more), tmp_path / "run"
    _, told = say(capsys, "run", path, "--out", out, code=1)
    (line,) = [line for line in told.splitlines() if line.startswith("FAILED ")]
    assert line.startswith(f"FAILED job/nightly: {said}")
    assert not any(each["verified"] for each in samples(out))
    kept = line.rpartition("(")[2].partition(" ")[0]
    assert (out / kept).is_file()
    good = tmp_path / "good"
    say(capsys, "run", job(tmp_path / "g"), "--out", good)
    told, _ = say(capsys, "gate", good, out, code=1)
    assert "the candidate" in told or said[:20] in told
    _, told = say(capsys, "gate", out, good, code=2)
    assert "cannot be a base: job/nightly is not verified" in told


def test_a_restore_or_set_up_that_fails(capsys, tmp_path):
    path = job(tmp_path)
    text = path.read_text()
    path.write_text(text.replace('restore = "rm -rf {work}/out"', 'restore = "false"'))
    _, told = say(capsys, "run", path, "--out", tmp_path / "a", code=1)
    assert "FAILED job/nightly: restore: exit code 1" in told
    path.write_text(text.replace("restore", "set_up", 1).replace("rm -rf {work}/out", "false"))
    _, told = say(capsys, "run", path, "--out", tmp_path / "b", code=2)
    assert told.splitlines()[-1].startswith("error: job/nightly: set_up: exit code 1")
    assert not (tmp_path / "b").exists()


def test_what_an_event_log_lacks_is_a_note_and_the_rest_is_kept(capsys, tmp_path):
    for how, said in (
        ("silent", "job/nightly load: it wrote no event log"),
        ("cut", "job/nightly load: app-1 is cut off: the application's end is not in it."),
    ):
        out = tmp_path / f"run-{how}"
        _, told = say(capsys, "run", job(tmp_path / how, how=how), "--out", out)
        assert f"note: {said}" in told
        assert value(out, "files_written") == 1
        shuffled = [each for each in samples(out) if each["metric"] == "shuffle_write_bytes"]
        assert [each["valid"] for each in shuffled] == ([] if how == "silent" else [False, False])
    quiet = job(tmp_path / "quiet", how="silent")
    quiet.write_text(quiet.read_text() + "event_log = false\n")
    _, told = say(capsys, "run", quiet, "--out", tmp_path / "q")
    assert "no event log" not in told


def test_secrets_are_in_no_file(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("STORE_PASSWORD", "hunter2hunter2")
    path = job(tmp_path, how="fail")
    program = path.with_name("fake.py")
    program.write_text(program.read_text().replace("no such column", os.environ["STORE_PASSWORD"]))
    out = tmp_path / "run"
    say(capsys, "run", path, "--out", out, code=1)
    for file in (each for each in out.rglob("*") if each.is_file()):
        assert b"hunter2" not in file.read_bytes(), file


def test_a_run_that_was_cut_off_goes_on(capsys, tmp_path):
    path, out = job(tmp_path, repetitions=3), tmp_path / "run"
    say(capsys, "run", path, "--out", out)
    whole = samples(out)
    lines = (out / "samples.jsonl").read_text().splitlines(keepends=True)
    (out / "samples.jsonl").write_text("".join(lines[: len(lines) // 2]) + lines[0][:20])
    said = {**record(out), "status": "running"}
    del said["digest"]
    (out / "run.json").write_text(json.dumps(said))
    say(capsys, "run", path, "--out", out, "--resume")
    again = samples(out)

    def told(found):
        """What a run told, but for memory: a step that ends between two looks has no peak."""
        names = [(each["repetition"], each["metric"]) for each in found]
        return [each for each in names if each[1] != "peak_memory_bytes"]

    key, now = told(whole), told(again)
    assert set(key) ^ set(now) == set()
    assert sorted(key) == sorted(now)
    assert [each.repetition for each in RunFolder.open(out).stages()] == [0, 1, 2]
    other = job(tmp_path / "other", repetitions=4)
    _, told = say(capsys, "run", other, "--out", out, "--resume", code=2)
    assert "holds a run of another job" in told


def test_ctrl_c_ends_the_command_and_says_how_to_go_on(tmp_path):
    path, out = job(tmp_path, how="hang"), tmp_path / "run"
    words = [sys.executable, "-m", "keymark", "run", str(path), "--out", str(out)]
    started = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    for line in started.stderr:
        if "repetition 1" in line:
            break
    started.send_signal(2)
    _, told = started.communicate(timeout=60)
    assert started.returncode == 130
    assert f"--resume --out {out}" in told
    assert not (out / "work").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--base", "shuffled=1"], "--base and --candidate go together"),
        (["--base", "shuffled=1", "--candidate", "shuffled=1"], "are the same"),
        (["--base", "shufled=1", "--candidate", "how=x"], "no value 'shufled' (did you mean"),
        (["--base", "a", "--base", "b", "--candidate", "how=x"], "a and b are two revisions"),
        (["--base", "HEAD", "--candidate", "how=x"], "is in no git repository"),
        (["--engine", "native"], "--engine is for scenarios"),
        (["--budget", "10m"], "--budget is for scenarios"),
        (["--resume"], "--resume needs --out"),
        (["--set", "job.rows=3"], "job.rows: unknown key"),
    ],
)
def test_bad_words_are_one_line(capsys, tmp_path, words, said):
    _, told = say(capsys, "run", job(tmp_path), *words, code=2)
    assert told.startswith("error: ")
    assert told.count("\n") == 1
    assert said in told


def test_sides_are_for_jobs(capsys):
    _, told = say(capsys, "run", "ci", "--base", "HEAD", "--candidate", "worktree", code=2)
    assert "--base and --candidate are for jobs" in told
