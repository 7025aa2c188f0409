"""Sorting keys in runs gives what sorting them at once gives, by memory of a stated bound."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import measured_shard
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from bootstrap_cases import contents_of, make_table
from hypothesis import given, settings
from hypothesis import strategies as st

from keymark.table.errors import DuplicateKeyError
from keymark.table.format.kernels.pieces import Spilled
from keymark.table.index.build import ordered, record_index
from keymark.table.index.build.ordered import OrderedKeys
from keymark.table.layout.naming import METADATA
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.write.bulk_index import build_shard

BATCHES = st.lists(st.lists(st.text("abé𝄞", max_size=3), max_size=12), max_size=8)


@dataclass(frozen=True)
class Source:
    """Keys in memory, with location numbers."""

    keys: tuple[str, ...]
    first: int

    @property
    def held(self) -> int:
        return 100 * len(self.keys)

    def fail(self, detail: str) -> None:
        raise AssertionError(detail)


def read(source: Source) -> Spilled:
    texts = [key.encode() for key in source.keys]
    codes = np.arange(source.first, source.first + len(texts), dtype=np.int32)
    lengths = np.array([len(text) for text in texts], np.uint16)
    for made in (codes, lengths):
        made.flags.writeable = False
    return Spilled(codes, lengths, np.frombuffer(b"".join(texts), np.uint8))


def sources_of(batches: list[list[str]]) -> list[Source]:
    firsts = np.cumsum([0, *map(len, batches)]).tolist()
    return [Source(tuple(keys), firsts[number]) for number, keys in enumerate(batches)]


def listed(keys: OrderedKeys[Source]) -> list[tuple[bytes, int]]:
    found = []
    for array, order, codes in keys.batches():
        texts = array.cast(pa.binary()).take(pa.array(order)).to_pylist()
        found += zip(texts, codes[order].tolist(), strict=True)
    return found


@settings(max_examples=60)
@given(BATCHES, st.sampled_from([1, 1000, 3000, 1 << 20]))
def test_keys_ascend_and_the_last_of_equal_ones_counts(batches, memory):
    keys = OrderedKeys(sources=sources_of(batches), read=read, memory=memory)
    came = [key.encode() for batch in batches for key in batch]
    last = {key: number for number, key in enumerate(came)}
    assert listed(keys) == sorted(last.items())
    assert keys.repeated == len(came) - len(last)
    filled = sum(map(bool, batches))
    assert keys.runs == (filled if memory == 1 and filled > 1 else keys.runs)


def test_runs_of_several_batches_are_merged():
    """More keys than a batch of a run has."""
    numbers = np.random.default_rng(5).permutation(40_000)
    batches = [[f"key-{n:06d}" for n in part] for part in np.array_split(numbers, 40)]
    keys = OrderedKeys(sources=sources_of(batches), read=read, memory=600_000)
    found = listed(keys)
    assert keys.runs > 5
    assert [key for key, _ in found] == [f"key-{n:06d}".encode() for n in range(40_000)]
    assert [code for _, code in found] == np.argsort(numbers).tolist()


@pytest.fixture
def runs(monkeypatch) -> list[int]:
    """How many runs were written; spill files are small, so that a shard has many of them."""
    monkeypatch.setattr(record_index, "_FLUSH_BYTES_MIN", 1000)
    written = []

    def add(self, batches, real=ordered._Runs.add):
        written.append(1)
        real(self, batches)

    monkeypatch.setattr(ordered._Runs, "add", add)
    return written


def test_an_index_built_in_runs_has_the_bytes_of_one_built_at_once(tmp_path, runs):
    numbers = np.random.default_rng(7).permutation(3000)
    parts = np.array_split(numbers, 12)
    contents = [("p", [f"key number {n}" for n in part]) for part in parts]
    built = []
    for memory in (8000, 1 << 28):
        folder = tmp_path / str(memory)
        make_table(folder, contents).build(2, memory=memory)
        files = contents_of(folder)
        built.append({name: data for name, data in files.items() if name.endswith(".hfile")})
        assert (len(runs) > 8) == (memory == 8000)
        runs.clear()
    assert len(built[0]) == 2
    assert built[0] == built[1]


def test_a_key_in_two_runs_is_refused(tmp_path, runs):
    keys = [f"key number {n}" for n in range(200)]
    table = make_table(tmp_path, [("p", [*keys, "b"]), ("q", ["b"])])
    with pytest.raises(DuplicateKeyError, match="1 rows"):
        table.build(1, memory=4000)
    assert len(runs) > 2


def test_a_load_in_runs_writes_the_bytes_that_one_batch_of_cells_makes(tmp_path):
    written = []
    for memory in (1 << 20, 1 << 28):
        storage = LocalStorage.at(tmp_path / str(memory), create=True, durable=False)
        work = measured_shard.build(storage, 40_000, memory, "20240101000000000")
        done = build_shard(work)
        written.append(storage.read(f"{METADATA}/{done.path}"))
    parts = [stretch.file.read(storage, 0)["key"] for stretch in work.stretches]
    keys = pa.chunked_array([chunk for part in parts for chunk in part.chunks]).combine_chunks()
    batch = replace(
        work.update,
        storage=LocalStorage.at(tmp_path / "batch", create=True, durable=False),
        keys=keys.take(pc.array_sort_indices(keys)),
        values=pa.concat_arrays([work.values] * len(keys)),
    )
    written.append(batch.storage.read(f"{METADATA}/{batch.write().path}"))
    assert written[0] == written[1] == written[2]


def test_a_shard_of_a_load_is_sorted_within_its_memory(tmp_path):
    """The growth of a process while it makes a shard's log file, measured by the system."""
    script = Path(__file__).with_name("measured_shard.py")
    grown = {}
    for keys in (200_000, 1_000_000):
        run = subprocess.run(
            [sys.executable, script, tmp_path / str(keys), str(keys), str(16 << 20)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        grown[keys] = int(run.stdout)
    # All of it would be 360 MB.
    assert grown[1_000_000] < 80 << 20, grown
