from __future__ import annotations

import pytest

from keymark.harness.store.units import METRICS, Better
from keymark.reports.errors import PolicyError
from keymark.reports.gate.policy import Kind, Level, Policy, check_used, load
from keymark.reports.gate.run_numbers import Key

TAG = Key("native/record", "upsert_1", "tag", "wall_s")
TASKS = Key("native/record", "upsert_1", "tag", "tasks")


def policy(path, text):
    (path / "policy.toml").write_text(text, encoding="utf-8")
    return load(path / "policy.toml")


def mistakes(path, text):
    with pytest.raises(PolicyError) as caught:
        policy(path, text)
    assert "\n" not in str(caught.value)
    return caught.value.mistakes


def test_by_default_counters_are_required_and_times_advisory():
    for name, metric in METRICS.items():
        found = Policy().demand(Key("c", "s", "total", name))
        if metric.counter:
            expected = Level.REQUIRED, Kind.COUNTER, metric.tolerance
        else:
            expected = Level.ADVISORY, Kind.TIME, 0.05
        assert (found.level, found.kind, found.tolerance) == expected
        assert found.better is metric.better


def test_bytes_of_a_record_index_make_room_for_the_chance_in_random_names():
    written = TAG._replace(metric="bytes_written")
    asked = [written._replace(phase=phase) for phase in ("index", "write", "total")]
    asked += [written._replace(metric=name, phase="total") for name in ("index_bytes", "tasks")]
    for seeded, expected in ((False, [0.06, 0.001, 0.009, 0.06, 0]), (True, [0.001] * 4 + [0])):
        found = [Policy().demand(key, seeded=seeded).tolerance for key in asked]
        assert found == expected


def test_shuffled_bytes_hold_random_names_of_files():
    for name in ("shuffle_write_bytes", "shuffle_read_bytes"):
        shuffled = TAG._replace(metric=name)
        assert Policy().demand(shuffled).tolerance == 0.001
        assert Policy().demand(shuffled, seeded=False).tolerance == 0.009


def test_what_varies_in_hudi_is_advisory_there():
    assert Policy().demand(TASKS).level is Level.REQUIRED
    assert Policy().demand(TASKS, native=False).level is Level.ADVISORY
    files = TASKS._replace(metric="files_written")
    assert Policy().demand(files, native=False).level is Level.REQUIRED


def test_requests_of_hudi_may_be_counted_in_the_next_step():
    for kind in ("get", "head", "list", "put", "delete"):
        asked = TASKS._replace(metric=f"{kind}_requests", phase="total")
        theirs = 0.25 if kind in ("get", "head") else 0.0
        for native, tolerance in ((True, 0.0), (False, theirs)):
            found = Policy().demand(asked, native=native)
            assert (found.level, found.tolerance) == (Level.REQUIRED, tolerance)


def test_a_later_rule_overrides_what_it_names(tmp_path):
    found = policy(
        tmp_path,
        """
        [[rule]]
        metric = "wall_s"
        phase = "tag"
        level = "required"
        tolerance = 0.1

        [[rule]]
        cell = "native/r*"
        step = "upsert_?"
        metric = "wall_s"
        tolerance = 0.03

        [[rule]]
        metric = "keys_per_s"
        direction = "lower"
        """,
    )
    assert found.demand(TAG).level is Level.REQUIRED
    assert found.demand(TAG).tolerance == 0.03
    assert found.demand(TAG._replace(cell="native/bucket")).tolerance == 0.1
    assert found.demand(TAG._replace(phase="total")).level is Level.ADVISORY
    assert found.demand(TAG._replace(metric="keys_per_s")).better is Better.LOWER


def test_a_counter_may_be_judged_as_times_are(tmp_path):
    found = policy(tmp_path, '[[rule]]\nmetric = "tasks"\nkind = "time"\n')
    assert found.demand(TASKS) == Policy().demand(TASKS).__class__(
        kind=Kind.TIME, tolerance=0.05, better=Better.LOWER, level=Level.REQUIRED
    )


def test_all_mistakes_at_once_with_the_nearest_names(tmp_path):
    found = mistakes(
        tmp_path,
        """
        toleranc = 1

        [[rule]]
        metric = "wall_s"
        tolerence = 0.1
        level = "requird"
        kind = 3

        [[rule]]
        tolerance = -1.0
        direction = "up"
        """,
    )
    text = "; ".join(found)
    assert len(found) == 6
    assert "did you mean 'tolerance'?" in text
    assert "rule 1: level: " in text
    assert "did you mean 'required'?" in text
    assert "rule 1: kind: 3 is none of counter, time" in text
    assert "rule 2: tolerance: " in text
    assert "rule 2: direction: 'up' is none of lower, higher, neither" in text
    assert "toleranc: unknown key" in text


def test_names_that_do_not_exist_are_told_with_the_nearest(tmp_path):
    found = mistakes(
        tmp_path,
        '[[rule]]\nmetric = "wal_s"\n[[rule]]\nphase = "tags"\n[[rule]]\nkind = "counter"\n',
    )
    assert found == (
        "rule 1: metric: unknown 'wal_s' (did you mean 'wall_s'?)",
        "rule 2: phase: unknown 'tags' (did you mean 'tag'?)",
        "rule 3: kind: wall_s does not repeat exactly and is no counter",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [("[[rule]", "not TOML"), ("rule = 3", "rule: "), ("[[rule]]\ncell = 1", "rule 1: cell: ")],
)
def test_what_is_no_policy_is_one_line(tmp_path, text, said):
    assert any(said in each for each in mistakes(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(PolicyError, match="no policy file"):
        load(tmp_path / "none.toml")


def test_a_rule_about_nothing_is_a_mistake(tmp_path):
    found = policy(
        tmp_path,
        '[[rule]]\ncell = "native/recrd"\n'
        '[[rule]]\nstep = "upsert_1"\nmetric = "wall_s"\n'
        '[[rule]]\nstep = "upsert_1"\nmetric = "tasks"\n',
    )
    with pytest.raises(PolicyError) as caught:
        check_used(found, [TAG, TASKS._replace(step="delete")], "p")
    assert caught.value.mistakes == (
        "rule 1: nothing measured is meant: no cell 'native/recrd' (did you mean 'native/record'?)",
        "rule 3: nothing measured is meant: no number has all of its parts",
    )
