"""Folders of the machine that measured are on no page: a report is handed on."""

from __future__ import annotations

import json

import pytest
from synthetic_runs import INFO, quickstart, sample, write_run

from keymark.reports.gate import run_numbers
from keymark.reports.publish import publish
from keymark.reports.render.text import without_folders

HOME = "/home/ann/secret plans"
PLAIN = "/home/ann/projects"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"{PLAIN}/trips", "…/trips"),
        (f"{HOME}/trips", "…/trips"),
        ("/data", "…/data"),
        (f"file://{PLAIN}/events", "…/events"),
        (f"file:{PLAIN}/events", "…/events"),
        (f"-Dlog={PLAIN}/a.xml -Dtmp=/tmp/x", "-Dlog=…/a.xml -Dtmp=…/x"),
        (f"OSError: '{PLAIN}/t/a.parquet' is damaged.", "OSError: '…/a.parquet' is damaged."),
        (f"no such file: {PLAIN}/t.", "no such file: …/t."),
        (f"{PLAIN}/a, /b/c", "…/a, …/c"),
        ("s3://bucket/folder/trips", "s3://bucket/folder/trips"),
        ("hdfs://host:9000/a/b", "hdfs://host:9000/a/b"),
        ("runs/first and native/record", "runs/first and native/record"),
        ("native@local[1]/record, hudi@local[*]/a/b", "native@local[1]/record, hudi@local[*]/a/b"),
        (f"[{PLAIN}/a]", "[…/a]"),
        ("12,000 /s, 1 / 2, a//b, */x", "12,000 /s, 1 / 2, a//b, */x"),
    ],
)
def test_a_path_is_its_last_part(text, shown):
    assert without_folders(text) == shown


def foreign(path):
    """A run whose every text names the user's folders."""
    info = json.loads(json.dumps(INFO)) | {
        "run_id": "r1",
        "command": ["keymark", "run", f"{HOME}/my.toml", "--set", f"table.source={PLAIN}/trips"],
        "notes": [f"the rows are those of {PLAIN}/rows.parquet"],
        "failed": {"native/bloom": f"OSError: {PLAIN}/x is gone"},
        "spark_conf": {
            "spark.eventLog.dir": f"file:{PLAIN}/runs/r1/events",
            "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={PLAIN}/tmp",
        },
    }
    info["scenario"]["table"]["source"] = f"{PLAIN}/tables/trips"
    samples = [sample(value=1.0 + rep / 9, repetition=rep) for rep in range(3)]
    wrong = sample(
        cell="native/simple", index="simple", verified=False, reason=f"IOError: {PLAIN}/y is empty"
    )
    return write_run(path, [*samples, wrong], info)


def test_no_folder_of_the_machine_is_in_page_markdown_or_summary(tmp_path):
    path = foreign(tmp_path / "run")
    publish([path])
    for name in ("report/index.html", "summary.md", "summary.json"):
        text = (path / name).read_text(encoding="utf-8")
        assert "ann" not in text.replace("planned", "")
        assert str(tmp_path) not in text
        assert name == "summary.json" or "…/trips" in text
    assert json.loads(text)["work"]["table.source"] == "…/trips"
    said = (path / "summary.md").read_text(encoding="utf-8")
    assert "keymark run '…/my.toml' --set 'table.source=…/trips'" in said


def test_a_gate_knows_the_same_source_in_kept_summaries_of_old(tmp_path):
    path = quickstart(tmp_path / "run")
    record = json.loads((path / "run.json").read_text())
    record["scenario"]["table"]["source"] = f"{PLAIN}/tables/trips"
    (path / "run.json").write_text(json.dumps(record))
    publish([path])
    kept = json.loads((path / "summary.json").read_text())
    kept["work"]["table.source"] = f"{PLAIN}/tables/trips"
    (tmp_path / "kept.json").write_text(json.dumps(kept))
    works = [run_numbers.load(each).work for each in (path, tmp_path / "kept.json")]
    assert works[0] == works[1]
