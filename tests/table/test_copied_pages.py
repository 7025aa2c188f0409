"""Pages that a batch leaves alone are copied as they lie; all readers see the right rows."""

from __future__ import annotations

import datetime as dt
import decimal
import gc
import hashlib
import math
import random
from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from page_cases import (
    CODEC,
    FILE_NAME,
    PAGE_ROWS,
    check_statistics,
    newest,
    of_ten_pages,
    paged,
    pages,
    pages_of,
    sizes,
)
from table_cases import EVENT_TIME, PAYLOAD, by_hudi_rs, create, data_rows, rows

from keymark import Table
from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet.base_file import (
    BaseFileOptions,
    FooterOptions,
    write_base_file,
)
from keymark.table.format.parquet.file_body import FileBody
from keymark.table.format.parquet.footer_groups import DATA_PAGE
from keymark.table.format.parquet.paged_file import PagedFile
from keymark.table.format.parquet.thrift_scan import integer

KEY, TIME = "_hoodie_record_key", "_hoodie_commit_time"


def test_files_have_small_pages_however_they_are_written(tmp_path):
    """By a load, by the first rows of a file group, by a rewriting, and where all rows change."""
    table = of_ten_pages(tmp_path / "loaded")
    table.rewrite("on")
    table.rewrite("off")
    assert sizes(newest(table)) == [10] * 10
    opened = create(tmp_path / "opened", {PAGE_ROWS: "10"}, partition_path=None)
    opened.upsert(rows(range(45)))
    assert sizes(newest(opened)) == [10] * 4 + [5]
    opened.purge(["k1"])
    assert sizes(newest(opened)) == [10] * 4 + [4]
    small = create(tmp_path / "small", {PAGE_ROWS: "10"}, partition_path=None)
    small.bulk_insert(rows(range(19)))
    assert sizes(newest(small)) == [19]


def test_small_pages_take_little_space():
    """The rows of a table of trips: keys, few cities, times, fares, texts."""
    rng = np.random.default_rng(7)
    count = 40_000
    digests = [hashlib.sha256(b"%d" % number).hexdigest() for number in range(count)]
    table = pa.table(
        {
            KEY: [text[:32] for text in digests],
            "_hoodie_commit_seqno": [f"20260101000000000_0_{n}" for n in range(count)],
            "dt": pa.repeat("2026-01-01", count),
            "city": [f"city-{n}" for n in rng.integers(0, 50, count)],
            "ts": rng.integers(1_700_000_000_000_000, 1_700_086_400_000_000, count),
            "fare": rng.integers(100, 10_000, count) / 100,
            "note": [text[32:48] for text in digests],
        }
    )
    options = BaseFileOptions(footer=FooterOptions(bloom_enabled=False))
    small = len(write_base_file(table, options=replace(options, page_rows=2048)))
    assert small <= 1.02 * len(write_base_file(table, options=options))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "zstd", "uncompressed"])
def test_what_a_batch_leaves_alone_keeps_its_bytes(tmp_path, codec):
    table = of_ten_pages(tmp_path / "t", **{CODEC: codec})
    before = pages(newest(table))
    done = table.upsert(rows([37, 33, 81], ts=3))
    assert (done.updated, done.inserted) == (3, 0)
    after = pages(newest(table))
    assert after.keys() == before.keys()
    changed = {number for number, _ in after if after[number, "ts"] != before[number, "ts"]}
    assert changed == {3, 8}
    assert all(after[place] == before[place] for place in after if place[0] not in changed)
    # Of the rows that were updated, keys and values are the same.
    kept, told = ("k", "v", KEY), ("ts", TIME)
    assert all(after[number, name] == before[number, name] for number in changed for name in kept)
    assert all(after[number, name] != before[number, name] for number in changed for name in told)
    names = pq.read_table(newest(table), columns=[FILE_NAME])[FILE_NAME]
    assert set(names.to_pylist()) == {newest(table).name}
    assert table.check().ok


def test_a_key_field_that_holds_the_keys_is_not_read_again(tmp_path, monkeypatch):
    asked = []

    def read(self, numbers, columns, _read=PagedFile.read):
        asked.append(list(columns))
        return _read(self, numbers, columns)

    monkeypatch.setattr(PagedFile, "read", read)
    for fields, again in (("k", []), ("k,p", ["k"])):
        table = of_ten_pages(tmp_path / fields, record_key=fields, **{PAYLOAD: EVENT_TIME})
        keys = [1, 37, 38, 101]
        changed = rows(keys, ts=3, partition=[f"p{key % 3}" for key in keys], value="w")
        assert table.upsert(changed).updated == 3
        assert [name for name in asked.pop() if name in ("k", KEY, "ts")] == again
        found = pq.read_table(newest(table)).to_pylist()
        assert sorted(row["v"] for row in found) == sorted(
            f"{'w' if key in keys else 'v'}k{key}" for key in [*range(100), 101]
        )
        assert {row[KEY] for row in found} == {
            row["k"] if fields == "k" else f"k:{row['k']},p:{row['p']}" for row in found
        }


def test_a_file_of_two_rows_in_two_pages(tmp_path):
    table = create(tmp_path, {PAGE_ROWS: "1"}, partition_path=None, record_key="k")
    table.bulk_insert(rows(range(2)))
    table.upsert(rows([1], ts=3, value="w"))
    file = paged(newest(table))
    chunks = dict(zip(file.names, file.chunks[0], strict=True))
    # The column of file names was written anew: both rows in a page, without a dictionary.
    assert chunks[FILE_NAME].dictionary is None
    assert (len(chunks[KEY].pages), len(chunks[FILE_NAME].pages)) == (2, 1)
    assert table.upsert(rows([1], ts=4, value="x")).updated == 1
    found = pq.read_table(newest(table)).to_pylist()
    assert {row["k"]: row["v"] for row in found} == {"k0": "vk0", "k1": "xk1"}
    assert table.check().ok


def test_all_readers_see_the_rows_of_copied_pages(tmp_path):
    table = of_ten_pages(tmp_path / "t")
    before = pages(newest(table))
    table.upsert(rows([1, 2, 500, 501], ts=3, value="new"))
    after = pages(newest(table))
    assert {number for number, _ in after if after[number, "v"] != before.get((number, "v"))} == {
        0,
        10,
    }
    table.delete(rows([55, 56]))
    assert sizes(newest(table)) == [10] * 5 + [8] + [10] * 4 + [2]
    assert pq.read_metadata(newest(table)).num_row_groups == 1
    wanted = {f"k{n}": f"{'new' if n in (1, 2) or n > 99 else 'v'}k{n}" for n in range(100)}
    wanted |= {"k500": "newk500", "k501": "newk501"}
    del wanted["k55"], wanted["k56"]
    path = str(newest(table))
    by_duckdb = duckdb.sql(f"select k, v from read_parquet('{path}')").fetchall()
    assert dict(by_duckdb) == wanted
    by_arrow = pq.read_table(path, columns=["k", "v"])
    assert dict(zip(*by_arrow.to_pydict().values(), strict=True)) == wanted
    by_hudi = by_hudi_rs(table.storage.root)
    assert [(key, name) for key, _, name in by_hudi] == sorted(
        (k, newest(table).name) for k in wanted
    )
    found = duckdb.sql(f"select k from read_parquet('{path}') where k = 'k73'").fetchall()
    assert found == [("k73",)]
    assert table.check().ok


def test_rows_are_added_behind_and_whole_pages_go(tmp_path):
    table = of_ten_pages(tmp_path / "t")
    before = pages_of(newest(table), "v")
    table.upsert(rows([500], ts=3))
    assert sizes(newest(table)) == [10] * 10 + [1]
    assert pages_of(newest(table), "v")[:10] == before
    table.delete(rows(range(20, 30)))
    assert sizes(newest(table)) == [10] * 9 + [1]
    assert pages_of(newest(table), "v")[:9] == before[:2] + before[3:]
    # The last page has room.
    table.upsert(rows([501], ts=3))
    assert sizes(newest(table)) == [10] * 9 + [2]
    found = pq.read_table(newest(table), columns=["k"])["k"].to_pylist()
    assert found == [f"k{n}" for n in range(100) if not 20 <= n < 30] + ["k500", "k501"]
    assert table.check().ok


@pytest.mark.parametrize("seed", range(4))
def test_a_table_is_a_dict_however_its_pages_lie(tmp_path, seed):
    rng = random.Random(seed)
    options = {PAGE_ROWS: rng.choice(["1", "3", "7"])}
    options |= rng.choice([{}, {PAYLOAD: EVENT_TIME}])
    options |= rng.choice([{}, {"keymark.secondary.columns": "v,ts"}])
    table = create(tmp_path / "t", options, partition_path=None)
    table.bulk_insert(rows(range(40)))
    wanted = {f"k{n}": 1 for n in range(40)}
    for turn in range(2, 14):
        keys = rng.sample(range(60), rng.choice([1, 1, 2, 3, 30]))
        if rng.random() < 0.3:
            table.delete(rows(keys, ts=100))
            for key in keys:
                wanted.pop(f"k{key}", None)
        else:
            ts = rng.choice([turn, 1]) if PAYLOAD in options else turn
            table.upsert(rows(keys, ts=ts))
            for name in (f"k{key}" for key in keys):
                wanted[name] = max(ts, wanted.get(name, 0))
        table = Table.open(table.storage.root, options=options)
        assert {key: row[2] for key, row in data_rows(table).items()} == wanted
    assert table.check().ok


DRAWN = {
    "t": (pa.string(), lambda rng: rng.choice(["", "a", "ü", "x" * 300])),
    "n": (pa.int64(), lambda rng: rng.choice([-1, 0, 1, 1 << 40, -(1 << 62)])),
    "i": (pa.int32(), lambda rng: rng.randrange(-3, 3)),
    "x": (pa.float64(), lambda rng: rng.choice([0.0, -0.0, 1.5, -math.inf, math.nan])),
    "b": (pa.bool_(), lambda rng: rng.random() < 0.5),
    "d": (pa.date32(), lambda rng: dt.date(1969 + rng.randrange(3), 1, 1)),
    "m": (pa.decimal128(9, 2), lambda rng: decimal.Decimal(rng.randrange(-9999, 9999)) / 100),
    "y": (pa.binary(), lambda rng: bytes([rng.randrange(256)])),
}


def drawn(rng, keys):
    """Rows of columns of many types, with nulls in some."""
    nulls = {name: rng.choice([0, 0.3, 1]) for name in DRAWN}
    columns = {
        name: pa.array([None if rng.random() < nulls[name] else draw(rng) for _ in keys], kind)
        for name, (kind, draw) in DRAWN.items()
    }
    return pa.table({"k": [f"k{key:03d}" for key in keys], **columns})


@pytest.mark.parametrize("seed", range(6))
def test_columns_of_all_types_read_back_and_their_statistics_stay_true(tmp_path, seed):
    """Counts of nulls are exact, and all values lie in the range."""
    rng = random.Random(seed)
    options = {PAGE_ROWS: "6", CODEC: rng.choice(["gzip", "zstd"])}
    # Some row groups, or one.
    options["hoodie.parquet.block.size"] = rng.choice(["4000", "125829120"])
    table = create(tmp_path / "t", options, partition_path=None, ordering=None)
    first = drawn(rng, range(60))
    table.bulk_insert(first)
    wanted, copied = {row["k"]: row for row in first.to_pylist()}, 0
    for _ in range(8):
        before = newest(table)
        if rng.random() < 0.3:
            gone = f"k{rng.randrange(70):03d}"
            table.delete(pa.table({"k": [gone]}))
            wanted.pop(gone, None)
        else:
            batch = drawn(rng, rng.sample(range(70), rng.choice([2, 2, 40])))
            table.upsert(batch)
            wanted |= {row["k"]: row for row in batch.to_pylist()}
        path = newest(table)
        copied += path != before and paged(before) is not None and len(sizes(before)) > 2
        check_statistics(path)
        found = pq.read_table(path, columns=first.column_names).to_pylist()
        by_key = sorted(found, key=lambda row: row["k"])
        assert repr(by_key) == repr([row for _, row in sorted(wanted.items())])
    assert table.check().ok
    assert copied > 3


def of_repeated_values(path, codec="gzip"):
    """A table of ten pages, with a dictionary of some values and null."""
    options = {PAGE_ROWS: "10", CODEC: codec}
    table = create(path, options, partition_path=None, ordering=None)
    data = {
        "k": [f"k{n:03d}" for n in range(100)],
        "city": [("rome", "oslo", None)[n % 3] for n in range(100)],
        "n": [(0, 7, None)[n % 3] for n in range(100)],
        "x": [(0.0, 0.5, None)[n % 3] for n in range(100)],
        "at": pa.array([(0, 1 << 40, None)[n % 3] for n in range(100)], pa.timestamp("us", "UTC")),
    }
    table.bulk_insert(pa.table(data))
    for n, city in ((50, "rome"), (31, "rome"), (32, "bonn"), (95, "oslo"), (3, "köln")):
        changed = {name: data[name][:1] for name in data}
        changed |= {"k": [f"k{n:03d}"], "city": [city], "x": [-0.0 if n == 95 else 0.5]}
        table.upsert(pa.table(changed, schema=pa.table(data).schema))
    return table


@pytest.mark.parametrize("codec", ["gzip", "snappy", "zstd", "uncompressed"])
def test_dictionaries_take_new_values_behind_the_old_ones(tmp_path, codec):
    table = of_repeated_values(tmp_path / "t", codec)
    file = paged(newest(table))
    encodings = {
        name: [page.encoding for page in chunk.pages]
        for name, chunk in zip(file.names, file.chunks[0], strict=True)
    }
    assert all(set(encodings[name]) == {8} for name in ("city", "n", "x", "at", TIME))
    known = {
        name: file.dictionary(0, file.names.index(name), kind).values.to_pylist()
        for name, kind in (("city", pa.string()), ("n", pa.int64()), ("x", pa.float64()))
    }
    assert known["city"] == ["rome", "oslo", "bonn", "köln"]
    assert known["n"] == [0, 7]
    # By their bits.
    assert known["x"] == [0, 0x3FE0000000000000, -(1 << 63)]
    path = newest(table)
    cities = [("rome", "oslo", None)[n % 3] for n in range(100)]
    cities[50], cities[31], cities[32], cities[95], cities[3] = [
        "rome",
        "rome",
        "bonn",
        "oslo",
        "köln",
    ]
    assert pq.read_table(path, columns=["city"])["city"].to_pylist() == cities
    by_duckdb = duckdb.sql(f"select city, x from read_parquet('{path}')").fetchall()
    assert [city for city, _ in by_duckdb] == cities
    assert repr(by_duckdb[95][1]) == "-0.0"
    for city in ("bonn", "köln", "rome"):
        found = duckdb.sql(f"select k from read_parquet('{path}') where city = '{city}'").fetchall()
        assert len(found) == cities.count(city)
    assert sorted(row[0] for row in by_hudi_rs(table.storage.root)) == [
        f"k{n:03d}" for n in range(100)
    ]


@pytest.mark.spark
@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_spark_reads_dictionaries_that_grew(spark, tmp_path, vectorized):
    """The vectorized reader takes no indices behind plain pages of the same chunk."""
    table = of_repeated_values(tmp_path / "t")
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", vectorized)
    try:
        found = spark.read.parquet(str(newest(table)))
        cities = {row["k"]: row["city"] for row in found.collect()}
        bonn = [row["k"] for row in found.where("city = 'bonn'").collect()]
    finally:
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")
    assert bonn == ["k032"]
    assert [cities[f"k{n:03d}"] for n in (3, 31, 32, 33, 34, 35, 50, 95)] == (
        ["köln", "rome", "bonn", "rome", "oslo", None, "rome", "oslo"]
    )


def test_a_purge_finds_what_copied_pages_keep_of_a_key(tmp_path):
    """The range of a column, and its dictionary, name values that no row has any more."""
    options = {PAGE_ROWS: "10"}
    table = create(tmp_path / "t", options, partition_path=None, ordering=None)
    keys = [f"customer-{n:04d}" for n in range(100)]
    table.bulk_insert(pa.table({"k": keys, "friend": ["nobody", "customer-7777"] * 50}))
    others = pa.table({"k": keys[1::2], "friend": ["nobody"] * 50})
    table.upsert(pa.table({"k": keys[:1], "friend": ["nobody"]}))
    for start in range(0, 50, 10):
        table.upsert(others.slice(start, 10))
    table.delete(pa.table({"k": keys[-1:]}))
    file = paged(newest(table))
    assert file.dictionary(0, 6, pa.string()).values.to_pylist() == ["nobody", "customer-7777"]
    chunk = pq.read_metadata(newest(table)).row_group(0).column(5)
    assert chunk.statistics.max == keys[-1]
    gone = [keys[-1], keys[0], "customer-7777"]
    assert not any(row["friend"] in gone for row in pq.read_table(newest(table)).to_pylist())
    done = table.purge(gone)
    assert done.proven
    assert done.deleted == 1
    data = newest(table).read_bytes()
    assert not any(key.encode() in data for key in gone)
    assert pq.read_metadata(newest(table)).row_group(0).column(5).statistics.max == keys[-2]
    assert table.check().ok


def test_negative_zero_and_nan_are_not_taken_for_what_was_there(tmp_path):
    """Arrow takes both zeros for equal: a column that differs by a sign is not copied."""
    options = {PAGE_ROWS: "10"}
    table = create(tmp_path / "t", options, partition_path=None, ordering=None)
    keys = [f"k{n:03d}" for n in range(100)]
    wanted = dict.fromkeys(keys, 0.0)
    table.bulk_insert(pa.table({"k": keys, "x": [0.0] * 100}))
    for x in (-0.0, 0.0, math.nan, -0.0):
        table.upsert(pa.table({"k": ["k037"], "x": [x]}))
        wanted["k037"] = x
        assert sizes(newest(table)) == [10] * 10
        found = pq.read_table(newest(table), columns=["k", "x"]).to_pydict()
        assert repr(dict(zip(found["k"], found["x"], strict=True))) == repr(wanted)


def test_damage_is_found_before_it_is_copied(tmp_path):
    table = of_ten_pages(tmp_path / "t")
    path = newest(table)
    page = paged(path).chunks[0][-1].pages[7]
    data = bytearray(path.read_bytes())
    data[(page.page + page.end) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptFileError, match=path.name):
        table.upsert(rows([5], ts=3))
    assert newest(table) == path


def test_a_footer_that_lies_is_found_before_anything_is_copied(tmp_path):
    """A chunk lies outside of the file; the checksum of the footer fits."""
    table = of_ten_pages(tmp_path / "t")
    path = newest(table)
    data, entries = path.read_bytes(), pq.read_metadata(path).metadata
    body = FileBody.of(data, path.name)
    offsets = body.groups.of_chunks(DATA_PAGE)
    # The greatest of as many bytes in the footer: the table knows how long the file is.
    offsets[-1] = (1 << 7 * len(integer(int(offsets[-1]))) - 1) - 1
    assert offsets[-1] > len(data)
    lying = replace(body, groups=body.groups.with_numbers({DATA_PAGE: offsets}, {}))
    others = {key: text for key, text in entries.items() if not key.startswith(b"keymark.")}
    path.write_bytes(lying.closed(others, entries[b"keymark.file"].decode()))
    assert path.stat().st_size == len(data)
    with pytest.raises(CorruptFileError, match=f"{path.name}.* outside of it"):
        table.upsert(rows([5], ts=3))
    assert newest(table) == path


def test_footers_go_with_their_writers(tmp_path):
    """Nothing may keep them until a collection of garbage: each has a bloom filter in it."""
    table = of_ten_pages(tmp_path / "t")
    gc.collect()
    gc.disable()
    try:
        alive = []
        for turn in range(3, 6):
            table.upsert(rows([5], ts=turn))
            alive.append(sum(type(item) is pq.FileMetaData for item in gc.get_objects()))
    finally:
        gc.enable()
    assert len(set(alive)) == 1


def test_nested_columns_are_written_anew_beside_copied_pages(tmp_path):
    table = create(tmp_path / "t", {PAGE_ROWS: "10"}, partition_path=None, ordering=None)
    kinds = [
        ("k", pa.string()),
        ("l", pa.list_(pa.float64())),
        ("v", pa.string()),
        ("s", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("n", pa.int64()),
    ]
    rng = random.Random(3)

    def some(keys):
        return [
            {
                "k": f"k{key:03d}",
                "l": rng.choice([None, [], [0.5, None], [-0.0]]),
                "v": rng.choice(["a", "b", None]),
                "s": rng.choice([None, {"a": None, "b": ["x"]}, {"a": 3, "b": None}]),
                "m": rng.choice([None, [], [("q", key), ("r", None)]]),
                "n": key,
            }
            for key in keys
        ]

    wanted = {row["k"]: row for row in some(range(100))}
    table.bulk_insert(pa.Table.from_pylist(list(wanted.values()), schema=pa.schema(kinds)))
    for turn, keys in enumerate(([7], [7, 31], [99, 100], [50])):
        batch = some(keys)
        before = pages_of(newest(table), "n") if turn else None
        table.upsert(pa.Table.from_pylist(batch, schema=pa.schema(kinds)))
        wanted |= {row["k"]: row for row in batch}
        found = pq.read_table(newest(table), columns=[name for name, _ in kinds]).to_pylist()
        assert repr(sorted(found, key=lambda row: row["k"])) == repr(
            [row for _, row in sorted(wanted.items())]
        )
        # The values of n stay, and with them its pages.
        assert before is None or pages_of(newest(table), "n")[: len(before)] == before
    assert table.check().ok
