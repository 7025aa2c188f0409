"""Shapes of data beside the first one: which cells are compared, and what is said about them."""

from __future__ import annotations

import pytest
from synthetic_matrix import matrix

from keymark.reports.model.projection import load
from keymark.reports.publish import publish
from keymark.reports.sections.shapes_part import shape_ratios, shapes_part

# Tagging of skewed keys takes 1.1 and 1.2 times as long as that of random ones.
INDEXES = ("record", "bucket")
SHAPES = ("random", "time_ordered", "skewed")


def run_of(path, **changes):
    given = {"indexes": INDEXES, "shapes": SHAPES, "sizes": (20_000, 80_000), "noise": 0.0}
    return matrix(path, **{**given, **changes})


def test_each_shape_is_beside_the_first_one_on_the_largest_data(tmp_path):
    (run,) = load([run_of(tmp_path)])
    found = shape_ratios(run.cells)
    assert [(each.label, each.shape) for each in found] == [
        ("record", "time_ordered"),
        ("record", "skewed"),
        ("bucket", "time_ordered"),
        ("bucket", "skewed"),
    ]
    assert {each.first.data.shape for each in found} == {"random"}
    assert {(each.cell.data.rows, each.cell.data.batch) for each in found} == {(80_000, 16_000)}
    assert [each.ratios["tag"].median for each in found] == pytest.approx([1, 1.1, 1, 1.2])
    assert all(set(each.ratios) == {"write_latency", "tag", "lookup"} for each in found)


def test_without_the_first_shape_nothing_is_compared(tmp_path):
    (run,) = load([run_of(tmp_path)])
    assert shape_ratios([cell for cell in run.cells if cell.data.shape != "random"]) == []


def test_the_page_and_the_summaries_say_which_shape_takes_longest(tmp_path):
    published = publish([run_of(tmp_path)])
    (part,) = published.report.shapes
    assert part.grid.caption == "Times as multiples of those of the shape random"
    assert [row.label for row in part.grid.rows][1::2] == ["record · skewed", "bucket · skewed"]
    assert part.grid.rows[1].entries[1].value == "1.10x"
    said = {each.topic: each.words for each in part.findings}
    assert said["Tagging"] == (
        "record takes longest with skewed, 1.10x of random; "
        "bucket takes longest with skewed, 1.20x of random."
    )
    page, summary = published.index.read_text(), (tmp_path / "summary.md").read_text()
    assert '<h2 id="shapes">Shapes of data</h2>' in page
    assert "## Shapes of data" in summary
    for each in part.findings:
        assert each.words in page
        assert each.words in summary
    record = published.summary["shapes"]["m1"][1]
    assert (record["shape"], record["beside"].split("/")[2]) == ("skewed", "shape-random")
    assert record["ratios"]["tag"]["ratio"] == pytest.approx(1.1)


def test_where_all_others_take_less_the_first_shape_takes_longest(tmp_path):
    """Global bloom tags keys that grow with time, or are skewed, in a third of the time."""
    (run,) = load([run_of(tmp_path, indexes=("record", "global_bloom"))])
    said = {each.topic: each.words for each in shapes_part(run).findings}
    assert said["Tagging"] == (
        "record takes longest with skewed, 1.10x of random; "
        "global_bloom takes longest with random, then with time_ordered, 0.333x of it."
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"repetitions": 2}, "(fewer than 3 pairs, nothing shown)"),
        ({"noise": 0.9}, "(no difference shown)"),
    ],
)
def test_what_is_not_shown_is_said(tmp_path, changes, words):
    (run,) = load([run_of(tmp_path, indexes=("record",), **changes)])
    part = shapes_part(run)
    assert words in {each.topic: each.words for each in part.findings}["Upsert"]


def test_a_run_of_one_shape_says_nothing_of_shapes(published):
    assert published.report.shapes == []
    assert "shapes" not in published.summary
    assert "Shapes of data" not in published.index.read_text()
