"""The global bloom index: ranges and filters only save work, they never decide wrongly."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from index_cases import batch, create, files, lookup, with_policy

from keymark.indexes.bloom.key_ranges import SortedKeys, places_in
from keymark.table.errors import CorruptFileError
from keymark.table.state import base_files

SMALL_LIMIT = {"hoodie.parquet.small.file.limit": "0"}


@pytest.fixture
def table(tmp_path):
    """Three files: a0..a9, b0..b9, c0..c9."""
    table = create(tmp_path / "t", "global_bloom", options=SMALL_LIMIT)
    for letter in "abc":
        table.insert(batch([f"{letter}{n}" for n in range(10)], letter))
    return table


def test_ranges_leave_only_files_that_can_hold_a_key(table):
    places, stats = lookup(table, ["b3", "b99", "zz", "A"])
    assert [place for place, _ in places] == ["b", None, None, None]
    assert stats.candidates == 1
    assert stats.files_read == 1


def test_filters_leave_only_files_that_hold_a_key(table):
    places, stats = lookup(table, [f"b{n}-absent" for n in range(9)])
    assert {place for place, _ in places} == {None}
    assert stats.candidates == 9
    assert stats.false_positives <= 3


def test_false_positives_are_counted_and_not_believed(tmp_path):
    blind = {"hoodie.index.bloom.num_entries": "1", "hoodie.index.bloom.fpp": "0.9"}
    blind["hoodie.bloom.index.filter.dynamic.max.entries"] = "1"
    table = create(tmp_path / "t", "global_bloom", options=blind)
    table.insert(batch(["a", "z"]))
    places, stats = lookup(table, [f"k{n}" for n in range(40)] + ["z"])
    assert [place for place, _ in places] == [None] * 40 + ["p"]
    assert stats.candidates == 41
    assert stats.false_positives > 0


def rewritten(table, file, change):
    """Write a base file anew with the footer entries that `change` makes of its own.

    Without the entries that name the file and its bytes it may be any writer's.
    """
    path = f"{table.storage.root}/{file.path}"
    rows = pq.read_table(path, partitioning=None)
    footer = change(pq.read_metadata(path).metadata)
    footer = {key: text for key, text in footer.items() if not key.startswith(b"keymark.")}
    table.storage.delete(file.path)
    with pq.ParquetWriter(path, rows.schema.remove_metadata(), store_schema=False) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(footer)


@pytest.mark.parametrize("missing", [b"bloom", b"record_key", b"o"])
def test_a_file_without_filter_or_range_is_a_candidate(table, missing, monkeypatch):
    monkeypatch.setattr(base_files, "check_size", lambda *_: None)
    for file in files(table):
        rewritten(table, file, lambda old: {k: v for k, v in old.items() if missing not in k})
    places, stats = lookup(table, ["a0", "b5", "c9", "b55", "nothing"])
    assert [place for place, _ in places] == ["a", "b", "c", None, None]
    assert stats.candidates == (15 if missing != b"bloom" else 4)


def test_ranges_in_the_order_of_java_strings_are_not_trusted():
    # UTF-16 puts the astral character before U+FF5E, UTF-8 after it: Hudi's range is
    # [astral, U+FF5E], which no key is within by the order of UTF-8.
    low, high = "\U0001f600", "\uff5e"
    asked = SortedKeys.of(pa.array(["a", high, low, "z"]), np.arange(4))
    ranges = [(low, high), ("b", None), (None, "y"), ("a", "z")]
    places = [places_in(spans).tolist() for spans in asked.within(ranges, by_search=True)]
    assert places == [[2, 3], [1, 2, 3], [0, 2, 3], [0, 1, 2, 3]]


def test_astral_keys_are_found_under_a_range_of_javas(table, monkeypatch):
    monkeypatch.setattr(base_files, "check_size", lambda *_: None)
    keys = ["\U0001f600", "\uff5e", "\uff5e\U0001f600", "\ud7ff"]
    table.insert(batch(keys, "d"))
    bounds = {b"hoodie_min_record_key": keys[0], b"hoodie_max_record_key": keys[1]}
    rewritten(table, files(table)[-1], lambda old: old | bounds)
    places, _ = lookup(table, [*keys[:3], "a0", "\U0001f601"])
    assert [place for place, _ in places] == ["d", "d", "d", "a", None]


def test_an_empty_key_is_absent(table):
    places, _ = lookup(table, ["", "a0"])
    assert [place for place, _ in places] == [None, "a"]


def test_a_key_twice_in_the_data_is_answered_once_by_the_first_file(table):
    keys = ["b1", "a1"]
    with_policy(table, "none").insert(batch(keys, "c"))
    with_policy(table, "none").insert(batch(keys, "0"))
    places, _ = lookup(table, keys)
    assert [place for place, _ in places] == ["0", "0"]
    assert len(places) == 2


@pytest.mark.parametrize("damage", ["gone", "short", "filter"])
def test_damage_is_named(table, damage):
    file = files(table)[0]
    if damage == "filter":
        data = table.storage.read(file.path)
        at = data.index(b"org.apache.hudi.bloomfilter") + 40
        table.storage.replace(file.path, data[:at] + b"!" + data[at + 1 :])
    elif damage == "short":
        table.storage.replace(file.path, table.storage.read(file.path)[:-20])
    else:
        table.storage.delete(file.path)
    with pytest.raises(CorruptFileError, match=file.file_id):
        lookup(table, ["a1"])


def test_nothing_is_read_for_no_keys_and_for_an_empty_table(table, tmp_path):
    empty = create(tmp_path / "empty", "global_bloom")
    assert lookup(empty, ["a"])[0] == [(None, None)]
    assert empty.upsert(batch([])).inserted == 0
    places, stats = lookup(table, [])
    assert places == []
    assert stats.files_read == stats.candidates == 0
