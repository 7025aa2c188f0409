from __future__ import annotations

import pickle
import uuid

import pyarrow as pa
import pytest

from keymark import Table
from keymark.table.metadata.records import encode_locations
from keymark.table.runtime.ids import RANDOM, SeededIds


def many(ids, count=2000):
    return [ids.uuid("a", number) for number in range(count)]


@pytest.mark.parametrize("ids", [RANDOM, SeededIds("x")], ids=["random", "seeded"])
def test_ids_take_equally_many_bytes_in_the_record_index(ids):
    names = many(ids)
    assert len(set(names)) == 2000
    assert {uuid.UUID(name).version for name in names} == {4}
    entries = encode_locations([""] * 2000, [f"{n}-0" for n in names], [1_700_000_000_000] * 2000)
    assert len({len(entry.as_py()) for entry in entries}) == 1


def test_a_seed_gives_the_same_ids_and_each_write_others():
    first, again, other = SeededIds("x"), SeededIds("x"), SeededIds("y")
    assert many(first, 5) == many(again, 5)
    assert not set(many(first, 5)) & set(many(other, 5))
    one, two = first.of_write(), first.of_write()
    assert many(one, 5) == many(pickle.loads(pickle.dumps(again.of_write())), 5)
    assert not set(many(one, 5)) & set(many(two, 5))
    assert RANDOM.uuid("a") != RANDOM.of_write().uuid("a")


def rows(low, high):
    numbers = range(low, high)
    columns = {"k": [f"k{n}" for n in numbers], "p": [f"p{n % 3}" for n in numbers]}
    return pa.table({**columns, "ts": list(numbers)})


@pytest.mark.parametrize("index", ["record", "bucket"])
def test_tables_of_one_seed_have_the_same_file_groups(tmp_path, index):
    def written(name, seed):
        options = {"hoodie.bucket.index.num.buckets": "2"} if index == "bucket" else {}
        options["hoodie.parquet.small.file.limit"] = "0"
        table = Table.create(
            tmp_path / name,
            record_key="k",
            partition_path="p",
            ordering="ts",
            index=index,
            options=options,
            ids=SeededIds(seed),
        )
        table.bulk_insert(rows(0, 30))
        table.upsert(rows(20, 50))
        keys = [f"k{n}" for n in range(50)]
        return table.lookup(keys).column("file_id").to_pylist()

    ids = written("a", "one")
    assert ids == written("b", "one")
    assert not set(ids) & set(written("c", "two"))
    groups = {(n % 3, ids[n]) for n in range(50)}
    assert len(groups) == len({file_id for _, file_id in groups})
