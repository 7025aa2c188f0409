"""The kernels: HFile, hashes, bloom filters, log blocks, the generator. Every answer is checked.

Run tiny where benchmarks are disabled. `make gate` runs them with two revisions of the code in
turns, from a folder of their own: nothing but `table` and `datasets` may be imported here.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from keymark.datasets.generate.digest import RowsDigest
from keymark.datasets.generate.rows import make_rows
from keymark.datasets.specs.spec import load_spec
from keymark.table.format.bloom.filter import BloomFilter
from keymark.table.format.bloom.text import BloomText
from keymark.table.format.hashes.hashing import buckets, java_hashes, shards
from keymark.table.format.hfile.reader import HFileReader
from keymark.table.format.hfile.writer import write_hfile
from keymark.table.format.kernels.order import key_order
from keymark.table.format.log.block import BlockType, HeaderKey
from keymark.table.format.log.deletes import decode_deletes, encode_deletes
from keymark.table.format.log.reader import read_blocks
from keymark.table.format.log.writer import encode_block
from keymark.table.storage.storage import BytesReader

TINY, FULL = 500, 100_000
FPP = 0.01


@pytest.fixture(scope="module")
def keys(request) -> pa.Array:
    """Texts that look like UUIDs, as functions of their number."""
    tiny = request.config.getoption("benchmark_disable", default=False)
    enabled = request.config.getoption("benchmark_enable", default=False)
    count = TINY if tiny and not enabled else FULL
    return pa.array([hashlib.md5(b"%d" % n).hexdigest() for n in range(count)])


def java_hash(text: str) -> int:
    """Java's String.hashCode of ASCII, from its documentation."""
    state = 0
    for letter in text.encode():
        state = (31 * state + letter) & 0xFFFFFFFF
    return state - (1 << 32) if state >> 31 else state


@pytest.mark.benchmark(group="hash")
def test_java_hashes(benchmark, keys):
    found = benchmark(java_hashes, keys)
    assert found[:50].tolist() == [java_hash(key) for key in keys[:50].to_pylist()]


@pytest.mark.benchmark(group="hash")
def test_shards(benchmark, keys):
    found = benchmark(shards, keys, 7)
    assert found[:50].tolist() == [abs(java_hash(key)) % 7 for key in keys[:50].to_pylist()]


@pytest.mark.benchmark(group="hash")
def test_buckets(benchmark, keys):
    found = benchmark(buckets, keys, 8, key_fields=["k"], hash_fields=[])
    assert set(found.tolist()) == set(range(8))
    wanted = [(31 + java_hash(key)) & 0x7FFFFFFF for key in keys[:50].to_pylist()]
    assert found[:50].tolist() == [value % 8 for value in wanted]


def bloom(keys: pa.Array) -> BloomFilter:
    made = BloomFilter.create(type_code="SIMPLE", entries=len(keys), fpp=FPP, max_entries=len(keys))
    made.add(keys)
    return made


@pytest.mark.benchmark(group="bloom")
def test_add(benchmark, keys):
    made = benchmark(bloom, keys)
    assert made.contains(keys).all()


@pytest.mark.benchmark(group="bloom")
def test_contains(benchmark, keys):
    made = bloom(keys)
    others = pc.binary_join_element_wise(keys, "x", "")
    found = benchmark(made.contains, others)
    assert found.mean() < 3 * FPP
    assert made.contains(keys).all()


@pytest.mark.benchmark(group="bloom")
@pytest.mark.parametrize("held", [1_250, 60_000])
def test_probe(benchmark, keys, held):
    """A filter of Hudi's defaults that holds few keys, or all it is made for, asked for others."""
    made = BloomFilter.create(type_code="DYNAMIC_V0", entries=60_000, fpp=1e-9, max_entries=100_000)
    made.add(keys[:held])
    text = BloomText.parse(made.serialize(), "DYNAMIC_V0", "x")
    others = pc.binary_join_element_wise(keys, "x", "")
    assert not benchmark(text.contains, others).any()
    assert text.contains(keys[:held]).all()


@pytest.mark.benchmark(group="order")
def test_order(benchmark, keys):
    found = benchmark(key_order, keys)
    assert keys.take(pa.array(found)).equals(keys.take(pc.sort_indices(keys)))


def values(keys: pa.Array) -> pa.Array:
    chosen = pa.array(np.arange(len(keys)) % 50)
    return pa.array([b"%056d" % n for n in range(50)], pa.binary()).take(chosen)


@pytest.mark.benchmark(group="hfile")
def test_write(benchmark, keys):
    ordered = keys.take(pc.sort_indices(keys))
    data = bytes(benchmark(write_hfile, ordered, values(keys), schema='"bytes"'))
    _, found = HFileReader(BytesReader(name="x", data=data)).lookup(ordered)
    assert found.equals(values(keys))


@pytest.mark.benchmark(group="hfile")
def test_lookup(benchmark, keys):
    ordered = keys.take(pc.sort_indices(keys))
    data = bytes(write_hfile(ordered, values(keys), schema='"bytes"'))
    some = np.arange(0, len(keys), 10)

    def lookup():
        reader = HFileReader(BytesReader(name="x", data=data))
        return reader.lookup(ordered.take(pa.array(some)))

    positions, found = benchmark(lookup)
    assert positions.tolist() == list(range(len(some)))
    assert found.equals(values(keys).take(pa.array(some)))


@pytest.mark.benchmark(group="hfile")
def test_few_of_a_block(benchmark, keys):
    """One key of a hundred: what is done is to decode the blocks."""
    ordered = keys.take(pc.sort_indices(keys))
    data = bytes(write_hfile(ordered, values(keys), schema='"bytes"'))
    some = ordered.take(pa.array(np.arange(0, len(keys), 100)))
    source = BytesReader(name="x", data=data)
    positions, _ = benchmark(lambda: HFileReader(source).lookup(some))
    assert positions.tolist() == list(range(len(some)))


@pytest.mark.benchmark(group="hfile")
def test_open(benchmark, keys):
    """A file of one key is opened and asked."""
    source = BytesReader(
        name="x", data=bytes(write_hfile(keys[:1], values(keys)[:1], schema='"bytes"'))
    )
    positions, _ = benchmark(lambda: HFileReader(source).lookup(keys[:1]))
    assert positions.tolist() == [0]


@pytest.mark.benchmark(group="log")
def test_blocks(benchmark, keys):
    """A log file of many blocks, written and read."""
    headers = {HeaderKey.INSTANT_TIME: "20260102030405678"}
    parts = [b"%d" % n * 10 for n in range(len(keys) // 100)]

    def both():
        data = b"".join(encode_block(BlockType.DELETE, headers, part) for part in parts)
        return data, read_blocks(BytesReader(name="x", data=data), complete=True)

    data, blocks = benchmark(both)
    assert [b.content_length for b in blocks] == [len(part) for part in parts]
    last = blocks[-1]
    assert data[last.content_offset :].startswith(parts[-1])


@pytest.mark.benchmark(group="log")
def test_deletes(benchmark, keys):
    """A list of deleted keys, written and read."""
    found = benchmark(lambda: decode_deletes(encode_deletes(keys, "p"), "x"))
    assert found.cast(pa.string()).equals(keys)


def made(keys: pa.Array) -> pa.Table:
    spec = load_spec("trips", {"rows": len(keys), "seed": 1})
    numbers = np.arange(len(keys) // 5)
    return make_rows(spec, numbers, np.zeros_like(numbers), None)


@pytest.mark.benchmark(group="generator")
def test_rows(benchmark, keys):
    rows = benchmark(made, keys)
    assert rows.num_rows == len(keys) // 5
    assert pc.count_distinct(rows["uuid"]).as_py() == rows.num_rows


@pytest.mark.benchmark(group="generator")
def test_digest(benchmark, keys):
    rows = made(keys)
    half = rows.num_rows // 2
    found = benchmark(RowsDigest.of, rows)
    assert found == RowsDigest.of(rows.slice(half)) + RowsDigest.of(rows.slice(0, half))
