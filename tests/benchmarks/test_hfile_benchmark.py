"""Write and lookup of a shard of the record index; run tiny where benchmarks are disabled.

`--benchmark-enable` gives the shard 1,000,000 keys.
"""

from __future__ import annotations

import uuid

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from keymark.table.format.hfile.reader import HFileReader
from keymark.table.format.hfile.writer import write_hfile
from keymark.table.storage.local_storage import LocalStorage

TINY_KEYS = 20_000
FULL_KEYS = 1_000_000
LOCATIONS = 220


@pytest.fixture(scope="module")
def mappings(request) -> tuple[pa.Array, pa.Array]:
    """Sorted uuids and one of 220 values of 56 bytes each, as Hudi's bulk insert leaves them."""
    count = FULL_KEYS if request.config.getoption("benchmark_enable") else TINY_KEYS
    random = np.random.default_rng(42)
    raw = random.bytes(16 * count)
    keys = pa.array([str(uuid.UUID(bytes=raw[at : at + 16])) for at in range(0, len(raw), 16)])
    tasks = [random.bytes(20) for _ in range(LOCATIONS // 20)]
    values = [
        bytes(7)
        + b"\x0a\x00\x00\x00\x02\x02\x14"
        + b"2024/01/%02d" % (number % 20)
        + tasks[number % len(tasks)]
        + bytes([2, number // len(tasks) * 2, 2, 0, 2, 0xD2, 0xF0, 0xD7, 0xEF, 0xBF, 0x68, 0])
        for number in range(LOCATIONS)
    ]
    chosen = random.integers(0, LOCATIONS, count)
    return keys.take(pc.sort_indices(keys)), pa.array(values, pa.binary()).take(pa.array(chosen))


@pytest.fixture(scope="module")
def shard(mappings, tmp_path_factory) -> LocalStorage:
    storage = LocalStorage(str(tmp_path_factory.mktemp("shard")))
    storage.put("shard.hfile", write_hfile(*mappings, schema='"bytes"'))
    return storage


def test_write(benchmark, mappings):
    keys, _ = mappings
    data = benchmark(write_hfile, *mappings, schema='"bytes"')
    benchmark.extra_info["bytes_per_key"] = len(data) / len(keys)
    assert len(data) < 27 * len(keys)


@pytest.mark.parametrize("share", ["one", 0.001, 0.1])
def test_lookup(benchmark, mappings, shard, share):
    keys, values = mappings
    count = 1 if share == "one" else int(len(keys) * share)
    chosen = pa.array(np.sort(np.random.default_rng(1).choice(len(keys), count, replace=False)))
    asked = keys.take(chosen)

    def lookup():
        return HFileReader(shard.open("shard.hfile")).lookup(asked)

    positions, found = benchmark(lookup)
    assert positions.tolist() == list(range(count))
    assert found.equals(values.take(chosen))
