"""Tables that start from the base files of another cell's load: who does, from whom, and how."""

from __future__ import annotations

import hashlib

import pytest
from harness_fakes import FakeEngine, HonestTable, Quiet, Taker, context

from keymark.harness.run.runner import TrialKey, complete_trials
from keymark.harness.run.workload import steps
from keymark.harness.scenario import matrix, scenario
from keymark.harness.store.store import RunFolder

FOUR = "indexes=['record','global_simple','global_bloom','bucket']"
SHARED = ["table.shared_load=true", "schedule.warmups=0", "schedule.repetitions=1"]
HUDI = "engines=['native','hudi@0.15.0','native@0123abc']"
ALL = "indexes=['record','global_simple','simple','global_bloom','bloom','bucket','hbase']"


def loads_of(*sets):
    """The id of the cell that loads, by the id of each table that starts."""
    resolved = scenario.load("ci", sets=[*SHARED, *sets])
    found = matrix.Schedule.of(matrix.expand(resolved), resolved).loaders
    return {table: loader.cell_id for table, loader in found.items()}


def test_indexes_without_a_layout_or_entries_elsewhere_start_from_one_load():
    started = ["record", "simple", "global_bloom", "bloom"]
    assert loads_of(ALL) == {f"native/{name}": "native/global_simple" for name in started}


def test_without_the_setting_and_with_a_source_every_table_is_its_own(tmp_path):
    assert loads_of(FOUR, "table.shared_load=false") == {}
    (tmp_path / ".hoodie").mkdir()
    (tmp_path / ".hoodie" / "hoodie.properties").write_text("hoodie.table.version=6\n")
    assert loads_of(FOUR, f"table.source={tmp_path}") == {}


def test_other_engines_start_too_but_revisions_of_keymark_load():
    found = loads_of("indexes=['record','global_simple']", HUDI)
    assert set(found) == {"native/record", "hudi@0.15.0/record", "hudi@0.15.0/global_simple"}
    assert set(found.values()) == {"native/global_simple"}
    assert loads_of("indexes=['record','global_simple']", "engines=['hudi@0.15.0']") == {}


def test_options_of_an_index_are_shared_and_those_of_files_are_not():
    both = "indexes=['record','global_bloom']"
    shards = "table.variants.many.hoodie.metadata.record.index.min.filegroup.count=8"
    assert set(loads_of(both, shards, "table.variants.few={}")) == {
        "native/record/many",
        "native/record/few",
        "native/global_bloom/few",
    }
    small = "table.index_options.global_bloom.hoodie.index.bloom.num_entries=12000"
    assert loads_of(both, small) == {}


def test_rows_are_shared_across_batches_and_not_across_sizes():
    axes = ["dataset.sizes=[10,20]", "dataset.batches=[2,4]", "indexes=['record','global_simple']"]
    assert loads_of(*axes) == {
        f"native/record/rows-{rows}": f"native/global_simple/rows-{rows}/batch-2"
        for rows in (10, 20)
    }


def test_where_no_cell_has_a_plain_index_keymark_loads_a_table_of_no_cell():
    resolved = scenario.load("ci", sets=[*SHARED, "indexes=['record']", HUDI])
    cells = matrix.expand(resolved)
    found = matrix.loaders(cells)
    assert set(found) == {"native/record", "hudi@0.15.0/record"}
    (loader,) = {each.cell_id: each for each in found.values()}.values()
    assert (loader.engine, loader.index) == ("native", "global_simple")
    assert "hoodie.record.index.update.partition.path" not in loader.options
    assert loader not in cells


def run(tmp_path, *sets, table=HonestTable, folder=None, engines=("native",)):
    resolved = scenario.load("ci", sets=[*SHARED, *sets])
    folder = folder or RunFolder.create(tmp_path / "run")
    tools = context(tmp_path / "work", table=table)
    for name in engines:
        tools.engines.setdefault(name, FakeEngine(table))
    progress = Quiet()
    outcome = Taker(resolved, tools, folder, progress).run(matrix.expand(resolved))
    return folder, outcome, tools, progress


def timed(folder, *names):
    return sorted(
        (s.cell, s.step)
        for s in folder.samples()
        if (s.phase, s.metric) == ("total", "wall_s") and s.step in names
    )


def test_a_cell_that_did_not_load_has_no_load_time_and_says_so(tmp_path):
    folder, outcome, tools, progress = run(tmp_path, FOUR)
    assert outcome.failed == {}
    assert timed(folder, "bulk_insert", "build_index") == [
        ("native/bucket", "bulk_insert"),
        ("native/global_simple", "bulk_insert"),
        ("native/record", "build_index"),
    ]
    assert progress.planned == [progress.ended] == [4 + 4]
    (note,) = outcome.notes
    assert note.startswith("Not loaded: native/record, native/global_bloom. They started")
    assert "the table that native/global_simple loaded" in note
    first = [label for label in tools.engines["native"].labels if "|r0|b" in label]
    assert first[0] == "native/global_simple|r0|bulk_insert"


def test_base_files_are_links_and_what_changes_is_a_copy(tmp_path):
    run(tmp_path, FOUR)
    kept = {name: tmp_path / "work" / "native" / name / "snapshot" for name in ("record", "bucket")}
    loaded = tmp_path / "work" / "native" / "global_simple" / "snapshot"
    (file,) = (path.relative_to(loaded) for path in loaded.rglob("*.parquet"))
    assert (kept["record"] / file).samefile(loaded / file)
    assert not (kept["bucket"] / file).samefile(loaded / file)
    properties = ".hoodie/hoodie.properties"
    assert not (kept["record"] / properties).samefile(loaded / properties)


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_nothing_is_written_through_the_links(tmp_path):
    loaded = tmp_path / "work" / "native" / "global_simple" / "snapshot"
    seen = []

    class Noted(HonestTable):
        def upsert(self, df, /):
            seen.append(contents(loaded))
            return super().upsert(df)

    run(tmp_path, FOUR, "workload.purge=true", table=Noted)
    assert seen
    assert all(each == contents(loaded) for each in seen)


def test_a_load_of_no_cell_is_on_no_clock(tmp_path):
    folder, outcome, tools, progress = run(
        tmp_path,
        "indexes=['record']",
        "engines=['native','hudi@0.15.0']",
        "schedule.loads=2",
        engines=("hudi@0.15.0",),
    )
    assert outcome.failed == {}
    built = [("hudi@0.15.0/record", "build_index"), ("native/record", "build_index")]
    assert timed(folder, "bulk_insert", "build_index") == sorted(2 * built)
    loads = [label for label in tools.engines["native"].labels if label.endswith("bulk_insert")]
    assert loads == ["shared-load/1|r0|bulk_insert"]
    assert "one table that Keymark loaded with the index global_simple" in outcome.notes[0]
    assert progress.planned == [progress.ended]


class LosesARow(HonestTable):
    def bulk_insert(self, df, /):
        return super().bulk_insert({key: df[key] for key in df if key != "c"})


class BreaksOnBuild(HonestTable):
    def build_index(self):
        raise OSError("disk full")


@pytest.mark.parametrize(
    ("table", "failed"),
    [
        (LosesARow, {"record", "global_simple", "global_bloom", "bucket"}),
        (BreaksOnBuild, {"record"}),
    ],
)
def test_what_is_wrong_with_a_load_is_wrong_with_all_that_start_from_it(tmp_path, table, failed):
    folder, outcome, _, progress = run(tmp_path, FOUR, table=table)
    assert {cell.removeprefix("native/") for cell in outcome.failed} == failed
    assert {s.index for s in folder.samples() if not s.verified} == failed
    assert progress.planned == [progress.ended]


class LosesARowOnStart(HonestTable):
    """A copy whose reader misses a row; a load is read in full."""

    def read(self, keys=None):
        rows = super().read(keys)
        if self.index == "global_bloom":
            rows.pop("a", None)
        return rows


def test_a_started_table_is_verified_like_a_loaded_one(tmp_path):
    _, outcome, _, _ = run(tmp_path, FOUR, table=LosesARowOnStart)
    assert set(outcome.failed) == {"native/global_bloom"}
    assert "cannot start from the table of native/global_simple" in str(outcome.failed)
    assert "9 rows instead of 10" in str(outcome.failed)


def test_a_run_goes_on_from_the_shared_load_without_a_number_twice(tmp_path):
    folder, _, _, _ = run(tmp_path, FOUR)
    before = folder.samples()
    every = steps(scenario.load("ci", sets=[*SHARED, FOUR]).workload)
    names = {step.name for step in every}
    done = complete_trials(before, every)
    assert ("native/record", False, 0, True) in done
    gone = ("native/record", False, 0, False)
    folder.keep_only(lambda s: TrialKey.of_sample(s, names) != gone)
    run(tmp_path, FOUR, folder=folder)
    after = folder.samples()
    assert sorted((s.cell, s.step, s.metric, s.phase) for s in after) == sorted(
        (s.cell, s.step, s.metric, s.phase) for s in before
    )


def test_with_the_step_build_index_the_first_build_is_not_measured(tmp_path):
    folder, outcome, _, _ = run(
        tmp_path,
        "indexes=['record']",
        "workload.build_index=true",
        "table.variants.a={}",
        "table.variants.b.hoodie.metadata.record.index.min.filegroup.count=3",
    )
    assert outcome.failed == {}
    assert timed(folder, "bulk_insert", "build_index") == [
        ("native/record/a", "build_index"),
        ("native/record/b", "build_index"),
    ]


SHARED_INDEX = "table.shared_index=true"


def test_with_a_shared_index_hudi_starts_from_keymarks_table_with_its_index():
    found = loads_of("indexes=['record','global_simple']", HUDI, SHARED_INDEX)
    assert found == {
        "native/record": "native/global_simple",
        "hudi@0.15.0/global_simple": "native/global_simple",
        "hudi@0.15.0/record": "native/record",
    }
    one = "hoodie.metadata.record.index.min.filegroup.count"
    other = f"table.engine_options.'hudi@0.15.0'.'{one}'=8"
    found = loads_of("indexes=['record','global_simple']", HUDI, SHARED_INDEX, other)
    assert found["hudi@0.15.0/record"] == "native/global_simple"


def test_a_shared_index_is_built_once_and_no_cell_but_its_own_has_its_time(tmp_path):
    folder, outcome, _, progress = run(
        tmp_path,
        "indexes=['record','global_simple']",
        "engines=['native','hudi@0.15.0']",
        SHARED_INDEX,
        engines=("hudi@0.15.0",),
    )
    assert outcome.failed == {}
    assert timed(folder, "bulk_insert", "build_index") == [
        ("native/global_simple", "bulk_insert"),
        ("native/record", "build_index"),
    ]
    assert progress.planned == [progress.ended]
    shared, indexed = outcome.notes
    assert shared.startswith("Not loaded: native/record, hudi@0.15.0/global_simple. They")
    assert indexed.startswith("Neither loaded nor indexed: hudi@0.15.0/record. They")


def test_what_is_wrong_with_a_shared_index_is_wrong_with_all_that_start_from_it(tmp_path):
    _, outcome, _, _ = run(
        tmp_path,
        "indexes=['record','global_simple']",
        "engines=['native','hudi@0.15.0']",
        SHARED_INDEX,
        table=BreaksOnBuild,
        engines=("hudi@0.15.0",),
    )
    assert set(outcome.failed) == {"native/record", "hudi@0.15.0/record"}
