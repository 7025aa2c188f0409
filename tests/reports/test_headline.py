"""The sentences on top of a report: page, Markdown and terminal."""

from __future__ import annotations

import html

import pytest
from synthetic_runs import INFO, beats, quickstart, sample, write_run

from keymark import cli as run_bench
from keymark.reports.model import projection
from keymark.reports.model.data_points import leading
from keymark.reports.publish import publish
from keymark.reports.sections.headline import headline

BEST = (
    "An upsert of 10,000 rows into a table of 200,000 takes 2.29 s with bucket, 1.3 times as long "
    "with record, 2.2 times as long with global_bloom and 2.8 times as long with global_simple."
)
MORE = (
    "Finding the rows that an upsert changes takes 95.5 ms with bucket, 4.3 times as long with "
    "record, 29 times as long with global_bloom and 42 times as long with global_simple; that is "
    "4 % of an upsert with bucket and 64 % of an upsert with global_simple. What an upsert "
    "shuffles is 840 KiB with bucket, 1.1 times as much with record, 2.9 times as much with "
    "global_bloom and 18 times as much with global_simple. Reading one row by its key takes "
)
NOISE = "The machine's noise during the run: 4.95 %."


def test_the_sentence_stands_first_everywhere_with_the_noise_beside_it(tmp_path, capsys):
    path = quickstart(tmp_path / "run")
    beats(path, [0.010, 0.0105, 0.0101] * 20)
    assert run_bench.main(["report", str(path)]) == 0
    told = capsys.readouterr().out.splitlines()[0]
    assert told.startswith(f"{BEST} {MORE}")
    assert told.endswith(NOISE)
    written = (path / "summary.md").read_text().replace("\\_", "_").splitlines()[2]
    assert written.startswith(f"**{BEST}** {MORE}")
    page = html.unescape((path / "report" / "index.html").read_text())
    assert page.index(BEST) < page.index(MORE) < page.index(NOISE) < page.index("Verified.")


def test_of_several_runs_each_has_its_own(tmp_path):
    first, second = (quickstart(tmp_path / name, run_id=name) for name in ("first", "second"))
    publish([first, second], tmp_path / "both")
    lines = (tmp_path / "both" / "summary.md").read_text().splitlines()
    assert lines[2].startswith("**Run A: first: An upsert of 10,000 rows")
    assert sum("machine's noise was not measured" in line for line in lines) == 2


def said(path, values, *, steps=("upsert_1",)):
    """The sentence about cells whose steps took these seconds in each repetition."""
    samples = [
        sample(cell=f"native/{index}", index=index, step=step, repetition=repetition, value=value)
        for index, times in values.items()
        for step in steps
        for repetition, value in enumerate(times)
    ]
    [run] = projection.load([write_run(path, samples, INFO | {"run_id": "r1"})])
    return headline(run, leading(run.cells)).sentence


@pytest.mark.parametrize(
    ("values", "steps", "sentence"),
    [
        (
            {"record": [1.0], "bloom": [4.0]},
            ["upsert_1"],
            (
                "Too few repetitions to say which index is best at an upsert of 10,000 rows into a "
                "table of 200,000: medians are 1.00 s to 4.00 s, and at least 3 repetitions would "
                "decide."
            ),
        ),
        (
            {"record": [1.0, 1.2, 1.4], "bloom": [1.1, 1.2, 1.3]},
            ["lookup"],
            (
                "No index is shown to be better than another at a lookup of 10,000 keys in a "
                "table of 200,000: all are at 1.20 s."
            ),
        ),
        (
            {"record": [1.0, 1.1, 1.2], "bloom": [1.1, 1.2, 1.3], "simple": [4.0, 4.4, 4.8]},
            ["delete"],
            (
                "A delete of 2,000 keys from a table of 200,000 takes 1.10 s with record and "
                "bloom, which are not told apart, 4 times as long with simple."
            ),
        ),
        (
            {"record": [1.0, 1.1, 1.2]},
            ["point_query"],
            "Reading one row by its key takes 1.10 s with record.",
        ),
    ],
)
def test_it_says_no_more_than_is_shown(tmp_path, values, steps, sentence):
    assert said(tmp_path / "run", values, steps=steps) == sentence


def test_upserts_that_do_not_differ_say_why(tmp_path):
    samples = [
        sample(cell=f"native/{index}", index=index, repetition=turn, phase=phase, value=value)
        for index, tagging in (("record", 0.02), ("bloom", 0.1))
        for turn, total in enumerate((1.9, 2.0, 2.1))
        for phase, value in (("tag", tagging), ("total", total))
    ]
    [run] = projection.load([write_run(tmp_path / "run", samples, INFO | {"run_id": "r1"})])
    found = headline(run, leading(run.cells))
    assert found.sentence.endswith(
        "all are at 2.00 s; 95 % of it or more is the same work with every index."
    )
    [told] = found.more
    assert told == (
        "Finding the rows that an upsert changes takes 20.0 ms with record, 5 times as long with "
        "bloom; that is 1 % of an upsert with record and 5 % of an upsert with bloom."
    )


def test_many_indexes_are_named_by_the_nearest_and_the_last(tmp_path):
    values = {f"i{place}": [2.0**place] * 3 for place in range(6)}
    assert said(tmp_path / "run", values).endswith(
        "takes 1.00 s with i0, 2 times as long with i1, 4 times as long with i2 and 32 times as "
        "long with i5."
    )


def test_without_a_right_cell_there_is_none(tmp_path):
    path = write_run(tmp_path / "run", [sample(verified=False, reason="wrong")])
    assert publish([path]).report.runs[0].headline is None


def test_the_rounds_of_one_repetition_are_named(tmp_path):
    samples = [
        sample(cell=f"native/{index}", index=index, step=f"upsert_{n}", round=n, value=times * n)
        for index, times in (("record", 1.0), ("bucket", 5.0))
        for n in (1, 2, 3)
    ]
    (run,) = projection.load([write_run(tmp_path / "run", samples, INFO | {"run_id": "r1"})])
    assert headline(run, leading(run.cells)).sentence == (
        "An upsert of 10,000 rows into a table of 200,000 takes, by rounds of one trial, 2.00 "
        "s with record, 5 times as long with bucket."
    )
