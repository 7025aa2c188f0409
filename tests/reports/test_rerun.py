"""A published run beside one that repeats it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from synthetic_published import RUN_ID, published, repeated, slower_tag
from synthetic_runs import sample, write_run

from keymark import cli
from keymark.reports.published import rerun as rerun_
from keymark.reports.published.agreement import agreement


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """The folder of a published run."""
    return published(tmp_path_factory.mktemp("published"))


def rerun(capsys, *words):
    code = cli.main(["rerun", *(str(word) for word in words)])
    said = capsys.readouterr()
    return code, said.out if code in (0, 1) else said.err


def test_a_slower_machine_agrees(capsys, tmp_path, first):
    again = repeated(tmp_path)
    code, said = rerun(capsys, RUN_ID, "--results", first.parent, "--compare", again)
    assert code == 0, said
    assert f"The run agrees with {RUN_ID} in all of " in said
    code, said = rerun(capsys, first, "--compare", again, "--json")
    answer = json.loads(said)
    assert answer["agrees"]
    assert answer["counters"] == []
    upsert = next(each for each in answer["ratios"] if each["what"] == "Upsert batch")
    assert (upsert["of"], upsert["to"]) == ("native/global_simple", "native/record")
    assert upsert["agrees"]
    assert set(answer["noise"]) == {"published", "rerun"}


def test_a_ratio_that_disagrees_is_named_with_its_factor(capsys, tmp_path, first):
    again = repeated(tmp_path, slower_tag)
    code, said = rerun(capsys, RUN_ID, "--results", first.parent, "--compare", again)
    assert code == 1
    lines = [line for line in said.splitlines() if "they differ by a factor of" in line]
    assert any(
        line.startswith("Upsert batch of native/global_simple to native/record:") for line in lines
    )
    assert f"The run disagrees with {RUN_ID} in 2 of " in said
    assert "and 0 of " in said


def beside_hudi(path: Path, factor: float) -> Path:
    """A run of one index in two engines, of which the second takes `factor` times as long."""
    samples = [
        sample(
            run_id="r1",
            cell=f"{engine}/record",
            engine=engine,
            repetition=number,
            value=2.0 * times * (1 + number / 100),
        )
        for number in range(3)
        for engine, times in (("native", 1.0), ("hudi@0.15.0", factor))
    ]
    return write_run(path, samples)


def test_the_same_index_of_two_engines_is_compared(tmp_path):
    first = beside_hudi(tmp_path / "a", 1.5)
    found = agreement(first, beside_hudi(tmp_path / "b", 1.5))
    assert [(each.of, each.to) for each in found.ratios] == [
        ("hudi@0.15.0/record", "native/record")
    ]
    assert found.agrees
    other = agreement(first, beside_hudi(tmp_path / "c", 3.0))
    assert [each.factor for each in other.differing] == [pytest.approx(2.0)]


def test_a_counter_that_disagrees_is_named(capsys, tmp_path, first):
    def fewer(each):
        hit = (each.step, each.metric, each.index) == ("upsert_1", "files_written", "record")
        return replace(each, value=each.value - 1) if hit else each

    code, said = rerun(capsys, first, "--compare", repeated(tmp_path, fewer))
    assert code == 1
    assert "native/record upsert_1 total files_written: 20 to 19 (-5.0%)" in said
    assert "disagrees" in said


def test_a_disagreement_says_what_else_differs(capsys, tmp_path, first):
    def fewer(each):
        hit = (each.step, each.metric, each.index) == ("upsert_1", "files_written", "record")
        return replace(each, value=each.value - 1) if hit else each

    again = repeated(tmp_path, fewer)
    _, said = rerun(capsys, first, "--compare", again)
    assert "(-5.0%). Versions and machine are the same.\n" in said
    info = json.loads((again / "run.json").read_text())
    info["versions"] |= {"revision": "ba9876543210", "java": "17"}
    info["machine"]["cores"] = 4
    (again / "run.json").write_text(json.dumps(info))
    _, said = rerun(capsys, first, "--compare", again)
    assert (
        "What else differs: revision 0123456789ab and ba9876543210; java not told and 17; machine "
        "2 cores of an example of a CPU, 8 GiB and 4 cores of an example of a CPU, 8 GiB.\n"
    ) in said
    _, said = rerun(capsys, first, "--compare", again, "--json")
    assert len(json.loads(said)["settings"]) == 3


def test_a_cell_that_fails_here_disagrees(capsys, tmp_path, first):
    def wrong(each):
        bad = each.index == "record"
        return replace(each, verified=not bad, reason="3 rows differ" if bad else each.reason)

    code, said = rerun(capsys, first, "--compare", repeated(tmp_path, wrong))
    assert code == 1
    assert "native/record: " in said
    assert "3 rows differ" in said


def test_errors_are_one_line(capsys, tmp_path, first):
    root = first.parent
    newer = repeated(tmp_path / "newer")
    (newer / "run.json").write_text(json.dumps({"schema_version": 99}))
    other = repeated(tmp_path / "other", scenario={"name": "small", "dataset": {"rows": 7}})
    running = repeated(tmp_path / "running")
    said = json.loads((running / "run.json").read_text()) | {"status": "running"}
    (running / "run.json").write_text(json.dumps(said))
    for words, told in (
        (["20261126T090000-smal", "--results", root], f"did you mean {RUN_ID}?"),
        (["x\0", "--results", root], "has no run"),
        ([RUN_ID, "--results", tmp_path / "none"], "(0 runs are published)"),
        ([first, "--compare", tmp_path / "none"], "is not a run folder"),
        ([first, "--compare", newer], "schema version 99, newer than"),
        ([first, "--compare", other], "dataset.rows is 200,000 there and 7 in the candidate"),
        ([first, "--compare", running], "is not complete"),
        ([first, "--compare", newer, "--out", tmp_path / "o"], "measures nothing: leave out --out"),
        ([first, "--compare", newer, "--when-quiet", "1m"], "nothing: leave out --when-quiet"),
    ):
        code, line = rerun(capsys, *words)
        assert (code, line.count("\n")) == (2, 1), line
        assert told in line


def test_the_recorded_command_is_run_into_a_folder_of_its_own(capsys, tmp_path, first, monkeypatch):
    again, calls = repeated(tmp_path), []

    def stand_in(command, **_):
        calls.append(command[4:])
        return subprocess.CompletedProcess(command, codes.pop(0))

    codes = [0, 2, -9]
    monkeypatch.setattr("keymark.reports.own_process.subprocess.run", stand_in)
    words = [RUN_ID, "--results", first.parent, "--out", again]
    assert rerun(capsys, *words)[0] == 0
    assert calls == [["run", "small", "--json", "--out", str(again)]]
    assert rerun(capsys, *words, "--when-quiet", "1h") == (2, "")
    assert calls[1] == ["run", "small", "--when-quiet", "1h", "--json", "--out", str(again)]
    assert rerun(capsys, *words) == (2, "error: the run was killed by signal 9\n")


def test_a_command_that_names_a_folder_of_another_machine_is_not_repeated(tmp_path):
    given = ["keymark", "run", "small", "--set", "dataset.source.path=…/trips"]
    folder = repeated(tmp_path, command=given)
    with pytest.raises(Exception, match="which is not here; measure it yourself"):
        rerun_.command(folder)
    folder = repeated(tmp_path / "b", command=["keymark", "observe", "x"])
    with pytest.raises(Exception, match="was not made by `run`"):
        rerun_.command(folder)


def one_trial(path: Path, factor: float) -> Path:
    """A run of one repetition of six rounds; the second index takes `factor` times as long."""
    samples = [
        sample(
            run_id="r1",
            cell=f"native/{index}",
            index=index,
            step=f"upsert_{number}",
            round=number,
            value=times * number,
        )
        for number in range(1, 7)
        for index, times in (("record", 1.0), ("global_simple", factor))
    ]
    return write_run(path, samples)


@pytest.mark.parametrize(("factor", "agrees"), [(3.0, True), (6.0, False)])
def test_runs_of_one_repetition_are_compared_by_their_rounds(tmp_path, factor, agrees):
    found = agreement(one_trial(tmp_path / "a", 3.0), one_trial(tmp_path / "b", factor))
    (ratio,) = found.ratios
    assert (ratio.what, ratio.published.n, ratio.repeated.median) == ("Upsert batch", 6, factor)
    assert (ratio.agrees, found.undecided) == (agrees, 0)
    assert sum("each round of batches is a value" in each for each in found.warnings) == 2
