from __future__ import annotations

import json

import pytest

from keymark.harness.engines.delta import phases as delta
from keymark.harness.engines.iceberg import phases as iceberg
from keymark.harness.measure import event_log
from keymark.harness.measure.stage_phases import engine_of, said_of

LABEL = "delta@3.3.2/merge|r0|upsert_1"
BESIDE = "$anonfun$withThreadLocalCaptured$1 at FutureTask.java:264"
QUERY = "sql at NativeMethodAccessorImpl.java:0"


@pytest.mark.parametrize(
    ("said", "phase"),
    [
        ("MERGE operation - materialize source", "prepare"),
        ("MERGE operation - scanning files for matches", "tag"),
        ("MERGE operation - Rewriting 12 files", "write"),
        ("MERGE operation - Rewriting Deletion Vectors to 12 files", "write"),
        ("Writing merged data", "write"),
        ("Compute snapshot for version: 3", "open"),
        ("Something else", None),
    ],
)
def test_delta_says_what_its_jobs_do(said, phase):
    assert delta.phase_of(f"Delta: {LABEL}: {said}") == phase
    assert delta.phase_of(LABEL) is None
    nested = f"Delta: Delta: {LABEL}: Writing merged data: {said}"
    assert delta.phase_of(nested) == (phase or "write")


def test_what_a_job_of_delta_says_is_the_same_in_each_repetition():
    said = said_of("delta@", f"Delta: {LABEL}: MERGE operation - Rewriting 12 files")
    assert said == "MERGE operation - Rewriting N files"
    assert said_of("delta@", LABEL) == ""
    assert said_of("hudi@", "Building workload profile:t 7") == "Building workload profile:t 7"
    assert engine_of(LABEL) == "delta@"
    assert engine_of("native/record|r0|upsert_1") == ""


@pytest.mark.parametrize(
    ("name", "operators", "phase"),
    [
        (QUERY, {"Scan parquet ", "Exchange"}, "prepare"),
        (QUERY, {"Exchange", "Window"}, "prepare"),
        (BESIDE, {"BatchScan cat.ns.t"}, "tag"),
        (BESIDE, {"Exchange", "HashAggregate"}, "tag"),
        (QUERY, {"BatchScan cat.ns.t", "Exchange"}, "tag"),
        (QUERY, {"BatchScan cat.ns.t", "MergeRows"}, "write"),
        (QUERY, {"Exchange", "SortMergeJoin", "MergeRows"}, "write"),
        (QUERY, {"Exchange", "Sort"}, "write"),
    ],
)
def test_icebergs_stages_are_told_by_their_operators(name, operators, phase):
    assert iceberg.phase_of(name, operators, LABEL) == phase


def test_icebergs_own_jobs_are_services():
    said = "Rewriting 5 files (FILE GROUP 1/1) in cat.ns.t"
    assert iceberg.phase_of(QUERY, {"BatchScan cat.ns.t"}, said) == "services"


def test_phases_of_a_format_are_read_off_its_event_log(tmp_path):
    def stage(number, said, begin, end):
        info = {
            "Stage ID": number,
            "Stage Attempt ID": 0,
            "Stage Name": QUERY,
            "RDD Info": [],
            "Submission Time": begin,
            "Completion Time": end,
        }
        description = f"Delta: {LABEL}: {said}"
        properties = {"keymark.step": LABEL, "spark.job.description": description}
        return [
            {
                "Event": "SparkListenerStageSubmitted",
                "Stage Info": info,
                "Properties": properties,
            },
            {"Event": "SparkListenerTaskEnd", "Stage ID": number, "Stage Attempt ID": 0},
            {"Event": "SparkListenerStageCompleted", "Stage Info": info},
        ]

    events = [
        *stage(1, "MERGE operation - scanning files for matches", 1000, 2500),
        *stage(2, "MERGE operation - Rewriting 3 files", 3000, 4000),
    ]
    log = tmp_path / "local-1"
    log.write_text("\n".join(map(json.dumps, events)))
    step = event_log.read(log)[LABEL]
    assert {phase: counters.tasks for phase, counters in step.phases.items()} == {
        "tag": 1,
        "write": 1,
        "total": 2,
    }
    assert step.seconds("tag") == 1.5
