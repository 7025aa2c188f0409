from __future__ import annotations

import json

import pytest
from synthetic_runs import INFO, quickstart, sample, write_run

from keymark.reports.errors import ReportError
from keymark.reports.model import facts
from keymark.reports.model.projection import load


def run_with(tmp_path, info):
    return load([write_run(tmp_path / "run", [sample()], {"run_id": "r1"} | info)])[0]


def test_one_sentence_tells_what_was_compared(tmp_path):
    (run,) = load([quickstart(tmp_path / "run")])
    assert facts.compared(run) == (
        "record, global_simple, global_bloom and bucket (engine native), on a table of 200,000 "
        "trips rows in 20 partitions, through 2 upserts of 10,000 rows, 50% of them updates, a "
        "delete of 2,000 keys, a lookup of 10,000 keys and a point query, measured 3 times, "
        "interleaved, after 1 warm-up."
    )


def test_a_copied_table_is_told(tmp_path):
    scenario = INFO["scenario"] | {"table": {"source": "copies/<trips>"}}
    assert "on a copy of the table copies/<trips>" in facts.compared(
        run_with(tmp_path, {"scenario": scenario})
    )


def test_rows_of_the_users_own_are_told(tmp_path):
    scenario = INFO["scenario"] | {"dataset": {"name": "trips", "source": {"path": "my/orders"}}}
    measured = dict.fromkeys(("batch_updates", "batch_inserts", "deletes", "lookup_keys"), 5)
    run = run_with(tmp_path, {"scenario": scenario, "measured": {"rows": 7000, **measured}})
    assert "on the data in my/orders of 7,000 rows" in facts.compared(run)


def test_the_command_measures_again_into_a_new_folder(tmp_path):
    words = ["python", "run_bench.py", "run", "my file.toml", "--out", "runs/x", "--resume"]
    run = run_with(tmp_path, {"command": [*words, "--set", "table.source=s3://me:pw@host/t"]})
    assert facts.command(run) == (
        "python run_bench.py run 'my file.toml' --set table.source=s3://host/t"
    )


def test_without_a_command_the_scenarios_name_must_do(tmp_path):
    run = run_with(tmp_path, {"scenario": {"name": "ci"}})
    assert facts.command(run) == ".venv/bin/python run_bench.py run ci"


def test_secrets_never_reach_a_page(tmp_path):
    conf = {"fs.s3a.secret.key": "hunter2", "fs.s3a.access.key": "AKIA", "url": "s3://u:p@h/x"}
    shown = dict(facts.environment(run_with(tmp_path, {"spark_conf": conf, "cores": 2})))
    assert shown["spark_conf.fs.s3a.secret.key"] == "(left out)"
    assert shown["spark_conf.fs.s3a.access.key"] == "(left out)"
    assert shown["spark_conf.url"] == "s3://h/x"
    assert shown["cores"] == "2"


def test_an_unfinished_run_says_so(tmp_path):
    assert "--resume" in facts.notes(run_with(tmp_path, {"status": "running"}))[0]


@pytest.mark.parametrize("damage", [None, 3, "text", [1], {"engines": 3}, {"dataset": []}])
def test_a_damaged_scenario_is_refused_by_name(tmp_path, damage):
    path = write_run(tmp_path / "run", [sample()])
    record = {"schema_version": 1, "scenario": damage, "versions": {"keymark": "0.0.9"}}
    (path / "run.json").write_text(json.dumps(record))
    with pytest.raises(ReportError, match=r"run\.json cannot be read: scenario.*Keymark 0\.0\.9"):
        load([path])


def test_what_an_earlier_version_did_not_say_is_not_said(tmp_path):
    run = run_with(tmp_path, {})
    assert facts.compared(run) == "record (engine native)."
    assert facts.missing_cells(run) == []
    assert facts.command(run) == ".venv/bin/python run_bench.py run quickstart"
    assert (facts.scenario(run), facts.notes(run)) == ([], [])


def test_cells_of_every_axis_are_missed_by_the_ids_that_run_json_names(tmp_path):
    plan = {"engines": ["native"], "indexes": ["record", "bucket"]}
    run = run_with(tmp_path, {"scenario": plan})
    assert facts.missing_cells(run) == ["native/bucket"]
    planned = ["native/record/shape-a/rows-5/batch-1", "native/record/shape-a/rows-5/batch-2"]
    cells = [{"cell": cell} for cell in planned]
    run = run_with(tmp_path / "b", {"scenario": plan, "cells": [*cells, {"cell": "native/record"}]})
    assert facts.missing_cells(run) == planned


def test_the_sentence_tells_the_sizes_measured_not_those_planned(tmp_path):
    scenario = INFO["scenario"] | {"table": {"source": "/data/trips"}}
    measured = {
        "rows": 1226,
        "batch_updates": 306,
        "batch_inserts": 102,
        "deletes": 7,
        "lookup_keys": 613,
    }
    run = run_with(tmp_path, {"scenario": scenario, "measured": measured})
    sentence = facts.compared(run)
    assert "a copy of the table …/trips of 1,226 rows" in sentence
    assert "upserts of 408 rows, 75% of them updates" in sentence
    assert "a delete of 7 keys, a lookup of 613 keys" in sentence


def test_a_run_without_lookups_tells_of_none(tmp_path):
    work = INFO["scenario"]["workload"] | {"lookup_present": 0, "lookup_absent": 0}
    known = dict.fromkeys(("rows", "batch_updates", "batch_inserts", "deletes", "lookup_keys"), 1)
    scenario = INFO["scenario"] | {"workload": work}
    run = run_with(tmp_path, {"scenario": scenario, "measured": known})
    assert "lookup" not in facts.compared(run)
