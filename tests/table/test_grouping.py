"""Rows of a bulk insert, dealt out by group in memory and on the local disk."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from keymark.table.errors import StorageError
from keymark.table.storage.spool import LocalFile
from keymark.table.write.grouping import Group, GroupedRows

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string()), ("deep", pa.list_(pa.int32()))])


def batches(count=40, size=100, seed=1):
    """Tables of rows with the partition path and bucket of each row."""
    random = np.random.default_rng(seed)
    for number in range(count):
        first = number * size
        n = np.arange(first, first + size)
        columns = [
            n,
            [None if i % 7 == 0 else f"text {i}" for i in n],
            [[int(i)] * (i % 3) for i in n],
        ]
        paths = pa.array([f"p{each}" for each in random.integers(0, 5, size)])
        yield pa.table(columns, schema=SCHEMA), paths, random.integers(0, 3, size).astype(np.int32)


def model(given):
    """The rows of each group, in their order."""
    found = {}
    for rows, paths, buckets in given:
        for row, path, bucket in zip(
            rows.to_pylist(), paths.to_pylist(), buckets.tolist(), strict=True
        ):
            found.setdefault((path, bucket), []).append(row)
    return found


def taken(grouped):
    return [
        (group, [row for piece in pieces for row in piece.to_pylist()])
        for group, pieces in grouped.groups()
    ]


@pytest.mark.parametrize("memory", [1, 40_000, 1 << 30])
def test_each_group_gets_its_rows_in_their_order(memory):
    given = list(batches())
    grouped = GroupedRows(memory)
    for each in given:
        grouped.add(*each)
    found = taken(grouped)
    assert dict(found) == model(given)
    assert [group for group, _ in found] == sorted(model(given))
    assert (grouped._file is None) == (memory == 1 << 30)


def test_what_waits_is_bounded():
    grouped = GroupedRows(40_000)
    for each in batches():
        grouped.add(*each)
        assert grouped._bytes <= 10_000


def test_rows_that_come_in_groups_are_not_copied():
    grouped = GroupedRows(1 << 30)
    ((rows, _, _),) = batches(count=1)
    grouped.add(rows, pa.repeat("p", len(rows)), np.zeros(len(rows), np.int32))
    ((group, pieces),) = grouped.groups()
    assert group == Group("p", 0)
    assert [piece.equals(rows) for piece in pieces] == [True]


def test_no_rows_make_no_groups():
    grouped = GroupedRows(1)
    grouped.add(SCHEMA.empty_table(), pa.array([], pa.string()), np.zeros(0, np.int32))
    assert taken(grouped) == []


def test_a_full_disk_is_one_error(monkeypatch):
    def full(*_):
        raise StorageError("no space left on device")

    monkeypatch.setattr(LocalFile, "append", full)
    grouped = GroupedRows(1)
    with pytest.raises(StorageError, match="no space left"):
        grouped.add(*next(batches()))
