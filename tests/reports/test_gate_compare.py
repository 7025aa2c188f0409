from __future__ import annotations

import numpy as np
import pytest
from gate_noise import side
from hypothesis import given
from hypothesis import strategies as st

from keymark.harness.store.units import METRICS, Better
from keymark.reports.errors import ReportError
from keymark.reports.gate.compare import ALL_STEPS, compare
from keymark.reports.gate.policy import Kind, Level, Policy, PolicyRule
from keymark.reports.gate.reasons import grown
from keymark.reports.gate.run_numbers import Key, MeasuredNumber
from keymark.reports.gate.verdicts import Verdict
from keymark.reports.stats.statistics import CaveatKind

REQUIRED = Policy(rule=(PolicyRule(metric="wall_s", level=Level.REQUIRED),))
COUNTERS = sorted(name for name, metric in METRICS.items() if metric.counter)


def key(metric="tasks", **changes):
    parts = {"cell": "record", "step": "upsert_1", "phase": "total"} | changes
    return Key(metric=metric, **parts)


def trials(*values):
    return {(repetition, 1): float(value) for repetition, value in enumerate(values)}


def judged(base, candidate, *, metric="tasks", policy=None, run="other"):
    """The one finding of two sides with one number; by default of separate runs."""
    sides = side("a", {key(metric): base}), side("b", {key(metric): candidate}, run=run)
    answer = compare(*sides, policy or Policy())
    (found,) = answer.findings
    return found, answer


def verdict(base, candidate, **options):
    return judged(base, candidate, **options)[0].judged.verdict


@pytest.mark.parametrize("metric", COUNTERS)
@given(value=st.integers(0, 10**12), bytes_=st.integers(1000, 10**15), n=st.integers(1, 5))
def test_growth_by_a_unit_or_by_one_per_cent_of_bytes_is_always_caught(metric, value, bytes_, n):
    before, after = value, value + 1
    if METRICS[metric].tolerance:
        tolerance = Policy().demand(key(metric)).tolerance
        before, after = bytes_, bytes_ * (1.01 if tolerance < 0.01 else 1.01 + 2 * tolerance)
    assert verdict(trials(*[before] * n), trials(*[after] * n), metric=metric) == "regression"
    back = verdict(trials(*[after] * n), trials(*[before] * n), metric=metric)
    both_ways = METRICS[metric].better is Better.NEITHER
    assert back == ("regression" if both_ways else "improvement")
    assert verdict(trials(*[before] * n), trials(*[before] * n), metric=metric) == "pass"


def test_growth_in_one_repetition_only_is_caught():
    assert verdict(trials(7, 7, 7), trials(7, 7, 8)) is Verdict.REGRESSION


@pytest.mark.parametrize(
    ("after", "metric", "words"),
    [
        ((7, 7, 8), "tasks", "Spark tasks of upsert_1 grew up to 14 % in some repetitions"),
        ((6, 6, 8), "tasks", "Spark tasks of upsert_1 grew up to 14 % in some repetitions"),
        ((8, 8, 8), "tasks", "Spark tasks of upsert_1 grew 14 %"),
    ],
)
def test_a_number_that_is_worse_in_some_repetitions_is_not_said_to_shrink(after, metric, words):
    found, _ = judged(trials(7, 7, 7), trials(*after), metric=metric)
    assert found.judged.verdict is Verdict.REGRESSION
    assert grown(found) == words


def test_growth_from_nothing_has_no_ratio():
    found, _ = judged(trials(0, 0), trials(1, 1))
    assert found.judged.verdict is Verdict.REGRESSION
    assert found.judged.ratio is None


def test_bytes_within_the_tolerance_pass():
    assert verdict(trials(100_000), trials(100_099), metric="shuffle_read_bytes") is Verdict.PASS
    assert (
        verdict(trials(100_000), trials(100_101), metric="shuffle_read_bytes") is Verdict.REGRESSION
    )


@pytest.mark.parametrize(
    ("kind", "after", "expected"),
    [("get", 123, "pass"), ("get", 150, "regression"), ("put", 105, "regression")],
)
def test_requests_of_hudi_pass_within_what_its_client_counts_too_late(kind, after, expected):
    def of_hudi(name, requests):
        counted = {key(f"{kind}_requests"): trials(requests, requests)}
        return side(name, counted, run=name, foreign=frozenset({"record"}))

    answer = compare(of_hudi("a", 104), of_hudi("b", after), Policy())
    assert answer.verdict == expected


def test_a_base_that_varies_makes_room_and_is_told():
    found, _ = judged(trials(30, 34, 31), trials(34, 31, 36))
    assert found.judged.verdict is Verdict.PASS
    assert [caveat.kind for caveat in found.judged.caveats] == [CaveatKind.VARIES]
    assert verdict(trials(30, 34, 31), trials(39, 36, 31)) is Verdict.REGRESSION


def test_growth_that_is_the_same_in_every_repetition_shows_through_what_varies():
    """A point query asks for another key in each repetition."""
    base = trials(1000, 1500, 1200)
    more = trials(1010, 1515, 1212)
    assert verdict(base, more, metric="input_bytes") is Verdict.REGRESSION
    assert verdict(base, trials(1000.5, 1500, 1200.1), metric="input_bytes") is Verdict.PASS


def test_only_repetitions_that_both_have_are_compared():
    assert verdict(trials(1000, 1500), trials(1000, 1500, 9000), metric="input_bytes") == "pass"


def gate_of_a_job(base, candidate, metric="tasks"):
    """The gate of one counter of code that is not Keymark's."""
    cells = {"unseeded": frozenset({"record"})}
    sides = (
        side(name, {key(metric): trials(*values)}, **cells)
        for name, values in (("a", base), ("b", candidate))
    )
    return compare(*sides, Policy())


def of_a_job(*sides, **metric):
    """Its verdict."""
    return gate_of_a_job(*sides, **metric).verdict


CHANCES = {
    "tasks": lambda random: 148 + random.integers(0, 5, 5),
    "one more task, now and then": lambda random: 148 + (random.random(5) < 0.1),
    "bytes": lambda random: random.normal(1e6, 1e5, 5),
    "bytes with a tail": lambda random: 1e6 * (1 + random.exponential(1, 5)),
}


@pytest.mark.parametrize("name", CHANCES)
def test_a_counter_of_a_job_that_varies_raises_hardly_any_false_alarm(name):
    random = np.random.default_rng(11)
    draw = CHANCES[name]
    found = [of_a_job(draw(random), draw(random)) for _ in range(1000)]
    assert found.count("regression") <= 10
    assert found.count("pass") >= 700


def test_growth_of_a_counter_that_varies_is_caught_where_it_is_more_than_chance():
    base = (30, 34, 31, 33, 30)
    assert of_a_job(base, (38, 42, 39, 41, 38)) == "regression"
    assert of_a_job(base, (34, 42, 39, 41, 38)) == "inconclusive"
    assert of_a_job(base[:4], (34, 42, 39, 41)) == "regression"
    # Every second repetition grows: ten pairs show what five leave open.
    assert of_a_job((7,) * 5, (7, 9) * 2 + (7,)) == "inconclusive"
    assert of_a_job((7,) * 20, (7, 9) * 10) == "regression"
    # Of changed rows, fewer are as wrong as more.
    assert of_a_job((100,) * 5, (99, 98, 99, 97, 99), metric="rows_changed") == "regression"


def test_a_counter_that_no_repetition_decides_says_what_would():
    (found,) = gate_of_a_job((7,) * 5, (7, 7, 8, 7, 7)).findings
    (caveat,) = found.judged.caveats
    assert caveat.kind is CaveatKind.VARIES
    assert caveat.detail == "5 repetitions do not tell growth from chance; more of them would"


def test_one_more_of_a_rate_is_better():
    policy = Policy(rule=(PolicyRule(metric="tasks", direction="higher"),))
    assert verdict(trials(5), trials(6), policy=policy) is Verdict.IMPROVEMENT
    assert verdict(trials(5), trials(4), policy=policy) is Verdict.REGRESSION


def test_times_of_separate_runs_are_not_compared():
    found, answer = judged(trials(1, 1, 1), trials(9, 9, 9), metric="wall_s")
    assert found.judged.verdict is Verdict.INCONCLUSIVE
    assert found.judged.caveats[0].kind is CaveatKind.UNPAIRED
    assert answer.verdict is Verdict.PASS
    _, required = judged(trials(1, 1, 1), trials(9, 9, 9), metric="wall_s", policy=REQUIRED)
    assert required.verdict is Verdict.INCONCLUSIVE


def test_equal_samples_pass_however_few_and_from_wherever():
    for values in ((1.0,), (1.0, 1.3, 0.9)):
        for run in ("run", "other"):
            _, answer = judged(
                trials(*values), trials(*values), metric="wall_s", policy=REQUIRED, run=run
            )
            assert answer.verdict is Verdict.PASS


def test_times_of_one_run_are_judged_by_pairs():
    noise = [0.01 * (n % 5) for n in range(20)]
    base = trials(*(1 + each for each in noise))
    slower = trials(*(1.2 + each for each in reversed(noise)))
    found, answer = judged(base, slower, metric="wall_s", policy=REQUIRED, run="run")
    assert answer.verdict is found.judged.verdict is Verdict.REGRESSION
    assert found.judged.low < 1.2 < found.judged.high < 1.25
    assert found.judged.pairs == 20
    assert verdict(slower, base, metric="wall_s", run="run") is Verdict.IMPROVEMENT
    rate = verdict(base, slower, metric="keys_per_s", run="run")
    assert rate is Verdict.IMPROVEMENT


def test_few_pairs_decide_nothing_and_say_how_many_would():
    found, answer = judged(
        trials(1, 1.01, 1), trials(1.5, 1.52, 1.5), metric="wall_s", policy=REQUIRED, run="run"
    )
    assert answer.verdict is Verdict.INCONCLUSIVE
    assert found.judged.needed >= 12
    assert found.judged.caveats[0].kind is CaveatKind.FEW_SAMPLES


def test_a_slowdown_in_every_step_shows_in_their_mean():
    """Alone no step has enough evidence; together they have."""
    steps = [key("wall_s", step=f"upsert_{number}", phase="tag") for number in range(1, 9)]
    base = {each: trials(*[1.0] * 16) for each in steps}
    slower = {
        each: trials(*(0.995 if (n + place) % 8 < 3 else 1.1 for n in range(16)))
        for place, each in enumerate(steps)
    }
    answer = compare(side("a", base), side("b", slower), REQUIRED)
    found = [each.key.step for each in answer.with_verdict(Verdict.REGRESSION, decides=True)]
    assert found == [ALL_STEPS]


def test_what_is_advisory_never_decides():
    values = trials(*[1.0 + 0.001 * n for n in range(20)])
    slower = {trial: 3 * value for trial, value in values.items()}
    found, answer = judged(values, slower, metric="wall_s", run="run")
    assert found.judged.verdict is Verdict.REGRESSION
    assert answer.verdict is Verdict.PASS


def test_a_counter_judged_as_a_time():
    policy = Policy(rule=(PolicyRule(metric="tasks", kind=Kind.TIME),))
    assert verdict(trials(30, 34), trials(34, 30), policy=policy, run="run") == "inconclusive"


def test_what_the_candidate_lacks_is_a_finding():
    base = side("a", {key(): trials(1), key(cell="bucket"): trials(1)})
    lacks = compare(base, side("b", {key(): trials(1)}, run="b"), Policy())
    assert lacks.verdict is Verdict.REGRESSION
    assert lacks.findings[0].key == Key("bucket", "", "", "")
    wrong = side("b", {key(): trials(1)}, run="b", wrong={"bucket": "3 rows differ"})
    assert compare(base, wrong, Policy()).findings[0].judged.caveats[0].detail == "3 rows differ"
    ignored = Policy(rule=(PolicyRule(cell="bucket", level=Level.IGNORED),))
    assert compare(base, wrong, ignored).verdict is Verdict.PASS
    assert compare(base, base, Policy()).verdict is Verdict.PASS
    less = side("a", {key(): trials(1), key("files_read"): trials(1)})
    assert compare(less, side("b", {key(): trials(1)}, run="b"), Policy()).verdict == "regression"


def test_what_is_new_is_told_and_no_finding():
    more = side("b", {key(): trials(1), key(cell="bucket"): trials(1)}, run="b")
    answer = compare(side("a", {key(): trials(1)}), more, Policy())
    assert answer.verdict is Verdict.PASS
    assert any("bucket is new" in warning for warning in answer.warnings)


def test_a_base_that_is_not_verified_is_refused():
    with pytest.raises(ReportError, match="cannot be a base: bucket is not verified"):
        compare(
            side("a", {key(): trials(1)}, wrong={"bucket": "failed"}),
            side("b", {key(): trials(1)}),
            Policy(),
        )


def test_other_work_is_refused_and_other_options_are_told():
    sides = [
        side("a", {key(): trials(1)}, work={"dataset.rows": "10", "table.options.x": "1"}),
        side("b", {key(): trials(1)}, work={"dataset.rows": "20", "table.options.x": "1"}),
        side("c", {key(): trials(1)}, work={"dataset.rows": "10", "table.options.x": "2"}),
    ]
    with pytest.raises(ReportError, match=r"dataset\.rows is 10 there and 20 in the candidate"):
        compare(sides[0], sides[1], Policy())
    answer = compare(sides[0], sides[2], Policy())
    assert "table.options.x is 1 there and 2 in the candidate" in answer.warnings


def test_unknown_metrics_are_told_and_left_out():
    values = {key(): trials(1), key("made_up"): trials(1)}
    answer = compare(side("a", values), side("b", values, run="b"), Policy())
    assert len(answer.findings) == 1
    assert any("made_up" in warning for warning in answer.warnings)


def test_summaries_are_compared_by_their_ends():
    base = MeasuredNumber(unit="1", median=7, min=7, max=7, n=3)
    for worse in (
        MeasuredNumber(unit="1", median=7, min=7, max=8, n=3),
        MeasuredNumber(unit="1", median=8, min=8, max=8, n=3),
    ):
        sides = [
            side(name, {}, numbers={key(): values}, origin=None)
            for name, values in (("a", base), ("b", worse))
        ]
        assert compare(*sides, Policy()).verdict is Verdict.REGRESSION
        assert compare(sides[0], sides[0], Policy()).verdict is Verdict.PASS
