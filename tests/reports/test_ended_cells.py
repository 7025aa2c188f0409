"""Cells that ended at a limit of memory or time: results, not failures, wherever they are told."""

from __future__ import annotations

import json

import pytest
from synthetic_runs import sample, write_run

from keymark.reports.gate import run_numbers
from keymark.reports.model import tables
from keymark.reports.model.limits import limits
from keymark.reports.model.projection import load
from keymark.reports.model.tables import Standing
from keymark.reports.publish import publish
from keymark.reports.sections.formats_part import formats_part

NATIVE, DELTA = "native/record", "deltalake@1.6.6/merge"
MEMORY = "out of memory at 2,000 rows: deltalake held more than 8.0 GB (schedule.memory_gb)"


def step_of(cell, step, *, repetition=0, value=1.0, ended=""):
    """One step; `ended` says at which limit it ended."""
    engine, index, *_ = cell.split("/")
    number = step.rpartition("_")[2]
    return sample(
        cell=cell,
        engine=engine,
        index=index,
        step=step,
        round=int(number) if number.isdecimal() else 0,
        repetition=repetition,
        value=value,
        valid=not ended,
        reason=ended,
    )


def run_of(path, samples, *, rows=None, **info):
    """A run of these samples; `rows` says by cell how many its table is loaded with."""
    cells = list(dict.fromkeys(each.cell for each in samples))
    planned = [{"cell": c, "index": c.split("/")[1], "rows": (rows or {}).get(c, 9)} for c in cells]
    return write_run(path, samples, {"run_id": "r1", "cells": planned, **info})


def upserts(cell, *, repetitions=3, value=1.0):
    return [
        step_of(cell, f"upsert_{number}", repetition=repetition, value=value)
        for repetition in range(repetitions)
        for number in (1, 2)
    ]


def ended_in_a_round(path):
    """Three repetitions of one engine; another one ended in the second round of its first."""
    samples = [
        *upserts(NATIVE, value=2.0),
        step_of(DELTA, "upsert_1", value=5.0),
        step_of(DELTA, "upsert_2", value=60.0, ended=MEMORY),
    ]
    return run_of(path, samples, ended={DELTA: f"upsert_2: {MEMORY}"})


def ended_in_its_load(path):
    samples = [*upserts(NATIVE), step_of(DELTA, "bulk_insert", value=60.0, ended=MEMORY)]
    return run_of(path, samples, ended={DELTA: f"bulk_insert: {MEMORY}"})


def test_what_was_measured_before_the_limit_counts(tmp_path):
    (run,) = load([ended_in_a_round(tmp_path / "run")])
    cells = {cell.cell: cell for cell in run.cells}
    delta = cells[DELTA]
    assert (delta.verified, delta.failed, delta.reasons) == (True, False, ())
    assert delta.ended == f"upsert_2: {MEMORY}"
    assert delta.values("upsert", "total", "wall_s") == {(0, 0): 5.0}
    # It is told once: as the limit, and not as values that were left out.
    assert run.notices == ()


def test_a_cell_that_ended_in_its_load_has_no_numbers_and_has_not_failed(tmp_path):
    (run,) = load([ended_in_its_load(tmp_path / "run")])
    delta = next(cell for cell in run.cells if cell.cell == DELTA)
    assert (delta.verified, delta.failed, delta.series) == (False, False, {})


def test_a_wrong_answer_is_a_failure_whatever_limit_came_then(tmp_path):
    wrong = sample(step="upsert_1", verified=False, reason="3 rows too many")
    info = {"ended": {NATIVE: f"upsert_2: {MEMORY}"}}
    (run,) = load([run_of(tmp_path / "one", [sample(), wrong], **info)])
    assert (run.cells[0].failed, run.cells[0].ended) == (True, "")
    said = {**info, "failed": {NATIVE: "it did not start"}}
    (run,) = load([run_of(tmp_path / "two", [sample()], **said)])
    assert (run.cells[0].reasons, run.cells[0].ended) == (("it did not start",), "")


@pytest.mark.parametrize("ended", [ended_in_a_round, ended_in_its_load])
def test_page_summary_and_json_call_the_run_verified_and_name_the_limit(tmp_path, ended):
    path = ended(tmp_path / "run")
    published = publish([path])
    page, words = published.index.read_text(), (path / "summary.md").read_text()
    assert published.report.verified
    assert "✓ Verified." in page
    assert "Not verified" not in page + words
    for text in (page, words):
        assert "Ended at a limit of memory or time, which is a result" in text
        assert "out of memory at 2,000 rows: deltalake held more than 8.0 GB" in text
    summary = json.loads((path / "summary.json").read_text())
    assert summary["verified"] is True
    cells = {cell["cell"]: cell for cell in summary["cells"]}
    assert all(cell["verified"] for cell in cells.values())
    assert MEMORY in cells[DELTA]["ended"]
    assert "ended" not in cells[NATIVE]
    assert bool(cells[DELTA]["metrics"]) == (ended is ended_in_a_round)


def test_a_few_values_before_a_limit_do_not_hide_who_is_best(tmp_path):
    others = upserts("hudi@1.2.0/record", value=4.0)
    path = ended_in_a_round(tmp_path / "one")
    (limited,) = load([path])
    samples = [*limited.samples, *others]
    (run,) = load([run_of(tmp_path / "two", samples, ended=dict(limited.record.ended))])
    columns = {each.measure.key: each for each in tables.headline(run.cells).columns}
    found = columns["write_latency"]
    assert (found.standing, len(found.leaders)) == (Standing.BEST, 1)
    assert [bool(each) for each in found.summaries] == [True] * 3
    ((_, said),) = formats_part(run).tables
    assert said[0].words.startswith("record · native is best with 2.00 s; record · hudi@1.2.0")


@pytest.mark.parametrize("ended", [ended_in_a_round, ended_in_its_load])
def test_the_section_on_formats_says_who_ended_and_where(tmp_path, ended):
    (run,) = load([ended(tmp_path / "run")])
    ((_, said),) = formats_part(run).tables
    step = "upsert_2" if ended is ended_in_a_round else "bulk_insert"
    assert (said[-1].topic, said[-1].words) == ("merge · deltalake@1.6.6", f"{step}: {MEMORY}.")


def sized(path, ends):
    """Cells of several sizes; those of `ends` ended in their load."""
    names = {f"{DELTA}/rows-{rows}": rows for rows in (1000, 2000, 5000)}
    others = {f"pyiceberg@0.12.0/upsert/rows-{rows}": rows for rows in names.values()}
    samples, ended = [], {}
    for cell, rows in {**names, **others}.items():
        if cell.startswith("delta") and rows in ends:
            samples.append(step_of(cell, "bulk_insert", ended=MEMORY))
            ended[cell] = f"bulk_insert: {MEMORY}"
        else:
            samples += upserts(cell, repetitions=1)
    return run_of(path, samples, rows={**names, **others}, ended=ended)


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ((2000, 5000), "the largest size at which it took all steps is 1,000 rows"),
        # A larger table that came through does not undo the smaller one that did not.
        ((2000,), "the largest size at which it took all steps is 1,000 rows"),
        ((5000,), "the largest size at which it took all steps is 2,000 rows"),
        ((1000, 2000, 5000), "there is no smaller size at which it took all steps"),
    ],
)
def test_of_several_sizes_the_largest_that_came_through_is_named(tmp_path, ends, words):
    (run,) = load([sized(tmp_path / "run", ends)])
    ((grid, said),) = formats_part(run).tables
    assert grid.caption == "5,000 rows"
    assert [each.words for each in said if "deltalake" in each.topic] == [
        f"bulk_insert: {MEMORY}; {words}."
    ]


def test_where_nobody_ended_there_are_no_limits(tmp_path):
    (run,) = load([sized(tmp_path / "run", ())])
    assert limits(run.cells) == []


@pytest.mark.parametrize("kept", [True, False])
def test_a_gate_judges_no_cell_that_ended(tmp_path, kept):
    """Steps that nobody took would pass otherwise."""
    path = ended_in_a_round(tmp_path / "run")
    publish([path])
    numbers = run_numbers.load(path / "summary.json" if kept else path)
    assert MEMORY in numbers.wrong[DELTA]
    assert {key.cell for key in numbers.numbers} == {NATIVE}
