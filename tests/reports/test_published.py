"""Published runs: honest ones pass; altered ones are refused, or shown as not repeated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from synthetic_published import RUN_ID
from tampered_runs import AGAIN, LOOKUP, TAMPERED, lines, samples, steady

from keymark import cli
from keymark.harness.store import contents
from keymark.reports.published.check import check

RESULTS = Path(__file__).parents[2] / "results"


def said(copy):
    (found,) = check(copy.path)
    return [str(each) for each in found.findings]


def test_there_are_fifty_and_more():
    assert len(TAMPERED) >= 50


def test_an_honest_run_passes(original, copy, capsys):
    (found,) = check(original)
    assert found.findings == ()
    assert found.samples > 300
    assert found.provenance.label == "contributed, not repeated by the maintainers"
    copy.seal()
    assert said(copy) == []
    assert cli.main(["results", "check", str(original.parent)]) == 0
    assert f"right: {original}" in capsys.readouterr().out.replace("\n", "")


def test_a_run_of_before_the_disk_was_asked_for_needs_none(copy):
    def older(document):
        document["machine"].pop("disk")
        for name in ("started", "finished"):
            document[name] = document[name].replace("2026-11-26", "2026-11-25")

    copy.lines("canary.jsonl", lambda found: [each.update(at=each["at"] - 86400) for each in found])
    copy.info(older)
    copy.seal()
    assert said(copy) == []


def test_the_runs_in_the_repository_are_right():
    for made in check(RESULTS):
        assert made.findings == (), made


@pytest.mark.parametrize("name", TAMPERED)
def test_without_a_new_digest_it_is_refused(copy, name):
    TAMPERED[name][0](copy)
    found = said(copy)
    assert found
    # By the digest, unless the folder is not read that far.
    is_told = any("is not what the run left" in each for each in found)
    told = TAMPERED[name][1]
    assert is_told or (told is not None and any(told in each for each in found))


@pytest.mark.parametrize("name", TAMPERED)
def test_with_a_new_digest_it_is_refused_where_numbers_contradict_it(copy, name):
    change, told = TAMPERED[name]
    change(copy)
    copy.seal()
    found = said(copy)
    assert not any("is not what the run left" in each for each in found)
    if told is None:
        assert found == []
        (passed,) = check(copy.path)
        assert "not repeated" in passed.provenance.label
    else:
        assert any(told in each for each in found), found


@pytest.mark.parametrize(
    "change",
    [
        samples(where=LOOKUP, value=lambda v: 0.9 * v),
        samples(where=AGAIN, valid=True, reason=""),
        lines("canary.jsonl", steady),
    ],
)
def test_a_new_digest_alone_does_not_hide_a_number_from_the_summary(copy, change):
    change(copy)
    kept = contents.content(copy.path / "summary.json")
    copy.seal()
    copy.write("summary.json", kept)
    found = said(copy)
    assert found
    assert all(each.startswith("summary.json, ") for each in found)


def test_each_number_of_the_summary_is_named(copy):
    document = json.loads(contents.content(copy.path / "summary.json"))
    lookup = next(m for m in document["cells"][0]["metrics"] if m["step"] == "lookup")
    lookup["median"] *= 1.1
    document["noise"][RUN_ID][0]["spread"] = 0.001
    document["cells"][1]["metrics"].pop()
    document["fastest_of_all"] = "record"
    document.pop("cautions")
    copy.write("summary.json", json.dumps(document).encode())
    found = said(copy)
    assert len(found) == 4
    assert f".metrics[{lookup['step']} {lookup['phase']} {lookup['metric']}].median: is" in found[0]
    assert "; the samples give" in found[0]
    assert ".metrics: has" in found[1]
    assert found[2].startswith(f"summary.json, noise.{RUN_ID}[processor].spread: is 0.001")
    assert "fastest_of_all" in found[3]


@pytest.mark.parametrize("text", ["", "[]", "{}", "{" * 5000, '{"run_id": NaN}'])
def test_a_summary_that_is_none_is_named(copy, text):
    copy.write("summary.json", text.encode())
    (told,) = said(copy)
    assert told.startswith("summary.json: ")


def test_the_command_names_what_is_wrong_and_exits_with_1(copy, capsys):
    samples(where=LOOKUP, unit="ms")(copy)
    assert cli.main(["results", "check", str(copy.path)]) == 1
    out = capsys.readouterr().out
    assert "samples.jsonl: the file is not what the run left" in out
    assert "unit: is ms; wall_s is in s" in out
    assert "refused: " in out
    assert cli.main(["results", "check", str(copy.path.parent), "--json"]) == 1
    (document,) = json.loads(capsys.readouterr().out)["runs"]
    assert document["right"] is False
    places = [(each["file"], each["place"].partition(", ")[2]) for each in document["findings"]]
    assert places == [("samples.jsonl", ""), ("samples.jsonl", "unit")]


def test_what_is_no_folder_of_runs_is_bad_input(tmp_path, capsys):
    for path in (tmp_path, tmp_path / "missing"):
        assert cli.main(["results", "check", str(path)]) == 2
        assert "is no run folder, and none is below it" in capsys.readouterr().err


def test_many_bad_lines_are_counted(copy):
    copy.write("samples.jsonl", b"no line\n" * 1000)
    found = said(copy)
    assert len(found) == 12
    assert found[-1] == "samples.jsonl: 990 more lines are no lines of a run"


def test_a_folder_that_is_too_large_is_not_read(copy):
    with (copy.path / "README.md").open("wb") as file:
        file.truncate(9 << 20)
    (told,) = said(copy)
    assert "a published run has 8,388,608 at most" in told


def test_an_unfinished_run_is_refused_as_not_ended_and_by_nothing_else(copy):
    copy.info(lambda document: document.update(status="running"))
    copy.info(lambda document: document.pop("digest"))
    (told,) = said(copy)
    assert "not ended" in told


def test_a_run_without_digest_is_refused(copy):
    copy.info(lambda document: document.pop("digest"))
    (told,) = said(copy)
    assert told.startswith("run.json, digest: is not there")
