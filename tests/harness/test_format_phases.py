from __future__ import annotations

import json

import pytest

from keymark.harness.engines.delta import phases as delta
from keymark.harness.engines.iceberg import phases as iceberg
from keymark.harness.measure import event_log
from keymark.harness.measure.stage_phases import engine_of, stable_description

LABEL = "delta@3.3.2/merge|r0|upsert_1"
BESIDE = "$anonfun$withThreadLocalCaptured$1 at FutureTask.java:264"
QUERY = "sql at NativeMethodAccessorImpl.java:0"


SAID = [
    "{0} - MERGE operation - {1}",
    "Delta: {0}: Writing modified data - MERGE operation - {1}",
    "Delta: {0} - MERGE operation - scanning files for matches: {1}",
]


@pytest.mark.parametrize(
    ("said", "phase"),
    [
        ("materialize source", "prepare"),
        ("scanning files for matches", "tag"),
        ("Rewriting 12 files", "write"),
        ("Rewriting Deletion Vectors to 12 files", "write"),
        ("writing new files for only inserts", "write"),
        ("Compute snapshot for version: 3", "open"),
    ],
)
def test_delta_says_what_its_jobs_do_the_innermost_last(said, phase):
    for form in SAID:
        assert delta.phase_of(form.format(LABEL, said)) == phase


def test_other_jobs_of_delta():
    place = "file:/x/delta@3.3.2/merge|r/t<br/>Optimizing 2 files in partition (dt=a: b)"
    assert delta.phase_of(place.replace("|", "/")) == "services"
    assert (
        stable_description("delta@", place.replace("|", "/")) == "Optimizing N files in partition"
    )
    assert delta.phase_of(LABEL) is None
    assert delta.phase_of(f"Delta: {LABEL}: Something else") is None


def test_what_a_job_of_delta_says_is_the_same_in_each_repetition():
    said = stable_description("delta@", SAID[0].format(LABEL, "Rewriting 12 files"))
    assert said == "MERGE operation - Rewriting N files"
    assert stable_description("delta@", LABEL) == ""
    assert stable_description("iceberg@", LABEL) == ""
    assert (
        stable_description("hudi@", "Building workload profile:t 7")
        == "Building workload profile:t 7"
    )
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
    # The same stages of a query are no phase's.
    assert iceberg.phase_of(name, operators, LABEL.replace("upsert_1", "point_query_5")) is None


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
        description = f"{LABEL} - MERGE operation - {said}"
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
        *stage(1, "scanning files for matches", 1000, 2500),
        *stage(2, "Rewriting 3 files", 3000, 4000),
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
