from __future__ import annotations

import dataclasses
import json

import pytest
from harness_fakes import SAMPLE

from keymark.harness.errors import RunFolderError
from keymark.harness.store.results import Stage
from keymark.harness.store.run_record import RunRecord
from keymark.harness.store.store import RunFolder

STAGE_COUNTS = (
    *("stages", "tasks", "input_bytes", "shuffle_write_bytes", "shuffle_write_records"),
    *("shuffle_read_bytes", "shuffle_read_records"),
)
CONTRACT = [
    "schema_version", "run_id", "cell", "engine", "index", "step", "round", "repetition",
    "warmup", "phase", "metric", "unit", "value", "verified", "valid", "reason",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    made = RunFolder.create(tmp_path / "run")
    made.write_record(RunRecord(run_id="r1"))
    return made


def test_a_line_has_the_fields_of_the_contract_in_order(folder):
    folder.append([SAMPLE])
    (line,) = folder.samples_file.read_text().splitlines()
    assert list(json.loads(line)) == CONTRACT
    assert folder.samples() == [SAMPLE]


def test_samples_are_appended_never_rewritten(folder):
    folder.append([SAMPLE])
    before = folder.samples_file.read_bytes()
    folder.append([dataclasses.replace(SAMPLE, repetition=1, reason='"\n\u2028é')])
    assert folder.samples_file.read_bytes().startswith(before)
    assert [s.repetition for s in folder.samples()] == [0, 1]
    assert folder.samples()[1].reason == '"\n\u2028é'


def test_every_cut_of_the_last_line_is_survived(folder):
    folder.append([SAMPLE, dataclasses.replace(SAMPLE, repetition=1)])
    content = folder.samples_file.read_bytes()
    first_line = content.index(b"\n") + 1
    for length in range(first_line, len(content)):
        folder.samples_file.write_bytes(content[:length])
        assert folder.samples() == [SAMPLE]
    folder.keep_only(lambda _: True)
    assert folder.samples_file.read_bytes() == content[:first_line]


@pytest.mark.parametrize(
    "change",
    [
        {"value": "1"},
        {"value": None},
        {"value": True},
        {"warmup": 0},
        {"round": 1.5},
        {"schema_version": 4},
        {"cell": None},
    ],
)
def test_a_damaged_line_is_named(folder, change):
    folder.append([SAMPLE])
    values = {**json.loads(SAMPLE.to_json()), **change}
    with folder.samples_file.open("a") as file:
        file.write(json.dumps(values) + "\n")
    with pytest.raises(RunFolderError, match="line 2"):
        folder.samples()


@pytest.mark.parametrize("line", ["[]", "{}", "no", "NaN", '{"value": NaN}'])
def test_lines_that_are_no_samples_are_refused(folder, line):
    folder.samples_file.write_text(line + "\n")
    with pytest.raises(RunFolderError, match="line 1"):
        folder.samples()


def test_unknown_fields_of_a_line_are_ignored(folder):
    folder.samples_file.write_text(json.dumps({**json.loads(SAMPLE.to_json()), "x": 1}) + "\n")
    assert folder.samples() == [SAMPLE]


def test_a_folder_with_files_is_not_taken_for_a_new_run(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match="not empty"):
        RunFolder.create(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"schema_version": 4}'])
def test_a_damaged_run_json_is_refused(folder, content):
    folder.info_file.write_text(content)
    with pytest.raises(RunFolderError, match=r"run\.json"):
        folder.read_record()


def test_a_folder_without_run_json_is_no_run(tmp_path):
    with pytest.raises(RunFolderError, match="not a run folder"):
        RunFolder.open(tmp_path)


def test_a_newer_run_json_tells_which_version_wrote_it(folder):
    folder.info_file.write_text('{"schema_version": 4, "versions": {"keymark": "9.1"}, "cells": 7}')
    with pytest.raises(RunFolderError, match=r"schema version 4, newer than 3; Keymark 9\.1"):
        folder.read_record()


def test_hudis_tables_of_before_schema_2_are_of_version_6(folder):
    engines = ["native", "hudi@0.15.0", "hudi@1.1.1", "hudi@1.0.2-v6"]
    record = {"schema_version": 1, "scenario": {"engines": engines}, "failed": {"hudi@1.1.1/x": ""}}
    folder.info_file.write_text(json.dumps(record))
    old = {"schema_version": 1, "cell": "hudi@1.1.1/record", "engine": "hudi@1.1.1"}
    folder.samples_file.write_text(json.dumps({**json.loads(SAMPLE.to_json()), **old}) + "\n")
    folder.append([dataclasses.replace(SAMPLE, cell="hudi@1.1.1/record", engine="hudi@1.1.1")])
    found = folder.read_record()
    assert found.scenario.engines == ["native", "hudi@0.15.0", "hudi@1.1.1-v6", "hudi@1.0.2-v6"]
    assert found.failed == {"hudi@1.1.1-v6/x": ""}
    first, second = folder.samples()
    assert (first.cell, first.engine) == ("hudi@1.1.1-v6/record", "hudi@1.1.1-v6")
    assert (second.cell, second.engine) == ("hudi@1.1.1/record", "hudi@1.1.1")


@pytest.mark.parametrize(
    ("engine", "step", "now"),
    [
        ("native", "point_query", "point_query_spark"),
        ("native@worktree", "point_query_5", "point_query_spark_5"),
        ("native", "lookup", "lookup"),
        ("hudi@0.15.0", "point_query", "point_query"),
        ("hudi@1.2.0", "point_query_optimized", "point_query_optimized"),
    ],
)
def test_keymarks_point_query_was_by_spark_before_schema_3(folder, engine, step, now):
    told = {"cell": f"{engine}/record", "engine": engine, "step": step}
    old = dataclasses.replace(SAMPLE, schema_version=2, **told)
    folder.append([old, dataclasses.replace(SAMPLE, **told)])
    first, second = folder.samples()
    assert (first.step, second.step) == (now, step)
    assert first.schema_version == second.schema_version == 3
    numbers = dict.fromkeys(("wall_s", *STAGE_COUNTS), 1)
    stage = Stage(cell=old.cell, step=step, repetition=0, phase="total", name="a", **numbers)
    folder.write_stages([stage])
    assert [each.step for each in folder.stages()] == [step]
    folder.info_file.write_text('{"schema_version": 2}')
    assert [each.step for each in folder.stages()] == [now]


def test_a_record_keeps_what_it_does_not_know_and_only_what_was_said(folder):
    content = {"schema_version": 1, "run_id": "r1", "later": {"x": [1]}, "machine": {"gpu": "none"}}
    folder.info_file.write_text(json.dumps(content))
    record = folder.read_record()
    assert record.document == content
    folder.write_record(record.but(status="complete"))
    assert json.loads(folder.info_file.read_text()) == content | {"status": "complete"}


def test_a_record_takes_known_fields_of_the_right_type_only():
    with pytest.raises(ValueError, match=r"run\.json has no stauts"):
        RunRecord(run_id="r").but(stauts="complete")
    with pytest.raises(ValueError, match="repetitions"):
        RunRecord(run_id="r").but(repetitions="3")
