"""The page of a run with many cells: grouped, folded, and still one well-formed page."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from synthetic_matrix import matrix
from synthetic_runs import sample, write_run

from keymark.reports.model.projection import load
from keymark.reports.publish import publish
from keymark.reports.sections import page
from keymark.reports.sections.parts import Parts

INDEXES = ("record", "global_simple", "bucket")


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The report on 24 cells; tests must not change its files."""
    path = tmp_path_factory.mktemp("matrix") / "run"
    return publish(
        [matrix(path, indexes=INDEXES, shapes=("random", "skewed"), sizes=(20_000, 320_000))]
    )


class Page(HTMLParser):
    """Folded parts and ids of a page, and whether what is opened is closed."""

    def __init__(self, text):
        super().__init__()
        self.folds, self.ids, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if tag in ("details", "figure", "section", "table", "ul", "div"):
            self.open.append(tag)
        if tag == "details" and attrs.get("class") == "part":
            self.folds.append("open" in attrs)

    def handle_endtag(self, tag):
        if tag in ("details", "figure", "section", "table", "ul", "div"):
            assert self.open.pop() == tag


def test_there_is_an_answer_for_each_shape_at_the_largest(published):
    (run,) = published.report.runs
    assert [answer.where for answer in run.answers] == [
        "random · 320,000 rows · batches of 16,000",
        "skewed · 320,000 rows · batches of 16,000",
    ]
    for answer in run.answers:
        assert [row.label for row in answer.table.rows] == list(INDEXES)
    assert published.report.charted == run.answers[0].where
    for chart in published.report.charts:
        assert [row.index for row in chart.grid.rows] == list(INDEXES)


def test_a_chart_that_is_too_long_to_be_read_is_not_drawn(published, monkeypatch):
    assert published.report.charts
    (part,) = published.report.runs
    (run,) = load([published.index.parents[1]])
    monkeypatch.setattr(page, "MOST_BARS", len(INDEXES) - 1)
    report = page.build([run], Parts.of([run]))
    assert report.charts == []
    assert f"{len(INDEXES)} cells are too many for one chart each measure" in report.cautions[-1]
    assert report.runs[0].answers == part.answers


def test_every_cell_is_in_the_details_the_answers_own_first(published):
    details = published.report.details
    assert len(details) == 8
    assert [each.foremost for each in details] == [True] * 2 + [False] * 6
    assert details[0].where == "random · 320,000 rows · batches of 16,000"
    assert details[2].where == "random · 320,000 rows · batches of 1,000"
    assert all(len(grid.rows) == 3 for each in details for grid in each.grids)


def test_the_page_is_whole_and_only_the_first_of_each_kind_is_unfolded(published):
    page = Page(published.index.read_text(encoding="utf-8"))
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert {"which", "growth", "chart-growth_tag", "chart-growth_batch_tag"} <= set(page.ids)
    answers, maps, details = page.folds[:2], page.folds[2:5], page.folds[5:]
    assert answers == [True, False]
    assert maps == [True, False, False]
    assert details == [True, *[False] * 7]


def test_lines_have_their_names_at_their_ends_in_every_panel(published):
    (growth,) = published.report.growths
    (tag,) = [chart for chart in growth.charts if chart.key == "growth_tag"]
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", tag.drawing.bare_svg)
    assert all(texts.count(index) == 2 for index in INDEXES)
    assert {"random, seconds", "skewed, seconds", "20 k", "320 k"} <= set(texts)
    assert growth.heading == "As table and batches grow"


def test_the_summaries_stay_short(published):
    folder = published.index.parents[1]
    summary = (folder / "summary.md").read_text(encoding="utf-8")
    assert "## The answer: skewed · 320,000 rows · batches of 16,000" in summary
    assert "Wall time of every step: random · 320,000 rows · batches of 16,000" in summary
    assert "Wall time of every step: random · 20,000 rows" not in summary
    assert "### Fastest index: tagging of an upsert batch" in summary
    assert len(summary.splitlines()) < 170
    assert not re.search(r"…$", summary, re.MULTILINE)


def test_the_choice_is_a_document_of_its_own_that_is_written_anew(published, tmp_path):
    document = published.index.parent / "which_index.md"
    assert document.read_text().startswith("# Which index\n\nRun m1 of scenario index_matrix")
    stale = tmp_path / "run" / "report" / "which_index_a.md"
    path = write_run(tmp_path / "run", [sample(), sample(cell="b", index="bloom")])
    stale.parent.mkdir(parents=True)
    stale.write_text("old")
    publish([path])
    assert not stale.exists()


def test_the_summary_names_the_data_of_each_cell(published):
    cell = published.summary["cells"][0]
    assert (cell["shape"], cell["rows"], cell["batch"]) == ("random", 320_000, 16_000)
    assert len(published.summary["fastest"]["m1"]) == 24
    axes = {each["axis"] for each in published.summary["growth"]["m1"]}
    assert axes == {"rows", "batch"}


def test_the_opening_sentence_tells_the_axes(published):
    sentence = published.report.runs[0].compared
    assert "on tables of 20,000 and 320,000 trips rows in 20 partitions" in sentence
    assert "of the shapes random and skewed" in sentence
    assert "2 upserts of 1,000 or 16,000 rows" in sentence


def test_many_cells_that_failed_alike_are_one_line(tmp_path):
    names = [f"native/hbase/rows-{rows}" for rows in range(1, 10)]
    cells = [{"cell": name, "rows": int(name[-1])} for name in names]
    info = {"run_id": "r1", "cells": [{"cell": "native/record"}, *cells]}
    published = publish([write_run(tmp_path / "run", [sample()], info)])
    reason = ("planned, but left no sample",)
    assert published.report.failed == [("native/hbase/rows-1 and 8 other cells", reason)]
    assert "9 of 10 cells failed" in published.index.read_text()
    assert "9 of 10 cells failed" in (tmp_path / "run/summary.md").read_text()


def test_what_was_not_on_the_machine_did_not_fail(tmp_path):
    planned = ["native/record", "native/hbase/rows-1", "native/hbase_like", "hudi@1/record/rows-1"]
    info = {
        "run_id": "r1",
        "cells": [{"cell": name} for name in planned],
        "skipped": {"native/hbase": "no server", "hudi@1": "not in the cache"},
    }
    published = publish([write_run(tmp_path / "run", [sample()], info)])
    assert published.summary["missing"] == ["native/hbase_like"]


def test_runs_with_different_data_say_it_side_by_side(tmp_path):
    paths = []
    for name, sizes in (("one", (1, 2)), ("two", (3, 4))):
        cells = [f"native/record/rows-{rows}" for rows in sizes]
        samples = [sample(run_id=name, cell=cell, step="lookup") for cell in cells]
        listed = [{"cell": cell, "rows": int(cell[-1])} for cell in cells]
        info = {"run_id": name, "cells": listed}
        paths.append(write_run(tmp_path / name, samples, info))
    report = publish(paths, tmp_path / "out").report
    assert [row.label for row in report.beside.rows] == [
        "record · A · 2 rows",
        "record · B · 4 rows",
    ]
    assert [run.label for run in load(paths)] == ["A", "B"]
