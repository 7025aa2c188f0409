"""Files that are whole, and in the wrong place: exchanged, replaced, or copied under a new name.

Each user of a file must refuse it by a CorruptFileError that names it, and write nothing.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from table_cases import by_listing, create, data_rows, rows, unpack
from table_cases import files as all_files

from keymark import Table
from keymark.table.errors import CorruptFileError

KEYS = [f"k{number}" for number in range(200)]


def exchange(one: Path, other: Path) -> None:
    """Exchange the contents of two files."""
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def index_files(root: Path, ending: str) -> list[Path]:
    return sorted((root / ".hoodie/metadata/record_index").glob(f"*{ending}"))


def refused(root: Path, action: str, *names: str, keys: list[str] = KEYS) -> None:
    """An action must fail, name one of the files, and change nothing."""
    before = {path: (root / path).read_bytes() for path in all_files(root)}
    table = Table.open(str(root))
    with pytest.raises(CorruptFileError) as caught:
        _act(table, action, keys)
    assert any(name in str(caught.value) for name in names), str(caught.value)
    assert {path: (root / path).read_bytes() for path in all_files(root)} == before


def _act(table: Table, action: str, keys: list[str]) -> None:
    if action == "lookup":
        table.lookup(keys)
    elif action == "upsert":
        table.upsert(rows(keys, ts=7))
    elif action == "scan":
        list(table.scan().tables())
    else:
        table.delete(rows(keys).select(["k", "p"]))


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """A table of 200 keys whose record index is in log files of two shards."""
    root = tmp_path_factory.mktemp("misdirected") / "t"
    create(root).bulk_insert(rows(range(200)))
    return root


@pytest.fixture(scope="module")
def compacted(tmp_path_factory):
    """The same whose record index is in base files."""
    root = tmp_path_factory.mktemp("misdirected") / "t"
    table = create(root, {"hoodie.metadata.compact.max.delta.commits": "1"})
    table.bulk_insert(rows(range(200)))
    assert len(index_files(root, ".hfile")) == 2
    return root


@pytest.mark.parametrize("action", ["lookup", "upsert", "delete"])
def test_base_files_of_two_shards_exchanged(compacted, tmp_path, action):
    root = shutil.copytree(compacted, tmp_path / "t")
    one, other = index_files(root, ".hfile")
    exchange(one, other)
    refused(root, action, one.name, other.name)


@pytest.mark.parametrize("action", ["lookup", "upsert", "delete"])
def test_log_files_of_two_shards_exchanged(logged, tmp_path, action):
    root = shutil.copytree(logged, tmp_path / "t")
    one, other = [path for path in index_files(root, "-0-0") if ".log.2_" in path.name]
    exchange(one, other)
    refused(root, action, one.name, other.name)


def test_shards_of_hudis_index_exchanged(tmp_path):
    """Nothing in the file names its shard; its first and last key do."""
    root = unpack("hudi-0.15.0-record_index.tar.gz", tmp_path) / "record_index/table"
    held = sorted(by_listing(root))
    assert all(place is not None for place in Table.open(str(root)).lookup(held)["file_id"])
    files = [path for path in index_files(root, "") if path.stat().st_size > 500]
    assert len(files) > 1
    sized = sorted(files, key=lambda path: path.stat().st_size)
    exchange(*sized[-2:])
    with pytest.raises(CorruptFileError):
        Table.open(str(root)).lookup(held)


def live_files(root: Path) -> list[Path]:
    return sorted(root.glob("p*/*.parquet"), key=lambda path: path.stat().st_size)


@pytest.mark.parametrize("action", ["scan", "upsert", "delete"])
def test_a_base_file_replaced_by_a_larger_one(logged, tmp_path, action):
    root = shutil.copytree(logged, tmp_path / "t")
    small, large = live_files(root)[0], live_files(root)[-1]
    assert small.stat().st_size < large.stat().st_size
    small.write_bytes(large.read_bytes())
    refused(root, action, small.name)


@pytest.mark.parametrize("index", ["record", "bloom", "simple", "bucket", "global_simple"])
@pytest.mark.parametrize("meta", ["true", "false"])
@pytest.mark.parametrize("action", ["scan", "upsert", "delete"])
def test_base_files_of_the_same_size_exchanged(tmp_path, index, meta, action):
    """The sizes say nothing; the files name themselves, with and without stored keys."""
    root = tmp_path / "t"
    options = {
        "hoodie.populate.meta.fields": meta,
        "hoodie.parquet.compression.codec": "uncompressed",
    }
    if index == "bucket":
        options["hoodie.bucket.index.num.buckets"] = "1"
    table = create(root, options, index=index)
    keys = [f"k{number:03d}" for number in range(30)]
    table.bulk_insert(rows(keys))
    one, other, _ = sorted(root.glob("p*/*.parquet"))
    assert one.stat().st_size == other.stat().st_size
    exchange(one, other)
    refused(root, action, one.name, other.name, keys=keys)


def test_a_base_file_of_an_earlier_commit_in_place_of_the_latest(tmp_path):
    root = tmp_path / "t"
    table = create(root)
    table.bulk_insert(rows(range(30)))
    table.upsert(rows(range(30), ts=3, value="w"))
    old, new = sorted((root / "p0").glob("*.parquet"), key=lambda path: path.name[-25:])
    new.write_bytes(old.read_bytes())
    refused(root, "scan", new.name)
    refused(root, "upsert", new.name)


def test_base_files_of_hudis_exchanged(tmp_path):
    """Hudi's rows name the file that they are in."""
    root = unpack("hudi-0.15.0-states.tar.gz", tmp_path) / "a_6_before_fail"
    table = Table.open(str(root))
    listed = table.scan().files
    one, other = (root / file.path for file in listed[:2])
    whole = one.read_bytes()
    other.write_bytes(whole.ljust(other.stat().st_size, b"\0")[: other.stat().st_size])
    with pytest.raises(CorruptFileError):
        data_rows(Table.open(str(root)))
