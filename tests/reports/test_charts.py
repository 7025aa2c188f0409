"""What is written on charts fits where it is written."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree as ET

import pytest
from matplotlib.figure import Figure
from PIL import Image
from synthetic_runs import quickstart

from keymark.reports.model import projection, tables
from keymark.reports.render import charts
from keymark.reports.render.format_values import axis_scale, digits
from keymark.reports.render.layout import lay_out
from keymark.reports.stats.statistics import summarize


@pytest.fixture
def cells(tmp_path):
    [run] = projection.load([quickstart(tmp_path / "run")])
    return run.cells


def texts(svg):
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def heights(svg):
    return [float(y) for y in re.findall(r'<text[^>]* y="([^"]*)"', svg)]


def test_a_bar_has_its_value_written_on_where_it_is_wide_enough(cells):
    whole = tables.phases(cells)
    drawn = texts(charts.stack(whole, "title").bare_svg)
    parts, totals = charts.stacked_medians(whole)
    scale, _ = axis_scale("s", max(totals))
    wide = [
        digits(length / scale)
        for name, lengths in parts.items()
        for length, total in zip(lengths, totals, strict=True)
        if length > 0.3 * max(totals) and not charts.PHASE_LOOKS[name][1] and total
    ]
    narrow = [
        digits(length / scale)
        for lengths in parts.values()
        for length in lengths
        if 0 < length < 0.05 * max(totals)
    ]
    ends = [digits(total / scale) for total in totals]
    assert wide
    assert narrow
    assert set(wide) <= set(drawn)
    assert not (set(narrow) - set(ends)) & set(drawn)


def test_a_label_has_its_engine_in_a_line_of_its_own():
    label = charts._two_lines("global_simple · hudi@0.15.0 · A")
    assert label == "global_simple\nhudi@0.15.0 · A"
    assert charts._two_lines("a " * 20).count("\n") == 1


@pytest.mark.parametrize("words", [3, 30])
def test_a_title_is_as_wide_as_its_chart_at_most(cells, words):
    whole = tables.phases(cells)
    drawing = charts.stack(whole, " ".join(["lengthy"] * words))
    drawn = texts(drawing.pictures(charts.Lettering()).svg)
    lines = [text for text in drawn if "lengthy" in text]
    assert sum(line.count("lengthy") for line in lines) == words
    assert max(map(len, lines)) <= 46


def test_a_chart_stands_between_its_title_and_its_source(cells):
    """In points, of which the first picture has more above and below than the bare one."""
    lettering = charts.Lettering(subtitle="what was measured", source="Source: Keymark")
    drawing = charts.stack(tables.phases(cells), "title")
    made = drawing.pictures(lettering)
    outer, bare = (ET.fromstring(each) for each in (made.svg, made.bare_svg))
    width, height = (float(each) for each in outer.get("viewBox").split()[2:])
    left, top, bare_width, bare_height = (float(each) for each in bare.get("viewBox").split())
    assert (left, bare_width) == (0, width)
    # Above it a line of the title and one of the subtitle.
    assert top == pytest.approx(0.48 * 72)
    bottom = top + bare_height
    assert 0 < top < bottom < height
    picture = Image.open(io.BytesIO(made.png))
    assert picture.size == (1200, int(1200 * height / width))
    title, chart, source = (
        picture.crop((0, int(first * 1200 / width), 1200, int(last * 1200 / width)))
        for first, last in ((0, top), (top, bottom), (bottom, height))
    )
    assert all(part.convert("L").getextrema()[0] < 60 for part in (title, chart, source))
    around = {"title", lettering.subtitle, lettering.source}
    assert set(texts(made.svg)) - set(texts(made.bare_svg)) == around
    alone = drawing.bare_svg
    size = [float(each) for each in ET.fromstring(alone).get("viewBox").split()[2:]]
    assert [bare_width, bare_height] == pytest.approx(size)
    assert texts(made.bare_svg) == texts(alone)
    moved = [height - top for height in heights(made.bare_svg)]
    assert moved == pytest.approx(heights(alone), abs=0.1)


@pytest.mark.parametrize("label", ["record", "a lengthy label of a row"])
def test_what_is_written_around_rows_is_within_the_picture(label):
    figure = Figure(figsize=(4.5, 2), dpi=100)
    axes = figure.add_subplot()
    axes.set_xlim(0, 3)
    words = "milliseconds, lower is better\nmedian of n = 20, whisker: 95% interval, by round"
    charts.frame_rows(axes, [label, label], [0, 1, 2, 3], words)
    lay_out(figure)
    extents = [text.get_window_extent().extents for text in axes.texts]
    assert len(extents) == 7
    assert all(x0 >= 0 and y0 >= 0 and x1 <= 450 and y1 <= 200 for x0, y0, x1, y1 in extents)


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((1, 1), "n = 1, spread unknown"),
        ((3, 5), "median of n = 3 to 5, whisker: range"),
        ((6, 9), "median of n = 6 to 9, whisker: 95% interval"),
        ((2, 9), "median of n = 2 to 9\nwhisker: 95% interval, of fewer than 6 the range"),
    ],
)
def test_what_a_whisker_is_is_said_of_few_values_and_of_many(counts, words):
    assert charts.interval_words([summarize(range(n)) for n in counts]) == words
