"""A gate's comment: the cause in a sentence, rows folded by their cause, a marker, no paths."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from synthetic_runs import quickstart
from test_gate_command import edited, gate, one_more_task

from keymark.reports.publish import publish

DOCS = Path(__file__).parents[2] / "docs" / "gate.md"
SHARDS = "hoodie.metadata.record.index.min.filegroup.count"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return recorded(quickstart(tmp_path_factory.mktemp("reasons") / "base"), shards="2")


def recorded(run, *, shards="2", revision="1c9601a2b3c4", **versions):
    """A run whose record index has so many shards, at a commit."""
    record = json.loads((run / "run.json").read_text())
    record["scenario"]["table"]["index_options"] = {"record": {SHARDS: shards}}
    record["versions"] |= {"revision": revision, **versions}
    (run / "run.json").write_text(json.dumps(record))
    return run


def larger_index(line):
    hit = line["metric"] == "index_bytes" and line["index"] == "record"
    return line | {"value": line["value"] * (1.53 if hit else 1)}


def comment(capsys, tmp_path, *sides):
    path = tmp_path / "gate.md"
    code, said = gate(capsys, *sides, "--markdown", path)
    return code, said, path.read_text(encoding="utf-8")


def test_a_setting_that_changed_leads_the_comment(capsys, tmp_path, base):
    worse = recorded(edited(base, tmp_path / "w", larger_index), shards="6", revision="77aa77aa77")
    code, said, text = comment(capsys, tmp_path, base, worse)
    cause = "the index grew 53 %: `min.filegroup.count` went from 2 to 6"
    assert code == 1
    assert f"cause: {cause}" in said
    assert text.splitlines()[:3] == [
        "<!-- keymark gate: quickstart -->",
        "## Keymark gate: regression",
        "",
    ]
    assert text.splitlines()[3] == f"**The{cause[3:]}.**"
    assert "Base: commit 1c9601a2b3c4. Candidate: commit 77aa77aa77." in text
    assert str(tmp_path) not in text
    folded = re.findall(r"<details><summary>(.*?)</summary>\n\n\|(.*?)</details>", text, re.DOTALL)
    ((summary, rows),) = folded
    assert summary == "<code>min.filegroup.count</code> went from 2 to 6 (4 numbers)"
    assert rows.count("| **required** | native/record |") == 4
    assert json.loads(gate(capsys, base, worse, "--json")[1])["cause"] == cause


def test_a_kept_summary_tells_settings_and_commit_too(capsys, tmp_path, base):
    publish([base], tmp_path / "kept")
    worse = recorded(edited(base, tmp_path / "w", larger_index), shards="6")
    _, _, text = comment(capsys, tmp_path, tmp_path / "kept" / "summary.json", worse)
    assert "**The index grew 53 %: `min.filegroup.count` went from 2 to 6.**" in text
    assert "Base: commit 1c9601a2b3c4. " in text


def test_a_setting_of_another_index_is_no_cause(capsys, tmp_path, base):
    def more_of_bloom(line):
        hit = line["metric"] == "tasks" and line["index"] == "global_bloom"
        return line | {"value": line["value"] + hit}

    worse = recorded(edited(base, tmp_path / "w", more_of_bloom), shards="6")
    _, _, text = comment(capsys, tmp_path, base, worse)
    assert "min.filegroup.count` went" not in text
    assert "<details><summary>no setting, version or stage tells why (4 numbers)</summary>" in text


def test_a_setting_of_another_engine_is_no_cause(capsys, tmp_path, base):
    worse = edited(base, tmp_path / "w", one_more_task)
    record = json.loads((worse / "run.json").read_text())
    options = {"hudi@1.2.0": {"hoodie.parquet.small.file.limit": "0"}}
    record["scenario"]["table"]["engine_options"] = options
    (worse / "run.json").write_text(json.dumps(record))
    code, said, text = comment(capsys, tmp_path, base, worse)
    assert code == 1
    assert "cause: Spark tasks of upsert_2 grew 1.67 %\n" in said
    assert "small.file.limit" not in text
    record["scenario"]["table"]["engine_options"] = {"native": options["hudi@1.2.0"]}
    (worse / "run.json").write_text(json.dumps(record))
    _, said, _ = comment(capsys, tmp_path, base, worse)
    assert "grew 1.67 %: `small.file.limit` went from — to 0" in said


def test_what_became_worse_most_leads_whatever_cell_it_is_of(capsys, tmp_path, base):
    """Tasks of global bloom, the first cell, grow by 1.67 %, and the record index by 53 %."""

    def both(line):
        hit = line["metric"] == "tasks" and line["index"] == "global_bloom"
        return larger_index(line | {"value": line["value"] + hit})

    worse = recorded(edited(base, tmp_path / "w", both), shards="6")
    _, said, text = comment(capsys, tmp_path, base, worse)
    cause = "the index grew 53 %: `min.filegroup.count` went from 2 to 6"
    assert f"cause: {cause}\n" in said
    assert text.splitlines()[3] == f"**The{cause[3:]}.**"


def test_rows_of_one_cause_are_folded_worst_first(capsys, tmp_path, base):
    def more(line):
        hit = line["metric"] == "tasks" and line["index"] == "global_bloom"
        by = {"upsert_1": 1, "upsert_2": 3, "delete": 2}.get(line["step"], 0)
        return line | {"value": line["value"] + by * hit}

    _, _, text = comment(capsys, tmp_path, base, recorded(edited(base, tmp_path / "w", more)))
    steps = re.findall(r"\| native/global_bloom \| (\w+) \|", text)
    assert steps == ["upsert_2", "delete", "upsert_1"]


def test_versions_are_a_cause_where_no_setting_is(capsys, tmp_path, base):
    worse = recorded(edited(base, tmp_path / "w", one_more_task), spark="4.0.0")
    _, _, text = comment(capsys, tmp_path, base, worse)
    assert "**Spark tasks of upsert_2 grew 1.67 %: `spark` went from 3.5.5 to 4.0.0.**" in text


def test_causes_are_folded_apart_and_wrong_answers_say_so(capsys, tmp_path, base):
    def both(line):
        wrong = line["index"] == "bucket"
        more = line | {"verified": not wrong, "reason": "3 rows differ in /home/ann/t"}
        return larger_index(more)

    worse = recorded(edited(base, tmp_path / "w", both), shards="6")
    _, _, text = comment(capsys, tmp_path, base, worse)
    assert text.count("<details>") == text.count("</details>") == 2
    assert text.splitlines()[3].startswith(
        "**The cell native/bucket is not right: upsert_1: 3 rows differ in …/t;"
    )


def test_a_pass_has_its_marker_and_no_cause(capsys, tmp_path, base):
    code, said, text = comment(capsys, tmp_path, base, base)
    assert (code, "cause:" in said, "<details>" in text) == (0, False, False)
    assert text.startswith("<!-- keymark gate: quickstart -->\n## Keymark gate: pass\n")


@pytest.mark.parametrize("known", ["", "4711"])
def test_the_workflow_of_the_docs_updates_its_comment(tmp_path, known):
    """The script of docs/gate.md with a `gh` that notes how it is called."""
    script = re.search(r"# comment\n(.*?)# end\n", DOCS.read_text(), re.DOTALL)[1]
    (tmp_path / "gate.md").write_text("<!-- keymark gate: ci -->\n## Keymark gate: pass\n")
    fake = tmp_path / "gh"
    fake.write_text(
        '#!/bin/sh\necho "$MARKER| $@" >> "$CALLS"\n'
        'case "$*" in *--jq*) printf "%s" "$KNOWN";; esac\n'
    )
    fake.chmod(0o755)
    given = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS": str(tmp_path / "calls")}
    given |= {"KNOWN": known, "GITHUB_REPOSITORY": "o/r", "PR": "7"}
    subprocess.run(["bash", "-euc", script], cwd=tmp_path, env=given, check=True, timeout=60)
    asked, done = (tmp_path / "calls").read_text().splitlines()
    assert asked.startswith("<!-- keymark gate: ci -->| api repos/o/r/issues/7/comments")
    wanted = "--method PATCH repos/o/r/issues/comments/4711" if known else "pr comment 7"
    assert wanted in done
    assert "gate.md" in done
