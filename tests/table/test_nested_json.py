"""JSON of ours that nests deeper than Python reads is damage like any other."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keymark.table.errors import CorruptFileError
from keymark.table.format.compact.writer import COMPACT, CompactWriter
from keymark.table.index.build.shard import read_spills, spills_path
from keymark.table.layout.naming import FENCED, HASH_RUNS
from keymark.table.services.index import reshard
from keymark.table.state.late import FencedInstant, fenced_instants
from keymark.table.storage.lease_files import lease_path, read_lease
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.values.hash_runs import load_hash_runs
from keymark.table.values.runs import load_runs

DEEP = "[" * 100_000


@pytest.fixture
def storage(tmp_path):
    return LocalStorage.at(tmp_path)


def test_of_a_lease_says_nothing(storage):
    storage.put(lease_path(1), DEEP.encode())
    assert read_lease(storage, 1) == {}


def test_of_a_note_of_an_instant_counts_as_one_without_paths(storage):
    storage.put(f"{FENCED}/20240101000000000", DEEP.encode())
    assert fenced_instants(storage) == [FencedInstant("20240101000000000", 1 << 62, ())]


def test_of_a_run_of_values_is_damage(storage):
    sink = pa.BufferOutputStream()
    values = pa.table({"value": ["a"]}).replace_schema_metadata({"keymark.files": DEEP})
    pq.write_table(values, sink)
    storage.put("runs/1.parquet", sink.getvalue().to_pybytes())
    with pytest.raises(CorruptFileError, match=r"runs/1\.parquet is damaged.*not a run"):
        load_runs(storage, "runs")


def test_of_a_run_of_hashes_is_damage(storage):
    content = bytearray()
    CompactWriter([DEEP]).finish(content.extend)
    storage.put(f"{HASH_RUNS}/1{COMPACT}", bytes(content))
    with pytest.raises(CorruptFileError, match=f"1{COMPACT} is damaged.*not a run"):
        load_hash_runs(storage)


def test_of_a_build_is_damage(storage):
    storage.put(spills_path("build"), DEEP.encode())
    with pytest.raises(CorruptFileError, match="a file of an index build"):
        read_spills(storage, "build")


def test_of_a_resharding_is_damage(storage):
    storage.put(reshard._done_path(1), DEEP.encode())
    with pytest.raises(CorruptFileError, match="a file of a re-sharding"):
        reshard._load_done(storage, 1)
