"""The bloom index: partition-local; filters and ranges from footers or the metadata table."""

from __future__ import annotations

import dataclasses
import json

import pyarrow as pa
import pytest
from conformance import METADATA
from index_cases import batch, create, files, lookup, stored
from typer.testing import CliRunner

from keymark import Table
from keymark.indexes.bloom import metadata as bloom_metadata
from keymark.indexes.bloom.index import BloomIndex
from keymark.table.cli import app
from keymark.table.errors import InputError, UnsupportedTableError
from keymark.table.index.protocol import LookupStats
from keymark.table.metadata import column_stats
from keymark.table.metadata.bloom import bloom_tombstones, decode_bloom
from keymark.table.metadata.partitions import BLOOM_FILTERS, COLUMN_STATS
from keymark.table.metadata.shard import Shard
from keymark.table.properties.config import KEY_COLUMN
from keymark.table.properties.options import Options
from keymark.table.state.table_state import TableState

SMALL_LIMIT = {"hoodie.parquet.small.file.limit": "0"}
PATHS = ("footers", "metadata")


def filled(path, index="bloom", **options):
    """Three files: a0..a9 in a, b0..b9 in b, c0..c9 in c."""
    table = create(path, index, options={**SMALL_LIMIT, **options})
    for letter in "abc":
        table.insert(batch([f"{letter}{n}" for n in range(10)], letter))
    return table


@pytest.fixture(params=PATHS)
def table(tmp_path, request):
    return filled(tmp_path / "t", **(METADATA if request.param == "metadata" else {}))


def asked(table, keys, partitions=None, **options):
    """Partition path per key, and what the lookup touched."""
    stats = LookupStats()
    context = table._context(TableState.load(table.storage), stats)
    if options:
        given = {**context.options.given, **options}
        context = dataclasses.replace(context, options=Options(given))
    paths = None if partitions is None else pa.array(partitions)
    found = BloomIndex().lookup(pa.array(keys), context, paths)
    return found["partition_path"].to_pylist(), stats


def test_a_key_counts_once_per_partition_path(table):
    result = table.upsert(batch(["a1", "b1"], "b", ts=2))
    assert (result.inserted, result.updated, result.moved) == (1, 1, 0)
    held = [row[:2] for row in stored(table)]
    assert held.count(("a1", "a")) == held.count(("a1", "b")) == 1
    assert asked(table, ["a1", "a1", "a1"], ["b", "a", "c"])[0] == ["b", "a", None]
    assert lookup(table, ["a1"])[0][0][0] == "a"
    with pytest.raises(InputError, match="needs the partition columns"):
        table.delete(["a1"])
    result = table.delete(batch(["a1", "c1"], "b").select(["id", "dt"]))
    assert (result.deleted, result.unchanged) == (1, 1)
    assert ("a1", "a") in [row[:2] for row in stored(table)]


def test_only_files_of_the_partition_are_touched(table):
    paths, stats = asked(table, ["b1", "b2", "a3", "x"], ["b", "b", "b", "nowhere"])
    assert paths == ["b", "b", None, None]
    ranges = stats.ranges_from_footers + stats.ranges_from_metadata
    filters = stats.filters_from_footers + stats.filters_from_metadata
    assert (ranges, filters, stats.files_read) == (1, 1, 1)
    assert stats.candidates == 2


def test_the_path_taken_is_told(table):
    by_metadata = BLOOM_FILTERS in table.config.metadata_partitions
    _, stats = asked(table, ["a1", "b1", "c1"])
    told = (stats.ranges_from_metadata, stats.filters_from_metadata)
    others = (stats.ranges_from_footers, stats.filters_from_footers)
    assert (told, others) == (((3, 3), (0, 0)) if by_metadata else ((0, 0), (3, 3)))


def test_filters_are_held_a_few_at_a_time(tmp_path, monkeypatch):
    groups = {"hoodie.metadata.index.bloom.filter.file.group.count": "1"}
    table = filled(tmp_path / "t", **METADATA, **groups)
    monkeypatch.setattr(bloom_metadata, "_FILTERS_AT_ONCE", 1)
    paths, stats = asked(table, ["a1", "b1", "c1", "c99"])
    assert paths == ["a", "b", "c", None]
    assert stats.filters_from_metadata == 3


@pytest.mark.parametrize("name", [BLOOM_FILTERS, COLUMN_STATS])
def test_a_partition_that_is_not_kept_is_made_up_for_by_footers(tmp_path, name):
    table = filled(tmp_path / "t", **METADATA)
    table.drop_index(name)
    paths, stats = asked(table, ["a1", "b1", "zz", "b55"])
    assert paths == ["a", "b", None, None]
    told = {BLOOM_FILTERS: stats.filters_from_footers, COLUMN_STATS: stats.ranges_from_footers}
    assert told.pop(name) > 0
    assert set(told.values()) == {0}


@pytest.mark.parametrize("damage", ["none", "deleted", "garbage", "filter", "bits"])
def test_a_record_that_cannot_be_used_is_made_up_for_by_the_footer(tmp_path, damage, monkeypatch):
    table = filled(tmp_path / "t", **METADATA)
    victim = files(table)[1]
    whole = Shard.lookup

    def without(shard, keys):
        positions, values = whole(shard, keys)
        if not shard.slice.file_id.startswith("bloom"):
            return positions, values
        (record,) = bloom_tombstones("b", victim.name, "1")[0]
        changed = []
        for position, value in zip(positions.tolist(), values.to_pylist(), strict=True):
            if keys[position].as_py() == record:
                new = {"none": None, "deleted": bloom_tombstones("b", victim.name, "1")[1][0]}
                new |= {"garbage": b"\0" * 9, "filter": value.replace(b"A", b"!")}
                text = decode_bloom(value, victim.path)[1]
                new["bits"] = value.replace(text[52:-4], b"!" * len(text[52:-4]))
                value = new[damage]  # noqa: PLW2901
            changed.append((position, value))
        kept = [pair for pair in changed if pair[1] is not None]
        hits = pa.array([n for n, _ in kept], pa.int64()).to_numpy()
        return hits, pa.array([value for _, value in kept], pa.binary())

    monkeypatch.setattr(Shard, "lookup", without)
    paths, stats = asked(table, ["a1", "b1", "b5x", "c1"])
    assert paths == ["a", "b", None, "c"]
    assert (stats.filters_from_metadata, stats.filters_from_footers) == (2, 1)


def test_a_range_that_leaves_rows_out_is_made_up_for_by_the_footer(tmp_path, monkeypatch):
    """Hudi counts rows whose keys are too long for statistics as nulls, and tells none of them."""
    table = filled(tmp_path / "t", **METADATA)
    victim = files(table)[1]
    whole = Shard.lookup

    def narrow(shard, keys):
        positions, values = whole(shard, keys)
        wanted = column_stats._key("b", victim.name, KEY_COLUMN)
        ends = [column_stats._wrap(column_stats.Wrapper.STRING, key) for key in ("b5", "b9")]
        record = column_stats._record(victim.name, KEY_COLUMN, b"".join(ends), (10, 5, 99, 99))
        pairs = zip(positions.tolist(), values.to_pylist(), strict=True)
        changed = [record if keys[n].as_py() == wanted else value for n, value in pairs]
        return positions, pa.array(changed, pa.binary())

    monkeypatch.setattr(Shard, "lookup", narrow)
    paths, stats = asked(table, ["a1", "b1", "b7", "c1"])
    assert paths == ["a", "b", "b", "c"]
    assert (stats.ranges_from_metadata, stats.ranges_from_footers) == (2, 1)


def test_ranges_can_be_left_out(table):
    off = {"hoodie.bloom.index.prune.by.ranges": "false"}
    paths, stats = asked(table, ["b1", "zz"], **off)
    assert paths == ["b", None]
    assert stats.ranges_from_footers == stats.ranges_from_metadata == 0
    assert stats.candidates == 6


def test_a_plain_list_of_ranges_leaves_the_same_candidates(table):
    keys = [f"{letter}{n}x" for letter in "abcd" for n in range(12)]
    off = {"hoodie.bloom.index.use.treebased.filter": "false"}
    assert asked(table, keys, **off) == asked(table, keys)


def test_a_file_with_many_candidates_is_checked_in_parts(tmp_path, monkeypatch):
    table = filled(tmp_path / "t")
    seen = []
    runner = type(table._runner())
    whole = runner.run

    def run(self, function, items, *, weights, packed=True):
        seen.append((function.__name__, len(items)))
        return whole(self, function, items, weights=weights, packed=packed)

    monkeypatch.setattr(runner, "run", run)
    keys = [f"a{n}" for n in range(10)]
    small = {"hoodie.bloom.index.keys.per.bucket": "4"}
    plain = {**small, "hoodie.bloom.index.bucketized.checking": "false"}
    paths, stats = asked(table, keys, **small)
    assert paths == ["a"] * 10
    assert (stats.files_read, stats.filters_from_footers) == (1, 1)
    assert asked(table, keys, **plain)[0] == paths
    assert [count for name, count in seen if name == "probe_footer"] == [3, 1]


def test_false_positives_are_counted_on_both_paths(tmp_path):
    blind = {"hoodie.index.bloom.num_entries": "1", "hoodie.index.bloom.fpp": "0.9"}
    blind["hoodie.bloom.index.filter.dynamic.max.entries"] = "1"
    counts = []
    for name, extra in (("f", {}), ("m", METADATA)):
        table = create(tmp_path / name, "bloom", options={**blind, **extra})
        table.insert(batch(["a", "z"]))
        paths, stats = asked(table, [f"k{n}" for n in range(40)] + ["z"], ["p"] * 41)
        assert paths == [None] * 40 + ["p"]
        counts.append((stats.candidates, stats.false_positives, stats.files_read))
    assert counts[0] == counts[1]
    assert counts[0][0] == 41
    assert counts[0][1] > 0


def test_rows_keep_being_found_by_metadata_after_updates_deletes_and_compaction(tmp_path):
    table = filled(tmp_path / "t", **METADATA)
    table.upsert(batch(["a1", "a-new"], "a", ts=2))
    table.delete(batch(["b1"], "b").select(["id", "dt"]))
    table.compact()
    opened = Table.open(table.storage.root, options=table._given)
    paths, stats = asked(opened, ["a1", "a-new", "b1", "b2"], ["a", "a", "b", "b"])
    assert paths == ["a", "a", None, "b"]
    assert (stats.filters_from_footers, stats.ranges_from_footers) == (0, 0)


@pytest.mark.parametrize(
    "name",
    [
        "hoodie.bloom.index.parallelism",
        "hoodie.bloom.index.use.caching",
        "hoodie.simple.index.parallelism",
        "hoodie.global.simple.index.parallelism",
        "hoodie.simple.index.input.storage.level",
    ],
)
def test_options_without_a_meaning_here_are_refused_by_name(tmp_path, name):
    with pytest.raises(UnsupportedTableError, match=name):
        create(tmp_path / "t", "bloom", options={name: "1"})


def test_a_lookup_on_the_command_line_tells_what_it_touched(tmp_path):
    table = filled(tmp_path / "t")
    asked = ["lookup", table.storage.root, "--key", "a1", "--key", "b99", "--json"]
    result = CliRunner().invoke(app, asked)
    document = json.loads(result.stdout)
    assert [key["found"] for key in document["keys"]] == [True, False]
    told = ("shards_read", "candidates", "files_read", "ranges_from_footers")
    assert [document[name] for name in told] == [0, 1, 1, 3]
    assert document["filters_from_footers"] + document["filters_from_metadata"] == 1
