"""The scenario at_size, and what a scenario can say for it: engines, indexes and rows of choice."""

from __future__ import annotations

import pytest
from harness_fakes import Quiet, Taker, context

from keymark.harness.engines import engine_pool
from keymark.harness.errors import ScenarioError
from keymark.harness.run import checks, workload
from keymark.harness.scenario import matrix, scenario
from keymark.harness.store.store import RunFolder


def test_at_size_compares_hudi_with_what_it_is_asked_for_on_the_same_files():
    loaded = scenario.load("at_size")
    cells = matrix.expand(loaded)
    by_engine = {
        engine: [cell.index for cell in cells if cell.engine == engine] for engine in loaded.engines
    }
    assert by_engine == {
        "native": ["record", "global_simple", "simple", "global_bloom", "bloom", "bucket"],
        "hudi@0.15.0": ["record", "global_simple"],
        "hudi@1.2.0-v6": ["record", "global_simple"],
    }
    schedule = matrix.Schedule.of(cells, loaded)
    started = {cell.cell_id for cell in schedule.loaders.values()}
    assert started == {"native/global_simple", "native/record"}
    own = {cell.cell_id for cell in schedule.tables if cell.table_id not in schedule.loaders}
    assert own == {"native/global_simple", "native/bucket"}
    (spec,), _ = loaded.dataset.specs()
    assert (spec.rows, spec.updates, spec.inserts, spec.deletes) == (10**8, 200_000, 200_000, 10**4)
    steps = workload.steps(loaded.workload)
    assert [(step.name, step.deleted, step.is_once, step.engines) for step in steps] == [
        ("upsert_1", False, False, ()),
        ("lookup", False, False, ()),
        ("point_query", False, False, ()),
        ("point_query_spark", False, False, ()),
        ("delete", True, True, ()),
        ("spread", True, True, ("native", "hudi@0.15.0")),
    ]
    grown = scenario.load("growth")
    assert grown.dataset.batch_rows == loaded.dataset.batch_rows
    assert [step.name for step in workload.steps(grown.workload)] == ["upsert_1"]


def test_predictions_are_scored_at_ten_and_a_hundred_times_on_tables_that_share_a_load():
    loaded = scenario.load("holdout_large")
    cells = matrix.expand(loaded)
    assert {cell.data.rows for cell in cells} == {10**7, 10**8}
    schedule = matrix.Schedule.of(cells, loaded)
    for size in ("rows-10000000", "rows-100000000"):
        alike = {
            name: cell.cell_id
            for name, cell in schedule.loaders.items()
            if name.endswith(size) and cell.cell_id.endswith(size)
        }
        assert alike == {
            **{f"native/{index}/{size}": f"native/global_simple/{size}"
               for index in ("record", "simple", "global_bloom", "bloom")},
            **{f"{engine}/{index}/{size}": f"native/{index}/{size}"
               for engine in ("hudi@0.15.0", "hudi@1.2.0-v6")
               for index in ("record", "global_simple")},
        }  # fmt: skip
    calibrations = [scenario.load(name).dataset for name in ("calibrate", "calibrate_hudi")]
    for other in calibrations:
        assert 10 * max(other.sizes) <= loaded.dataset.sizes[0]
        assert (other.seed, other.update_share) != (
            loaded.dataset.seed,
            loaded.dataset.update_share,
        )
        assert loaded.dataset.batch_rows not in other.batches
        assert loaded.dataset.partitions not in {
            shape["date_partitions"] for shape in other.shapes.values()
        }


def test_a_calibration_of_hudi_asks_what_every_index_of_a_release_can_answer():
    """An index that is skipped has no constants, and nobody notices for an hour.

    Hudi has the record index of each partition from 1.1 on; before, the run leaves it out.
    """
    lacking = {"hudi@0.15.0": {"partitioned_record"}, "hudi@1.1.1": set(), "hudi@1.2.0": set()}
    for engine, left_out in lacking.items():
        loaded = scenario.load("calibrate_hudi", overrides={"engines": [engine]})
        asked = engine_pool.Demands(absent_keys=loaded.workload.lookup_absent)
        assert engine_pool._unlike_its_own(engine, loaded.indexes, asked).keys() == left_out


@pytest.mark.parametrize(
    ("sets", "mistake"),
    [
        (["engine_indexes.hudi=['record']"], "engine_indexes: engine 'hudi' needs a"),
        (["engine_indexes.native=['recrod']"], "engine_indexes: unknown index 'recrod' (did you"),
        (["workload.spread_batch=['hudi']"], "workload.spread_batch: engine 'hudi' needs"),
        (["workload.delete_latest=true", "workload.delete=false"], "delete_latest: needs workload"),
        (["workload.delete_latest=true", "workload.purge=true"], "not with purge or null_columns"),
    ],
)
def test_choices_of_engines_and_rows_that_make_no_sense_are_told(sets, mistake):
    with pytest.raises(ScenarioError) as caught:
        scenario.load("ci", sets=sets)
    assert mistake in str(caught.value)


def test_an_engine_has_only_the_indexes_that_it_is_named_with():
    loaded = scenario.load(
        "ci",
        sets=["engine_indexes.hudi@0.15.0=['bucket', 'record']"],
        overrides={"engines": ["native", "hudi@0.15.0"], "indexes": ["record", "global_simple"]},
    )
    cells = [cell.cell_id for cell in matrix.expand(loaded)]
    assert cells == ["native/record", "native/global_simple", "hudi@0.15.0/record"]


def test_cells_can_be_warmed_by_a_small_table_instead_of_repetitions(tmp_path):
    sets = ["indexes=['record','global_simple']", "schedule.warm=small", "workload.delete=once"]
    sets += ["workload.lookup_present=0", "workload.lookup_absent=0"]
    loaded = scenario.load("ci", sets=[*sets, "schedule.warmups=1", "schedule.repetitions=2"])
    cells = matrix.expand(loaded)
    schedule = matrix.Schedule.of(cells, loaded)
    assert schedule.warm_up_trials() == ()
    assert schedule.size == 2 + 2 * 2
    folder, tools, progress = RunFolder.create(tmp_path / "run"), context(tmp_path), Quiet()
    outcome = Taker(loaded, tools, folder, progress).run(cells)
    assert outcome.failed == {}
    assert progress.planned == [progress.ended]
    labels = tools.engines["native"].labels
    assert not [label for label in labels if "|w" in label]
    assert [label for label in labels if label.endswith("|delete")] == [
        f"{cell.cell_id}|r0|delete" for cell in reversed(cells)
    ]


def test_global_bloom_a_second_batch_and_streaming_tables_are_scored_at_ten_times():
    large, medium = scenario.load("holdout_large"), scenario.load("holdout_medium")
    cells = matrix.expand(medium)
    assert {(cell.engine, cell.index, cell.data.rows, cell.data.batch) for cell in cells} == {
        (engine, index, 10**7, batch)
        for engine in ("native", "hudi@0.15.0", "hudi@1.2.0")
        for index in ("record", "global_simple", "global_bloom")
        for batch in (25_000, 250_000)
    }
    assert medium.dataset.seed != large.dataset.seed
    assert medium.table.options == large.table.options
    checks.check_loads(medium)
    own = [cell.table_id for cell in matrix.Schedule.of(cells, medium).tables]
    loaders = matrix.Schedule.of(cells, medium).loaders
    loaded = {table for table in own if table not in loaders}
    assert loaded == {"native/global_simple"} | {
        f"hudi@1.2.0/{index}" for index in ("record", "global_simple", "global_bloom")
    }
