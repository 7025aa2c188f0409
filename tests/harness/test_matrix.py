from __future__ import annotations

import pytest

from harness import matrix, scenario
from harness.dataset_section import Data
from harness.errors import ScenarioError


def test_cells_have_stable_ids_and_their_own_options_over_the_common_ones():
    loaded = scenario.load(
        "ci",
        sets=[
            "table.options.hoodie.index.bloom.fpp=0.1",
            "table.index_options.bucket.hoodie.index.bloom.fpp=0.2",
        ],
    )
    cells = matrix.expand(loaded)
    assert [cell.cell_id for cell in cells] == [
        "native/record",
        "native/global_simple",
        "native/global_bloom",
        "native/bucket",
    ]
    assert [cell.options["hoodie.index.bloom.fpp"] for cell in cells] == ["0.1"] * 3 + ["0.2"]
    assert "hoodie.bucket.index.num.buckets" not in cells[0].options


def test_variants_multiply_the_cells_and_their_options_win():
    fpp = "hoodie.index.bloom.fpp"
    loaded = scenario.load(
        "ci",
        sets=[f"table.options.{fpp}=0.1", f"table.variants.a.{fpp}=0.2", "table.variants.b={}"],
        overrides={"indexes": ["record", "bucket"]},
    )
    cells = {cell.cell_id: cell.options[fpp] for cell in matrix.expand(loaded)}
    assert cells == {
        "native/record/a": "0.2",
        "native/record/b": "0.1",
        "native/bucket/a": "0.2",
        "native/bucket/b": "0.1",
    }


def test_sizes_multiply_the_cells():
    loaded = scenario.load(
        "ci", sets=["dataset.sizes=[300, 1000]"], overrides={"indexes": ["record", "bucket"]}
    )
    assert [(cell.cell_id, cell.data.rows) for cell in matrix.expand(loaded)] == [
        ("native/record/rows-300", 300),
        ("native/record/rows-1000", 1000),
        ("native/bucket/rows-300", 300),
        ("native/bucket/rows-1000", 1000),
    ]
    (alone,) = matrix.expand(scenario.load("ci", overrides={"indexes": ["record"]}))
    assert (alone.cell_id, alone.data) == ("native/record", Data(rows=20_000))


def test_settings_of_the_dataset_reach_its_specification():
    loaded = scenario.load(
        "ci",
        sets=[
            "dataset.settings.columns.uuid.kind=uuid7",
            "dataset.settings.update_choice.kind=recent",
        ],
    )
    spec = loaded.dataset.spec(Data(rows=50))
    assert spec.columns["uuid"].kind == "uuid7"
    assert (spec.update_choice.kind, spec.rows) == ("recent", 50)
    with pytest.raises(ScenarioError, match=r"columns\.uuid: unknown kind 'uuid8'"):
        scenario.load("ci", sets=["dataset.settings.columns.uuid.kind=uuid8"])


def test_every_slot_once_in_alternating_direction():
    cells = matrix.expand(scenario.load("ci", overrides={"indexes": ["record", "bucket"]}))
    slots = matrix.schedule(cells, warmups=1, repetitions=3)
    assert [slot.label for slot in slots] == [
        "native/record|w0",
        "native/bucket|w0",
        "native/bucket|r0",
        "native/record|r0",
        "native/record|r1",
        "native/bucket|r1",
        "native/bucket|r2",
        "native/record|r2",
    ]


def test_a_longer_schedule_starts_like_a_shorter_one():
    cells = matrix.expand(scenario.load("ci"))
    longer = matrix.schedule(cells, warmups=2, repetitions=9)
    assert longer[: 4 * 5] == matrix.schedule(cells, warmups=2, repetitions=3)
