from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest
from harness_fakes import FILE_ID, Frame, HonestTable, Quiet, Taker, context

from keymark.harness.errors import CellError
from keymark.harness.run.runner import TrialKey, affordable, complete_trials
from keymark.harness.run.workload import steps
from keymark.harness.scenario import matrix, scenario
from keymark.harness.store.store import RunFolder

STEPS = ["upsert_1", "upsert_2", "delete", "lookup", "point_query", "point_query_spark"]


TWO = "indexes=['record','bucket']"
ALL_STEPS = ("workload.rounds=2", "workload.delete=true")


def run(tmp_path, *, sets=(), table=HonestTable, budget_s=None, folder=None):
    resolved = scenario.load("quickstart", sets=[TWO, *ALL_STEPS, *sets])
    folder = folder or RunFolder.create(tmp_path / "run")
    tools = context(tmp_path / "work", table=table)
    progress = Quiet()
    outcome = Taker(resolved, tools, folder, progress).run(
        matrix.expand(resolved), budget_s=budget_s
    )
    return folder.samples(), outcome, tools, progress


def test_every_repetition_of_every_cell_is_measured_and_verified(tmp_path):
    samples, outcome, _, progress = run(tmp_path)
    assert outcome.failed == {}
    assert all(sample.verified and sample.valid for sample in samples)
    walls = [s for s in samples if s.metric == "wall_s" and s.phase == "total"]
    counted = {(s.cell, s.step): 0 for s in walls}
    for sample in walls:
        counted[sample.cell, sample.step] += 1
    expected = {(cell, "bulk_insert"): 1 for cell in ("native/record", "native/bucket")}
    expected |= {(cell, step): 4 for cell in ("native/record", "native/bucket") for step in STEPS}
    assert counted == expected
    assert progress.planned == [10]
    assert progress.ended == 10


def test_cells_are_interleaved_with_alternating_direction(tmp_path):
    _, _, tools, _ = run(tmp_path, sets=["schedule.repetitions=2"])
    order = [label for label in tools.engines["native"].labels if label.endswith("upsert_1")]
    assert order == [
        "native/record|w0|upsert_1",
        "native/bucket|w0|upsert_1",
        "native/bucket|r0|upsert_1",
        "native/record|r0|upsert_1",
        "native/record|r1|upsert_1",
        "native/bucket|r1|upsert_1",
    ]


def test_total_is_our_own_clock_and_phases_are_the_engines(tmp_path):
    samples, _, _, _ = run(tmp_path)
    upsert = {
        s.phase: s.value
        for s in samples
        if s.metric == "wall_s"
        and (s.cell, s.step, s.repetition, s.warmup) == ("native/record", "upsert_1", 0, False)
    }
    assert upsert == {"tag": 0.1, "write": 0.2, "index": 0.1, "commit": 0.1, "total": 1.0}


class LosesAnUpdate(HonestTable):
    def upsert(self, df, /):
        return super().upsert({k: v for k, v in df.items() if k.startswith("new")})


class KeepsADeletedRow(HonestTable):
    def delete(self, _df, /):
        return super().delete({})


class UsesAnotherIndex(HonestTable):
    def info(self):
        return SimpleNamespace(index="global_simple")


class InventsAKey(HonestTable):
    def lookup(self, keys, /, *, stats=None):  # noqa: ARG002
        return pa.table(
            {
                "record_key": keys,
                "partition_path": [""] * len(keys),
                "file_id": [FILE_ID] * len(keys),
            }
        )


class MissesAKey(HonestTable):
    def lookup(self, keys, /, *, stats=None):  # noqa: ARG002
        nothing = pa.nulls(len(keys), pa.string())
        return pa.table({"record_key": keys, "partition_path": nothing, "file_id": nothing})


class FindsInTheWrongFile(HonestTable):
    def lookup(self, keys, /, *, stats=None):
        answer = super().lookup(keys, stats=stats)
        wrong = pa.array([None if v is None else "other" for v in answer["file_id"].to_pylist()])
        return answer.set_column(2, "file_id", wrong)


class AnswersInAnotherOrder(HonestTable):
    def lookup(self, keys, /, *, stats=None):
        return super().lookup(keys, stats=stats).take([2, 1, 0])


class ReadsTwoRows(HonestTable):
    def read(self, keys=None):
        rows = super().read(keys)
        return rows if keys is None else Frame({**rows, "b": 2})


class ReadsAnOldRow(HonestTable):
    def read(self, keys=None):
        rows = super().read(keys)
        return rows if keys is None else Frame(dict.fromkeys(rows, -1))


class RecordsTooMuch(HonestTable):
    def check(self):
        return SimpleNamespace(ok=False, missing=0, extra=3, wrong=0, duplicate=0)


@pytest.mark.parametrize(
    ("table", "step", "reason"),
    [
        (LosesAnUpdate, "upsert_1", "digest"),
        (KeepsADeletedRow, "delete", "12 rows instead of 11"),
        (UsesAnotherIndex, "bulk_insert", "'global_simple' instead of 'record'"),
        (InventsAKey, "lookup", "found 2 that are not there"),
        (MissesAKey, "lookup", "missed 1 keys"),
        (FindsInTheWrongFile, "lookup", "wrong file_id"),
        (AnswersInAnotherOrder, "lookup", "other keys"),
        (ReadsTwoRows, "point_query", "2 rows instead of 1"),
        (ReadsAnOldRow, "point_query", "differs in ts"),
        (RecordsTooMuch, "bulk_insert", "3 extra"),
    ],
)
def test_a_lie_fails_the_cell(tmp_path, table, step, reason):
    samples, outcome, _, _ = run(tmp_path, table=table)
    assert reason in outcome.failed["native/record"]
    wrong = [s for s in samples if not s.verified and s.cell == "native/record"]
    assert {s.step for s in wrong} == {step}
    assert all(reason in s.reason for s in wrong)


class BreaksOnDelete(HonestTable):
    def delete(self, _df, /):
        raise OSError("disk full\nat java.lang.Thread.run")


def test_an_error_of_the_engine_fails_the_cell_and_not_the_run(tmp_path):
    samples, outcome, _, _ = run(tmp_path, table=BreaksOnDelete)
    assert outcome.failed["native/record"] == "delete: failed: OSError: disk full"
    broken = [s for s in samples if not s.valid]
    assert {(s.step, s.phase, s.metric) for s in broken} == {("delete", "total", "wall_s")}
    assert all(not s.verified for s in broken)
    assert {s.step for s in samples} == {"bulk_insert", "upsert_1", "upsert_2", "delete"}


class IsNotOpened(HonestTable):
    """Its engine's process died, and no other one came up, before the second repetition."""

    def __init__(self, path, index):
        if index == "record" and path.name == "table-r1":
            raise CellError("hudi@1.2.0 died: java.lang.OutOfMemoryError")
        super().__init__(path, index)


def test_a_table_that_cannot_be_opened_fails_its_cell_and_not_the_run(tmp_path):
    samples, outcome, _, progress = run(tmp_path, table=IsNotOpened)
    reason = "failed: CellError: hudi@1.2.0 died: java.lang.OutOfMemoryError"
    assert outcome.failed == {"native/record": f"upsert_1: {reason}"}
    (failed,) = [s for s in samples if not s.verified]
    assert (failed.step, failed.repetition, failed.valid, failed.reason) == (
        *("upsert_1", 1, False),
        reason,
    )
    assert {s.repetition for s in samples if s.cell == "native/bucket"} == {0, 1, 2}
    assert progress.ended == 10


def test_a_failed_cell_is_not_taken_again(tmp_path):
    _, _, tools, progress = run(tmp_path, table=BreaksOnDelete)
    assert len([label for label in tools.engines["native"].labels if label.endswith("delete")]) == 2
    assert progress.ended == 10


class BreaksOnCreate(HonestTable):
    def bulk_insert(self, _df, /):
        raise RuntimeError("no")


def test_a_cell_that_cannot_be_loaded_leaves_a_sample_that_says_so(tmp_path):
    samples, outcome, _, _ = run(tmp_path, table=BreaksOnCreate)
    assert set(outcome.failed) == {"native/record", "native/bucket"}
    assert {s.cell for s in samples if not s.valid} == {"native/record", "native/bucket"}


def identity(s):
    return s.cell, s.warmup, s.repetition, s.step, s.phase, s.metric


def test_only_missing_repetitions_are_taken_when_resumed(tmp_path):
    samples, _, _, _ = run(tmp_path)
    folder = RunFolder(tmp_path / "run")
    with folder.samples_file.open("rb+") as file:
        file.truncate(folder.samples_file.stat().st_size - 700)
    resolved = scenario.load("quickstart", sets=[TWO, *ALL_STEPS])
    done = complete_trials(folder.samples(), steps(resolved.workload))
    folder.keep_only(lambda sample: TrialKey.of_sample(sample) in done)
    resumed, _, tools, _ = run(tmp_path, folder=folder)
    assert sorted(map(identity, resumed)) == sorted(map(identity, samples))
    taken = {label.rpartition("|")[0] for label in tools.engines["native"].labels}
    assert taken == {"native/record|r2"}


def test_a_budget_decides_from_the_first_measured_repetition(tmp_path):
    samples, outcome, _, progress = run(tmp_path, budget_s=300.0)
    measured = {s.repetition for s in samples if not s.warmup and s.step == "lookup"}
    assert outcome.repetitions == len(measured)
    assert outcome.repetitions > 3
    assert progress.planned[-1] == progress.ended


def test_a_budget_is_not_spent_by_repetitions_that_are_there(tmp_path):
    """They take no time, which says nothing about what one takes."""
    _, first, _, _ = run(tmp_path, budget_s=40.0)
    folder = RunFolder(tmp_path / "run")
    for left_out in ("native/record", ""):
        folder.keep_only(lambda s, cell=left_out: s.cell != cell or s.warmup or s.repetition < 1)
        samples, again, _, progress = run(tmp_path, budget_s=40.0, folder=folder)
        assert first.repetitions < again.repetitions <= 2 * first.repetitions + 1
        assert progress.planned[-1] == progress.ended
        first = again
    keys = list(map(identity, samples))
    assert len(keys) == len(set(keys))


def test_a_spent_budget_still_measures_once(tmp_path):
    _, outcome, _, _ = run(tmp_path, budget_s=1.0)
    assert outcome.repetitions == 1


@pytest.mark.parametrize(
    ("left", "each", "expected"), [(-1, 5, 0), (9.9, 5, 1), (10, 5, 2), (1e9, 1, 200), (5, 0, 200)]
)
def test_affordable(left, each, expected):
    assert affordable(left, each=each) == expected


def test_work_of_a_repetition_is_removed_and_the_snapshot_kept(tmp_path):
    run(tmp_path)
    left = sorted(
        p.relative_to(tmp_path / "work").as_posix() for p in (tmp_path / "work").glob("*/*/*")
    )
    assert left == [
        f"native/{index}/{name}"
        for index in ("bucket", "record")
        for name in ("snapshot", "verified.json")
    ]


@pytest.mark.parametrize(("deletes", "steps_taken"), [("'once'", {"delete"}), ("false", set())])
def test_a_repetition_without_a_step_is_left_out(tmp_path, deletes, steps_taken):
    """A step of the first repetition alone leaves the others nothing to do, or loads are alone."""
    only = ["workload.rounds=0", "workload.lookup_present=0", "workload.lookup_absent=0"]
    only += ["workload.point_query=false", f"workload.delete={deletes}"]
    samples, outcome, _, _ = run(tmp_path, sets=only)
    assert outcome.failed == {}
    assert {(s.step, s.repetition) for s in samples} == {
        (step, 0) for step in {"bulk_insert", *steps_taken}
    }


def test_every_turn_has_a_path_of_its_own(tmp_path):
    opened = []

    class Noted(HonestTable):
        def upsert(self, df, /):
            opened.append(self.path)
            return super().upsert(df)

    run(tmp_path, table=Noted, sets=["schedule.repetitions=3", "workload.rounds=1"])
    assert len(set(opened)) == len(opened) == 2 * (1 + 3)


AXES = ["dataset.batches=[2, 4]", "dataset.sizes=[10, 20]", "schedule.repetitions=2"]
TABLES = [f"native/{index}/rows-{rows}" for index in ("record", "bucket") for rows in (10, 20)]


def loads(samples):
    return [s.cell for s in samples if (s.step, s.metric) == ("bulk_insert", "keys")]


def test_cells_that_differ_in_the_batch_alone_share_one_load(tmp_path):
    samples, outcome, tools, progress = run(tmp_path, sets=AXES)
    assert outcome.failed == {}
    assert loads(samples) == [f"{table}/batch-2" for table in TABLES]
    labels = tools.engines["native"].labels
    assert len([label for label in labels if label.endswith("bulk_insert")]) == 4
    measured = {(s.cell, s.repetition) for s in samples if s.step == "lookup" and not s.warmup}
    assert measured == {(f"{t}/batch-{b}", n) for t in TABLES for b in (2, 4) for n in (0, 1)}
    assert progress.planned == [progress.ended] == [4 + 8 + 2 * 8]
    snapshots = (tmp_path / "work").rglob("snapshot")
    assert {p.parent.relative_to(tmp_path / "work").as_posix() for p in snapshots} == set(TABLES)


def test_a_shared_load_that_is_wrong_fails_all_cells_that_share_it(tmp_path):
    samples, outcome, _, progress = run(tmp_path, sets=AXES, table=RecordsTooMuch)
    wrong = {f"{table}/batch-{batch}" for table in TABLES[:2] for batch in (2, 4)}
    assert set(outcome.failed) == wrong
    assert {s.cell for s in samples if not s.verified} == wrong
    assert not {s.step for s in samples if s.cell in wrong} - {"bulk_insert"}
    assert progress.planned[-1] == progress.ended


def test_a_shared_load_that_breaks_is_told_once_for_each_cell(tmp_path):
    samples, outcome, _, _ = run(tmp_path, sets=AXES, table=BreaksOnCreate)
    cells = [s.cell for s in samples]
    assert len(cells) == len(set(cells)) == len(outcome.failed) == 8


def test_warm_ups_of_an_index_are_taken_by_its_first_cell(tmp_path):
    samples, _, tools, progress = run(tmp_path, sets=[*AXES, "schedule.warm=index"])
    warm = {s.cell for s in samples if s.warmup}
    assert warm == {f"native/{index}/rows-10/batch-2" for index in ("record", "bucket")}
    assert progress.planned == [progress.ended] == [4 + 2 + 2 * 8]
    warmed = [what for what in progress.begun if what.endswith("to warm up")]
    assert len(warmed) == 2
    labels = [label for label in tools.engines["native"].labels if "|w0|upsert_1" in label]
    assert len(labels) == 2


def test_a_budget_counts_turns_of_all_axes(tmp_path):
    samples, outcome, _, progress = run(
        tmp_path, sets=[*AXES, "schedule.warm=index"], budget_s=1200.0
    )
    assert outcome.repetitions > 2
    assert progress.planned[-1] == progress.ended == 4 + 2 + outcome.repetitions * 8
    assert len(loads(samples)) == 4


def test_axes_resume_with_what_is_missing(tmp_path):
    samples, _, _, _ = run(tmp_path, sets=AXES)
    folder = RunFolder(tmp_path / "run")
    gone = (TABLES[0] + "/batch-4", False, 1, False)
    folder.keep_only(lambda sample: TrialKey.of_sample(sample) != gone)
    resumed, _, tools, _ = run(tmp_path, sets=AXES, folder=folder)
    assert len(resumed) == len(samples)
    turns = {label.rpartition("|")[0] for label in tools.engines["native"].labels}
    assert turns == {f"{TABLES[0]}/batch-4|r1"}


def test_a_lookup_tells_what_its_index_touched(tmp_path):
    resolved = scenario.load(
        "quickstart", sets=["indexes=['record','global_bloom','bucket']", *ALL_STEPS]
    )
    folder = RunFolder.create(tmp_path / "run")
    Taker(resolved, context(tmp_path / "work"), folder).run(matrix.expand(resolved))
    told = {
        (s.index, s.metric): s.value
        for s in folder.samples()
        if s.step == "lookup" and s.metric not in ("wall_s", "keys", "cpu_s", "python_worker_s")
    }
    assert told == {
        ("record", "shards_read"): 1,
        ("record", "blocks_decoded"): 2,
        ("global_bloom", "files_read"): 1,
        ("global_bloom", "candidates"): 5,
        ("global_bloom", "false_positives"): 3,
        ("bucket", "files_read"): 1,
    }


def test_between_trials_somebody_may_do_what_is_off_the_clock(tmp_path):
    resolved = scenario.load("quickstart", sets=[TWO, *ALL_STEPS, "schedule.repetitions=1"])
    folder = RunFolder.create(tmp_path / "run")
    takes = Taker(resolved, context(tmp_path / "work"), folder)
    before: list[str] = []
    takes.between = SimpleNamespace(beat=before.append)
    takes.run(matrix.expand(resolved))
    cells = ("native/record", "native/bucket")
    assert before[:2] == [f"{cell}|r0|load" for cell in cells]
    assert before[2:] == [f"{cell}|w0" for cell in cells] + [f"{cell}|r0" for cell in cells[::-1]]


class InterruptedOnDelete(HonestTable):
    """PySpark's clean-up raises the cancelled job's failure in place of the interrupt."""

    def delete(self, _df, /):
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("the job was cancelled")


class InterruptedOnLoad(InterruptedOnDelete):
    def bulk_insert(self, df, /):
        self.delete(df)


@pytest.mark.parametrize("table", [InterruptedOnDelete, InterruptedOnLoad])
def test_an_interrupt_that_an_error_took_the_place_of_ends_the_run(tmp_path, table):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, table=table)
    folder = RunFolder(tmp_path / "run")
    assert all(sample.valid for sample in folder.samples())
    resumed, outcome, _, _ = run(tmp_path, folder=folder)
    whole, _, _, _ = run(tmp_path / "whole")
    assert outcome.failed == {}
    assert sorted(map(identity, resumed)) == sorted(map(identity, whole))
