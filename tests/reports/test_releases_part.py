"""What changed between releases: counters that repeat, times within a repetition."""

from __future__ import annotations

import json
import re
import shlex
from itertools import pairwise

import pytest
from synthetic_runs import sample, write_run

from keymark.harness.run import workload
from keymark.harness.scenario import matrix, scenario
from keymark.harness.scenario.planned import cell_records, describe
from keymark.reports.model.projection import load
from keymark.reports.publish import publish
from keymark.reports.sections.outcomes_part import outcomes_part
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
    assert grid.heads == (OLD, NEW, NEWER)
    assert [row.label for row in grid.rows] == ["Tasks of an upsert", "Upsert"]
    assert [each.topic for each in findings] == [NEW, NEWER]
    assert findings[0].words == (
        "beside hudi@1.0.2; changed: upsert 0.500x; no difference shown: 1 counter."
    )
    assert "tasks of an upsert 100 to 50 (0.500x) and upsert 0.500x" in findings[1].words
    shown = {(each["after"], each["measure"]): each["is_shown"] for each in part.values}
    assert shown[f"{NEW}/record", "upsert_tasks"] is False
    assert shown[f"{NEWER}/record", "upsert_tasks"] is True


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
    assert grid.heads == (f"{NEWER}-v6", NEWER)


def test_counters_of_every_step_are_compared_and_those_that_nothing_has_left_out(tmp_path):
    steps = ("bulk_insert", "upsert_1", "delete", "lookup", "point_query")
    counted = ("jobs", "tasks", "files_read", "get_requests", "put_requests", "table_bytes")
    samples = [
        sample(
            cell=f"{engine}/record", engine=engine, step=step, metric=metric, value=value * factor
        )
        for engine, factor in ((OLD, 1.0), (NEW, 2.0))
        for step in steps
        for metric, value in zip(counted, (3.0, 9.0, 0.0, 50.0, 4.0, 1e6), strict=True)
    ]
    (run,) = load([write_run(tmp_path / "run", samples, {"run_id": "r1"})])
    part = releases_part(run)
    ((grid, (finding,)),) = part.tables
    told = [row.label for row in grid.rows]
    of_a_load = [label.removesuffix(" of a load") for label in told[:4]]
    assert of_a_load == ["Jobs", "Tasks", "GET requests", "PUT requests"]
    assert told[-1] == "Table on disk"
    assert {f"Jobs of {words}" for words in ("an upsert", "a delete", "a lookup")} < set(told)
    assert "GET requests of a point query" in told
    assert "Base files read by a load" not in told
    assert finding.words.count("(2.00x)") == 6
    assert finding.words.endswith("and 15 counters more.")
    assert len(part.values) == len(told) == 21


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
    told = {each["measure"] for each in summary["releases"]["r1"]}
    assert told == {"upsert_tasks", "write_latency"}


def test_what_changed_is_a_document_of_its_own_that_begins_with_the_whole_span(tmp_path):
    measured = {
        OLD: times_and_tasks([4.0, 4.4, 4.8], 100.0),
        NEW: times_and_tasks([2.0, 2.2, 2.4], 90.0),
        NEWER: times_and_tasks([1.0, 1.1, 1.2], 80.0),
    }
    path = run_of(tmp_path, measured)
    publish([path])
    told = (path / "report" / "releases.md").read_text().splitlines()
    assert told[0] == "# What changed between releases of Hudi"
    assert told[2] == (
        "- record, hudi@1.2.0: beside hudi@1.0.2; changed: tasks of an upsert 100 to 80 (0.800x) "
        "and upsert 0.250x."
    )
    assert "| measure | hudi@1.0.2 | hudi@1.1.1 | hudi@1.2.0 |" in told


def outcomes_of(tmp_path, given, info=None):
    """The section of a run with samples of (engine, index, what they say), and its document."""
    samples = [
        sample(cell=f"{engine}/{index}", engine=engine, index=index, **said)
        for engine, index, said in given
    ]
    path = write_run(tmp_path / "run", samples, {"run_id": "r1", **(info or {})})
    published = publish([path])
    return published.report.outcomes, (path / "report" / "outcomes.md").read_text()


def test_an_index_that_a_release_lacks_is_refused_in_its_own_words(tmp_path):
    said = "IllegalArgumentException: No enum constant IndexType.RECORD_LEVEL_INDEX"
    lacking = wrong(f"failed: CellError: {said}", step="bulk_insert")
    given = [(NEWER, "partitioned_record", {}), (OLD, "partitioned_record", lacking)]
    found, told = outcomes_of(tmp_path, given)
    marks = {row.label: row.entries[1].value for row in found.grid.rows}
    assert marks == {OLD: "refused", NEWER: "verified"}
    assert said in told


def test_a_reason_that_cells_share_is_told_once(tmp_path):
    lacking = wrong("failed: CellError: no such index", step="bulk_insert")
    given = [(each, "bloom", lacking) for each in (OLD, NEW, NEWER)] + [(NEW, "record", {})]
    found, told = outcomes_of(tmp_path, given)
    (reason,) = found.reasons
    assert reason.names == tuple(f"{each}/bloom" for each in (OLD, NEW, NEWER))
    assert "These alone, for the first: `keymark run" in told
    assert f"--engine {OLD} --index bloom" in reason.command


def test_a_wrong_answer_on_some_data_marks_the_whole_place(tmp_path):
    shapes = ("random", "time_ordered")
    cells = [
        {"cell": f"{engine}/record/shape-{shape}", "engine": engine, "index": "record",
         "options": {}, "shape": shape, "rows": 10, "batch": 0}
        for engine in (OLD, NEW) for shape in shapes
    ]  # fmt: skip
    samples = [
        sample(cell=each["cell"], engine=each["engine"], **said)
        for each in cells
        for said in [wrong("1 row") if (each["engine"], each["shape"]) == (NEW, "random") else {}]
    ]
    (run,) = load([write_run(tmp_path / "run", samples, {"run_id": "r1", "cells": cells})])
    found = outcomes_part([run])
    marks = {row.label: row.entries[1].value for row in found.grid.rows}
    assert marks == {OLD: "verified", NEW: "wrong answer"}
    assert found.finding == "1 of 2 cells of Hudi are verified, 1 wrong answer."


def wrong(reason, **more):
    return {"verified": False, "reason": reason, **more}


def test_what_runs_is_a_table_of_releases_and_what_does_not_is_told(tmp_path):
    refused = "failed: CellError: HoodieException: Such an index does not work with COW table."
    given = (
        (OLD, "record", {}),
        (NEWER, "record", wrong(refused, step="bulk_insert")),
        (NEWER, "bloom", wrong("the table holds 1 rows instead of 2")),
        (f"{NEWER}-v6", "record", {}),
        (f"{NEWER}-v6", "bloom", wrong("failed: CellError: NullPointerException: ")),
    )
    skipped = {f"{OLD}/bloom": "hudi@1.0.2 has no index bloom"}
    found, told = outcomes_of(tmp_path, given, {"skipped": skipped})
    assert found.finding == (
        "2 of 6 cells of Hudi are verified, 2 refused, 1 failed, 1 wrong answer."
    )
    assert found.grid.heads == ("table version", "record", "bloom")
    marks = {row.label: [entry.value for entry in row.entries] for row in found.grid.rows}
    assert marks == {
        OLD: ["8", "verified", "refused"],
        f"{NEWER}-v6": ["6", "verified", "failed"],
        NEWER: ["9", "refused", "wrong answer"],
    }
    assert list(marks) == [OLD, f"{NEWER}-v6", NEWER]
    assert "HoodieException: Such an index does not work with COW table" in told
    assert "has no index bloom" in told


def test_what_fails_is_told_with_the_steps_that_lead_there_and_a_command(tmp_path):
    steps = [
        *("bulk_insert", "upsert_1", "upsert_2", "delete", "lookup", "point_query"),
        "point_query_optimized",
    ]
    given = [(OLD, "record", {}), *((NEW, "record", {"step": step}) for step in steps)]
    given.append((NEW, "record", wrong("failed: CellError: no plan", step="compact_rows")))
    workload = {
        "rounds": 3,
        "delete": True,
        "lookup_present": 100,
        "point_query": True,
        "merge_on_read": ["mor"],
    }
    info = {
        "command": ["keymark", "run", "hudi_matrix", "--out", "runs/m", "--set", "dataset.rows=9"],
        "scenario": {"name": "hudi_matrix", "workload": workload},
    }
    found, told = outcomes_of(tmp_path, given, info)
    (reason,) = found.reasons
    assert reason.names == (f"{NEW}/record",)
    assert reason.words == (
        "failed: compact_rows: failed: CellError: no plan. "
        "Steps: bulk_insert, upsert_1, upsert_2, delete, compact_rows."
    )
    assert reason.command == (
        f"keymark run hudi_matrix --engine {NEW} --index record --set dataset.rows=9 "
        "--set workload.rounds=2 --set workload.lookup_present=0 --set workload.point_query=false"
    )
    assert f"These alone: `{reason.command}`" in told


def test_other_variants_are_left_out_of_the_command(tmp_path):
    shared = {"engine": NEW, "index": "record"}
    samples = [
        sample(cell=f"{NEW}/record/cow", **shared),
        sample(cell=f"{NEW}/record/mor", **shared, **wrong("failed: no", step="bulk_insert")),
        sample(cell=f"{OLD}/record/cow", **shared | {"engine": OLD}),
    ]
    (run,) = load([write_run(tmp_path / "run", samples, {"run_id": "r1"})])
    (reason,) = outcomes_part([run]).reasons
    assert reason.command == (
        f"keymark run hudi_matrix --engine {NEW} --index record "
        "--set 'table.variant_indexes.cow=[]'"
    )


def test_a_lookup_that_fails_needs_no_other_reads(tmp_path):
    given = [
        (OLD, "record", {}),
        *((NEW, "record", {"step": step}) for step in ("bulk_insert", "upsert_1")),
        (NEW, "record", wrong("2 keys have another place", step="lookup")),
    ]
    workload = {"rounds": 1, "delete": False, "lookup_present": 9, "point_query": True}
    info = {"scenario": {"name": "own", "workload": workload | {"merge_on_read": ["mor"]}}}
    found, _ = outcomes_of(tmp_path, given, info)
    assert found.reasons[0].words.startswith("wrong answer: lookup: 2 keys have another place.")
    assert found.reasons[0].command == (
        f"keymark run own --engine {NEW} --index record --set workload.point_query=false "
        "--set 'workload.merge_on_read=[]'"
    )


def failing(name, *, engines):
    """A run of a scenario for each kind of step at which its first cell of Hudi may fail."""
    resolved = scenario.load(name, overrides=engines)
    cell = next(each for each in matrix.expand(resolved) if each.engine.startswith("hudi"))
    names = [step.name for step in workload.steps(resolved.workload)]
    kinds = {re.sub(r"_\d+$", "", each): names.index(each) for each in reversed(names)}
    shared = {"engine": cell.engine, "index": cell.index, "cell": cell.cell_id}
    info = {
        "command": ["keymark", "run", name],
        "scenario": describe(resolved),
        "cells": [each.model_dump() for each in cell_records(resolved)],
    }
    for taken in [["build_index"], *(names[: at + 1] for at in kinds.values())]:
        samples = [sample(**shared, step=step) for step in ("bulk_insert", *taken[:-1])]
        samples.append(sample(**shared, **wrong("failed: no", step=taken[-1])))
        samples.append(sample(cell=f"{OLD}/none", engine=OLD, index="none"))
        yield taken[-1], samples, info


# Those of Keymark alone are left out: they load with no release of Hudi.
OF_HUDI = set(scenario.builtin_names()) - {"block_size", "gdpr_delete", "lookup_model", "mappings"}


@pytest.mark.parametrize("name", sorted(OF_HUDI))
def test_the_command_of_each_step_of_each_scenario_is_one_that_loads(tmp_path, name):
    """Also where the scenario's other settings need what the command leaves out."""
    has_hudi = any(each.startswith("hudi") for each in scenario.load(name).engines)
    engines = {} if has_hudi else {"engines": ["hudi@0.15.0"]}
    for number, (step, samples, info) in enumerate(failing(name, engines=engines)):
        (run,) = load([write_run(tmp_path / str(number), samples, {"run_id": "r1", **info})])
        (reason,) = (each for each in outcomes_part([run]).reasons if each.command)
        words = shlex.split(reason.command)
        options = list(pairwise(words[3:]))
        given = {option: value for option, value in options if option in ("--engine", "--index")}
        repeated = scenario.load(
            words[2],
            sets=[value for option, value in options if option == "--set"],
            overrides={"engines": [given["--engine"]], "indexes": [given["--index"]]},
        )
        taken = [each.name for each in workload.steps(repeated.workload)]
        assert step == "build_index" or step in taken, (step, reason.command)


def test_an_engine_that_did_not_start_is_told(tmp_path):
    given = [(OLD, "record", {}), (NEW, "record", {})]
    failed = {f"{NEWER}/record": "it did not start: no memory"}
    found, told = outcomes_of(tmp_path, given, {"failed": failed})
    assert [each.names for each in found.reasons] == [(f"{NEWER}/record",)]
    assert "it did not start: no memory." in told


def test_a_cell_that_ended_at_a_limit_is_no_wrong_answer(tmp_path):
    limit = "ended after 3,600 s at 9 rows: a load or a repetition takes at most 3,600 s"
    given = [
        (OLD, "record", {}),
        (NEW, "record", {"step": "bulk_insert"}),
        (NEW, "record", {"step": "upsert_1", "valid": False, "reason": limit}),
    ]
    info = {"ended": {f"{NEW}/record": f"upsert_1: {limit}"}}
    found, _ = outcomes_of(tmp_path, given, info)
    assert found.finding == "1 of 2 cells of Hudi are verified, 1 ended at a limit."
    (reason,) = found.reasons
    assert reason.words == (f"ended at a limit: upsert_1: {limit}. Steps: bulk_insert, upsert_1.")
