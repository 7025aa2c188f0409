"""Large tables: files are read once, the whole table once per cell, and a wrong row still shows."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from harness_fakes import (
    FILE_ID,
    INSTANTS,
    FakeEngine,
    FakeInputs,
    Frame,
    HonestTable,
    Taker,
    Written,
    context,
)

from keymark.datasets.generate.digest import digest_arrow
from keymark.harness.run.runner import TrialKey, complete_trials
from keymark.harness.run.until import LEAST, Until, Widest
from keymark.harness.run.workload import steps
from keymark.harness.scenario import matrix, scenario
from keymark.harness.store.store import RunFolder
from keymark.harness.tables import readings, verify

OTHER_ID = "22222222-0"
SETS = ("indexes=['record','global_simple']", "table.shared_load=false", "workload.delete=true")


def digest(rows):
    return tuple(digest_arrow(pa.table({"k": list(rows), "ts": [rows[key] for key in rows]})))


class LargeInputs(FakeInputs):
    """The same rows, with the digest that sums have."""

    def truth(self, round_, *, deleted):
        return digest(self.rows_after(round_, deleted=deleted))

    def spread(self):
        return Frame(c=9, d=9)

    def spread_truth(self, round_, /, *, deleted):
        return digest(self.rows_after(round_, deleted=deleted) | self.spread())


class LargeEngine(FakeEngine):
    def __init__(self, table):
        super().__init__(table)
        self.read_whole = []

    def digest(self, rows, columns):
        assert tuple(columns) == LargeInputs.columns
        self.read_whole.append(self.labels[-1])
        return digest(rows)

    def limited(self, seconds):
        self.left = seconds
        return nullcontext()


class TwoGroups(HonestTable):
    """Keys up to `e` are in one file group, others in another; a write rewrites what it must."""

    def group(self, key):
        return FILE_ID if key[0] in "abcde" and not key.startswith("new") else OTHER_ID

    def latest(self, group):
        return max(self.path.glob(f"{group}_*.parquet"), default=None)

    def rows_of(self, group):
        path = self.latest(group)
        if path is None:
            return {}
        table = pq.ParquetFile(path).read()
        return dict(zip(table["k"].to_pylist(), table["ts"].to_pylist(), strict=True))

    def rows(self):
        return Frame({**self.rows_of(FILE_ID), **self.rows_of(OTHER_ID)})

    def _write(self, rows):
        instant = INSTANTS[len(list((self.path / ".hoodie").glob("*.commit")))]
        for group in (FILE_ID, OTHER_ID):
            now = {key: rows[key] for key in sorted(rows) if self.group(key) == group}
            if now != self.rows_of(group):
                columns = {"_hoodie_record_key": list(now), "k": list(now), "ts": [*now.values()]}
                name = f"{group}_0-0-0_{instant}.parquet"
                pq.write_table(pa.table(columns), self.path / name, compression="none")
        (self.path / ".hoodie" / f"{instant}.commit").write_text("{}")
        return Written()

    def lookup(self, keys, /, *, stats=None):  # noqa: ARG002
        held = self.rows()
        places = [self.group(key) if key in held else None for key in keys.to_pylist()]
        partitions = [None if place is None else "" for place in places]
        return pa.table(
            {
                "record_key": keys,
                "partition_path": pa.array(partitions, pa.string()),
                "file_id": pa.array(places, pa.string()),
            }
        )


def run(tmp_path, table=TwoGroups, *, sets=(), limit=None, folder=None, until=None):
    resolved = scenario.load("ci", sets=[*SETS, "workload.rounds=1", *sets])
    folder = folder or RunFolder.create(tmp_path / "run")
    engine = LargeEngine(table)
    tools = context(tmp_path / "work", table=table)
    tools = replace(tools, inputs=LargeInputs(), engines={"native": engine}, trial_limit_s=limit)
    outcome = Taker(resolved, tools, folder).run(matrix.expand(resolved), until=until)
    return folder, outcome, engine


@pytest.fixture
def read(monkeypatch):
    """Every table is a large one; how often each file was read."""
    monkeypatch.setattr(verify, "LARGE_ROWS", 0)
    counted, whole = Counter(), readings._digest

    def digest_of(part, columns):
        counted[part.path.parent.name, part.path.name] += 1
        return whole(part, columns)

    monkeypatch.setattr(readings, "_digest", digest_of)
    return counted


def test_each_file_is_read_once_and_the_whole_table_once_per_cell(tmp_path, read):
    _, outcome, engine = run(tmp_path, sets=["schedule.repetitions=2", "schedule.warmups=1"])
    assert outcome.failed == {}
    assert sorted(engine.read_whole) == [
        "native/global_simple|r1|delete",
        "native/record|r1|delete",
    ]
    # Two files of each load. Of each trial what the upsert wrote, both files, and the delete one.
    folders = Counter(folder for folder, _ in read)
    assert folders["snapshot"] == 2  # the same names in both cells
    assert set(read.values()) == {2}
    assert folders["table-r0"] == 3
    # In the last repetition the engine read what the delete wrote.
    assert folders["table-r1"] == 2


class Queried(TwoGroups):
    """Answers a query by a column, and all of its rows have the value."""

    def read(self, keys=None, where=None):
        return super().read(keys) if where is None else self.rows()


@pytest.mark.usefixtures("read")
def test_a_query_by_a_column_is_no_change_that_the_whole_table_is_read_after(tmp_path):
    sets = ["workload.column_query='ts'", "workload.rounds=0", "schedule.repetitions=2"]
    _, outcome, engine = run(tmp_path, Queried, sets=sets)
    assert outcome.failed == {}
    assert sorted(engine.read_whole) == [
        "native/global_simple|r1|delete",
        "native/record|r1|delete",
    ]


class LosesAnUpdate(TwoGroups):
    def upsert(self, df, /):
        return super().upsert({key: df[key] for key in df if key != "b"})


def rewritten_in_place(path, *, is_hidden):
    """Another value in a file of the same size; its time tells, unless it is set back."""
    before = path.stat()
    table = pq.ParquetFile(path).read()
    changed = table.set_column(2, "ts", pc.add(table["ts"], 7))
    target = path.with_suffix(".tmp")
    pq.write_table(changed, target, compression="none")
    content = target.read_bytes()
    target.unlink()
    assert len(content) == before.st_size
    with path.open("r+b") as file:
        file.write(content)
    if is_hidden:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


class ChangesAnotherFile(TwoGroups):
    """A delete that damages the file group which it has nothing to do with."""

    is_hidden = False

    def delete(self, df, /):
        done = super().delete(df)
        rewritten_in_place(self.latest(OTHER_ID), is_hidden=self.is_hidden)
        return done


class WithoutATrace(ChangesAnotherFile):
    is_hidden = True


@pytest.mark.usefixtures("read")
@pytest.mark.parametrize(
    ("table", "step", "trial"),
    [
        (LosesAnUpdate, "upsert_1", (True, 0)),
        (ChangesAnotherFile, "delete", (True, 0)),
        (WithoutATrace, "delete", (False, 1)),
    ],
)
def test_a_wrong_row_fails_the_cell(tmp_path, table, step, trial):
    sets = ["schedule.repetitions=2", "schedule.warmups=1"]
    folder, outcome, _ = run(tmp_path, table, sets=sets)
    assert set(outcome.failed) == {"native/record", "native/global_simple"}
    for reason in outcome.failed.values():
        assert reason.startswith(f"{step}: the rows have digest ")
    wrong = {(s.step, s.warmup, s.repetition) for s in folder.samples() if not s.verified}
    assert wrong == {(step, *trial)}


@pytest.mark.usefixtures("read")
def test_an_index_is_compared_when_it_was_built_and_with_the_whole_table(tmp_path):
    checked = []

    class Noted(TwoGroups):
        def check(self):
            checked.append(self.path.name)
            return super().check()

    run(tmp_path, Noted, sets=["schedule.repetitions=2", "schedule.warmups=0"])
    assert checked == ["snapshot", "table-r1"]


def test_small_tables_are_read_whole_after_each_step(tmp_path):
    _, outcome, engine = run(tmp_path, sets=["schedule.repetitions=1", "schedule.warmups=0"])
    assert outcome.failed == {}
    assert len(engine.read_whole) == 2 * 3


SPREAD = ("workload.spread_batch=['native','hudi@0.15.0']", "schedule.warmups=1")


def test_a_spread_batch_ends_the_first_repetition_and_no_other(tmp_path):
    folder, outcome, _ = run(tmp_path, sets=[*SPREAD, "schedule.repetitions=2"])
    assert outcome.failed == {}
    taken = {(s.cell, s.warmup, s.repetition) for s in folder.samples() if s.step == "spread"}
    assert taken == {(f"native/{name}", False, 0) for name in ("record", "global_simple")}
    resolved = scenario.load("ci", sets=[*SETS, "workload.rounds=1", *SPREAD])
    every = steps(resolved.workload)
    names = {step.name for step in every}
    assert every[-1].name == "spread"
    done = complete_trials(folder.samples(), every)
    assert {TrialKey.of_sample(s, names) for s in folder.samples()} == done
    without = [s for s in folder.samples() if s.step != "spread"]
    gone = done - complete_trials(without, every)
    assert {trial.cell for trial in gone} == {"native/record", "native/global_simple"}
    assert {(trial.warmup, trial.repetition) for trial in gone} == {(False, 0)}


def test_of_engines_that_are_not_named_no_spread_batch_is_taken(tmp_path):
    folder, outcome, _ = run(tmp_path, sets=["workload.spread_batch=['hudi@0.15.0']"])
    assert outcome.failed == {}
    assert "spread" not in {s.step for s in folder.samples()}


class TakesTooLong(TwoGroups):
    """Its jobs are cancelled during the upsert that is spread over the table."""

    def upsert(self, df, /):
        if "c" in df:
            raise RuntimeError("Job 7 cancelled as part of cancellation of all jobs")
        return super().upsert(df)


def test_a_repetition_that_takes_too_long_is_ended_and_keeps_its_numbers(tmp_path):
    sets = [*SPREAD, "schedule.repetitions=2"]
    folder, outcome, engine = run(tmp_path, TakesTooLong, sets=sets, limit=1.0)
    assert outcome.failed == {}
    ended = [s for s in folder.samples() if not s.valid]
    assert {(s.step, s.repetition, s.verified) for s in ended} == {("spread", 0, True)}
    assert all("a repetition takes at most 1 s (schedule.trial_minutes)" in s.reason for s in ended)
    told = [note for note in outcome.notes if "spread: ended after" in note]
    assert [note.partition(",")[0] for note in told] == [
        "native/global_simple r0",
        "native/record r0",
    ]
    # All that was measured before is there, in each repetition.
    numbers = {(s.repetition, s.step) for s in folder.samples() if s.valid and not s.warmup}
    assert {(n, step) for n in range(2) for step in ("upsert_1", "lookup")} <= numbers
    assert engine.left < 1


class IsAlwaysTooSlow(TwoGroups):
    def upsert(self, _df, /):
        raise RuntimeError("Job 7 cancelled")


def test_a_cell_whose_every_repetition_would_be_ended_is_left_out(tmp_path):
    folder, outcome, _ = run(tmp_path, IsAlwaysTooSlow, limit=1.0)
    assert outcome.failed == {}
    assert set(outcome.ended) == {"native/record", "native/global_simple"}
    assert all(reason.startswith("upsert_1: ended after") for reason in outcome.ended.values())
    assert {(s.warmup, s.repetition) for s in folder.samples() if s.step == "upsert_1"} <= {
        (True, 0),
        (False, 0),
    }
    before = folder.samples()
    every = steps(scenario.load("ci", sets=[*SETS, "workload.rounds=1"]).workload)
    names = {step.name for step in every}
    done = complete_trials(before, every)
    folder.keep_only(lambda sample: TrialKey.of_sample(sample, names) in done)
    _, resumed, engine = run(tmp_path, IsAlwaysTooSlow, limit=1.0, folder=folder)
    assert folder.samples() == before, "a resumed run takes none of it again"
    assert engine.labels == []
    assert resumed.ended == outcome.ended
    assert len([note for note in resumed.notes if "upsert_1: ended after" in note]) == 2


def test_a_run_whose_cells_have_all_ended_looks_no_more_whether_it_has_enough(tmp_path):
    looks = []

    def widest():
        looks.append(len(looks))
        return Widest(half_width=0.5, what="Upsert batch, native/record")

    until = Until(half_width=0.1, most=20, widest=widest)
    _, outcome, _ = run(tmp_path, IsAlwaysTooSlow, limit=1.0, until=until)
    assert len(outcome.ended) == 2
    assert looks == [0]
    assert outcome.repetitions == LEAST


def loads_of(engine):
    return [label for label in engine.labels if label.endswith("bulk_insert")]


@pytest.mark.usefixtures("read")
def test_a_resumed_run_starts_from_the_tables_that_were_loaded(tmp_path):
    sets = ["schedule.repetitions=2", "schedule.warmups=1"]
    folder, _, _ = run(tmp_path, sets=sets)
    before = folder.samples()
    folder.keep_only(lambda s: not (s.step != "bulk_insert" and s.repetition == 1))
    _, outcome, engine = run(tmp_path, sets=sets, folder=folder)
    assert outcome.failed == {}
    assert loads_of(engine) == []
    assert {label.split("|")[1] for label in engine.labels} == {"r1"}
    assert sorted((s.cell, s.step, s.metric, s.phase) for s in folder.samples()) == sorted(
        (s.cell, s.step, s.metric, s.phase) for s in before
    )


def test_a_loaded_table_that_changed_since_is_loaded_again(tmp_path):
    folder, _, _ = run(tmp_path)
    folder.keep_only(lambda s: s.step == "bulk_insert")
    loaded = tmp_path / "work" / "native" / "record" / "snapshot"
    os.utime(next(loaded.glob("*.parquet")), ns=(1, 1))
    _, outcome, engine = run(tmp_path, folder=folder)
    assert outcome.failed == {}
    assert loads_of(engine) == ["native/record|r0|bulk_insert"]


@pytest.mark.usefixtures("read")
def test_a_resumed_run_on_another_machine_loads_only_what_it_needs(tmp_path):
    folder, _, _ = run(tmp_path)
    shutil.rmtree(tmp_path / "work")
    folder.keep_only(lambda s: s.step == "bulk_insert" or s.index != "record")
    _, outcome, engine = run(tmp_path, folder=folder)
    assert outcome.failed == {}
    assert loads_of(engine) == ["native/record|r0|bulk_insert"]


def test_a_load_that_was_not_kept_in_the_samples_is_measured_again(tmp_path):
    folder, _, _ = run(tmp_path)
    folder.keep_only(lambda _: False)
    _, outcome, engine = run(tmp_path, folder=folder)
    assert outcome.failed == {}
    assert len(loads_of(engine)) == 2
