from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_plan import plan_run
from synthetic_runs import sample, write_run

from keymark.reports.errors import ReportError
from keymark.reports.model import projection
from keymark.reports.model.measures import HEADLINE
from keymark.reports.publish import publish
from keymark.reports.render.growth_chart import Scales, growth_chart, spread_out
from keymark.reports.sections.growth_part import growth_part, verdict
from keymark.reports.stats.growth import Axis, contests, lines, meeting_point

SIZES = (1_000, 3_000, 9_000)
UPSERT = next(each for each in HEADLINE if each.key == "write_latency")


def samples(costs, *, sizes=SIZES, engine="native", noise=(1.0, 1.1, 0.9)):
    """Upserts whose seconds are `costs[index](rows)`, in as many repetitions as there is noise."""
    made = []
    for index, cost in costs.items():
        for rows in sizes:
            cell = f"{engine}/{index}/rows-{rows}"
            shared = {"cell": cell, "engine": engine, "index": index, "step": "upsert_1"}
            for repetition, factor in enumerate(noise):
                at = shared | {"repetition": repetition}
                made.append(sample(**at, value=cost(rows) * factor))
                shuffled = 0.0 if index == "record" else 40.0 * rows
                made.append(sample(**at, metric="shuffle_write_bytes", value=shuffled))
    return made


def run_of(tmp_path, made, sizes=SIZES, indexes=("record", "global_simple")):
    cells = [(f"native/{index}/rows-{rows}", rows) for index in indexes for rows in sizes]
    cells += [(each.cell, int(each.cell.rpartition("-")[2])) for each in made]
    info = {
        "run_id": "r1",
        "cells": [{"cell": cell, "rows": rows} for cell, rows in dict(cells).items()],
        "scenario": {
            "engines": ["native"],
            "indexes": list(indexes),
            "dataset": {"name": "trips", "rows": 200_000, "sizes": list(sizes)},
        },
    }
    return write_run(tmp_path / "run", made, info)


def contest_of(tmp_path, costs, **shape):
    (run,) = projection.load([run_of(tmp_path, samples(costs, **shape))])
    (found,) = contests(lines(run.cells, UPSERT))
    return found


GROWS = {"record": lambda _: 2.0, "global_simple": lambda rows: 1.0 + rows / 5_000}


def test_lines_meet_within_the_sizes(tmp_path):
    found = contest_of(tmp_path, GROWS)
    assert (found.line.index, found.other.index) == ("record", "global_simple")
    assert found.meeting.median == pytest.approx(5_000)
    assert (found.met, found.trials) == (3, 3)
    assert found.ratios[1_000].median == pytest.approx(2 / 1.2)
    assert found.ratios[9_000].median == pytest.approx(2 / 2.8)
    assert verdict(found) == (
        "record is not lower at every size; the lines meet at about 5,000 rows"
    )


def test_variants_of_an_index_have_lines_of_their_own(tmp_path):
    made = [
        replace(each, cell=each.cell.replace("record/", f"record/shards-{shards}/"), value=value)
        for shards in (16, 4)
        for each in samples({"record": lambda rows: rows})
        for value in [each.value * shards]
    ]
    (run,) = projection.load([run_of(tmp_path, made, indexes=())])
    found = lines(run.cells, UPSERT)
    assert [line.name for line in found] == ["record · shards-4", "record · shards-16"]
    (contest,) = contests(found)
    assert {ratio.median for ratio in contest.ratios.values()} == {0.25}
    part = growth_part(run)
    assert part.findings[0].words.startswith("record · shards-4 against record · shards-16: 0.25")
    assert [row.label for row in part.charts[0].grid.rows] == [
        "record · shards-4 · native",
        "record · shards-16 · native",
    ]


def test_a_point_beyond_the_sizes_is_called_extrapolated(tmp_path):
    found = contest_of(tmp_path, GROWS | {"record": lambda _: 4.0})
    assert verdict(found) == (
        "record is higher at every size; the lines meet at about 15,000 rows, extrapolated"
    )


@pytest.mark.parametrize(
    "costs",
    [
        {"record": lambda rows: 2.1 + rows / 1000, "global_simple": lambda rows: 2 + rows / 800},
        {"record": lambda _: 90.0},
    ],
    ids=["at-400", "at-445000"],
)
def test_lines_that_meet_elsewhere_do_not_meet_at_the_sizes(tmp_path, costs):
    found = contest_of(tmp_path, GROWS | costs)
    assert found.meeting is not None
    assert verdict(found).endswith("; the lines do not meet at 1,000 to 9,000 rows")


def test_lines_that_run_apart_do_not_meet(tmp_path):
    found = contest_of(tmp_path, GROWS | {"record": lambda rows: 0.5 + rows / 10_000})
    assert found.meeting is None
    assert found.met == 0
    assert verdict(found).startswith("record is lower at every size; the lines of record and")


def test_most_repetitions_decide(tmp_path):
    costs = {"record": lambda _: 2.0, "global_simple": lambda _: 2.0}
    made = samples(costs, noise=(1.0,))
    for repetition, slope in ((1, 1 / 9_000), (2, -1 / 90_000)):
        for index in costs:
            start, grows = (1.0, 0.0) if index == "record" else (0.5, slope)
            made += [
                sample(cell=f"native/{index}/rows-{rows}", index=index, step="upsert_1",
                       repetition=repetition, value=start + grows * rows)
                for rows in SIZES
            ]  # fmt: skip
    (run,) = projection.load([run_of(tmp_path, made)])
    (found,) = contests(lines(run.cells, UPSERT))
    assert (found.met, found.trials, found.meeting) == (1, 3, None)


rows_and_lines = st.tuples(
    st.lists(st.integers(1, 10**9), min_size=2, max_size=6, unique=True).map(sorted),
    st.floats(0.01, 100),
    st.floats(1e-9, 1e-3),
    st.floats(0.01, 100),
    st.floats(1e-9, 1e-3),
)


@given(rows_and_lines)
def test_straight_lines_meet_where_they_do(drawn):
    rows, start, slope, other_start, other_slope = drawn
    point = meeting_point(
        rows,
        [start + slope * each for each in rows],
        [other_start + other_slope * each for each in rows],
    )
    if point is not None:
        apart = (start + slope * point) - (other_start + other_slope * point)
        scale = start + slope * max(point, rows[-1]) + other_start + other_slope * point
        assert abs(apart) <= 1e-3 * scale


def test_cells_of_one_size_have_no_growth(tmp_path):
    (run,) = projection.load([write_run(tmp_path / "run", [sample()])])
    assert growth_part(run) is None
    assert run.cells[0].data.rows == 0


def test_of_tables_in_variants_there_is_no_map_of_indexes(tmp_path):
    """An index has several numbers on the same data, of which a map could show one."""
    (run,) = projection.load([plan_run(tmp_path / "run", indexes=("record", "bucket"))])
    part = growth_part(run)
    assert (part.maps, part.map_values) == ([], [])
    assert {line for each in part.values for line in (each["index"], each["against"])} == {
        f"{index} · {variant}"
        for index in ("record", "bucket")
        for variant in ("shards", "tasks", "threads")
    }


def test_the_page_answers_for_the_largest_tables_and_draws_all(tmp_path):
    published = publish([run_of(tmp_path, samples(GROWS))])
    report = published.report
    (answer,) = report.runs[0].answers
    assert [row.label for row in answer.table.rows] == ["record", "global_simple"]
    assert answer.where == "9,000 rows"
    assert answer.table.caption.endswith(": 9,000 rows")
    assert "on tables of 1,000, 3,000 and 9,000 trips rows" in report.runs[0].compared
    (growth,) = report.growths
    assert [chart.key for chart in growth.charts] == ["growth_write_latency", "growth_shuffle"]
    charts = published.index.parent / "charts"
    assert (charts / "growth_write_latency.svg").exists()
    assert "As the table grows" in published.index.read_text()
    (latency, shuffle) = growth.findings
    assert "1.67x at 1,000 rows" in latency.words
    assert "0 B and 39.1 KiB at 1,000 rows" in shuffle.words
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["verified"]
    assert summary["growth"]["r1"][0]["meet_at_rows"] == pytest.approx(5_000)
    assert "5,000 rows" in (tmp_path / "run/summary.md").read_text()


def test_a_size_that_was_not_measured_is_missed(tmp_path):
    published = publish([run_of(tmp_path, samples(GROWS, sizes=SIZES[:2]))])
    assert not published.summary["verified"]
    assert published.summary["missing"] == [
        "native/record/rows-9000",
        "native/global_simple/rows-9000",
    ]


def test_a_panel_shows_the_values_of_every_engine(tmp_path):
    """The axes are shared: a later engine's greater values must widen them."""
    slow = {index: lambda rows: 8 + rows / 2_000 for index in GROWS}
    made = [*samples(GROWS), *samples(slow, engine="hudi@0.15.0")]
    (run,) = projection.load([run_of(tmp_path, made)])
    svg = growth_chart(UPSERT, lines(run.cells, UPSERT), title="title", along="rows").bare_svg
    ticks = [float(text) for text in re.findall(r"<text[^>]*>([0-9.]+)</text>", svg)]
    assert 10 <= max(ticks) < 100


def matrix_run(tmp_path, costs, *, noise=(1.0, 1.1, 0.9)):
    """Upserts of `costs[index](shape, rows, batch)` seconds over shapes, rows and batches."""
    cells, made = [], []
    for index, shape, rows, batch in product(costs, "ab", (10, 100), (1, 2, 4)):
        cell = f"native/{index}/shape-{shape}/rows-{rows}/batch-{batch}"
        cells.append({"cell": cell, "shape": shape, "rows": rows, "batch": batch})
        made += [
            sample(
                cell=cell, index=index, repetition=at, value=costs[index](shape, rows, batch) * f
            )
            for at, f in enumerate(noise)
        ]
    (run,) = projection.load([write_run(tmp_path / "m", made, {"run_id": "r1", "cells": cells})])
    return run


BATCHES_GROW = {
    "record": lambda shape, rows, batch: 1.0 + rows + (0 if shape == "a" else batch),
    "global_simple": lambda _, rows, batch: rows + batch,
}


def test_batches_are_an_axis_of_their_own_at_the_largest_table(tmp_path):
    run = matrix_run(tmp_path, BATCHES_GROW)
    found = lines(run.cells, UPSERT, Axis.BATCH)
    assert [(line.index, line.shape) for line in found] == [
        ("record", "a"),
        ("record", "b"),
        ("global_simple", "a"),
        ("global_simple", "b"),
    ]
    assert {size: each.median for size, each in found[2].summaries().items()} == {
        1: 101.0,
        2: 102.0,
        4: 104.0,
    }
    over_rows = lines(run.cells, UPSERT)
    assert list(over_rows[2].values) == [10, 100]
    assert over_rows[2].summaries()[10].median == 14.0


def test_shapes_are_not_held_against_each_other(tmp_path):
    found = contests(lines(matrix_run(tmp_path, BATCHES_GROW).cells, UPSERT, Axis.BATCH))
    assert [(each.line.shape, each.other.shape) for each in found] == [("a", "a"), ("b", "b")]
    meets, parallel = found
    assert meets.meeting.median == pytest.approx(1.0)
    assert parallel.meeting is None
    assert verdict(meets, Axis.BATCH).endswith("; the lines meet at batches of about 1")


def test_of_many_pairs_only_those_that_meet_are_told(tmp_path):
    costs = {
        "record": lambda _, rows, __: 10.0 + rows / 100,
        **{name: lambda *_: 10.3 for name in ("simple", "bloom", "bucket")},
        "global_simple": lambda _, rows, __: 30.0 + rows,
        "hbase": lambda _, rows, __: 12.0 + rows / 1000,
    }
    run = matrix_run(tmp_path, costs, noise=(1.0,))
    part = growth_part(run)
    assert len(part.values) == 20
    told = {each.words.split(":")[0] for each in part.findings}
    assert told == {f"record against {name}" for name in ("simple", "bloom", "bucket", "hbase")}
    assert part.left_out == 20 - len(part.findings)
    assert [chart.key for chart in part.charts] == [
        "growth_write_latency",
        "growth_batch_write_latency",
    ]
    assert "rows of a batch, tables of 100 rows" in part.charts[1].drawing.bare_svg
    assert [grid.caption for grid in part.maps] == ["Fastest index: upsert batch"]


def test_far_values_get_a_logarithmic_axis_and_near_ones_start_at_zero(tmp_path):
    def scales(slow):
        costs = {"record": lambda *_: 1.0, "bloom": lambda *_: slow}
        return Scales.of(UPSERT, lines(matrix_run(tmp_path / str(slow), costs).cells, UPSERT))

    near, far = scales(2.0), scales(100.0)
    assert (near.lowest, near.log_x) == (0.0, True)
    assert far.lowest == pytest.approx(0.9)
    assert far.highest == pytest.approx(110.0)
    assert not far.has_zero


def test_zero_stands_below_the_smallest_value_of_a_logarithmic_axis(tmp_path):
    """What the record index shuffles, nothing, hides no line of the others."""
    shuffle = next(each for each in HEADLINE if each.key == "shuffle")
    costs = {"record": lambda _: 1.0, "global_simple": lambda _: 1.0}
    sizes = (1_000, 1_000_000)
    (run,) = projection.load([run_of(tmp_path, samples(costs, sizes=sizes), sizes)])
    found = lines(run.cells, shuffle)
    scales = Scales.of(shuffle, found)
    assert (scales.has_zero, scales.lowest * scales.base) == (True, pytest.approx(40_000))
    svg = growth_chart(shuffle, found, title="t", along="rows").bare_svg
    assert all(f">{text}<" in svg for text in ("0", "1 k", "1 M"))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7), st.floats(0.01, 0.16))
def test_names_beside_lines_keep_their_order_and_do_not_touch(places, gap):
    moved = spread_out(places, gap)
    assert all(-1e-9 <= each <= 1 + 1e-9 for each in moved)
    ordered = [moved[at] for at in sorted(range(len(places)), key=lambda at: places[at])]
    assert all(after - before >= gap - 1e-9 for before, after in pairwise(ordered))
    if all(after - before >= gap for before, after in pairwise(sorted(places))):
        assert moved == pytest.approx(places, abs=1e-9)


def larger_runs(tmp_path, *, rows=90_000, batches=(400, 400)):
    """A run of three sizes, and one with a larger table, whose cells do not name its rows."""
    growing = run_of(tmp_path / "growing", samples(GROWS))
    made = [
        replace(each, cell=each.cell.rpartition("/")[0], run_id="r2")
        for each in samples(GROWS, sizes=(rows,))
    ]
    cells = [{"cell": f"native/{index}", "rows": rows} for index in GROWS]
    large = write_run(tmp_path / "large" / "run", made, {"run_id": "r2", "cells": cells})
    for path, size, batch in ((growing, 9_000, batches[0]), (large, rows, batches[1])):
        info = json.loads((path / "run.json").read_text())
        sizes = {"batch_updates": batch, "batch_inserts": 0, "deletes": 0, "lookup_keys": 0}
        info |= {"measured": {"rows": size, **sizes}, "run_id": "r2" if path == large else "r1"}
        (path / "run.json").write_text(json.dumps(info))
    return growing, large


def test_a_run_with_a_larger_table_is_the_last_size_and_the_lines_are_carried_on(tmp_path):
    growing, large = larger_runs(tmp_path)
    published = publish([growing], None, large)
    (part,) = published.report.growths
    assert part.charts[0].grid.heads[-1] == "90,000 rows"
    told = {each["measure"]: each for each in part.projection_values if each["index"] != "record"}
    seconds = 1.0 + 2_000_000_000 / 5_000
    assert told["write_latency"]["median"] == pytest.approx(seconds)
    assert told["write_latency"]["low"] == pytest.approx(0.9 * seconds)
    assert told["write_latency"]["published"] is None
    assert told["shuffle"]["median"] == pytest.approx(40.0 * 2_000_000_000)
    assert told["shuffle"]["published"] == pytest.approx(85e9)
    words = [each.words for each in part.projections if each.topic.startswith("Projection of shuf")]
    assert any(
        "42.5 bytes a row; measured at 90,000 rows: 40 bytes a row" in each for each in words
    )
    assert published.summary["projections"]["r1"] == part.projection_values
    drawn = [chart.drawing.bare_svg for chart in part.charts]
    assert all("dashed: projection" in svg for svg in drawn)
    assert ["star: published" in svg for svg in drawn] == [False, True]
    alone = (growing / "report" / "charts" / "growth_shuffle.svg").read_text("utf-8")
    assert "run r1 and r2" in alone
    assert "at 2,000,000,000 rows, projected" in published.index.read_text()


def test_without_a_larger_run_nothing_is_projected(tmp_path):
    growing, _ = larger_runs(tmp_path)
    (part,) = publish([growing]).report.growths
    assert (part.projections, part.projection_values) == ([], [])
    assert not any("projection" in chart.drawing.bare_svg for chart in part.charts)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rows": 8_000}, "r2 has no larger table than r1"),
        ({"batches": (400, 500)}, "r2 has batches of 500 rows, r1 of 400"),
    ],
)
def test_a_run_that_is_no_further_point_is_refused(tmp_path, changes, said):
    growing, large = larger_runs(tmp_path, **changes)
    with pytest.raises(ReportError, match=said):
        publish([growing], None, large)
