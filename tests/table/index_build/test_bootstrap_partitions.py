"""Column statistics, bloom filters and key changes, out of the base files alone."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from bootstrap_cases import contents_of, make_table, put_file
from hypothesis import given, settings
from hypothesis import strategies as st

from keymark.table.errors import CorruptFileError
from keymark.table.format.hashes.hashing import shards
from keymark.table.format.hfile.reader import HFileReader
from keymark.table.format.parquet.base_file import (
    BaseFileOptions,
    FooterOptions,
    read_footer,
    write_base_file,
)
from keymark.table.index.build import footers
from keymark.table.index.build.bloom_filters import build_bloom_filters
from keymark.table.index.build.changes import key_changes
from keymark.table.index.build.column_stats import build_column_stats
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.naming import METADATA
from keymark.table.metadata.bloom import bloom_records
from keymark.table.metadata.column_stats import column_stats_records
from keymark.table.runtime.runner import LocalRunner, SparkRunner
from keymark.table.storage.local_storage import LocalStorage

SCHEMA = pa.schema([("_hoodie_record_key", pa.string()), ("value", pa.string())])
CONTENTS = [(f"p{n % 2}", [f"k{n}-{i}" for i in range(n)]) for n in range(7)]
SMALL = BaseFileOptions(footer=FooterOptions(bloom_entries=20, bloom_max_entries=100))


def entries(built):
    """Key -> value of all groups; each key in the group that it belongs to."""
    found = {}
    for stat in built.stats:
        reader = HFileReader(built.target.storage.open(f"{METADATA}/{stat.path}"))
        number = int(stat.file_id.split("-")[-2])
        for keys, values in reader.scan():
            assert set(shards(keys.cast(pa.string()), built.target.groups).tolist()) == {number}
            found.update(zip(keys.to_pylist(), values.to_pylist(), strict=True))
    assert len(found) == built.records
    return {key.decode(): value for key, value in found.items()}


def runner_of(kind, request):
    if kind == "threads":
        return LocalRunner(2)
    return SparkRunner(request.getfixturevalue("spark"), local_bytes=0)


RUNNERS = ["threads", pytest.param("spark", marks=pytest.mark.spark)]


@pytest.mark.parametrize("kind", RUNNERS)
def test_column_stats_of_all_footers(tmp_path, monkeypatch, request, kind):
    monkeypatch.setattr(footers, "_FILES_PER_TASK", 2)
    table = make_table(tmp_path, CONTENTS)
    wanted = {}
    for file in table.files:
        metadata = read_footer(table.storage.open(file.path)).metadata
        records = column_stats_records(file.partition_path, file.name, metadata, SCHEMA)
        wanted.update(zip(*records, strict=True))
    assert len(wanted) == 2 * len(table.files)
    target = table.target(2, partition="column_stats", folder=".hoodie/cs")
    for _ in range(2):
        built = build_column_stats(target, schema=SCHEMA, runner=runner_of(kind, request))
        assert entries(built) == wanted
    names = contents_of(tmp_path, f"{METADATA}/column_stats")
    assert len([name for name in names if name.endswith(".log.1_0-0-0")]) == 2
    assert sum(len(names[Path(stat.path).name]) for stat in built.stats) == built.size


@pytest.mark.parametrize("kind", RUNNERS)
def test_bloom_filters_of_all_footers(tmp_path, request, kind):
    table = make_table(tmp_path, CONTENTS)
    wanted = {}
    for number, file in enumerate(table.files[1:], start=1):
        part = pa.table({"_hoodie_record_key": [file.name]})
        data = bytes(write_base_file(part, options=SMALL))
        table.storage.replace(file.path, data)
        table.files[number] = replace(file, size=len(data))
        footer = read_footer(table.storage.open(file.path))
        records = bloom_records(file.partition_path, file.name, footer, file.instant_time)
        wanted.update(zip(*records, strict=True))
    # The first file has no filter, and so no record.
    assert len(wanted) == len(table.files) - 1
    target = table.target(4, partition="bloom_filters")
    built = build_bloom_filters(target, runner=runner_of(kind, request))
    assert entries(built) == wanted


@pytest.mark.parametrize("build", ["column_stats", "bloom_filters"])
def test_a_table_without_files(tmp_path, build):
    table = make_table(tmp_path, [])
    target = table.target(2, partition=build, folder=".hoodie/b")
    if build == "column_stats":
        built = build_column_stats(target, schema=SCHEMA, runner=LocalRunner())
    else:
        built = build_bloom_filters(target, runner=LocalRunner())
    assert (built.records, built.size, built.stats) == (0, 0, ())
    assert len(contents_of(tmp_path, f"{METADATA}/{build}")) == 3


def test_a_damaged_footer_is_refused(tmp_path):
    table = make_table(tmp_path, [("p", ["a"])])
    table.storage.replace(table.files[0].path, b"PAR1 no footer PAR1")
    target = table.target(2, partition="column_stats")
    with pytest.raises(CorruptFileError, match="p/"):
        build_column_stats(target, schema=SCHEMA, runner=LocalRunner())


KEYS = st.lists(st.text("abü", min_size=1, max_size=3), unique=True, max_size=20)


@settings(max_examples=40)
@given(st.none() | KEYS, st.none() | KEYS)
def test_key_changes_are_set_differences(old, new):
    with tempfile.TemporaryDirectory() as folder:
        storage = LocalStorage.at(folder)
        before, after = (
            None if keys is None else put_file(storage, number, "p", keys)
            for number, keys in enumerate((old, new))
        )
        added, removed = key_changes(storage, before, after, StoredKeys())
        assert added.type == removed.type == pa.string()
        assert added.to_pylist() == [key for key in new or [] if key not in (old or [])]
        assert removed.to_pylist() == [key for key in old or [] if key not in (new or [])]
