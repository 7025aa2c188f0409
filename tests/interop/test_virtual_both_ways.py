"""Virtual keys by turns: Keymark makes the table and Hudi goes on with it, and the other way round.

Meta columns hold nothing in such tables, so rows are compared by their data columns.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from hudi_judge import (
    VERSIONS,
    metadata_partitions,
    options_of,
    properties,
    texts,
    writer_options,
)
from interop_cells import Cell, Ledger, frame
from table_cases import files_stored

from keymark import Table
from keymark.harness.errors import CellError
from keymark.table.errors import IndexUnavailableError
from keymark.table.index.protocol import spec_of
from keymark.table.properties.options import (
    HUDI_READS,
    INDEX_TYPE,
    KEY_GENERATOR_TYPE,
    META_FIELDS,
    RECORD_INDEX_ON,
)


class Virtual(Cell):
    """A cell whose keys are not stored."""

    @property
    def options(self):
        return {**super().options, META_FIELDS: "false"}


class Rows(Ledger):
    """Without lists, which Hudi's bulk insert loses beside short decimals: see test_limits."""

    def put(self, numbers, ts, *, shift=0):
        return super().put(numbers, ts, shift=shift).drop_columns("tags")

    def drop(self, numbers):
        return super().drop(numbers).drop_columns("tags")

    def wanted(self):
        return sorted(texts(frame(self.rows.values()).drop_columns("tags")))


CELLS = [
    Virtual("global_simple", "simple", "", ""),
    Virtual("global_simple", "composite_hive", "", ""),
    Virtual("global_simple", "non_partitioned", "", ""),
    Virtual("simple", "simple", "", ""),
    Virtual("bucket", "simple", "", ""),
]


def names(cell):
    return f"{cell.index}-{cell.keys}"


def beside(root, ledger):
    """A table of twenty rows with a record index that is not the index of its writers."""
    ledger.cell.create(root)
    table = Table.open(str(root), options={**ledger.cell.options, RECORD_INDEX_ON: "true"})
    table.bulk_insert(ledger.put(range(20), 1))
    assert "record_index" in metadata_partitions(root)
    return table


def held(hudi, root, ledger):
    """A new handle, after Hudi and Keymark read what must be there."""
    assert sorted(texts(hudi.read(root)[0])) == ledger.wanted()
    assert hudi.listing(root) == files_stored(root)
    # Hudi 0.15 does not store the index of a table that it made.
    index = {INDEX_TYPE: spec_of(ledger.cell.index).table_type}
    table = Table.open(str(root), options={**ledger.cell.options, **index})
    rows = pa.concat_tables(table.scan().tables())
    assert sorted(texts(rows)) == ledger.wanted()
    assert rows["_hoodie_record_key"].null_count == len(rows)
    return table


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.share(VERSIONS[0])
@pytest.mark.parametrize("cell", CELLS, ids=names)
def test_hudi_goes_on_with_a_table_of_keymarks(hudi, cell, tmp_path):
    root, ledger = tmp_path / "t", Rows(cell)
    table = cell.create(root)
    table.bulk_insert(ledger.put(range(40), 1))
    assert table.upsert(ledger.put([*range(10), *range(40, 50)], 2)).updated == 10
    assert table.delete(ledger.drop(range(30, 35))).deleted == 5
    held(hudi, root, ledger)
    options = writer_options(hudi, root)
    moves = cell.moves and len(cell.record_key) == 1  # the others: see the test below
    changes = [ledger.put(range(6), 3, shift=int(moves))]
    changes.append(ledger.put([*range(6, 20), *range(45, 60)], 3))
    hudi.write(root, pa.concat_tables(changes), "upsert", options)
    hudi.write(root, ledger.drop([20, 41, 59]), "delete", options)
    table = held(hudi, root, ledger)
    assert table.upsert(ledger.put([*range(50, 56), *range(80, 84)], 4)).updated == 6
    assert table.delete(ledger.drop([7, 55])).deleted == 2
    if cell.moves:
        assert table.upsert(ledger.put([0, 50], 5, shift=2)).moved == 2
    held(hudi, root, ledger)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.share(VERSIONS[0])
@pytest.mark.parametrize("cell", CELLS[1:4], ids=names)
def test_keymark_goes_on_with_a_table_of_hudis(hudi, cell, tmp_path):
    root, ledger = tmp_path / "t", Rows(cell)
    cell.create(tmp_path / "facts")
    options = options_of(properties(tmp_path / "facts"), hudi.version)
    hudi.write(root, ledger.put(range(40), 1), "bulk_insert", options)
    hudi.write(root, ledger.put([*range(5), *range(40, 45)], 2), "upsert", options)
    table = held(hudi, root, ledger)
    result = table.upsert(ledger.put([*range(3, 8), *range(43, 50)], 3))
    assert (result.updated, result.inserted) == (7, 5)
    assert table.delete(ledger.drop([0, 20, 44])).deleted == 3
    hudi.write(root, ledger.put([*range(5, 20), *range(46, 52)], 4), "upsert", options)
    held(hudi, root, ledger)


def refused(hudi, root, ledger, numbers, saying):
    """Rows that Hudi fails to upsert; its next writer takes back what it left."""
    rows = ledger.put(numbers, 2)
    with pytest.raises(CellError, match=saying):
        hudi.write(root, rows, "upsert", writer_options(hudi, root))
    return rows


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.share(VERSIONS[0])
def test_hudi_0_15_moves_no_row_whose_key_has_several_fields(hudi, tmp_path):
    """Not in a table of its own: it takes several fields for one (HoodieMergedReadHandle)."""
    root, ledger = tmp_path / "t", Rows(CELLS[1])
    ledger.cell.create(tmp_path / "facts")
    options = options_of(properties(tmp_path / "facts"), hudi.version)
    hudi.write(root, ledger.put(range(6), 1), "bulk_insert", options)
    moved = ledger.put(range(3), 2, shift=1)
    if hudi.version == VERSIONS[0]:
        with pytest.raises(CellError, match="Not a valid schema field: k,n"):
            hudi.write(root, moved, "upsert", options)
    else:
        hudi.write(root, moved, "upsert", options)
    result = Table.open(str(root), options=ledger.cell.options).upsert(moved)
    assert (result.moved, result.updated) == ((3, 0) if hudi.version == VERSIONS[0] else (0, 3))
    held(hudi, root, ledger)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.share(VERSIONS[0])
@pytest.mark.parametrize("index", ["bloom", "global_bloom"])
def test_hudi_has_no_filters_to_ask(hudi, index, tmp_path):
    ledger = Rows(Virtual(index, "simple", "", ""))
    table = ledger.cell.create(tmp_path)
    table.bulk_insert(ledger.put(range(6), 1))
    rows = refused(hudi, tmp_path, ledger, range(4, 9), "Error checking bloom filter index")
    result = table.upsert(rows)
    assert (result.updated, result.inserted) == (2, 3)
    held(hudi, tmp_path, ledger)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.share(VERSIONS[0])
def test_hudi_refuses_virtual_keys_by_other_generators(hudi, tmp_path):
    """It reads the table (without the option it is not made); it does not write to it."""
    rows = pa.table({"k": ["a", "b"], "p": ["x", "y"], "ts": [1, 1]})
    options = {META_FIELDS: "false", KEY_GENERATOR_TYPE: "CUSTOM", HUDI_READS: "false"}
    names = {"name": "t", "record_key": "k", "partition_path": "p:simple", "ordering": "ts"}
    table = Table.create(str(tmp_path), index="global_simple", options=options, **names)
    table.upsert(rows)
    assert sorted(texts(hudi.read(tmp_path)[0])) == sorted(texts(rows))
    given = writer_options(
        hudi, tmp_path, {"hoodie.datasource.write.partitionpath.field": "p:SIMPLE"}
    )
    with pytest.raises(CellError, match="Only simple, non-partitioned or complex key generator"):
        hudi.write(tmp_path, rows, "upsert", given)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.only(VERSIONS[0])
def test_a_record_index_that_hudi_leaves_behind_is_built_anew(hudi, tmp_path):
    """Where Hudi updates known keys it stays right; new keys are not entered."""
    root, ledger = tmp_path / "t", Rows(CELLS[0])
    table = beside(root, ledger)
    options = writer_options(hudi, root)
    hudi.write(root, ledger.put(range(5), 2), "upsert", options)
    assert held(hudi, root, ledger).check().ok
    hudi.write(root, ledger.put(range(15, 25), 3), "upsert", options)
    table = held(hudi, root, ledger)
    report = table.check()
    assert report.left_behind == max(table.scan().state.timeline.commit_times())
    assert report.missing == 5
    new = ledger.put([1, 24, 30], 4)
    with pytest.raises(IndexUnavailableError, match=r"table index build .* record_index"):
        table.upsert(new)
    # A query of Hudi's by a key that its index lacks finds no row, and opens no file.
    where = {"k": "key-0022"}
    assert hudi.read(root, where) == (None, 0)
    assert table.build_index("record_index")
    assert table.upsert(new).updated == 2
    assert table.check().ok
    found, files = hudi.read(root, where)
    assert (len(found), files) == (1, 1)
    hudi.write(root, ledger.put(range(28, 32), 5), "upsert", options)
    assert held(hudi, root, ledger).check().missing == 3


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.only(VERSIONS[1])
def test_hudi_1_1_writes_beside_no_record_index(hudi, tmp_path):
    """Its update of the index looks for stored keys and fails; without the index it goes on."""
    root, ledger = tmp_path / "t", Rows(CELLS[0])
    table = beside(root, ledger)
    rows = refused(hudi, root, ledger, range(15, 25), "Failed to update metadata")
    assert table.upsert(rows).inserted == 5
    assert held(hudi, root, ledger).check().ok
    table.drop_index("record_index")
    hudi.write(root, ledger.put(range(20, 30), 3), "upsert", writer_options(hudi, root))
    held(hudi, root, ledger)
