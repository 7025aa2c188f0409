from __future__ import annotations

import pytest
from synthetic_runs import sample, write_run

from keymark.harness.store.data_point import DataPoint
from keymark.harness.store.run_record import CellRecord
from keymark.reports.model.data_points import by_data, data_points_of, leading, words_of
from keymark.reports.model.projection import CellView, load


def listed(*cells):
    names = ("cell", "shape", "rows", "batch")
    return [CellRecord(**dict(zip(names, each, strict=True))) for each in cells]


def view(name, run_id="r1", **data):
    return CellView(
        run_id=run_id,
        cell=name,
        engine="native",
        index="record",
        label="record",
        verified=True,
        data=DataPoint(**data),
    )


def test_what_does_not_vary_is_not_said():
    found = data_points_of(listed(("a", "", 100, 5), ("b", "", 100, 50)))
    assert found == {"a": DataPoint(batch=5), "b": DataPoint(batch=50)}
    assert [words_of(each) for each in found.values()] == ["batches of 5", "batches of 50"]
    assert words_of(data_points_of(listed(("a", "", 100, 0)))["a"]) == ""


def test_everything_that_varies_is_said():
    found = data_points_of(listed(("a", "zipf", 1_000, 5), ("b", "even", 2_000, 50)))
    assert words_of(found["a"]) == "zipf · 1,000 rows · batches of 5"
    assert [each.place for each in found.values()] == [0, 1]


@pytest.mark.parametrize(
    "cells", [[], [CellRecord(cell="a")], listed(("a", "", -5, 0), ("b", "", 0, 0))]
)
def test_cells_without_sizes_say_nothing_of_their_data(cells):
    assert set(data_points_of(cells).values()) <= {DataPoint()}


def test_shapes_keep_the_scenarios_order_and_the_largest_comes_first():
    info = listed(("a", "z", 10, 1), ("b", "z", 20, 1), ("c", "a", 20, 1), ("d", "a", 20, 9))
    cells = [view(name, **fields(each)) for name, each in data_points_of(info).items()]
    order = [words_of(data) for data in by_data(cells)]
    assert order == [
        "z · 20 rows · batches of 1",
        "z · 10 rows · batches of 1",
        "a · 20 rows · batches of 9",
        "a · 20 rows · batches of 1",
    ]


def fields(data):
    return {name: getattr(data, name) for name in ("shape", "rows", "batch", "place")}


def test_the_largest_tables_and_batches_lead_in_each_run():
    cells = [
        view("a", rows=10, batch=1),
        view("b", rows=20, batch=1),
        view("c", rows=20, batch=9),
        view("d", rows=20, batch=9, shape="x"),
        view("e", run_id="r2"),
    ]
    assert [cell.cell for cell in leading(cells)] == ["c", "d", "e"]


def test_labels_are_short_on_the_same_data_and_full_beyond(tmp_path):
    cells = [f"native/record/v{n}/shape-a/rows-{rows}" for n in (1, 2) for rows in (5, 6)]
    planned = listed(*((cell, "a", int(cell[-1]), 0) for cell in cells))
    info = {"run_id": "r1", "cells": [each.document for each in planned]}
    (run,) = load([write_run(tmp_path / "run", [sample(cell=cell) for cell in cells], info)])
    assert {cell.label for cell in run.cells} == {"record · v1", "record · v2"}
    assert run.cells[0].full_label == "record · v1 · a · 6 rows"
    assert len({cell.full_label for cell in run.cells}) == 4
