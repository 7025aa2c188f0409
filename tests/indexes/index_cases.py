"""Small tables with each index, and what the tests of one index ask of them."""

from __future__ import annotations

import pyarrow as pa
from conformance import SMALL_FILTERS

from keymark import Table
from keymark.table.index.protocol import LookupStats
from keymark.table.state.table_state import TableState


def create(path, index, *, options=None, spark=None, partition="dt"):
    return Table.create(
        str(path),
        record_key="id",
        partition_path=partition,
        ordering="ts",
        index=index,
        options={**SMALL_FILTERS, **(options or {})},
        spark=spark,
    )


def batch(keys, partitions="p", ts=1):
    """Rows of keys (text), all of one partition or of one each."""
    count = len(keys)
    listed = [partitions] * count if isinstance(partitions, str) else partitions
    columns = {"id": keys, "dt": listed, "ts": [ts] * count, "v": [f"{k}@{ts}" for k in keys]}
    types = [("id", pa.string()), ("dt", pa.string()), ("ts", pa.int64()), ("v", pa.string())]
    return pa.table(columns, schema=pa.schema(types))


def with_policy(table, policy):
    """The same table, for inserts under hoodie.datasource.insert.dup.policy."""
    options = {**SMALL_FILTERS, "hoodie.datasource.insert.dup.policy": policy}
    return Table(table.storage, options, spark=table._spark)


def stored(table):
    """Sorted (key, partition path, partition column, v)."""
    names = ["_hoodie_record_key", "_hoodie_partition_path", "dt", "v"]
    found = [t.to_pydict() for t in table.scan(columns=names).tables()]
    rows = [row for columns in found for row in zip(*columns.values(), strict=True)]
    return sorted(rows, key=repr)


def files(table):
    return TableState.load(table.storage).snapshot.files


DAMAGES = ("gone", "short", "garbage")


def damaged(table, file, damage):
    """Damage a base file as one of `DAMAGES` says."""
    data = table.storage.read(file.path)
    table.storage.delete(file.path)
    if damage == "short":
        table.storage.put(file.path, data[:-20])
    elif damage == "garbage":
        table.storage.put(file.path, b"PAR1" + b"\0" * (len(data) - 8) + b"PAR1")


def lookup(table, keys):
    """(partition path, file id) per key, and what the lookup touched."""
    stats = LookupStats()
    found = table.lookup(keys, stats=stats)
    places = zip(found["partition_path"].to_pylist(), found["file_id"].to_pylist(), strict=True)
    return list(places), stats
