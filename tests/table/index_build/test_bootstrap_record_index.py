"""A built record index against a dict model, and what it refuses."""

from __future__ import annotations

import os
import tempfile
import uuid
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from bootstrap_cases import INSTANT, built_entries, contents_of, make_table, put_file
from hypothesis import given, settings
from hypothesis import strategies as st

from keymark.table.errors import CorruptFileError, DuplicateKeyError
from keymark.table.format.hashes.hashing import shards
from keymark.table.format.kernels.pieces import Keys, Spilled
from keymark.table.format.log.writer import empty_delete_block
from keymark.table.index.build import ordered, record_index, scan, shard
from keymark.table.index.build.footers import GroupSizing, count_rows, estimate_groups
from keymark.table.metadata.records import encode_locations
from keymark.table.runtime import runner
from keymark.table.runtime.runner import LocalRunner, SparkRunner
from keymark.table.storage.local_storage import LocalStorage

KEYS = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=24
)
FILES = st.lists(
    st.tuples(st.sampled_from(["", "2024-01-01", "p/ü", "region=eu"]), st.integers(0, 30)),
    max_size=8,
)


def distribute(keys: list[str], layout: list[tuple[str, int]]) -> list[tuple[str, list[str]]]:
    contents = []
    for partition, count in layout:
        contents.append((partition, keys[:count]))
        keys = keys[count:]
    return contents


def check(table, built, groups):
    entries = built_entries(built)
    merged = {}
    for number, found in enumerate(entries):
        owners = shards(pa.array(list(found), pa.string()), groups)
        assert set(owners.tolist()) <= {number}
        merged.update(found)
    assert merged == table.model
    assert built.records == built.digest.count == len(table.model)


@settings(max_examples=60)
@given(st.lists(KEYS, unique=True, max_size=200), FILES, st.integers(1, 6), st.integers(1, 200))
def test_built_shards_equal_the_model(keys, layout, groups, flush):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_index, "_FLUSH_BYTES_MIN", flush)
        patch.setattr(record_index, "_FLUSH_BYTES_MAX", flush)
        patch.setattr(record_index, "_TASK_BYTES_MIN", 3000)
        table = make_table(Path(folder), distribute(keys, layout))
        check(table, table.build(groups, block_size=200), groups)


def test_every_group_is_opened_and_empty_ones_have_no_base_file(tmp_path):
    table = make_table(tmp_path, [("", ["a", "b"])])
    built = table.build(5)
    check(table, built, 5)
    found = contents_of(tmp_path, ".hoodie/metadata/record_index")
    for number in range(5):
        log = found.pop(f".record-index-{number:04d}-0_{INSTANT}.log.1_0-0-0")
        assert log == empty_delete_block(INSTANT)
    assert b"partitionDepth=1" in found.pop(".hoodie_partition_metadata")
    assert sorted(found) == sorted(Path(stat.path).name for stat in built.stats)
    assert len(found) <= 2
    assert {stat.size for stat in built.stats} == {len(data) for data in found.values()}


def test_base_files_say_their_range(tmp_path):
    table = make_table(tmp_path, [("", ["b", "ü", "a"])])
    (stat,) = table.build(1).stats
    reader = shard.HFileReader(table.storage.open(f".hoodie/metadata/{stat.path}"))
    assert reader.file_info["minRecordKey"] == b"a"
    assert reader.file_info["maxRecordKey"] == "ü".encode()
    assert "bloomFilterTypeCode" not in reader.file_info


def test_corners_of_the_hash_and_of_key_lengths(tmp_path):
    keys = ["polygenelubricants", "\U0001f600", "Aa", "BB", "k" * 32767, "a:b,c:d", " ", "\n"]
    for groups in (1, 2, 7):
        table = make_table(tmp_path / str(groups), [("p", keys[:4]), ("q", keys[4:])])
        check(table, table.build(groups), groups)


def test_a_shard_that_gets_all_keys(tmp_path):
    # Each pair of "Aa" and "BB" hashes alike, so all of these fall into one shard.
    keys = ["".join("BB" if n >> bit & 1 else "Aa" for bit in range(9)) for n in range(512)]
    table = make_table(tmp_path, [("", keys[:300]), ("", keys[300:])])
    built = table.build(4)
    check(table, built, 4)
    assert len(built.stats) == 1


def test_duplicate_keys_are_counted(tmp_path):
    table = make_table(tmp_path, [("p", ["a", "b", "c"]), ("q", ["b", "c", "d"]), ("r", ["c"])])
    with pytest.raises(DuplicateKeyError, match=r"^3 rows"):
        table.build(3)


@pytest.mark.parametrize("key", [None, "", "x" * 32768])
def test_rows_without_a_usable_key_are_refused(tmp_path, key):
    table = make_table(tmp_path, [("p", ["a"])])
    table.files.append(put_file(table.storage, 1, "p", ["b", key]))
    with pytest.raises(CorruptFileError, match=r"p/.*key"):
        table.build(2)


def test_a_file_without_record_keys_is_refused(tmp_path):
    table = make_table(tmp_path, [("p", ["a"])])
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(pa.table({"x": ["1"]}), sink)
    file = replace(table.files[0], file_id="other", size=sink.tell())
    table.storage.put(file.path, sink.getvalue().to_pybytes())
    table.files.append(file)
    with pytest.raises(CorruptFileError, match="no column _hoodie_record_key"):
        table.build(2)


@pytest.mark.parametrize("harm", ["swap", "lose", "place"])
def test_the_digest_finds_what_a_build_did_wrong(tmp_path, monkeypatch, harm):
    """One missing and one extra key, a missing key, a key at another place: refused, file gone."""
    table = make_table(tmp_path, [("p", ["a", "b"]), ("q", ["c", "d"])])
    real = ordered.read_keys

    def wrong(*args, **kwargs):
        keys = real(*args, **kwargs)
        codes, lengths, text = keys.spilled
        if harm == "swap":
            text[0] = ord("z")
        elif harm == "place":
            codes[0] = 1 - codes[0]
        else:
            fewer = Spilled(codes[:-1], lengths[:-1], text)
            keys = Keys(fewer, keys.rows - [0, 1], keys.bytes - [0, int(lengths[-1])])
        return keys

    monkeypatch.setattr(ordered, "read_keys", wrong)
    with pytest.raises(CorruptFileError, match="nothing was taken into use"):
        table.build(1)
    assert not [name for name in contents_of(tmp_path) if name.endswith(".hfile")]


def test_a_damaged_spill_file_is_refused(tmp_path, monkeypatch):
    table = make_table(tmp_path, [("p", ["a", "b"])])
    real = scan.encode_spill
    for cut in (1, 40):
        monkeypatch.setattr(scan, "encode_spill", lambda dealt, cut=cut: real(dealt)[:-cut])
        with pytest.raises(CorruptFileError, match=r"\.keys"):
            table.build(1, folder=f".hoodie/b{cut}")


def test_the_instants_are_in_the_tables_zone(tmp_path, monkeypatch):
    import time

    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        table = make_table(tmp_path, [("", ["a"])])
        (entries,) = built_entries(table.build(1, zone=None))
    finally:
        monkeypatch.undo()
        time.tzset()
    path, file_id, millis = table.model["a"]
    assert entries["a"] == (path, file_id, millis - 5 * 3600000 - 1800000)


def test_progress_tells_tasks_and_shards(tmp_path):
    table = make_table(tmp_path, [("", ["a"]), ("", ["b"])])
    seen = []
    target = table.target(3)
    record_index.build_record_index(
        target, rows=2, runner=LocalRunner(), progress=lambda *told: seen.append(told)
    )
    scanned = "tasks of the key scan"
    assert seen == [(0, 1, scanned), (1, 1, scanned), (0, 3, "shards"), (3, 3, "shards")]


def test_the_steps_of_progress_are_for_all_cores(monkeypatch):
    """Five items in a step of two threads would leave one idle for a sixth of the time."""
    monkeypatch.setattr(runner, "_STEP_BYTES_MIN", 1)
    seen = []
    steps = runner.ProgressRunner(LocalRunner(2), lambda *told: seen.append(told), "items")
    assert steps.run(str, range(89), weights=[10] * 89) == [str(n) for n in range(89)]
    assert [done for done, _, _ in seen] == [*range(0, 89, 4), 89]
    seen.clear()
    steps = runner.ProgressRunner(LocalRunner(3), lambda *told: seen.append(told), "items")
    steps.run(str, range(89), weights=[10] * 89)
    assert [done for done, _, _ in seen] == [*range(0, 89, 6), 89]


def test_no_more_tasks_than_allowed(tmp_path, monkeypatch):
    monkeypatch.setattr(record_index, "_TASK_BYTES_MIN", 1)
    table = make_table(tmp_path, [("", [str(n)]) for n in range(10)])
    for most in (1, 3, 100):
        tasks = record_index.scan_tasks(table.target(2, max_tasks=most), 10)
        assert len(tasks) <= most
        assert [file for task in tasks for file in task.files] == table.files
        assert [task.first for task in tasks] == [
            table.files.index(task.files[0]) for task in tasks
        ]


def test_group_count_follows_hudis_rule(tmp_path):
    assert estimate_groups(0, GroupSizing()) == 10
    assert estimate_groups(10**9, GroupSizing()) == 89
    assert estimate_groups(10**12, GroupSizing()) == 10000
    assert estimate_groups(10**9, GroupSizing(growth=4.0)) == 178
    assert estimate_groups(10**9, GroupSizing(minimum=7, maximum=7)) == 7
    table = make_table(tmp_path, [("", ["a", "b"]), ("p", []), ("q", ["c"])])
    assert count_rows(table.storage, table.files, runner=LocalRunner()) == 3


def test_27_bytes_a_key_and_less(tmp_path):
    """Random uuids in 220 files: 20 partitions, files named <UUID of the task>-<n>."""
    keys = [str(uuid.UUID(bytes=os.urandom(16))) for _ in range(22_000)]
    contents = [(f"2024-01-{n % 20:02d}", keys[100 * n : 100 * n + 100]) for n in range(220)]
    table = make_table(tmp_path, contents)
    renamed = []
    for number in range(len(contents)):
        task = uuid.uuid5(uuid.NAMESPACE_OID, str(number // 20))
        file_id = f"{task}-{number % 20}"
        renamed.append(put_file(table.storage, number, *contents[number], file_id=file_id))
    table.files = renamed
    for groups in (1, 10):
        built = table.build(groups, folder=f".hoodie/b{groups}", instant=f"{INSTANT[:-1]}{groups}")
        fixed = 16_000 * groups  # trailer, schema and index of a file
        assert built.records == len(keys)
        assert built.size - fixed < 27 * len(keys)


@pytest.mark.spark
def test_by_spark(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(record_index, "_TASK_BYTES_MIN", 3000)
    contents = [(f"p{n % 3}", [f"k{n}-{i}" for i in range(50)]) for n in range(12)]
    table = make_table(tmp_path / "spark", contents)
    built = table.build(4, SparkRunner(spark, local_bytes=0))
    check(table, built, 4)
    local = make_table(tmp_path / "local", contents)
    local.build(4)
    under = ".hoodie/metadata/record_index"
    assert contents_of(tmp_path / "spark", under) == contents_of(tmp_path / "local", under)
    table.files.append(put_file(table.storage, 20, "p9", ["k0-0"]))
    with pytest.raises(DuplicateKeyError, match=r"^1 rows"):
        table.build(4, SparkRunner(spark, local_bytes=0), folder=".hoodie/again")


def test_values_are_hudis(tmp_path):
    """The value of a key is byte for byte what a write of the same key would put."""
    table = make_table(tmp_path, [("p", ["a"]), ("", ["b"])])
    built = table.build(1)
    (stat,) = built.stats
    reader = shard.HFileReader(LocalStorage.at(str(tmp_path)).open(f".hoodie/metadata/{stat.path}"))
    ((keys, values),) = reader.scan()
    places = [table.model[key.decode()] for key in keys.to_pylist()]
    assert values.equals(encode_locations(*(list(column) for column in zip(*places, strict=True))))
