from __future__ import annotations

import pytest
from synthetic_runs import beats, quickstart, sample, write_run

from keymark.reports.model import tables
from keymark.reports.model.measures import BY_KEY
from keymark.reports.model.projection import load
from keymark.reports.model.tables import Standing
from keymark.reports.render import prose
from keymark.reports.render.grids import finding, grid
from keymark.reports.sections import page
from keymark.reports.sections.parts import Parts


def lookups(tmp_path, values_by_index, metric="wall_s"):
    """The lookup column of a run in which each index has the given values."""
    step = "lookup" if metric == "wall_s" else "upsert_1"
    samples = [
        sample(cell=index, index=index, step=step, metric=metric, repetition=rep, value=value)
        for index, values in values_by_index.items()
        for rep, value in enumerate(values)
    ]
    (run,) = load([write_run(tmp_path / "run", samples)])
    key = "lookup" if metric == "wall_s" else "shuffle"
    whole = tables.headline(run.cells)
    return whole.cells, next(c for c in whole.columns if c.measure.key == key)


def test_the_best_is_named_where_no_interval_touches_its_own(tmp_path):
    cells, column = lookups(tmp_path, {"record": [1.0, 1.1, 1.2], "bucket": [2.0, 2.2, 2.4]})
    assert column.standing is Standing.BEST
    assert column.leaders == {0}
    assert column.ratios[0] is None
    assert column.ratios[1].median == pytest.approx(2.0)
    assert finding(column, cells) == "record is best"


@pytest.mark.parametrize("values", [[1.0], [1.0, 1.0]])
def test_below_three_repetitions_nothing_is_best(tmp_path, values):
    slow = [9 * value for value in values]
    cells, column = lookups(tmp_path, {"record": values, "bucket": slow})
    assert (column.standing, column.leaders) == (Standing.TOO_FEW, frozenset())
    assert column.ratios == (None, None)
    (answer,) = prose.answers(tables.SummaryTable(cells=cells, columns=(column,)))
    assert answer.words == (
        "too few repetitions to name a best; medians are 1.00 s to 9.00 s; "
        "at least 3 repetitions would decide."
    )
    assert finding(column, cells) == "too few repetitions to tell"


@pytest.mark.parametrize(("noise", "standing"), [(0.5, "best"), (5.0, "no_difference")])
def test_a_difference_within_the_noise_is_none(tmp_path, noise, standing):
    lookups(tmp_path, {"record": [1.0] * 3, "bucket": [2.0] * 3})
    beats(tmp_path / "run", [0.010] * 5 + [0.010 * (1 + noise)] * 5)
    (run,) = load([tmp_path / "run"])
    columns = {column.measure.key: column for column in tables.headline(run.cells).columns}
    assert run.cells[0].noise == pytest.approx(noise / (1 + noise / 2))
    assert columns["lookup"].standing == standing


def test_noise_says_nothing_of_counters(tmp_path):
    lookups(tmp_path, {"record": [1.0] * 3, "bucket": [2.0] * 3}, metric="shuffle_write_bytes")
    beats(tmp_path / "run", [0.010] * 5 + [0.100] * 5)
    (run,) = load([tmp_path / "run"])
    columns = {column.measure.key: column for column in tables.headline(run.cells).columns}
    assert columns["shuffle"].standing is Standing.BEST


def test_how_many_repetitions_would_decide(tmp_path):
    _, column = lookups(tmp_path, {"record": [1.0, 1.1, 1.3], "bucket": [1.2, 1.3, 1.5]})
    assert (column.standing, column.deciding) == (Standing.NO_DIFFERENCE, 8)


def test_zeros_are_a_sentence_and_no_column(tmp_path):
    zeros = {"record": [0.0] * 3, "bucket": [0.0] * 3}
    lookups(tmp_path, zeros, metric="shuffle_write_bytes")
    runs = load([tmp_path / "run"])
    report = page.build(runs, Parts.of(runs))
    (answer,) = report.runs[0].answers
    assert [each.words for each in answer.words] == ["0 B for all: there is nothing to compare."]
    assert answer.table.heads == ()
    assert report.charts == []


def test_touching_intervals_show_no_difference(tmp_path):
    cells, column = lookups(tmp_path, {"record": [1.0, 1.1, 2.0], "bucket": [2.0, 2.2, 2.4]})
    assert column.standing is Standing.NO_DIFFERENCE
    assert column.leaders == frozenset()
    assert column.ratios == (None, None)
    assert finding(column, cells) == "no difference shown"


def test_two_may_share_the_lead(tmp_path):
    samples = {"record": [1.0, 1.1, 1.2], "simple": [5.0, 5.1, 5.2], "bucket": [0.9, 1.0, 1.1]}
    cells, column = lookups(tmp_path, samples)
    assert column.standing is Standing.TIED
    assert {cells[row].index for row in column.leaders} == {"record", "bucket"}
    (answer,) = prose.answers(tables.SummaryTable(cells=cells, columns=(column,)))
    assert "joint best, no difference shown between them" in answer.words
    assert "simple 5.10x (4.73x to 5.56x)" in answer.words


def test_of_rates_the_highest_is_best(tmp_path):
    made = [
        sample(cell=i, index=i, step="lookup", metric="keys_per_s", value=value, repetition=at)
        for i, value in (("record", 4000.0), ("bucket", 1000.0))
        for at in range(3)
    ]
    (run,) = load([write_run(tmp_path / "run", made)])
    whole = tables.filled(tables.headline(run.cells))
    (column,) = whole.columns
    assert (column.measure.key, column.leaders) == ("lookup_rate", {0})
    (answer,) = prose.answers(whole)
    assert answer.words == (
        "record (4,000 /s) is best; as a multiple of the highest: bucket 0.250x."
    )
    (part,) = page.build([run], Parts.of([run])).runs
    assert "lower is better, of rates higher" in part.answers[0].table.caption


def test_counters_within_their_tolerance_are_equal(tmp_path):
    _, column = lookups(
        tmp_path, {"record": [1e6] * 3, "bucket": [1.0005e6] * 3}, metric="shuffle_write_bytes"
    )
    assert column.standing is Standing.NO_DIFFERENCE


def test_counters_beyond_their_tolerance_differ(tmp_path):
    _, column = lookups(
        tmp_path, {"record": [1e6] * 3, "bucket": [1.002e6] * 3}, metric="shuffle_write_bytes"
    )
    assert column.standing is Standing.BEST


def test_ratios_are_taken_within_a_repetition(tmp_path):
    slow = [1.0, 10.0, 3.0]
    _, column = lookups(tmp_path, {"record": [1.0 for _ in slow], "bucket": [2.0, 20.0, 6.0]})
    assert column.ratios[1].low == 2.0
    assert column.ratios[1].high == 20.0


def test_one_cell_is_compared_with_nothing(tmp_path):
    cells, column = lookups(tmp_path, {"record": [1.0]})
    assert column.standing is Standing.ALONE
    assert prose.answers(tables.SummaryTable(cells=cells, columns=(column,))) == []


def test_nothing_of_a_thing_is_no_victory(tmp_path):
    cells, column = lookups(
        tmp_path, {"record": [4096.0] * 3, "bucket": [0.0] * 3}, metric="shuffle_write_bytes"
    )
    (answer,) = prose.answers(tables.SummaryTable(cells=cells, columns=(column,)))
    assert answer.words == "4.00 KiB with record; 0 B with bucket."
    assert (column.standing, column.leaders) == (Standing.SOME_ZEROS, frozenset())
    assert finding(column, cells) == "0 for some"


def test_sentences_stay_short_where_many_are_compared(tmp_path):
    cells, column = lookups(tmp_path, {f"i{n}": [1.0 + n] * 3 for n in range(12)})
    (answer,) = prose.answers(tables.SummaryTable(cells=cells, columns=(column,)))
    assert answer.words == (
        "i0 (1.00 s) is best; as a multiple of the lowest: i1 2.00x, i2 3.00x, i3 4.00x, i4 5.00x, "
        "6 more, and at the end i11 12.0x."
    )


def test_storage_is_that_of_the_last_step_that_tells(tmp_path):
    samples = [
        sample(step=step, metric="index_bytes", value=value)
        for step, value in (("delete", 30.0), ("bulk_insert", 10.0), ("upsert_1", 20.0))
    ]
    (run,) = load([write_run(tmp_path / "run", samples)])
    (column,) = tables.filled(tables.headline(run.cells)).columns
    assert column.measure.key == "storage"
    assert column.summaries[0].median == 30.0


def test_tables_of_a_quickstart(tmp_path):
    (run,) = load([quickstart(tmp_path / "run")])
    assert [c.measure.key for c in tables.phases(run.cells).columns] == [
        "tag", "write", "index", "commit", "rest", "total",
    ]  # fmt: skip
    words = grid(tables.filled(tables.headline(run.cells)), "answer")
    assert [len(row.entries) for row in words.rows] == [7] * 4
    assert words.rows[3].entries[0].mark == "best"
    assert words.rows[3].entries[0].ratio == ""
    assert words.rows[0].entries[0].ratio.endswith("x")
    work = tables.work(run.cells, BY_KEY["write_latency"])
    assert "index_bytes" not in [column.measure.key for column in work.columns]


def test_unverified_cells_are_refused(tmp_path):
    (run,) = load([write_run(tmp_path / "run", [sample(verified=False, reason="wrong")])])
    with pytest.raises(AssertionError):
        tables.headline(run.cells)


def one_trial(tmp_path, seconds_by_index, **more):
    """The headline of a run of one repetition, by measure; each index has these rounds."""
    samples = [
        sample(cell=index, index=index, step=f"upsert_{number}", round=number, value=value)
        for index, rounds in seconds_by_index.items()
        for number, value in enumerate(rounds, start=1)
    ]
    # A load is repeated for itself.
    loads = [
        sample(cell=index, index=index, step="bulk_insert", repetition=at, value=9.0)
        for index in seconds_by_index
        for at in range(2)
    ]
    stored = [
        sample(cell=index, index=index, step="delete", metric="index_bytes", value=value)
        for index, value in more.items()
    ]
    (run,) = load([write_run(tmp_path / "run", [*samples, *loads, *stored])])
    columns = tables.headline(run.cells).columns
    return run.cells, {column.measure.key: column for column in columns}


def test_in_a_run_of_one_repetition_the_rounds_are_the_values_and_the_pairs(tmp_path):
    rounds = {"record": [1.0, 2.0, 3.0], "bucket": [4.0, 8.0, 12.0]}
    cells, columns = one_trial(tmp_path, rounds)
    column = columns["write_latency"]
    assert (column.standing, column.leaders) == (Standing.BEST, {0})
    assert [(each.n, each.median) for each in column.summaries] == [(3, 2.0), (3, 8.0)]
    assert (column.ratios[1].low, column.ratios[1].high, column.ratios[1].n) == (4.0, 4.0, 3)
    answered = prose.answers(tables.SummaryTable(cells=cells, columns=(column,)))
    assert [each.topic for each in answered] == ["Upsert batch by rounds of one trial"]


def test_rounds_of_one_repetition_do_not_say_how_many_repetitions_would_decide(tmp_path):
    rounds = {"record": [1.0, 1.1, 1.3], "bucket": [1.2, 1.3, 1.5]}
    _, columns = one_trial(tmp_path, rounds)
    column = columns["write_latency"]
    assert (column.standing, column.deciding) == (Standing.NO_DIFFERENCE, None)


@pytest.mark.parametrize("rounds", [1, 2])
def test_few_rounds_of_one_repetition_are_too_few(tmp_path, rounds):
    told = {"record": [1.0] * rounds, "bucket": [9.0] * rounds}
    cells, columns = one_trial(tmp_path, told)
    column = columns["write_latency"]
    assert (column.standing, column.by_rounds) == (Standing.TOO_FEW, rounds > 1)
    (answer,) = prose.answers(tables.SummaryTable(cells=cells, columns=(column,)))
    assert answer.words.endswith("; at least 3 repetitions would decide.")


def test_of_several_repetitions_each_is_one_value(tmp_path):
    made = [
        sample(step=f"upsert_{number}", round=number, repetition=at, value=float(number))
        for number in (1, 2, 3)
        for at in range(3)
    ]
    (run,) = load([write_run(tmp_path / "run", made)])
    assert run.cells[0].values("upsert", "total", "wall_s") == dict.fromkeys(
        [(0, 0), (1, 0), (2, 0)], 2.0
    )


def test_of_counters_one_repetition_is_enough(tmp_path):
    rounds = {"record": [1.0], "bucket": [4.0]}
    _, columns = one_trial(tmp_path, rounds, record=4096.0, bucket=8192.0)
    assert columns["write_latency"].standing is Standing.TOO_FEW
    assert (columns["storage"].standing, columns["storage"].leaders) == (Standing.BEST, {0})
    rounds = {"record": [1.0], "bucket": [4.0]}
    _, columns = one_trial(tmp_path / "same", rounds, record=4096.0, bucket=4096.0)
    assert (columns["storage"].standing, columns["storage"].deciding) == ("no_difference", None)
