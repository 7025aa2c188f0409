from __future__ import annotations

import pyarrow as pa
import pytest
from harness_fakes import HonestTable, Taker, context

from keymark.harness.run import workload
from keymark.harness.run.lookup_model import ABSENT, COLD, LOGS, PRESENT, Point, asked, points
from keymark.harness.run.runner import complete_trials
from keymark.harness.scenario import matrix, scenario
from keymark.harness.store.store import RunFolder

SETS = [
    "workload.model_keys=[1, 4]",
    "workload.rounds=1",
    "schedule.repetitions=2",
    "schedule.warmups=0",
    "table.variants={one = {}}",
]


def run(tmp_path, table=HonestTable):
    resolved = scenario.load("lookup_model", sets=SETS)
    folder = RunFolder.create(tmp_path / "run")
    tools = context(tmp_path / "work", table=table)
    return folder, Taker(resolved, tools, folder).run(matrix.expand(resolved)), tools


def test_each_point_is_measured_cold_and_warm_before_and_after_the_compaction(tmp_path):
    folder, outcome, tools = run(tmp_path)
    assert outcome.failed == {}
    order = [
        label.rpartition("|")[2] for label in tools.engines["native"].labels if "|r1|" in label
    ]
    kinds = [
        f"{cache}_{kind}_{m}" for m in (1, 4) for kind in (PRESENT, ABSENT)
        for cache in ("cold", "warm")
    ]  # fmt: skip
    logs, compacted = ([f"lookup_{state}_{kind}" for kind in kinds] for state in
                       ("logs", "compacted"))  # fmt: skip
    assert order == ["upsert_1", *logs, "compact", *compacted]
    found = {(s.step, s.metric): s.value for s in folder.samples() if s.repetition == 1}
    assert found["lookup_logs_cold_absent_4", "keys"] == 4
    assert found["lookup_logs_cold_present_1", "blocks_decoded"] == 2
    assert found["lookup_compacted_warm_present_1", "blocks_decoded"] == 0
    assert found["lookup_compacted_warm_present_1", "shards_read"] == 1
    assert found["lookup_compacted_warm_present_1", "wall_s"] == 1.0


def test_a_repetition_is_complete_with_all_of_its_points(tmp_path):
    folder, _, _ = run(tmp_path)
    plan = workload.steps(scenario.load("lookup_model", sets=SETS).workload)
    samples = folder.samples()
    assert ("native/record/one", False, 1, False) in complete_trials(samples, plan)
    fewer = [s for s in samples if s.step != "lookup_logs_warm_absent_4"]
    assert complete_trials(fewer, plan) == {("native/record/one", False, 0, True)}


class Forgets(HonestTable):
    def lookup(self, keys, /, *, stats=None):
        answer = super().lookup(keys, stats=stats)
        return answer if len(keys) < 4 else answer.slice(0, 0)


class CannotCompact(HonestTable):
    def compact(self):
        return None


class Fails(HonestTable):
    def lookup(self, _keys, /, **_):
        raise OSError("disk on fire")


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (Forgets, "lookup_logs_cold_present_4: lookup answered 0 of 4 keys"),
        (CannotCompact, "compact: there was nothing to compact"),
        (Fails, "lookup_logs_cold_present_1: failed: OSError: disk on fire"),
    ],
)
def test_a_wrong_point_fails_its_cell(tmp_path, table, reason):
    _, outcome, _ = run(tmp_path, table)
    assert outcome.failed == {"native/record/one": reason}


def test_turns_ask_for_other_keys_while_there_are_others():
    keys = [f"k{number}" for number in range(20)]
    pool = pa.table({"record_key": keys, "expect_present": [True] * 10 + [False] * 10})
    point = Point(state=LOGS, cache=COLD, kind=ABSENT, keys=3)
    turns = [asked(pool, point, turn)["record_key"].to_pylist() for turn in range(3)]
    assert turns == [keys[10:13], keys[13:16], keys[16:19]]
    every = Point(state=LOGS, cache=COLD, kind=PRESENT, keys=10)
    assert asked(pool, every, 5)["record_key"].to_pylist() == keys[:10]


def test_few_keys_are_looked_up_several_times():
    assert [p.lookups for p in points(LOGS, [1, 1_000, 2_000, 100_000])[::4]] == [5, 5, 2, 1]
