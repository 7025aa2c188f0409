"""Variants of a table in one engine of Hudi: what each changes beside the first one."""

from __future__ import annotations

import pytest
from synthetic_runs import INFO, sample, write_run

from keymark.reports.model.projection import load
from keymark.reports.publish import publish
from keymark.reports.sections.variants_part import variants_part

HUDI = "hudi@1.2.0"
# Seconds and jobs of an upsert, as the scenario has its variants.
MEASURED = {
    f"{HUDI}/record/default": (4.0, 20.0),
    f"{HUDI}/record/compact_each": (8.0, 20.0),
    f"{HUDI}/record/no_statistics": (4.0, 15.0),
}


def run_of(path, measured=MEASURED):
    samples = [
        sample(
            cell=cell,
            engine=cell.partition("/")[0],
            metric=metric,
            repetition=at,
            value=value,
        )
        for cell, numbers in measured.items()
        for metric, value in zip(("wall_s", "jobs"), numbers, strict=True)
        for at in range(3)
    ]
    planned = [{"cell": cell, "index": "record"} for cell in measured]
    return write_run(path, samples, INFO | {"run_id": "r1", "cells": planned})


def test_each_variant_stands_beside_the_first_one_of_the_scenario(tmp_path):
    (run,) = load([run_of(tmp_path / "run")])
    part = variants_part(run)
    ((grid, findings),) = part.tables
    assert grid.caption == f"{HUDI} · record"
    assert grid.heads == ("default", "compact_each", "no_statistics")
    assert [row.label for row in grid.rows] == ["Jobs of an upsert", "Upsert"]
    assert {each.topic: each.words for each in findings} == {
        "compact_each": "beside default; changed: upsert 2.00x; no difference shown: 1 counter.",
        "no_statistics": (
            "beside default; changed: jobs of an upsert 20 to 15 (0.750x); "
            "no difference shown: upsert."
        ),
    }
    assert {(each["before"].split("/")[2], each["measure"]) for each in part.values} == {
        ("default", "upsert_jobs"),
        ("default", "write_latency"),
    }


def test_keymarks_own_variants_have_a_table_of_their_own_beside_hudis(tmp_path):
    own = {"native/record/default": (1.0, 3.0), "native/record/own_secondary": (2.0, 5.0)}
    (run,) = load([run_of(tmp_path / "run", MEASURED | own)])
    captions = [grid.caption for grid, _ in variants_part(run).tables]
    assert captions == ["native · record", f"{HUDI} · record"]


@pytest.mark.parametrize(
    "cells",
    [
        ("native/record/default", "native/record/other"),
        (f"{HUDI}/record/default", "native/record/default"),
        (f"{HUDI}/record/cow", f"{HUDI}/record/mor", "hudi@1.1.1/record/cow"),
        (f"{HUDI}/record/hot", f"{HUDI}/record/all", "delta@3.3.2/merge/hot"),
    ],
)
def test_other_runs_have_no_such_section(tmp_path, cells):
    (run,) = load([run_of(tmp_path / "run", dict.fromkeys(cells, (1.0, 1.0)))])
    assert variants_part(run) is None


def test_page_summary_and_a_document_of_its_own_say_it(tmp_path):
    path = run_of(tmp_path / "run")
    published = publish([path])
    assert '<h2 id="variants">Variants of a table</h2>' in published.index.read_text()
    assert "## Variants of a table" in (path / "summary.md").read_text()
    assert published.summary["variants"]["r1"]
    told = (path / "report" / "variants.md").read_text().splitlines()
    assert told[0] == "# What options of a table change"
    assert "- compact_each: beside default; changed: upsert 2.00x; no difference" in told[4]
    assert "| measure | default | compact_each | no_statistics |" in told
