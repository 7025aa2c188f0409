"""What changed between releases: counters that repeat, times within a repetition."""

from __future__ import annotations

import json

import pytest
from synthetic_runs import sample, write_run

from keymark.reports.model.projection import load
from keymark.reports.publish import publish
from keymark.reports.sections.releases_part import releases_part

OLD, NEW, NEWER = "hudi@1.0.2", "hudi@1.1.1", "hudi@1.2.0"


def run_of(tmp_path, measured, *, index="record"):
    """A run whose engines take `measured[engine][metric]` for an upsert, per repetition."""
    samples = [
        sample(
            cell=f"{engine}/{index}",
            engine=engine,
            index=index,
            step="upsert_1",
            phase="total",
            metric=metric,
            repetition=at,
            value=value,
        )
        for engine, metrics in measured.items()
        for metric, values in metrics.items()
        for at, value in enumerate(values)
    ]
    return write_run(tmp_path / "run", samples, {"run_id": "r1"})


def times_and_tasks(times, tasks):
    return {"wall_s": times, "tasks": [tasks] * len(times)}


def test_each_release_stands_beside_the_one_before(tmp_path):
    measured = {
        NEWER: times_and_tasks([1.0, 1.1, 1.2], 50.0),
        OLD: times_and_tasks([4.0, 4.4, 4.8], 100.0),
        NEW: times_and_tasks([2.0, 2.2, 2.4], 100.0),
        "native": times_and_tasks([0.1, 0.1, 0.1], 0.0),
    }
    (run,) = load([run_of(tmp_path, measured)])
    part = releases_part(run)
    ((grid, findings),) = part.tables
    assert grid.caption == "record"
    assert [row.label for row in grid.rows] == [OLD, NEW, NEWER]
    assert [each.topic for each in findings] == [NEW, NEWER]
    assert findings[0].words == (
        "beside hudi@1.0.2; changed: upsert 0.500x; no difference shown: tasks of an upsert."
    )
    assert "tasks of an upsert 100 to 50 (0.500x) and upsert 0.500x" in findings[1].words
    shown = {(each["after"], each["measure"]): each["is_shown"] for each in part.values}
    assert shown[f"{NEW}/record", "tasks"] is False
    assert shown[f"{NEWER}/record", "tasks"] is True


def test_a_counter_that_varies_by_less_than_a_hundredth_has_not_changed(tmp_path):
    measured = {
        OLD: {"bytes_written": [1000.0, 1000.0]},
        NEW: {"bytes_written": [1009.0, 1009.0]},
    }
    (run,) = load([run_of(tmp_path, measured)])
    assert [each["is_shown"] for each in releases_part(run).values] == [False]


@pytest.mark.parametrize("engines", [("native", NEW), (NEW,)])
def test_without_two_releases_there_is_no_section(tmp_path, engines):
    measured = {engine: times_and_tasks([1.0, 1.0, 1.0], 1.0) for engine in engines}
    (run,) = load([run_of(tmp_path, measured)])
    assert releases_part(run) is None


def test_versions_of_tables_of_one_release_are_compared_too(tmp_path):
    measured = {
        NEWER: times_and_tasks([1.0, 1.0, 1.0], 9.0),
        f"{NEWER}-v6": times_and_tasks([2.0, 2.0, 2.0], 9.0),
    }
    (run,) = load([run_of(tmp_path, measured)])
    ((grid, _),) = releases_part(run).tables
    assert [row.label for row in grid.rows] == [f"{NEWER}-v6", NEWER]


def test_page_and_summary_say_what_changed(tmp_path):
    measured = {
        OLD: times_and_tasks([4.0, 4.4, 4.8], 100.0),
        NEW: times_and_tasks([2.0, 2.2, 2.4], 90.0),
    }
    path = run_of(tmp_path, measured)
    published = publish([path])
    page = published.index.read_text()
    assert "What changed between releases" in page
    summary = json.loads((path / "summary.json").read_text())
    assert {each["measure"] for each in summary["releases"]["r1"]} == {"tasks", "write_latency"}


def test_what_runs_is_a_table_of_releases_and_what_does_not_is_told(tmp_path):
    failed = "bulk_insert: failed: CellError: HoodieNotSupportedException: not with this table"
    samples = [
        sample(cell=f"{engine}/{index}", engine=engine, index=index, **given)
        for engine, index, given in (
            (OLD, "record", {}),
            (NEWER, "record", {"verified": False, "reason": failed}),
            (NEWER, "bloom", {"verified": False, "reason": "the table holds 1 rows instead of 2"}),
            (f"{NEWER}-v6", "record", {}),
        )
    ]
    skipped = {f"{OLD}/partitioned_record": "hudi@1.0.2 has no index partitioned_record"}
    path = write_run(tmp_path / "run", samples, {"run_id": "r1", "skipped": skipped})
    published = publish([path])
    found = published.report.outcomes
    assert found.finding == "2 of 4 cells of Hudi are verified, 1 refused, 1 wrong answer."
    assert found.grid.heads == ("record", "bloom")
    marks = {row.label: [entry.value for entry in row.entries] for row in found.grid.rows}
    assert marks[OLD] == ["verified", "—"]
    assert marks[NEWER] == ["refused", "wrong answer"]
    assert list(marks) == [OLD, f"{NEWER}-v6", NEWER]
    told = (path / "report" / "outcomes.md").read_text()
    assert "HoodieNotSupportedException: not with this table" in told
    assert "has no index partitioned" in told
