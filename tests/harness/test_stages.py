from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from harness_fakes import time_of

from keymark.harness.measure import counters, event_log
from keymark.harness.measure.counters import write_counters
from keymark.harness.measure.stages import stage_name
from keymark.harness.store.results import Sample, Stage
from keymark.harness.store.store import RunFolder

LOG = Path(__file__).parents[1] / "data" / "event_log" / "spark-3.5.9.zstd"


def info(name, *scopes):
    rdds = [{"Scope": json.dumps({"id": "1", "name": scope})} for scope in scopes]
    return {"Stage Name": name, "RDD Info": [*rdds, {"Name": "ParallelCollectionRDD"}]}


@pytest.mark.parametrize(
    ("found", "said", "name"),
    [
        (
            info("collect at /a/revisions/1f/table/write/bulk.py:158", "Exchange", "Scan parquet "),
            "",
            "collect at table/write/bulk.py (Exchange, Scan parquet)",
        ),
        (info("collect at /a/table/b/harness/x.py:1", "WholeStageCodegen (2)"), "",
         "collect at harness/x.py"),
        (info("count at HoodieEngine.java:118"), "Obtain key ranges",
         "Obtain key ranges count at HoodieEngine.java"),
        (info("collectAsMap at HoodieSparkEngineContext.java:164"),
         "Parallel listing paths file:/a/.hoodie/.temp/2026/M1,file:/a/M2",
         "Parallel listing paths collectAsMap at HoodieSparkEngineContext.java"),
        (info("f at <console>:1", "Exchange", "Exchange"), "", "f at <console> (Exchange)"),
        (info("alone", "mapPartitionsInternal"), "", "alone"),
        ({"RDD Info": [{"Scope": "{"}, {"Scope": None}, {"Scope": "[]"}]}, "", ""),
        ({}, "", ""),
    ],
    ids=range(8),
)  # fmt: skip
def test_names_are_the_same_in_other_revisions(found, said, name):
    assert stage_name(found, said) == name


def test_stages_add_up_to_their_step():
    step = event_log.read(LOG)["native/record|r0|upsert_1"]
    assert {phase for phase, _ in step.stages} == {"tag", "write"}
    for phase in ("tag", "write"):
        sums = [stage.counters for (of, _), stage in step.stages.items() if of == phase]
        assert sum(each.tasks for each in sums) == step.phases[phase].tasks
        written = sum(each.shuffle_write_bytes for each in sums)
        assert written == step.phases[phase].shuffle_write_bytes


def test_a_run_keeps_what_its_stages_did(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    shutil.copy(LOG, folder.events)

    def timed(step, **changes):
        fixed = {"run_id": "r", "cell": "native/record", "engine": "native", "index": "record"}
        values = {"round": 1, "repetition": 0, "warmup": False, "phase": "total", "unit": "s"}
        known = {"metric": "wall_s", "value": 1.0, "verified": True, "valid": True, "reason": ""}
        return Sample(**{**fixed, **values, **known, **changes}, step=step)

    folder.append([timed("upsert_1"), timed("upsert_1", phase="tag"), timed("lookup")])
    folder.append([timed("upsert_1", warmup=True), timed("delete")])
    write_counters(folder)
    found = folder.stages()
    assert {each.step for each in found} == {"upsert_1", "lookup"}
    assert {each.phase for each in found if each.step == "lookup"} == {"total"}
    assert sum(each.tasks for each in found if each.step == "upsert_1") == 10
    assert all(isinstance(each, Stage) and each.repetition == 0 for each in found)
    again = folder.stages_file.read_bytes()
    write_counters(folder)
    assert folder.stages_file.read_bytes() == again
    for log in folder.events.iterdir():  # resumed elsewhere, without its logs
        log.unlink()
    folder.append([timed("delete", repetition=1)])
    write_counters(folder)
    assert folder.stages_file.read_bytes() == again
    folder.keep_only(lambda sample: sample.step != "lookup")  # to be taken again
    write_counters(folder)
    assert {each.step for each in folder.stages()} == {"upsert_1"}


def test_a_table_that_is_loaded_again_off_the_record_leaves_the_stages_of_its_load(
    tmp_path, monkeypatch
):
    """They would not add up to the counters of the load that was measured."""
    folder = RunFolder.create(tmp_path / "run")
    shutil.copy(LOG, folder.events)
    folder.append([time_of("native", "record")])
    write_counters(folder)
    before, logged = folder.stages_file.read_bytes(), event_log.read(LOG)
    again = {"native/record|r0|upsert_1": logged["native/record|r0|lookup"]}
    monkeypatch.setattr(counters, "read_all", lambda _: again)
    write_counters(folder)
    assert folder.stages_file.read_bytes() == before
