"""Virtual keys beside stored ones: which cells are a pair, and what is said about them."""

from __future__ import annotations

import pytest
from synthetic_runs import sample, write_run

from keymark.reports.model.projection import load
from keymark.reports.model.which_index import which_index
from keymark.reports.publish import publish
from keymark.reports.sections.virtual_part import pairs, verdict, virtual_part
from keymark.reports.stats.statistics import summarize

META = "hoodie.populate.meta.fields"
SIDES = {"stored": {}, "virtual": {META: "False"}}


def cells_of(shapes=("uuid", "number"), indexes=("record", "bucket"), sides=None):
    """What run.json lists: each index with each shape, on each side."""
    return [
        {
            "cell": f"native/{index}/{side}/shape-{shape}",
            "index": index,
            "options": options,
            "shape": shape,
        }
        for index in indexes
        for side, options in (sides or SIDES).items()
        for shape in shapes
    ]


def run_of(path, cells, *, wrong=(), repetitions=3):
    """A run whose virtual tables of 10 rows have 600 bytes instead of 1,000."""
    samples = []
    for each in cells:
        virtual = each["options"].get(META, "true") != "true"
        shared = {
            "cell": each["cell"],
            "index": each["index"],
            "verified": each["cell"] not in wrong,
        }
        load_of = {**shared, "step": "bulk_insert", "round": 0}
        size = 600.0 if virtual else 1000.0
        samples.append(sample(**load_of, phase="write", metric="bytes_written", value=size))
        samples.append(sample(**load_of, metric="keys", value=10.0))
        for at in range(repetitions):
            slow = {"tag": 2.0 + at, "total": 0.5} if virtual else {"tag": 1.0, "total": 1.0}
            samples += [
                sample(**shared, repetition=at, phase=phase, value=(1.0 + at) * value)
                for phase, value in slow.items()
            ]
    return write_run(path / "run", samples, {"run_id": "r1", "cells": cells})


def test_pairs_differ_in_where_their_keys_are_alone(tmp_path):
    (run,) = load([run_of(tmp_path, cells_of())])
    found = pairs(run)
    assert [(pair.label, pair.stored.data.shape) for pair in found] == [
        ("record", "uuid"),
        ("record", "number"),
        ("bucket", "uuid"),
        ("bucket", "number"),
    ]
    first = found[0]
    assert (first.stored.cell, first.virtual.cell) == (
        "native/record/stored/shape-uuid",
        "native/record/virtual/shape-uuid",
    )
    assert first.sizes == (1000, 600, 10)
    assert first.saved == pytest.approx(0.4)
    tag = first.ratios["tag"]
    assert (tag.low, tag.high, tag.n) == (2, 4, 3)
    assert set(first.ratios) == {"tag", "write_latency"}


def test_cells_of_other_options_and_wrong_ones_are_no_pair(tmp_path):
    other = {"stored": {"a": "1"}, "virtual": {META: "false", "a": "2"}}
    (run,) = load([run_of(tmp_path / "a", cells_of(sides=other))])
    assert virtual_part(run) is None
    wrong = [each["cell"] for each in cells_of() if "/virtual" in each["cell"]][:3]
    (run,) = load([run_of(tmp_path / "b", cells_of(), wrong=wrong)])
    assert [pair.virtual.cell for pair in pairs(run)] == ["native/bucket/virtual/shape-number"]


@pytest.mark.parametrize("info", [{}, {"cells": []}, {"cells": [{"cell": "native/record"}]}])
def test_runs_that_do_not_say_what_their_cells_are_have_no_part(tmp_path, info):
    path = write_run(tmp_path / "run", [sample()], {"run_id": "r1"} | info)
    assert virtual_part(load([path])[0]) is None


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        ([0.5, 0.6, 0.9], "faster with virtual keys"),
        ([1.1, 1.2, 1.9], "slower with virtual keys"),
        ([0.9, 1.0, 1.1], "no difference shown"),
        ([1.0, 1.0, 1.0], "no difference shown"),
        ([3.0, 3.0], "fewer than 3 pairs, nothing shown"),
    ],
)
def test_a_verdict_says_what_the_interval_shows(ratios, words):
    assert verdict(summarize(ratios), 0.0) == words


def test_what_variants_are_called_does_not_count(tmp_path):
    upside_down = {"stored": {META: "false"}, "virtual": {META: "true"}}
    cells = cells_of(shapes=("uuid",), indexes=("record",), sides=upside_down)
    (run,) = load([run_of(tmp_path, cells)])
    (pair,) = pairs(run)
    assert pair.stored.cell == "native/record/virtual/shape-uuid"


def test_the_page_and_the_summaries_say_it(tmp_path):
    published = publish([run_of(tmp_path, cells_of())])
    (part,) = published.report.virtuals
    assert [grid.caption for grid, _ in part.shapes] == ["uuid", "number"]
    grid, findings = part.shapes[0]
    assert [row.label for row in grid.rows] == ["record", "bucket"]
    saved = grid.rows[0].entries[2]
    assert (saved.value, saved.spread) == ("40.0 %", "40.0 bytes a row")
    assert {each.topic: each.words for each in findings} == {
        "Storage": "not storing the keys saves 40.0 % of the base files, 40.0 bytes a row.",
        "Upsert": "faster with virtual keys: record 0.500x and bucket 0.500x.",
        "Tagging": "slower with virtual keys: record 3.00x (2.00x to 4.00x) and "
        "bucket 3.00x (2.00x to 4.00x).",
    }
    page = published.index.read_text()
    assert '<h2 id="virtual">Virtual keys</h2>' in page
    summary = (tmp_path / "run/summary.md").read_text()
    assert "## Virtual keys" in summary
    for each in findings:
        assert each.words in page
        assert each.words in summary
    record = published.summary["virtual_keys"]["r1"][0]
    assert (record["shape"], record["stored_bytes"], record["virtual_bytes"]) == ("uuid", 1000, 600)
    assert record["ratios"]["tag"] == {"ratio": 3.0, "low": 2, "high": 4, "n": 3}


def test_a_run_without_virtual_keys_says_nothing_of_them(published):
    assert published.report.virtuals == []
    assert "virtual_keys" not in published.summary
    assert "Virtual keys" not in published.index.read_text()


def test_which_index_is_no_question_where_tables_come_in_variants(tmp_path):
    indexes = ("record", "bloom", "bucket")
    (run,) = load([run_of(tmp_path / "a", cells_of(indexes=indexes))])
    assert which_index(run) is None
    alone = {"stored": SIDES["stored"]}
    (run,) = load([run_of(tmp_path / "b", cells_of(indexes=indexes, sides=alone))])
    assert which_index(run) is not None
