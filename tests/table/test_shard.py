"""A file group of the record index: streamed, and looked up through a block cache."""

from __future__ import annotations

import dataclasses
import pickle

import pyarrow as pa
import pytest
from table_cases import create, rows

from keymark.table.format.hfile.cache import BlockCache
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.state.table_state import TableState


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """The record index of a table with three writes and a delete: k0 to k29, but for k4 to k7."""
    table = create(tmp_path_factory.mktemp("merge") / "t")
    for numbers in (range(10), range(5, 20), range(15, 30)):
        table.upsert(rows(numbers, ts=numbers[-1]))
    table.delete(pa.array(["k4", "k5", "k6", "k7"]))
    return TableState.load(table.storage).metadata.shards(RECORD_INDEX)


LIVE = [f"k{number}" for number in range(30) if number not in range(4, 8)]


def test_batches_of_a_shard_are_its_scan(shards):
    found = []
    for shard in shards:
        keys, values = shard.scan()
        assert len(keys) == len(values)
        found += keys.to_pylist()
        parts = list(shard.batches())
        assert pa.concat_arrays([part for part, _ in parts]).equals(keys)
        assert pa.concat_arrays([part for _, part in parts]).equals(values)
    assert sorted(found) == sorted(key.encode() for key in LIVE)


def test_a_shard_reads_its_lookups_through_its_cache(shards):
    cache = BlockCache(1 << 20)
    asked = pa.array(sorted([*LIVE, "k4", "absent"]))
    for shard in shards:
        cold = dataclasses.replace(shard, readers=[])
        positions, values = cold.lookup(asked)
        assert cold.blocks_decoded > 0
        for decoded in (cold.blocks_decoded, 0):
            warm = dataclasses.replace(shard, readers=[], cache=cache)
            found, same = warm.lookup(asked)
            assert (found.tolist(), same) == (positions.tolist(), values)
            assert warm.blocks_decoded == decoded
    assert cache.hits > 0


def test_a_shard_goes_to_another_process_with_an_empty_cache(shards):
    cached = dataclasses.replace(shards[0], readers=[], cache=BlockCache(1 << 20))
    cached.lookup(pa.array(sorted(LIVE)))
    copy = pickle.loads(pickle.dumps(dataclasses.replace(cached, readers=[])))
    assert copy.scan()[0].equals(shards[0].scan()[0])
    assert (copy.cache.capacity, copy.cache.held) == (1 << 20, 0)
