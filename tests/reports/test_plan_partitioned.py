"""The record index of each partition in `plan` and `advise`: its formulas, and where they lack."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from plan_cases import plan
from scipy.optimize import nnls
from synthetic_plan import place, plan_run, true
from synthetic_survey import healthy, record_index, shards

from keymark.indexes.spec import TASKS, THREADS
from keymark.indexes.workload import Workload, touched
from keymark.reports.advise.advice import advise, document
from keymark.reports.advise.render import lines
from keymark.reports.advise.situation import Asked
from keymark.reports.model.projection import load as load_runs
from keymark.reports.plan import calibration, fit
from keymark.reports.plan.answer import PlanRequest
from keymark.reports.plan.answer import plan as planned
from keymark.reports.plan.decide import options_of
from keymark.reports.plan.formulas import HUDI, KEYMARK
from keymark.reports.plan.observe import observations
from keymark.reports.plan.predict import quantity
from keymark.reports.plan.render import lines as plan_lines
from keymark.reports.plan.untold import telling

RESULTS = Path(__file__).parents[2] / "results"
NAME = "partitioned_record"
RELEASE = "hudi@1.2.0"
MANY = Workload(rows=1_000_000, batch=20_000, cores=2, partitions=1_000, files=2_000)
SIZE = ("--records", 1_000_000, "--batch", 10_000)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Calibration runs of both engines with the index among others."""
    folder = tmp_path_factory.mktemp("partitioned")
    return {
        engine: plan_run(
            folder / engine,
            run_id=engine,
            repetitions=1,
            indexes=("record", "global_simple", NAME),
            engine=engine,
        )
        for engine in ("native", RELEASE)
    }


@pytest.fixture(scope="module")
def fits(runs):
    return {
        engine: fit.calibrate(load_runs([path]), engine=engine) for engine, path in runs.items()
    }


def test_in_hudi_each_task_lists_the_file_groups_of_all_partitions():
    """20,000 keys over 1,000 partitions: 1,000 tasks that list 1,000 names, and those with keys
    once more."""
    work = HUDI.amounts("tag", NAME, MANY, TASKS)
    asked = touched(1_000, 20_000)
    assert work["shards_tasks"] == pytest.approx(asked / 2)
    assert work["names"] == pytest.approx((1_000 + asked) * 1_000 / 2)
    assert work["keys"] == 10_000
    # One partition: the same as a global index with one file group, and one name, twice.
    one = HUDI.amounts("tag", NAME, replace(MANY, partitions=1), TASKS)
    alone = HUDI.amounts("tag", "record", replace(MANY, shards=1), TASKS)
    assert one == pytest.approx(alone | {"names": 2.0})


def test_the_published_lookups_lie_on_the_formula():
    """0.48, 0.61, 3.27 and 117 s over 1 to 1,000 partitions, with three constants."""
    (run,) = load_runs([RESULTS / "20261126T201518-partitioned_index"])
    seen = [o for o in observations(run, RELEASE) if (o.index, o.quantity) == (NAME, "lookup")]
    assert [each.at.partitions for each in seen] == [1, 10, 100, 1_000]
    told = ("once_lookup", "shards_tasks", "names")
    table = np.array([[each.amounts[name] for name in told] for each in seen])
    measured = np.array([each.value for each in seen])
    constants, _ = nnls(table / measured[:, None], np.ones(len(seen)))
    assert table @ constants == pytest.approx(measured, rel=0.05)


def test_in_hudi_groups_are_those_of_the_table_or_as_few_as_have_room():
    few = HUDI.amounts("index_bytes", NAME, MANY, TASKS)
    assert few["shards"] == 1_000
    said = HUDI.amounts("index_bytes", NAME, replace(MANY, local_shards=5_000.0), TASKS)
    assert said["shards"] == 5_000
    # 200,000,000 keys a partition: 26 bytes each, twice as much room, 1 GiB at most.
    large = HUDI.amounts("index_bytes", NAME, replace(MANY, rows=2e11), TASKS)
    assert large["shards"] == 10_000
    made = options_of(HUDI, NAME, replace(MANY, local_shards=3_000.0))
    assert made == {
        "hoodie.index.type": "RECORD_LEVEL_INDEX",
        "hoodie.metadata.record.level.index.enable": "true",
        "hoodie.metadata.record.level.index.min.filegroup.count": "3",
        "hoodie.metadata.record.level.index.max.filegroup.count": "3",
    }


def test_keymark_reads_the_entries_of_the_batchs_partitions():
    few = replace(MANY, batch=100)
    work = KEYMARK.amounts("tag", NAME, few, THREADS)
    assert work["entries"] == pytest.approx(touched(1_000, 100) / 1_000 * 1_000_000 / 2)
    # A lookup names no partition path: 2 tasks of 524,288 entries, a core each.
    asked = KEYMARK.amounts("lookup", NAME, few, THREADS)
    assert asked["entries"] == 500_000
    assert asked["keys"] == 100
    assert KEYMARK.amounts("lookup", NAME, replace(few, rows=4e6), THREADS)["keys"] > 300


@pytest.mark.parametrize("engine", ["native", RELEASE])
def test_a_calibration_tells_its_constants(fits, engine):
    known = fits[engine]
    assert NAME in known.indexes
    at = place(rows=200_000, batch=4_000)
    for name in ("tag", "lookup", "index", "write", "index_bytes", "point_query"):
        expected = true(name, NAME, at, known.model)
        assert quantity(known, name, NAME, at).value == pytest.approx(expected, rel=0.1), name


def test_writing_of_other_indexes_has_constants_without_it():
    assert HUDI.name_of("write", NAME) == "write/partitioned_record"
    assert HUDI.name_of("write", "record") == "write/all"
    assert HUDI.amounts("write", NAME, MANY, TASKS)["groups"] == 500
    assert KEYMARK.name_of("write", NAME) == "write/all"


@pytest.mark.parametrize("engine", ["native", RELEASE])
def test_it_is_a_choice_only_where_a_key_stays_in_its_partition(fits, engine):
    known = fits[engine]
    at = place(rows=50_000, batch=4_000)
    moving, staying = (planned(known, PlanRequest(at=at, keys_stay=stay)) for stay in (False, True))
    assert NAME not in moving.candidates
    assert NAME in staying.candidates
    (told,) = (line for line in plan_lines(moving) if line.startswith("not compared"))
    assert NAME in told
    assert NAME in moving.of("added_s")


def test_a_calibration_without_its_cells_does_not_predict_it_and_says_so(capsys, tmp_path):
    """Of Hudi the equation of its tagging is the global index's, which has other cells."""
    others = ("record",)
    run = plan_run(tmp_path / "run", repetitions=1, engine=RELEASE, indexes=others)
    known = fit.calibrate(load_runs([run]), engine=RELEASE)
    assert "tag/record" in known.equations
    assert NAME not in known.indexes
    saved = tmp_path / "known.json"
    saved.write_text(known.to_json())
    words = (*SIZE, "--calibration", saved)
    _, said = plan(capsys, *words, "--keys-stay")
    (told,) = (line for line in said.splitlines() if line.startswith("not predicted: "))
    assert f", {NAME}; this calibration has no cells of them" in told
    command = f"keymark run calibrate_hudi --engine {RELEASE} --index"
    assert f"({command} " in told
    _, moving = plan(capsys, *words, "--json")
    assert json.loads(moving)["not_predicted"] == ["global_simple", "global_bloom"]
    code, said = plan(capsys, *words, "--index", NAME)
    assert code == 2
    assert f"has no index '{NAME}'" in said
    assert f"`{command} {NAME}` measures it" in said


def test_what_lists_names_is_told_by_more_partitions(fits):
    command = telling(fits[RELEASE], "names", MANY)
    assert command.startswith(f"keymark run calibrate_hudi --engine {RELEASE} --set dataset.shapes")
    assert "date_partitions=" in command


def test_advise_plans_a_table_that_has_it(fits):
    groups = record_index(partitioned=True, shards=shards(30))
    made = advise(healthy(record_index=groups), Asked(), fits[RELEASE])
    assert made.situation.index.name == NAME
    assert (made.situation.at.local_shards, made.situation.keys_stay) == (30.0, True)
    assert made.parts.keys() == {"tag", "index", "write", "around"}
    assert made.unpredicted == ""
    # The global index beside it has as many shards as suit it, not those of the partitions.
    assert made.plan.shards.count < 30


def test_advise_says_in_a_line_why_its_own_index_is_not_predicted(fits):
    survey = healthy(record_index=None, metadata_partitions=("files",))
    words = {
        "consistent_bucket": "it has no formulas (docs/cost_model.md says why)",
        "compact": f"{RELEASE} has no such index",
    }
    for name, why in words.items():
        made = advise(survey, Asked(index=name), fits[RELEASE])
        assert f"{name} is not predicted: {why}" in lines(made)
        assert document(made)["not_predicted"] == why
    groups = record_index(partitioned=True)
    shipped = calibration.load()
    without = {name: each for name, each in shipped.equations.items() if NAME not in name}
    made = advise(healthy(record_index=groups), Asked(), replace(shipped, equations=without))
    (said,) = (line for line in lines(made) if "is not predicted" in line)
    assert said == (
        "partitioned_record is not predicted: this calibration of native has no cells of it; "
        f"`keymark run calibrate --index {NAME}` measures them"
    )
