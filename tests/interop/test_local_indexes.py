"""Indexes that look in one partition, SIMPLE, BLOOM and BUCKET: Hudi writes on, and so do we.

Hudi is told of SIMPLE where the table has Keymark's record index of each partition.

What a table holds is told by (partition, key): a key that arrives with another partition is a new
row. `test_both_ways` has the same indexes with all services and operations.
"""

from __future__ import annotations

from itertools import count

import pyarrow as pa
import pytest
from hudi_judge import VERSIONS, by_key, findings, options_of, properties, texts, writer_options
from interop_cells import Cell, Ledger, frame, shared

from keymark import Table
from keymark.table.index.protocol import LookupStats

LOCAL = {"simple": VERSIONS[0], "bloom": VERSIONS[-1], "bucket": VERSIONS[0]}
KEYS = {"simple": "composite_hive", "bloom": "unicode", "bucket": "simple"}


class Places:
    """The rows of a table by partition and key."""

    def __init__(self, cell):
        self.cell, self.rows, self.ts = cell, {}, count(1)

    def put(self, numbers, *, shift=0):
        ts = next(self.ts)
        rows = [self.cell.row(number, ts, shift=shift) for number in numbers]
        self.rows |= {(row["p"], self.cell.key(row)): row for row in rows}
        return frame(rows)

    def drop(self, numbers, *, shift=0):
        rows = [self.cell.row(number, 0, shift=shift) for number in numbers]
        for row in rows:
            del self.rows[row["p"], self.cell.key(row)]
        return frame(rows)

    def wanted(self):
        known = texts(frame(self.rows.values()))
        return sorted((*place, text) for place, text in zip(self.rows, known, strict=True))


def held(rows):
    """(partition, key, values) of the rows of a table."""
    names = ("p", "_hoodie_record_key")
    return sorted(zip(*(rows[name].to_pylist() for name in names), texts(rows), strict=True))


def same(hudi, root, places, options):
    """Whether Hudi and Keymark read what the table must hold."""
    assert held(hudi.read(root)[0]) == places.wanted()
    table = Table.open(str(root), options=options)
    assert held(pa.concat_tables(table.scan().tables())) == places.wanted()
    return table


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("index", shared(LOCAL))
def test_hudi_upserts_what_keymark_wrote(hudi, index, tmp_path):
    cell = Cell(index, KEYS[index], "maintained", "delete")
    places, root = Places(cell), tmp_path / "t"
    table = cell.create(root)
    table.bulk_insert(places.put(range(40)))
    assert table.upsert(places.put([*range(10), *range(40, 50)])).updated == 10
    beside = table.upsert(places.put(range(5, 8), shift=1))
    assert (beside.inserted, beside.moved) == (3, 0)
    same(hudi, root, places, cell.options)
    options = writer_options(hudi, root)
    hudi.write(root, places.put([*range(20, 30), *range(50, 60)]), "upsert", options)
    hudi.write(root, places.put(range(6, 10), shift=1), "upsert", options)
    hudi.write(root, places.drop(range(12, 15)), "delete", options)
    table = same(hudi, root, places, cell.options)
    assert table.upsert(places.put([*range(25, 35), *range(55, 65)])).updated == 15
    assert table.upsert(places.put(range(5, 9), shift=1)).updated == 4
    assert table.delete(places.drop(range(6, 8), shift=1)).deleted == 2
    same(hudi, root, places, cell.options)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("index", shared(LOCAL))
def test_keymark_upserts_what_hudi_wrote(hudi, index, tmp_path):
    cell = Cell(index, KEYS[index], "maintained", "delete")
    places, root = Places(cell), tmp_path / "t"
    cell.create(tmp_path / "facts")
    options = options_of(properties(tmp_path / "facts"), hudi.version)
    hudi.write(root, places.put(range(40)), "upsert", options)
    hudi.write(root, places.put([*range(10), *range(40, 50)]), "upsert", options)
    names = ("hoodie.index.type", "hoodie.bucket.index.num.buckets")
    given = {**cell.options, **{n: options[n] for n in names if n in options}}
    table = same(hudi, root, places, given)
    assert table.choice.name == index
    result = table.upsert(places.put([*range(5, 15), *range(45, 55)]))
    assert (result.updated, result.inserted) == (15, 5)
    assert table.upsert(places.put(range(3), shift=1)).inserted == 3
    assert table.delete(places.drop(range(20, 24))).deleted == 4
    same(hudi, root, places, given)
    hudi.write(root, places.put([*range(12), *range(53, 58)]), "upsert", options)
    hudi.write(root, places.put(range(1, 5), shift=1), "upsert", options)
    same(hudi, root, places, given)


@pytest.mark.share("0.15.0")
@pytest.mark.spark
@pytest.mark.slow
def test_what_hudi_writes_is_taken_into_the_record_index_of_each_partition(hudi, tmp_path):
    cell = Cell("partitioned_record", "composite_hive", "maintained", "delete")
    places, root = Places(cell), tmp_path / "t"
    table = cell.create(root)
    table.bulk_insert(places.put(range(40)))
    assert table.upsert(places.put([*range(10), *range(40, 50)])).updated == 10
    assert files_read(table, places) == 0
    options = writer_options(hudi, root)
    assert options["hoodie.index.type"] == "SIMPLE"
    hudi.write(root, places.put([*range(20, 30), *range(50, 60)]), "upsert", options)
    hudi.write(root, places.put(range(6, 10), shift=1), "upsert", options)
    hudi.write(root, places.drop(range(12, 15)), "delete", options)
    table = same(hudi, root, places, cell.options)
    assert table.choice.name == "partitioned_record"
    assert files_read(table, places) > 0
    assert table.check().ok
    result = table.upsert(places.put([*range(25, 35), *range(55, 65)]))
    assert (result.updated, result.inserted) == (15, 5)
    assert files_read(table, places) == 0
    assert table.upsert(places.put(range(5, 9), shift=1)).updated == 3
    assert table.delete(places.drop(range(6, 8), shift=1)).deleted == 2
    table = same(hudi, root, places, cell.options)
    assert files_read(table, places) == 0
    assert table.check().ok


def files_read(table, places):
    """How many base files a lookup of all keys reads, all of which it must find."""
    stats = LookupStats()
    keys = sorted({key for _, key in places.rows})
    found = table.lookup(keys, stats=stats)
    assert found["file_id"].null_count == 0
    return stats.files_read


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("index", shared({"bloom": VERSIONS[0], "simple": VERSIONS[-1]}))
def test_hudi_takes_over_an_index_that_was_changed(hudi, index, tmp_path):
    """record -> the index -> Hudi -> record: the record index stays right all the time."""
    cell = Cell("record", "simple", "maintained", "delete")
    ledger, root = Ledger(cell), tmp_path / "t"
    table = cell.create(root)
    table.bulk_insert(ledger.put(range(40), 1))
    table.use_index(index)
    assert table.upsert(ledger.put(range(35, 45), 2)).updated == 5
    hudi.write(root, ledger.put(range(40, 50), 3), "upsert", writer_options(hudi, root))
    assert findings(hudi, root, ledger.wanted()) == []
    again = Table.open(str(root))
    assert again.choice.name == index
    assert again.check().ok
    again.use_index("record")
    again.upsert(ledger.put(range(48, 52), 4))
    hudi.write(root, ledger.put(range(50, 54), 5), "upsert", writer_options(hudi, root))
    assert findings(hudi, root, ledger.wanted()) == []
    assert by_key(pa.concat_tables(again.scan().tables())) == ledger.wanted()
