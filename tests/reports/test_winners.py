from __future__ import annotations

import pytest
from synthetic_runs import sample, write_run

from keymark.harness.store.data_point import DataPoint
from keymark.reports.model.measures import BY_KEY
from keymark.reports.model.projection import load
from keymark.reports.model.winners import map_values, winner_map, winners

LOOKUP = BY_KEY["lookup"]


def cells_of(tmp_path, found):
    """Cells whose lookups take `found[(shape, rows, batch)][index]`, a value per repetition."""
    cells, samples = [], []
    for (shape, rows, batch), indexes in found.items():
        for index, values in indexes.items():
            name = f"native/{index}/shape-{shape}/rows-{rows}/batch-{batch}"
            cells.append({"cell": name, "shape": shape, "rows": rows, "batch": batch})
            samples += [
                sample(cell=name, index=index, step="lookup", repetition=at, value=value)
                for at, value in enumerate(values)
            ]
    (run,) = load([write_run(tmp_path / "run", samples, {"run_id": "r1", "cells": cells})])
    return run.cells


FOUND = {
    ("a", 10, 1): {"record": [1.0, 1.1, 1.2], "bucket": [0.5, 0.5, 0.5], "hbase": [3, 3, 3]},
    ("a", 10, 2): {"record": [1.0, 1.1, 1.2], "bucket": [1.1, 1.0, 1.3], "hbase": [3, 3, 3]},
    ("a", 20, 1): {"record": [1.0, 1.1, 1.2], "global_simple": [2.0, 2.2, 2.4]},
    ("a", 20, 2): {"record": [1.0, 1.1, 1.2]},
}


def test_a_winner_is_ahead_of_every_other_in_every_pair(tmp_path):
    found = {won.data: won for won in winners(cells_of(tmp_path, FOUND), LOOKUP)}
    clear = found[DataPoint(shape="a", rows=10, batch=1)]
    assert (clear.first, clear.second, clear.rivals) == ("bucket", "record", ())
    assert clear.margin.median == pytest.approx(2.2)
    assert found[DataPoint(shape="a", rows=10, batch=2)].rivals == ("bucket",)
    alone = found[DataPoint(shape="a", rows=20, batch=2)]
    assert (alone.first, alone.second, alone.margin) == ("record", "", None)


def test_slow_spells_do_not_hide_a_winner(tmp_path):
    """Both take ten times as long in one repetition: the ratio is the same in each."""
    values = {"record": [1.0, 10.0, 1.0], "hbase": [1.5, 15.0, 1.5]}
    (won,) = winners(cells_of(tmp_path, {("a", 10, 1): values}), LOOKUP)
    assert (won.first, won.rivals) == ("record", ())


def test_one_pair_makes_no_winner(tmp_path):
    values = {"record": [1.0], "hbase": [9.0]}
    (won,) = winners(cells_of(tmp_path, {("a", 10, 1): values}), LOOKUP)
    assert won.rivals == ("hbase",)


def test_a_third_that_is_not_told_apart_is_a_rival(tmp_path):
    values = {"record": [1.0, 1.0, 1.0], "hbase": [1.2, 1.3, 1.2], "global_simple": [0.9, 9, 9]}
    (won,) = winners(cells_of(tmp_path, {("a", 10, 1): values}), LOOKUP)
    assert (won.second, won.rivals) == ("hbase", ("global_simple",))


def test_the_map_names_the_winner_of_all_and_of_the_global_ones(tmp_path):
    cells = cells_of(tmp_path, FOUND)
    grid = winner_map(cells, LOOKUP)
    assert grid.heads == (
        "batches of 1",
        "batches of 2",
        "global, batches of 1",
        "global, batches of 2",
    )
    assert [row.label for row in grid.rows] == ["a · 20 rows", "a · 10 rows"]
    large, small = ([entry.value for entry in row.entries] for row in grid.rows)
    assert large == ["record", "record", "record", "record"]
    assert small == ["bucket", "no clear winner", "record", "record"]
    first, _, third, _ = grid.rows[1].entries
    assert (first.index, first.spread) == ("bucket", "record 2.20x (2.00 to 2.40)")
    assert (third.index, third.spread) == ("record", "hbase 2.73x (2.50 to 3.00)")
    assert grid.rows[1].entries[1].spread == "record and bucket"
    assert grid.rows[0].entries[1].spread == "alone"


def test_what_was_not_measured_is_a_dash(tmp_path):
    three = {place: FOUND[place] for place in list(FOUND)[:3]}
    grid = winner_map(cells_of(tmp_path, three), LOOKUP)
    assert grid.rows[0].entries[1].value == "—"


def test_one_setting_has_no_map(tmp_path):
    cells = cells_of(tmp_path, {("a", 10, 1): FOUND["a", 10, 1]})
    assert winner_map(cells, LOOKUP) is None


def test_the_map_in_numbers(tmp_path):
    values = map_values(cells_of(tmp_path, FOUND), LOOKUP)
    assert len(values) == 4
    (tied,) = [each for each in values if each["rows"] == 10 and each["batch"] == 2]
    assert (tied["fastest"], tied["not_told_apart"]) == ("record", ["bucket"])
    assert tied["next_low"] <= 1 <= tied["next_high"]
