"""Charts of formats and of the site's own: releases, published figures, the planner's errors."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from site_cases import unexamined
from synthetic_plan import plan_run
from synthetic_runs import quickstart, sample, write_run
from test_formats_part import DELTA, ICEBERG, NATIVE, WRITES
from test_formats_part import run_of as formats_of
from test_releases_part import NEW, NEWER, OLD, times_and_tasks
from test_releases_part import run_of as releases_of

from keymark.reports.model import projection
from keymark.reports.published.provenance import Provenance
from keymark.reports.render.charts import Lettering
from keymark.reports.render.dots_chart import Dot, DotRow, dots_chart
from keymark.reports.render.format_chart import format_charts
from keymark.reports.site.question_charts import question_charts
from keymark.reports.site.release_chart import release_charts
from keymark.reports.site.runs import RunSource, publish_run


def load(path):
    (run,) = projection.load([path])
    return run


def values(grid):
    """The first words of each entry, by row and head."""
    return {
        row.label: dict(zip(grid.heads, (each.value for each in row.entries), strict=True))
        for row in grid.rows
    }


def test_formats_are_shown_as_multiples_of_the_best(tmp_path):
    ((made, finding),) = format_charts(load(formats_of(tmp_path / "run", WRITES)))
    assert (made.key, made.title) == ("formats_1", "Table formats by question: hot")
    assert finding == "Of 1 question, record · native answers 1 best."
    assert values(made.grid)["Writing a batch"] == {
        "native record": "1.00x",
        "delta@3.3.2 merge_dv": "3.00x",
        "iceberg@1.10.0 merge_mor": "4.00x",
    }
    assert finding in made.label
    ET.fromstring(made.drawing.pictures(Lettering()).svg)


def test_a_question_that_one_format_answers_alone_is_not_won(tmp_path):
    alone = {"range_query total wall_s": 1.0}
    told = {**WRITES, NATIVE: WRITES[NATIVE] | alone}
    ((made, finding),) = format_charts(load(formats_of(tmp_path / "run", told)))
    assert len(made.grid.rows) == 2
    assert finding == "Of 2 questions, record · native answers 1 best and 1 has one answer only."


def test_a_mode_without_compaction_stands_beside_those_that_compact(tmp_path):
    compacted = f"{ICEBERG}/kept"
    told = {
        NATIVE: {"upsert_1 total wall_s": 1.0},
        ICEBERG: {"upsert_1 total wall_s": 2.0},
        compacted: {"upsert_1 total wall_s": 2.0, "compact_rows_1 total wall_s": 4.0},
    }
    ((made, _),) = format_charts(load(formats_of(tmp_path / "run", told)))
    shown = values(made.grid)["Writing a batch, its share of compaction included"]
    assert shown == {"native record": "1.00x", "iceberg@1.10.0 merge_mor": "6.00x"}


def test_of_one_trial_a_chart_has_its_sentence_too(tmp_path):
    samples = [
        sample(cell=f"native/{index}", index=index, step=f"upsert_{at}", round=at, value=at * times)
        for index, times in (("record", 1.0), ("bucket", 4.0))
        for at in (1, 2, 3)
    ]
    source = RunSource(path=write_run(tmp_path / "r1", samples), provenance=Provenance(), place=0)
    _, entry = publish_run(tmp_path / "site", unexamined, source)
    (shown, *_) = entry.shown["write"]
    assert shown.sentence == (
        "By rounds of one trial: record (2.00 s, 1.00 to 3.00 s) is best; as a multiple of the "
        "lowest: bucket 4.00x."
    )


def test_nothing_is_shown_of_runs_without_several_formats(tmp_path):
    assert list(format_charts(load(quickstart(tmp_path / "run")))) == []
    one = formats_of(tmp_path / "one", {DELTA: WRITES[DELTA]})
    assert list(format_charts(load(one))) == []


def test_releases_are_multiples_of_the_first(tmp_path):
    measured = {
        NEWER: times_and_tasks([1.0, 1.1, 1.2], 50.0),
        OLD: times_and_tasks([4.0, 4.4, 4.8], 100.0),
        NEW: times_and_tasks([2.0, 2.2, 2.4], 100.0),
    }
    ((made, finding),) = release_charts(load(releases_of(tmp_path, measured)))
    assert made.title == "Releases of Hudi: record"
    assert values(made.grid) == {"Upsert batch": {NEW: "0.500x", NEWER: "0.250x"}}
    assert finding == f"{NEWER} beside {OLD}: less: upsert batch 0.250x."


def test_one_release_has_no_chart(tmp_path):
    assert list(release_charts(load(releases_of(tmp_path, {OLD: {"wall_s": [1.0]}})))) == []


def charts(path):
    return {key: (made, told) for key, made, told in question_charts(load(path))}


def test_published_figures_have_a_chart(tmp_path):
    made, told = charts(quickstart(tmp_path / "run"))["published"]
    assert " published figures, native reaches " in told
    assert made.grid.heads[0] == "published"
    assert "as a multiple of the published figure" in made.drawing.bare_svg
    assert charts(write_run(tmp_path / "alone", [sample()])) == {}


def test_published_figures_of_two_engines_have_a_chart(tmp_path):
    told = {"hudi@1.2.0/record": {"upsert_1 total wall_s": 1.0}}
    told |= {DELTA: {"upsert_1 total wall_s": 3.0}, ICEBERG: {"upsert_1 total wall_s": 2.0}}
    made, _ = charts(formats_of(tmp_path / "run", told))["published"]
    assert "An upsert takes a sixth of" in made.drawing.bare_svg
    assert "hudi@1.2.0" in made.drawing.bare_svg


def test_the_planners_errors_have_a_chart(tmp_path):
    made, told = charts(plan_run(tmp_path / "run", repetitions=1))["planner"]
    assert told.startswith("Half of ")
    assert "error in %" in made.drawing.bare_svg
    assert made.grid.heads[0] == "beyond"


@pytest.mark.parametrize("value", [0.0, 1e-9, 1e9])
def test_dots_are_drawn_wherever_they_are(value):
    rows = [
        DotRow(
            label="a row with a label that needs more than one line",
            dots=(
                Dot(name="a", color="#123456", value=value, low=0.0, high=value),
                Dot(name="b", color="#654321", value=2.0, low=1.0, high=3.0),
            ),
        )
    ]
    drawn = dots_chart(rows, title="t", axis="x")
    assert drawn.bare_svg == dots_chart(rows, title="t", axis="x").bare_svg
    ET.fromstring(drawn.bare_svg)


@pytest.mark.parametrize(
    ("value", "ticks"),
    [(50.0, {"1", "2", "5", "10", "20", "50"}), (90.0, {"1", "3", "10", "30"}), (5e3, {"1", "10"})],
)
def test_a_wide_axis_has_as_many_ticks_as_it_has_room_for(value, ticks):
    dot = Dot(name="a", color="#123456", value=value, low=value, high=value)
    svg = dots_chart([DotRow(label="a", dots=(dot,))], title="t", axis="x").bare_svg
    numbers = {text for each in ET.fromstring(svg).itertext() if (text := each.strip()).isdigit()}
    assert numbers & {"1", "2", "3", "5", "10", "20", "30", "50"} == ticks


def test_long_words_below_the_axis_stay_on_the_picture():
    dot = Dot(name="a", color="#123456", value=2.0, low=1.0, high=3.0)
    words = "measured as a multiple of the published figure\non the line or left of it: reached"
    svg = dots_chart([DotRow(label="a", dots=(dot,))], title="t", axis=words).bare_svg
    lines = {each.strip() for each in ET.fromstring(svg).itertext()}
    assert lines >= {
        "measured as a multiple of the published",
        "figure",
        "on the line or left of it: reached",
    }
