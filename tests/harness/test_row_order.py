"""The order of rows in files: which engine keeps which, in what words, and who is left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness_fakes import RecordedChild

from keymark.harness.engines import hudi_name
from keymark.harness.engines.base import Layout, compactable
from keymark.harness.engines.engine_pool import unordered
from keymark.harness.engines.format_engine import FormatEngine
from keymark.harness.engines.hudi_options import table_options
from keymark.harness.engines.libraries.names import LibraryName
from keymark.harness.engines.row_order import order_mistake, ordered_columns
from keymark.harness.errors import CellError, HarnessError, ScenarioError
from keymark.harness.scenario import matrix, scenario
from keymark.harness.tables.table_folders import LocalTables

ORDER = "keymark.row.order"
LAYOUT = Layout(name="t", record_key=("uuid",), partition_path=("dt",), ordering="ts")
ENGINES = {
    "native": ((), "sort them before"),
    "native@worktree": ((), "sort them before"),
    "hudi@1.2.0": (("key",), f"{ORDER} = key sorts its bulk insert"),
    "delta@3.3.2": (("zorder",), f"{ORDER} = zorder orders them by OPTIMIZE ZORDER BY"),
    "iceberg@1.10.0": (("key", "zorder"), ""),
    "deltalake@1.6.6": (("zorder",), f"{ORDER} = zorder orders them by its z_order"),
    "pyiceberg@0.12.0": ((), "iceberg@VERSION orders them"),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_that_keeps_no_order_says_what_works(engine):
    able, instead = ENGINES[engine]
    assert order_mistake(engine, {}) is None
    for order in ("key", "zorder"):
        mistake = order_mistake(engine, {ORDER: order})
        if order in able:
            assert mistake is None
        else:
            assert instead in str(mistake)
            assert "\n" not in str(mistake)


def test_rows_are_ordered_by_columns_that_are_no_partitions():
    two = Layout(name="t", record_key=("dt", "uuid"), partition_path=("dt",), ordering=None)
    assert ordered_columns(LAYOUT) == ordered_columns(two) == ("uuid",)
    none = Layout(name="t", record_key=("dt",), partition_path=("dt",), ordering=None)
    engine = FormatEngine("delta@3.3.2", RecordedChild(), LocalTables())
    with pytest.raises(CellError, match="no column beside those of the partition"):
        engine.create(Path("/t"), none, index="merge", options={ORDER: "zorder"})


def test_a_load_ends_in_order_and_so_does_a_compaction():
    child = RecordedChild()
    engine = FormatEngine("delta@3.3.2", child, LocalTables())
    table = engine.create(Path("/w/ns/t"), LAYOUT, index="merge", options={ORDER: "zorder"})
    table.bulk_insert(("f",))
    made, ordered = child.calls[-1][1]["statements"]
    assert made.startswith("CREATE TABLE")
    assert ORDER not in made
    assert ordered == "OPTIMIZE delta.`/w/ns/t` ZORDER BY (`uuid`)"
    compactable(table).compact_rows()
    assert child.calls[-1][1]["statements"] == [ordered]
    table.upsert(("f",))
    assert len(child.calls[-1][1]["statements"]) == 1


@pytest.mark.parametrize(
    ("order", "words"), [("key", "`uuid` ASC NULLS FIRST"), ("zorder", "zorder(`uuid`)")]
)
def test_iceberg_rewrites_all_files_in_order_unless_the_cell_says_otherwise(order, words):
    child = RecordedChild()
    engine = FormatEngine("iceberg@1.10.0", child, LocalTables())
    for given, rewritten in (({}, "true"), ({"rewrite_data_files.rewrite-all": "false"}, "false")):
        options = {ORDER: order, **given}
        table = engine.create(Path("/w/ns/t"), LAYOUT, index="merge_mor", options=options)
        table.bulk_insert(("f",))
        _, data, deletes = child.calls[-1][1]["statements"]
        assert data.endswith(
            f"strategy => 'sort', sort_order => '{words}', "
            f"options => map('rewrite-all', '{rewritten}'))"
        )
        assert "rewrite_position_delete_files" in deletes


def test_hudi_sorts_its_bulk_insert_unless_the_scenario_says_otherwise():
    def options(**given):
        name = hudi_name("hudi@1.2.0")
        found = table_options(LAYOUT, index="record", engine=name, parallelism=2, options=given)
        return found.get("hoodie.bulkinsert.sort.mode")

    assert options() is None
    assert options(**{ORDER: "key"}) == "GLOBAL_SORT"
    mode = {"hoodie.bulkinsert.sort.mode": "PARTITION_SORT"}
    assert options(**{ORDER: "key"}, **mode) == "PARTITION_SORT"


def test_deltalake_is_told_in_its_own_setting():
    deltalake = LibraryName("deltalake", "1.6.6")
    assert deltalake.settings({ORDER: "zorder"}) == {"optimize.z_order": "true"}
    assert deltalake.settings({}) == {}


def cells_of(*engines, variants):
    """Cells of `formats_sorted` on one kind of data."""
    loaded = scenario.load(
        "formats_sorted", overrides={"engines": list(engines), "dataset.shapes": {}}
    )
    return [cell for cell in matrix.expand(loaded) if cell.variant in variants]


def test_a_run_leaves_out_the_variants_that_an_engine_cannot_keep():
    cells = cells_of("native", "delta@3.3.2", variants=("defaults", "sorted", "zordered"))
    found = unordered(cells, {})
    assert set(found) == {
        "native/record/sorted",
        "native/record/zordered",
        "delta@3.3.2/merge/sorted",
        "delta@3.3.2/merge_dv/sorted",
    }
    left = [cell.cell_id for cell in cells if not cell.is_among(found)]
    assert left == [
        "native/record/defaults",
        "delta@3.3.2/merge/defaults",
        "delta@3.3.2/merge/zordered",
        "delta@3.3.2/merge_dv/defaults",
        "delta@3.3.2/merge_dv/zordered",
    ]
    assert unordered(cells, {"delta@3.3.2": "no jar"}).keys() == {
        "native/record/sorted",
        "native/record/zordered",
    }


def test_where_no_cell_is_left_the_run_ends_with_the_reason():
    with pytest.raises(HarnessError, match=r"^native keeps rows as bulk_insert gets them"):
        unordered(cells_of("native", variants=("sorted", "zordered")), {})
    assert unordered(cells_of("native", variants=("defaults",)), {}) == {}


def test_names_of_cells_that_begin_alike_are_told_apart():
    sorted_, *_ = cells_of("native", variants=("sorted",))
    assert sorted_.is_among({"native/record"})
    assert sorted_.is_among({"native/record/sorted"})
    assert not sorted_.is_among({"native/rec", "native/record/sort"})


def test_an_order_that_there_is_not_is_a_mistake_of_the_scenario():
    sets = [f"table.variants.odd.{ORDER}=reverse", f"table.options.{ORDER}=hilbert"]
    with pytest.raises(ScenarioError) as caught:
        scenario.load("formats", sets=sets)
    told = str(caught.value)
    assert f"table.variants.odd: {ORDER} is 'reverse', and not key or zorder" in told
    assert f"table.options: {ORDER} is 'hilbert', and not key or zorder" in told
