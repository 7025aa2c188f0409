"""Upserts and compaction on one bill: what is added up, and which runs have such a bill."""

from __future__ import annotations

import pytest
from synthetic_runs import sample, write_run

from keymark.reports.model.projection import load
from keymark.reports.publish import publish
from keymark.reports.sections.compaction_part import compaction_part

ENGINE = "hudi@1.2.0"
# Seconds of the steps. The third upsert of the second cell compacts before it returns.
CELLS = {
    "scheduled": {"upsert_1": 2.0, "upsert_2": 2.0, "upsert_3": 2.0, "compact_rows_2": 5.0},
    "inline": {"upsert_1": 2.0, "upsert_2": 2.0, "upsert_3": 9.0},
    "cow": {"upsert_1": 6.0, "upsert_2": 6.0, "upsert_3": 6.0},
}


def run_of(path, cells=CELLS, *, without=None):
    """A run of three repetitions; one of them may lack a step, as (repetition, step)."""
    samples = [
        sample(
            cell=f"{ENGINE}/record/{variant}",
            engine=ENGINE,
            step=step,
            round=number,
            repetition=repetition,
            value=seconds,
        )
        for variant, steps in cells.items()
        for repetition in range(3)
        for number, (step, seconds) in enumerate(steps.items())
        if (repetition, step) != without
    ]
    return write_run(path, samples, {"run_id": "r1"})


def test_upserts_and_compaction_are_added_up(tmp_path):
    (run,) = load([run_of(tmp_path / "run")])
    part = compaction_part(run)
    bills = {(each["cell"].split("/")[2], each["measure"]): each["median"] for each in part.values}
    assert {name: bills[name, "bill"] for name in CELLS} == pytest.approx(
        {"scheduled": 11.0, "inline": 13.0, "cow": 18.0}
    )
    assert {name: bills[name, "slowest_upsert"] for name in CELLS} == pytest.approx(
        {"scheduled": 2.0, "inline": 9.0, "cow": 6.0}
    )
    assert bills["scheduled", "compaction"] == 5.0
    assert ("inline", "compaction") not in bills


READS = {
    "scheduled": {"point_query_2": 9.0, "point_query": 3.0, "point_query_optimized": 0.5},
    "inline": {"point_query_2": 9.0, "point_query": 1.0, "point_query_optimized": 0.5},
    "cow": {"point_query_2": 9.0, "point_query": 0.6},
}
"""Behind the upserts; those between rounds lie elsewhere in the rounds of a compaction."""


def test_reads_stand_beside_the_bill(tmp_path):
    cells = {name: CELLS[name] | READS[name] for name in CELLS}
    path = run_of(tmp_path / "run", cells)
    (run,) = load([path])
    told = {
        (each["cell"].split("/")[2], each["measure"]): each["median"]
        for each in compaction_part(run).values
    }
    assert {name: told[name, "snapshot_read"] for name in CELLS} == {
        "scheduled": 3.0,
        "inline": 1.0,
        "cow": 0.6,
    }
    assert told["scheduled", "point_query_optimized"] == 0.5
    assert ("cow", "point_query_optimized") not in told
    assert told["scheduled", "bill"] == 11.0
    publish([path])
    page = (path / "report" / "compaction.md").read_text()
    assert "- Snapshot point query at the end: " in page
    assert "- Read-optimised point query at the end: " in page


def test_a_run_without_reads_has_no_columns_for_them(tmp_path):
    path = run_of(tmp_path / "run")
    publish([path])
    assert "point query" not in (path / "report" / "compaction.md").read_text()


def test_a_repetition_without_one_of_the_steps_is_left_out(tmp_path):
    (run,) = load([run_of(tmp_path / "run", without=(2, "compact_rows_2"))])
    counts = {
        (each["cell"].split("/")[2], each["measure"]): each["n"]
        for each in compaction_part(run).values
    }
    assert counts["scheduled", "bill"] == 2
    assert counts["scheduled", "upserts"] == counts["cow", "bill"] == 3


@pytest.mark.parametrize("names", [("cow", "inline"), ("scheduled",)])
def test_runs_without_such_steps_or_with_nothing_to_compare_have_no_section(tmp_path, names):
    (run,) = load([run_of(tmp_path / "run", {name: CELLS[name] for name in names})])
    assert compaction_part(run) is None


def test_page_and_summary_have_the_bill(tmp_path):
    path = run_of(tmp_path / "run")
    published = publish([path])
    assert '<h2 id="compactions">What compaction costs</h2>' in published.index.read_text()
    told = (path / "summary.md").read_text()
    assert "## What compaction costs" in told
    assert "- Upserts and compaction: " in told
    assert published.summary["compactions"]["r1"]
    document = (path / "report" / "compaction.md").read_text().splitlines()
    assert document[0] == "# What compaction costs"
    assert any(line.startswith("- Upserts and compaction: ") for line in document)
