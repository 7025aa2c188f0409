"""Keymark's scan and its read by Spark beside what other engines take, in old runs and new ones."""

from __future__ import annotations

import json

import pytest
from synthetic_runs import sample, write_run

from keymark import cli as command_line
from keymark.reports.gate import run_numbers
from keymark.reports.model import projection, tables
from keymark.reports.model.format_answers import answers
from keymark.reports.model.measures import BY_KEY, measures_of
from keymark.reports.publish import publish
from keymark.reports.sections.engines_part import engines_part
from keymark.reports.sections.headline import headline

HUDI, PYTHON = "hudi@0.15.0", "deltalake@1.6.6"
SCAN, READ, HUDIS, LIBRARYS = 0.02, 0.15, 0.3, 0.05


def run_of(path, *, version, engines=("native", HUDI, PYTHON), run_id="r1", rounds=False):
    """A run in which every engine reads one row three times; before schema 3 as it was then."""
    samples = []
    for engine in engines:
        taken = {"point_query": HUDIS if engine == HUDI else LIBRARYS}
        if engine == "native":
            new = {"point_query": SCAN, "point_query_spark": READ}
            taken = {"point_query": READ} if version < 3 else new
        if rounds:
            taken |= {f"point_query_{number}": taken["point_query"] for number in (1, 2)}
        at = {"cell": f"{engine}/record", "engine": engine, "run_id": run_id}
        samples += [
            sample(
                **at,
                schema_version=version,
                step=step,
                repetition=turn,
                value=seconds * (1 + turn / 100),
            )
            for turn in range(3)
            for step, seconds in (*taken.items(), ("upsert_1", 1.0))
        ]
    info = {"schema_version": version, "run_id": run_id, "scenario": {"dataset": {"rows": 10}}}
    return write_run(path, samples, info)


def medians(cells, key):
    (column,) = [c for c in tables.headline(cells).columns if c.measure.key == key]
    values = zip(cells, column.summaries, strict=True)
    return {cell.engine: found and round(found.median / 1.01, 3) for cell, found in values}


def test_a_new_run_has_two_columns_and_hudi_stands_in_both(tmp_path):
    (run,) = projection.load([run_of(tmp_path / "run", version=3)])
    scans = {"native": SCAN, HUDI: HUDIS, PYTHON: LIBRARYS}
    assert medians(run.cells, "point_query") == scans
    reads = {"native": READ, HUDI: HUDIS, PYTHON: None}
    assert medians(run.cells, "point_query_spark") == reads
    steps = [column.measure.key for column in tables.steps(run.cells).columns]
    assert steps == ["upsert_1", "point_query", "point_query_spark"]
    said = " ".join(headline(run, run.cells).more)
    assert "Reading one row by its key takes 20" in said
    assert "Reading one row by its key with Spark takes" in said
    charts = {chart.title: answers for chart, answers in engines_part(run).charts}
    library, hudis = charts[f"Point query: Keymark beside {PYTHON} and {HUDI}"]
    assert (library.topic, hudis.topic) == (f"record · {PYTHON}", f"record · {HUDI}")
    assert library.words.startswith("faster: 0.4")
    assert hudis.words.startswith("faster: 0.06")
    (hudis,) = charts[f"Point query by Spark: Keymark beside {HUDI}"]
    assert hudis.words.startswith("faster: 0.5")
    assert not [c for c in charts if c.startswith("Point query by Spark") and PYTHON in c]


def test_a_run_of_before_says_what_it_said(tmp_path):
    (run,) = projection.load([run_of(tmp_path / "run", version=2)])
    assert "point_query_spark" not in measures_of(run.cells)
    reads = {"native": READ, HUDI: HUDIS, PYTHON: LIBRARYS}
    assert medians(run.cells, "point_query") == reads
    steps = tables.steps(run.cells)
    assert [column.measure.title for column in steps.columns] == ["upsert 1", "point query"]
    assert all(steps.columns[1].summaries)
    assert not [c for c, _ in engines_part(run).charts if c.title.startswith("Point query")]
    page = publish([tmp_path / "run"], tmp_path / "report").index.read_text()
    assert "Point query: reading one record" in page
    assert "Point query by Spark" not in page


def test_other_engines_alone_have_one_point_query(tmp_path):
    (run,) = projection.load([run_of(tmp_path / "run", version=3, engines=(HUDI, PYTHON))])
    assert "point_query_spark" not in measures_of(run.cells)
    assert medians(run.cells, "point_query") == {HUDI: HUDIS, PYTHON: LIBRARYS}


@pytest.mark.parametrize(("version", "seconds"), [(2, READ), (3, SCAN)])
def test_formats_are_asked_with_the_query_that_a_run_has(tmp_path, version, seconds):
    engines = ("native", PYTHON)
    (run,) = projection.load(
        [run_of(tmp_path / "run", version=version, engines=engines, rounds=True)]
    )
    found = {each.question.key: each for each in answers(run.cells)}
    for key in ("key_read", "key_read_after"):
        least = min(seconds, LIBRARYS)
        assert found[key].summary.median == pytest.approx(1.01 * least)


def test_a_scan_is_never_compared_with_a_read_by_spark(tmp_path):
    old, new = (
        run_numbers.load(run_of(tmp_path / f"v{version}", version=version)) for version in (2, 3)
    )
    steps = [
        {key.step for key in side.numbers if key.cell == "native/record"} for side in (old, new)
    ]
    assert steps == [
        {"upsert_1", "point_query_spark"},
        {"upsert_1", "point_query", "point_query_spark"},
    ]
    both = projection.load([tmp_path / "v2", tmp_path / "v3"])
    cells = [cell for run in both for cell in run.cells if cell.engine == "native"]
    scans = [bool(BY_KEY["point_query"].values(cell)) for cell in cells]
    assert (scans, set(measures_of(cells)) == set(BY_KEY)) == ([False, True], True)


def test_a_kept_summary_of_before_has_the_steps_of_now(tmp_path):
    path = tmp_path / "summary.json"
    publish([run_of(tmp_path / "run", version=3)], tmp_path / "report")
    document = json.loads((tmp_path / "report" / "summary.json").read_text())
    for cell in document["cells"]:
        own = [each for each in cell["metrics"] if each["step"] != "point_query_spark"]
        cell["metrics"] = own
    path.write_text(json.dumps(document | {"schema_version": 2}))
    keys = run_numbers.load(path).numbers
    steps = {key.step for key in keys if key.cell == "native/record"}
    assert steps == {"upsert_1", "point_query_spark"}
    assert {key.step for key in keys if key.cell == f"{HUDI}/record"} == {"upsert_1", "point_query"}


def test_the_history_marks_where_the_step_begins_anew(tmp_path, capsys):
    runs = [
        run_of(tmp_path / f"run{place}", version=version, run_id=f"run{place}")
        for place, version in enumerate((2, 2, 3, 3))
    ]
    out = tmp_path / "out"
    command = ["history", *map(str, runs), "--out", str(out), "--json"]
    assert command_line.main(command) == 0
    (begin,) = json.loads(capsys.readouterr().out)["begins"]
    assert (begin["run_id"], begin["step"]) == ("run2", "point_query")
    words = "From run2 on Keymark's point_query is a scan without Spark"
    assert words in (out / "history.md").read_text().replace("\\", "")
    later = ["history", *map(str, runs[2:]), "--out", str(tmp_path / "later"), "--json"]
    assert command_line.main(later) == 0
    assert json.loads(capsys.readouterr().out)["begins"] == []
