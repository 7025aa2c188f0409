"""Scripts that measure run through on tables of a few rows, and go on where they stopped."""

from __future__ import annotations

import json
import pickle
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import compact_at_size
import format_conformance
import key_stores
import numpy as np
import profiles
import pyarrow.parquet as pq
import pytest
import reshard_beside
import rocksdb_store

from keymark import Table
from keymark.harness.engines import WITHOUT_SPARK


def test_a_resharding_beside_a_bootstrap(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(reshard_beside, "LOAD_ROWS", 700)
    monkeypatch.setattr(reshard_beside, "WARM_ROWS", 100)
    words = ["--out", str(tmp_path), "--rows", "2000", "--before", "2", "--after", "4"]
    words += ["--engine", ""]
    reshard_beside.main([*words, "--turns", "1"])
    told = tmp_path / "reshard_beside.json"
    first = json.loads(told.read_text())
    assert list(first["turns"]) == ["0"]
    assert first["requests"]["reshard"]["all"] < first["requests"]["bootstrap"]["all"]
    reshard_beside.main([*words, "--turns", "2"])
    second = json.loads(told.read_text())
    assert second["turns"]["0"] == first["turns"]["0"]
    assert set(second["turns"]["1"]) == {"reshard", "bootstrap"}
    assert "times the re-sharding" in capsys.readouterr().out


def test_candidates_and_proven_answers(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(compact_at_size, "FILE_ROWS", 30)
    words = ["--out", str(tmp_path), "--rows", "3000"]
    compact_at_size.main([*words, "--turns", "1"])
    first = json.loads((tmp_path / "compact.json").read_text())
    assert first["files"] == 3 * compact_at_size.PARTITIONS
    assert len(first["asked"]) == 4, "1 and 100 keys, present and absent"
    asked = first["asked"]["100 present 0"]
    assert asked["candidates"] == asked["proven"] == asked["keys"]
    # Of keys and of commits.
    assert asked["pages_read"] == 2 * asked["files_read"] > 0
    compact_at_size.main([*words, "--turns", "2"])
    second = json.loads((tmp_path / "compact.json").read_text())
    assert second["asked"]["1 absent 0"] == first["asked"]["1 absent 0"]
    assert len(second["asked"]) == 8
    assert "100 present" in capsys.readouterr().out


def test_the_bytes_of_a_turn_alone(tmp_path):
    """They are those that the turn read, inflated and wrote, and can be done again."""
    first, second, third = profiles.WORKS["one_row"][0](tmp_path, 3)
    first()
    with profiles.recorded_traffic() as upsert:
        second()
    files = Table.open(tmp_path / "profile_one_row").files()
    (path,) = (tmp_path / "profile_one_row" / file.path for file in files)
    assert (path.read_bytes(), True) in upsert.written
    with profiles.recorded_traffic() as scan:
        list(Table.open(tmp_path / "profile_one_row").scan().tables())
    assert not scan.written
    of_file = [length for name, _, length in scan.reads if name == str(path)]
    inflated = [len(data) for _, data, _ in scan.inflated if data in path.read_bytes()]
    assert 0 < sum(inflated) <= sum(of_file)
    assert len(inflated) == pq.read_metadata(path).num_columns
    took = profiles.turn_alone(third, tmp_path / "alone")
    assert list(took) == ["read", "inflate", "write and sync"]
    assert min(took.values()) > 0


def test_parts_that_rocksdb_sorts_are_arrow_arrays_of_less_than_two_gib(monkeypatch):
    assert rocksdb_store.parts_of(rocksdb_store.SORTED) == 1
    assert rocksdb_store.parts_of(1_000_000_000) == 25
    monkeypatch.setattr(rocksdb_store, "SORTED", 60_000_000)
    with pytest.raises(SystemExit, match=r"one has 2,250,000,000 bytes of text"):
        rocksdb_store.parts_of(1_000_000_000)


class FileOfKeys:
    """Writes keys and values into a file, as RocksDB's SstFileWriter does: in order, once each."""

    def __init__(self, _):
        self.cells = []

    def open(self, path):
        self.path = Path(path)

    def __setitem__(self, key, value):
        assert not self.cells or self.cells[-1][0] < key
        self.cells.append((key, value))

    def finish(self):
        self.path.write_bytes(pickle.dumps(self.cells))


class Database:
    """Takes the cells of such files in."""

    def __init__(self, path, _):
        self.path = Path(path)

    def ingest_external_file(self, files, _):
        cells = [cell for file in files for cell in pickle.loads(Path(file).read_bytes())]
        self.path.write_bytes(pickle.dumps(cells))

    def close(self):
        pass


def test_a_build_of_rocksdb_goes_on_with_the_parts_that_it_lacks(tmp_path, monkeypatch):
    driver = SimpleNamespace(
        Options=SimpleNamespace,
        SstFileWriter=FileOfKeys,
        Rdict=Database,
        IngestExternalFileOptions=lambda: SimpleNamespace(set_move_files=lambda _: None),
    )
    monkeypatch.setitem(sys.modules, "rocksdict", driver)
    monkeypatch.setattr(rocksdb_store, "SORTED", 300)
    monkeypatch.setattr(rocksdb_store, "BATCH", 70)
    source, path = key_stores.Source.of(1_000), tmp_path / "rocksdb"

    driver.Rdict = None
    with pytest.raises(TypeError):
        rocksdb_store.build(path, source, bloom=False)
    parts = sorted((tmp_path / "rocksdb-parts").glob("*.sst"))
    assert len(parts) == 4
    parts[2].unlink()
    kept = parts[1].stat().st_mtime_ns

    with monkeypatch.context() as at_the_end:
        at_the_end.setattr(rocksdb_store.shutil, "rmtree", lambda _: None)
        driver.Rdict = Database
        assert rocksdb_store.build(path, source, bloom=False) > 0
    assert parts[1].stat().st_mtime_ns == kept
    assert parts[2].exists()
    keys, groups = source.keys(np.arange(1_000))
    cells = pickle.loads(path.read_bytes())
    wanted = zip(keys.to_pylist(), groups.tolist(), strict=True)
    assert cells == sorted((key.encode(), struct.pack("<i", group)) for key, group in wanted)


def test_stores_of_keys(tmp_path, monkeypatch):
    words = ["--out", str(tmp_path), "--keys", "500000", "--stores", "compact,record", "--remove"]
    key_stores.main([*words, "--turns", "1"])
    told = tmp_path / "key_stores-500000.json"
    first = json.loads(told.read_text())
    assert [*first["stores"]] == ["compact", "record"]
    assert all(store["peak_bytes"] and store["build_s"] for store in first["stores"].values())
    assert {part["false"] for part in first["stores"]["record"]["asked"].values()} == {0}
    assert first["beats"]
    assert "500,000 keys" in told.with_suffix(".svg").read_text()
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    monkeypatch.setattr(subprocess, "run", None)
    key_stores.main([*words, "--turns", "1"])
    assert json.loads(told.read_text())["stores"] == first["stores"]


def test_streams_without_spark_end_in_the_truth(tmp_path, capsys, monkeypatch):
    every = format_conformance.modes(WITHOUT_SPARK)
    assert {"record", "global_simple", "global_bloom"} <= every.keys()
    assert not {"simple", "bucket", "hbase"} & every.keys()
    monkeypatch.setattr(format_conformance, "modes", lambda _: {"record": every["record"]})
    words = ["", "--out", str(tmp_path), "--streams", "1", "--engine", WITHOUT_SPARK]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit) as end:
        format_conformance.main()
    assert capsys.readouterr().out.splitlines() == [
        f"{WITHOUT_SPARK}, record: 1 streams",
        "0 streams differ",
    ]
    assert end.value.code == 0
