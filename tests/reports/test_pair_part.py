"""Two indexes side by side as the data change: ratios, and what is said about them."""

from __future__ import annotations

import pytest
from synthetic_matrix import matrix
from synthetic_runs import sample

from keymark.harness.store.store import RunFolder
from keymark.reports.model.projection import load
from keymark.reports.publish import publish
from keymark.reports.sections.pair_part import pair_part

INDEXES = ("record", "bucket")
SHAPES = ("random", "skewed")


def run_of(path, **changes):
    given = {
        "indexes": INDEXES,
        "shapes": SHAPES,
        "sizes": (20_000,),
        "batches": (1_000,),
        "noise": 0.0,
    }
    return matrix(path, **{**given, **changes})


def test_the_second_index_is_a_multiple_of_the_first_for_each_shape(tmp_path):
    (run,) = load([run_of(tmp_path)])
    part = pair_part(run)
    assert part.title == "bucket beside record"
    ((grid, findings),) = part.tables
    assert grid.caption == "native: bucket as a multiple of record"
    assert [row.label for row in grid.rows] == ["random", "skewed"]
    assert "Index on disk" in grid.heads
    said = {each.topic: each.words for each in findings}
    assert said["of it, tagging"].startswith("less with random 0.2")
    assert "no difference shown with" not in said["of it, tagging"]
    shapes = [each["shape"] for each in part.values]
    assert shapes == ["random", "skewed"]
    tagged = part.values[0]["ratios"]["tag"]["ratio"]
    assert tagged == pytest.approx((20_000 + 1.2 * 1_000) / (90_000 + 0.05 * 20_000 + 9 * 1_000))


def test_each_engine_has_a_table(tmp_path):
    (run,) = load([run_of(tmp_path, engines={"native": 1.0, "hudi@1.2.0": 5.0})])
    captions = [grid.caption.partition(":")[0] for grid, _ in pair_part(run).tables]
    assert captions == ["hudi@1.2.0", "native"]


def test_requests_of_all_kinds_are_compared_where_they_were_counted(tmp_path):
    counted = {"record": {"get": 30.0, "put": 10.0}, "bucket": {"get": 8.0, "put": 12.0}}
    path = run_of(tmp_path)
    cells = {
        (each.cell, each.index) for each in RunFolder(path).samples() if each.step == "upsert_1"
    }
    RunFolder(path).append(
        sample(
            run_id="m1",
            cell=cell,
            index=index,
            repetition=repetition,
            step="upsert_1",
            metric=f"{kind}_requests",
            value=value,
        )
        for cell, index in cells
        for kind, value in counted[index].items()
        for repetition in range(3)
    )
    (run,) = load([path])
    part = pair_part(run)
    ((grid, findings),) = part.tables
    assert grid.heads[-1] == "Requests of an upsert"
    assert "Requests of a lookup" not in grid.heads
    assert part.values[0]["ratios"]["upsert_requests"]["ratio"] == 0.5
    said = {each.topic: each.words for each in findings}
    assert said["Requests of an upsert"] == "less with random 0.500x and skewed 0.500x."


def test_a_difference_within_the_noise_is_not_shown(tmp_path):
    (run,) = load([run_of(tmp_path, repetitions=2)])
    ((_, findings),) = pair_part(run).tables
    said = {each.topic: each.words for each in findings}
    assert said["Upsert"] == "no difference shown with random and skewed."


@pytest.mark.parametrize(
    "changes", [{"indexes": ("record",)}, {"indexes": (*INDEXES, "bloom")}, {"shapes": ("random",)}]
)
def test_other_runs_have_no_such_section(tmp_path, changes):
    (run,) = load([run_of(tmp_path, **changes)])
    assert pair_part(run) is None


def test_the_page_and_a_document_of_its_own_say_it(tmp_path):
    published = publish([run_of(tmp_path)])
    page = published.index.read_text()
    assert '<h2 id="pairs">Two indexes side by side</h2>' in page
    told = (tmp_path / "report" / "two_indexes.md").read_text().splitlines()
    assert told[0] == "# bucket beside record"
    assert told[2] == "native: bucket as a multiple of record:"
    assert told[4].startswith("- Upsert: less with random")
    assert "Two indexes side by side: bucket beside record" in (tmp_path / "summary.md").read_text()
    assert published.summary["pairs"]["m1"][0]["beside"].startswith("native/record")
