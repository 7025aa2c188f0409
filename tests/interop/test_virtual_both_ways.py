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

from harness.errors import CellError
from table import Table
from table.errors import IndexUnavailableError
from table.options import INDEX_TYPE, META_FIELDS, RECORD_INDEX_ON
from table.write.index import HUDI_TYPES


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
]


def names(cell):
    return f"{cell.index}-{cell.keys}"


def held(hudi, root, ledger):
    """A new handle, after Hudi and Keymark read what must be there."""
    assert sorted(texts(hudi.read(root)[0])) == ledger.wanted()
    assert hudi.listing(root) == files_stored(root)
    # Hudi 0.15 does not store the index of a table that it made.
    index = {INDEX_TYPE: HUDI_TYPES[ledger.cell.index]}
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
@pytest.mark.parametrize("cell", CELLS[1:], ids=names)
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


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.share("0.15.0")
def test_hudi_moves_no_row_whose_key_has_several_fields(hudi, tmp_path):
    """It takes the names of the fields for that of one (HoodieMergedReadHandle).

    Its write fails, and leaves nothing that the next writer does not take back.
    """
    cell, root = CELLS[1], tmp_path / "t"
    ledger = Rows(cell)
    table = cell.create(root)
    table.bulk_insert(ledger.put(range(6), 1))
    moved = ledger.put(range(3), 2, shift=1)
    with pytest.raises(CellError, match="Not a valid schema field: k,n"):
        hudi.write(root, moved, "upsert", writer_options(hudi, root))
    assert table.upsert(moved).moved == 3
    held(hudi, root, ledger)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.share(VERSIONS[0])
def test_a_record_index_that_hudi_leaves_behind_is_built_anew(hudi, tmp_path):
    """Where Hudi updates known keys it stays right; new keys are not entered."""
    cell, root = CELLS[0], tmp_path / "t"
    ledger = Rows(cell)
    cell.create(root)
    table = Table.open(str(root), options={**cell.options, RECORD_INDEX_ON: "true"})
    table.bulk_insert(ledger.put(range(20), 1))
    assert "record_index" in metadata_partitions(root)
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
