"""What Hudi cannot do with tables that it alone wrote; the generated tables leave it out."""

from __future__ import annotations

import shutil
from decimal import Decimal

import pyarrow as pa
import pytest
from hudi_judge import INDEXES, PARTITIONS, by_key, options_of

from keymark import Table
from keymark.harness.errors import CellError

KEYGEN = "org.apache.hudi.keygen."
UNPRUNED = {**INDEXES, "hoodie.enable.data.skipping": "false"}


def options(version, keys, partition=""):
    """Of a table with the record index."""
    kind = "ComplexKeyGenerator" if partition else "NonpartitionedKeyGenerator"
    known = {
        "hoodie.table.name": "alone",
        "hoodie.table.recordkey.fields": keys,
        "hoodie.table.partition.fields": partition,
        "hoodie.table.keygenerator.class": KEYGEN + kind,
        "hoodie.table.precombine.field": "ts",
        PARTITIONS: "files,record_index",
    }
    return options_of(known, version)


def rows(parts, ts, **columns):
    """Rows with the keys k, w; w from `parts`."""
    count = len(parts)
    keys = {
        "k": [f"k{n}" for n in range(count)],
        "w": parts,
        "p": ["p"] * count,
        "ts": [ts] * count,
    }
    return pa.table({**keys, **columns})


def tags(rows):
    """The lists, ordered by key."""
    return rows.sort_by("k")["tags"].to_pylist()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.share("0.15.0")
@pytest.mark.parametrize("part", ["", None])
def test_a_bulk_insert_without_partitions_refuses_a_part_of_a_key_that_is_null_or_empty(
    hudi, tmp_path, part
):
    batch = rows(pa.array([part, "w"], pa.string()), 1)
    with pytest.raises(CellError, match="Record key has to be non-null"):
        hudi.write(tmp_path / "t", batch, "bulk_insert", options(hudi.version, "k,w"))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.share("1.1.1")
def test_a_point_query_misses_a_part_of_a_key_that_is_empty(hudi, tmp_path):
    """Hudi 1.1.1 does not find `k:k0,w:__empty__` by the record index; without it, it does."""
    root = tmp_path / "t"
    hudi.write(root, rows(["", "w"], 1), "insert", options(hudi.version, "k,w", "p"))
    where = {"k": "k0", "w": ""}
    missed, _ = hudi.read(root, where)
    found, _ = hudi.read(root, where, UNPRUNED)
    assert list(by_key(found)) == ["k:k0,w:__empty__"]
    assert by_key(missed) == (by_key(found) if hudi.version.startswith("0.") else {})


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.share("1.1.1")
def test_a_write_without_its_record_index_moves_rows_that_are_to_stay(hudi, tmp_path):
    """It uses GLOBAL_SIMPLE, with that index's default; told of that index itself, it obeys."""
    moves = "update.partition.path"
    stay = {f"hoodie.record.index.{moves}": "false", f"hoodie.simple.index.{moves}": "false"}
    found = {}
    for index in ("RECORD_INDEX", "GLOBAL_SIMPLE"):
        given = options(hudi.version, "k,w", "p") | stay | {"hoodie.index.type": index}
        given["hoodie.metadata.record.index.enable"] = "false"
        batch = rows(["v"], 1)
        hudi.write(tmp_path / index, batch, "insert", given)
        moved = batch.set_column(2, "p", pa.array(["q"])).set_column(3, "ts", pa.array([2]))
        hudi.write(tmp_path / index, moved, "upsert", given)
        found[index] = hudi.read(tmp_path / index)[0]["_hoodie_partition_path"].to_pylist()
    assert found == {"RECORD_INDEX": ["q"], "GLOBAL_SIMPLE": ["p"]}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.share("0.15.0")
def test_a_bulk_insert_beside_short_decimals_loses_lists(hudi, tmp_path):
    """For short decimals it writes lists in Spark's old form, which Hudi 0.15's merge misreads."""
    batch = rows(
        ["v", "w"],
        1,
        tags=pa.array([[1, 2], []], pa.list_(pa.int64())),
        price=pa.array([Decimal(1), Decimal(2)], pa.decimal128(10, 2)),
    )
    root = tmp_path / "t"
    given = options(hudi.version, "k,w", "p")
    hudi.write(root, batch, "bulk_insert", given)
    shutil.copytree(root, tmp_path / "ours")
    hudi.write(root, batch.slice(1), "upsert", given)
    kept, lost = [[1, 2], []], [None, []]
    assert tags(hudi.read(root)[0]) == (lost if hudi.version.startswith("0.") else kept)
    ours = Table.open(str(tmp_path / "ours"))
    assert ours.upsert(batch.slice(1)).updated == 1
    assert tags(pa.concat_tables(ours.scan().tables())) == kept
    assert tags(hudi.read(tmp_path / "ours")[0]) == kept
