from __future__ import annotations

import json
from dataclasses import replace

import pytest
from gate_noise import side

from keymark.harness.store.results import Stage
from keymark.harness.store.run_record import RunRecord
from keymark.harness.store.store import RunFolder
from keymark.reports.gate import render, run_numbers
from keymark.reports.gate.compare import compare
from keymark.reports.gate.policy import Level, Policy, PolicyRule
from keymark.reports.gate.run_numbers import Key

CELL = "native/record"


def stage(name, phase="write", *, repetition=0, **values):
    counted = dict.fromkeys(
        (
            "input_bytes",
            "shuffle_write_bytes",
            "shuffle_write_records",
            "shuffle_read_bytes",
            "shuffle_read_records",
        ),
        0,
    )
    fixed = {"cell": CELL, "step": "upsert_1", "repetition": repetition, "phase": phase}
    return Stage(
        **fixed, name=name, **{**counted, "stages": 1, "wall_s": 1.0, "tasks": 2, **values}
    )


def both(numbers, stages):
    """Base and candidate, a number of each by (phase, metric), and their stages."""
    made = []
    for place, name in enumerate(("base", "candidate")):
        values = {}
        for (phase, metric), found in numbers.items():
            # Times that all differ, counters that repeat.
            apart = 1e-6 if metric == "wall_s" else 0.0
            trials = {(n, 1): found[place] + n * apart for n in range(24)}
            values[Key(CELL, "upsert_1", phase, metric)] = trials
        one = side(name, values)
        made.append(replace(one, stages={(CELL, "upsert_1"): stages[place]}))
    return made


def causes(numbers, stages, policy=None):
    answer = compare(*both(numbers, stages), policy or Policy())
    (found,) = [
        each for each in answer.findings if each.decides and each.judged.verdict == "regression"
    ]
    return found, [render.cause(each) for each in found.causes]


def test_a_counter_names_the_stage_that_gained_it():
    before = [stage("a", tasks=2), stage("b", "tag", tasks=4), stage("c", tasks=1)]
    after = [stage("a", tasks=3), stage("b", "tag", tasks=4), stage("c", tasks=1)]
    found, said = causes({("total", "tasks"): (7.0, 8.0)}, (before, after))
    assert said == ["stage `a` of write: tasks 2 to 3"]
    assert "; stage `a` of write: tasks 2 to 3" in render.sentence(found)


def test_large_counters_that_look_the_same_have_all_digits():
    before, after = 11_880_097_123.0, 11_892_097_456.0
    found, _ = causes({("total", "bytes_written"): (before, after)}, ([], []))
    said = render.sentence(replace(found, unit="B"))
    assert said == "regression, 11,880,097,123 to 11,892,097,456 (+0.1%)"


def test_a_new_stage_is_one_that_had_nothing():
    before = [stage("a", shuffle_write_bytes=1000)]
    after = [*before, stage("Exchange", "tag", shuffle_write_bytes=5000)]
    _, said = causes({("total", "shuffle_write_bytes"): (1000.0, 6000.0)}, (before, after))
    assert said == ["stage `Exchange` of tag: shuffle_write_bytes 0 B to 4.88 KiB"]


def test_a_phase_asks_its_own_stages_only():
    before = [stage("a", "tag", tasks=2), stage("b", "write", tasks=2)]
    after = [stage("a", "tag", tasks=3), stage("b", "write", tasks=9)]
    _, said = causes({("tag", "tasks"): (2.0, 3.0)}, (before, after))
    assert said == ["stage `a` of tag: tasks 2 to 3"]


def test_the_time_of_a_step_names_phase_and_stage():
    policy = Policy(rule=(PolicyRule(metric="wall_s", phase="total", level=Level.REQUIRED),))
    numbers = {
        ("total", "wall_s"): (2.0, 3.0),
        ("write", "wall_s"): (1.5, 2.4),
        ("tag", "wall_s"): (0.5, 0.6),
    }
    before = [stage("a", wall_s=1.0), stage("b", wall_s=0.4)]
    after = [stage("a", wall_s=1.9), stage("b", wall_s=0.4)]
    _, said = causes(numbers, (before, after), policy)
    assert said == ["phase write: 1.50 s to 2.40 s", "stage `a` of write: 1.00 s to 1.90 s"]


def test_work_outside_of_stages_is_told_by_what_else_they_gained():
    before = [stage("a", shuffle_write_records=100)]
    after = [stage("a", shuffle_write_records=150)]
    _, said = causes({("total", "files_written"): (3.0, 4.0)}, (before, after))
    assert said == ["stage `a` of write: shuffle_write_records 100 to 150"]


def test_medians_over_repetitions_count_absent_stages_as_nothing():
    before = [stage("a", repetition=n, tasks=2) for n in range(3)]
    now_and_then = [*before, stage("rare", repetition=1, tasks=9)]
    found = causes({("total", "tasks"): (2.0, 11.0)}, (before, now_and_then))[0]
    assert found.causes == ()


def test_only_regressions_are_explained():
    stages = [stage("a", tasks=2)], [stage("a", tasks=9)]
    answer = compare(*both({("total", "tasks"): (5.0, 5.0)}, stages), Policy())
    assert not any(each.causes for each in answer.findings)
    document = render.document(answer)
    assert all(each["causes"] == [] for each in document["findings"])


def run(folder, **info):
    made = RunFolder.create(folder)
    made.write_record(RunRecord.model_validate({"run_id": "r", **info}))
    return made


def test_stages_come_from_the_run_folder(tmp_path):
    from synthetic_runs import sample

    made = run(tmp_path / "r")
    made.append([sample(run_id="r")])
    assert run_numbers.load(made.path).stages == {}
    made.write_stages([stage("a"), stage("b")])
    (found,) = run_numbers.load(made.path).stages.values()
    assert [each.name for each in found] == ["a", "b"]
    made.stages_file.write_text("{}\n")
    with pytest.raises(Exception, match=r"stages\.jsonl, line 1: missing or of the wrong type"):
        run_numbers.load(made.path)


@pytest.mark.parametrize("damage", [b"[]", b"{", b'{"cell": 1}', b"\xff", b"NaN"], ids=repr)
def test_damaged_stages_are_refused(tmp_path, damage):
    made = run(tmp_path / "r")
    made.stages_file.write_bytes(damage + b"\n")
    with pytest.raises(Exception, match="line 1"):
        made.stages()


def test_a_stage_is_the_same_after_its_line():
    one = stage("x\n\u202e", wall_s=0.25)
    assert Stage.from_json(one.to_json()) == one
    assert json.loads(one.to_json())["name"] == "x\n\u202e"


SEEDED = ["native"]


@pytest.mark.parametrize(
    ("told", "grown", "verdict"),
    [
        ((SEEDED, SEEDED), 1.01, "regression"),
        ((SEEDED, SEEDED), 1.0005, "pass"),
        ((SEEDED, None), 1.01, "pass"),
        ((None, None), 1.05, "pass"),
        ((None, None), 1.07, "regression"),
    ],
)
def test_index_bytes_of_seeded_names_are_held_as_closely_as_all_bytes(
    tmp_path, told, grown, verdict
):
    from synthetic_runs import sample

    found = []
    for number, (ids, value) in enumerate(zip(told, (1e6, 1e6 * grown), strict=True)):
        made = run(tmp_path / str(number), **({"seeded_ids": ids} if ids else {}))
        made.append(
            [sample(run_id="r", metric="index_bytes", unit="B", phase="total", value=value)]
        )
        found.append(run_numbers.load(made.path))
    assert compare(*found, Policy()).verdict == verdict
