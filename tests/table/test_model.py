"""Random histories of a table against a dict.

Strategy: hypothesis draws the table's shape (keys, partitions, payload, moves, file sizes) and a
history of writes; after every write the rows, the index, the check, the listing, and the result's
counts must be those that a dict of rows says.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dict_model import DELETED, KEYS, Model, Shape, frame
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from table_cases import (
    DUP_POLICY,
    by_listing,
    data_rows,
    files_listed,
    files_stored,
    left_over,
)

from keymark import Table
from keymark.table.errors import DuplicateKeyError
from keymark.table.layout.naming import is_bucket_file_id

shapes = st.builds(
    Shape,
    composite=st.booleans(),
    partitions=st.sampled_from([0, 1, 2]),
    event_time=st.booleans(),
    moves=st.booleans(),
    ordering=st.sampled_from([True, True, False]),
    max_file=st.sampled_from(["125829120", "6000", "2500"]),
    small_limit=st.sampled_from(["104857600", "0", "5000"]),
    shards=st.sampled_from(["1", "3"]),
    hive_style=st.booleans(),
).map(lambda s: s if s.ordering else replace(s, event_time=False))

row_values = st.fixed_dictionaries(
    {
        "k": st.sampled_from(KEYS),
        "n": st.sampled_from([None, 0, 7]),
        "p": st.sampled_from(["x", "y", "", None]),
        "q": st.sampled_from(["1", "2"]),
        "ts": st.integers(0, 4),
        DELETED: st.sampled_from([False, False, False, True]),
    }
)
batches = st.lists(row_values, min_size=1, max_size=8)
steps = st.one_of(
    st.tuples(st.just("upsert"), batches),
    st.tuples(st.just("upsert"), batches),
    st.tuples(st.sampled_from(["fail", "drop"]), batches),
    st.tuples(st.just("bulk_insert"), batches),
    st.tuples(st.just("delete"), batches),
)


def numbered(history: list[tuple[str, list[dict[str, Any]]]]) -> None:
    """Give every row of a history its own value."""
    count = 0
    for step, batch in history:
        for row in batch:
            count += 1
            row["v"] = count
            row[DELETED] = row[DELETED] and step != "bulk_insert"


def apply(table: Table, model: Model, step: str, batch: list[dict[str, Any]]) -> Any:
    """One write on both; returns the result and the counts that it must have."""
    rows = frame(batch, flags=step != "bulk_insert")
    if step == "upsert":
        return table.upsert(rows), model.upsert(batch)
    if step == "delete":
        keys = [model.shape.key(row) for row in batch]
        return table.delete(keys), model.delete(batch)
    policy = "drop" if step == "drop" else "fail"
    chosen = Table(table.storage, {**model.shape.options, DUP_POLICY: policy})
    write = chosen.bulk_insert if step == "bulk_insert" else chosen.insert
    if policy == "fail" and model.clashes(batch):
        with pytest.raises(DuplicateKeyError):
            write(rows)
        return None, None
    return write(rows), model.insert(batch)


def assert_same(table: Table, model: Model) -> None:
    """Rows, places, index and listing are those of the model."""
    root = table.storage.root
    columns = ("k", "n", "p", "q", "ts", "v")
    wanted = {key: tuple(row[c] for c in columns) for key, row in model.rows.items()}
    assert data_rows(table) == wanted
    stored = by_listing(root)
    assert {key: values for key, (_, values) in stored.items()} == wanted
    assert {key: path for key, ((path, _), _) in stored.items()} == model.paths
    asked = [*KEYS, *wanted, "absent", "k:a", "k:a,n:7", *KEYS]
    for row in table.lookup(asked).to_pylist():
        location = stored[row["record_key"]][0] if row["record_key"] in stored else (None, None)
        assert (row["partition_path"], row["file_id"]) == location
    checked = table.check()
    assert checked.ok, checked
    assert checked.keys == len(wanted)
    assert left_over(root) == []
    assert files_listed(table) == files_stored(root)


def assert_pruned(table: Table, model: Model) -> None:
    """Reading some keys opens the files that hold them and no other."""
    stored = by_listing(table.storage.root)
    keys = sorted(model.rows)[::3]
    plan = table.scan(keys=[*keys, "absent"])
    opened = {(file.partition_path, file.file_id) for file in plan.files}
    # File ids that all look like buckets by chance are not pruned.
    by_chance = all(is_bucket_file_id(file_id) for _, file_id in opened)
    assert by_chance or opened == {stored[key][0] for key in keys}
    assert data_rows(table, keys=[*keys, "absent"]).keys() == set(keys)


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(shape=shapes, history=st.lists(steps, min_size=3, max_size=9))
def test_a_table_is_a_dict(shape, history):
    numbered(history)
    with tempfile.TemporaryDirectory() as folder:
        model = Model(shape)
        shape.create(Path(folder) / "t")
        past: list[tuple[str, dict[str, Any]]] = []
        for step, batch in history:
            table = Table.open(f"{folder}/t", options=shape.options)
            result, counts = apply(table, model, step, batch)
            if result is not None:
                got = {name: getattr(result, name) for name in counts}
                assert got == counts
                sums = (result.inserted, result.updated, result.deleted, result.moved)
                assert sum(sums) + result.unchanged == len({shape.key(r) for r in batch})
                past.append((result.instant, dict(model.rows)))
            assert_same(table, model)
        assert_pruned(table, model)
        for instant, rows in past[::2]:
            assert data_rows(table, as_of=instant).keys() == rows.keys()
