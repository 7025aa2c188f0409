"""Row groups that a batch leaves alone are copied as they lie; all readers see the right rows."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_cases import EVENT_TIME, PAYLOAD, by_hudi_rs, create, data_rows, rows

from keymark import Table
from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet.file_body import FileBody
from keymark.table.format.parquet.footer_groups import DATA_PAGE
from keymark.table.write.merge import Merge
from keymark.table.write.row_groups import group_size, layout_of

GROUP_ROWS = "keymark.parquet.group.rows"
FILE_NAME = "_hoodie_file_name"
KEY, TIME = "_hoodie_record_key", "_hoodie_commit_time"


def newest(table):
    """The file of the only file group that was written last."""
    paths = Path(table.storage.root).rglob("*.parquet")
    return max(paths, key=lambda path: path.name.rpartition("_")[2])


def of_ten_groups(path, **options):
    """A table of one file of 100 rows in ten row groups."""
    table = create(path, {GROUP_ROWS: "10", **options}, partition_path=None)
    table.bulk_insert(rows(range(100)))
    assert pq.read_metadata(newest(table)).num_row_groups == 1
    table.upsert(rows([5], ts=2))
    assert pq.read_metadata(newest(table)).num_row_groups == 10
    return table


def chunks(path):
    """(row group, column) -> its pages and its statistics, without the column of file names."""
    data, metadata = path.read_bytes(), pq.read_metadata(path)
    found = {}
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            start = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)))
            pages = data[start : start + chunk.total_compressed_size]
            if chunk.path_in_schema != FILE_NAME:
                found[group, chunk.path_in_schema] = (pages, chunk.statistics)
    return found


@pytest.mark.parametrize("codec", ["gzip", "snappy", "zstd", "uncompressed"])
def test_what_a_batch_leaves_alone_keeps_its_bytes(tmp_path, codec):
    table = of_ten_groups(tmp_path / "t", **{"hoodie.parquet.compression.codec": codec})
    before = chunks(newest(table))
    done = table.upsert(rows([37, 33, 81], ts=3))
    assert (done.updated, done.inserted) == (3, 0)
    after = chunks(newest(table))
    assert after.keys() == before.keys()
    changed = {group for group, _ in after if after[group, "ts"] != before[group, "ts"]}
    assert changed == {3, 8}
    assert all(after[place] == before[place] for place in after if place[0] not in changed)
    # Of the rows that were updated, keys and values are the same.
    assert all(after[group, name] == before[group, name] for group in changed for name in "kv")
    assert all(after[group, KEY] == before[group, KEY] for group in changed)
    assert all(after[group, TIME] != before[group, TIME] for group in changed)
    names = pq.read_table(newest(table), columns=[FILE_NAME])[FILE_NAME]
    assert set(names.to_pylist()) == {newest(table).name}


def test_all_readers_see_the_rows_of_copied_groups(tmp_path):
    table = of_ten_groups(tmp_path / "t")
    table.upsert(rows([1, 2, 500, 501], ts=3, value="new"))
    table.delete(rows([55, 56]))
    metadata = pq.read_metadata(newest(table))
    assert [metadata.row_group(n).num_rows for n in range(11)] == [10] * 5 + [8] + [10] * 4 + [2]
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


@pytest.mark.parametrize("seed", range(4))
def test_a_table_is_a_dict_however_its_row_groups_lie(tmp_path, seed):
    rng = random.Random(seed)
    options = {GROUP_ROWS: rng.choice(["1", "3", "7"])}
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


def test_negative_zero_and_nan_are_not_taken_for_what_was_there(tmp_path):
    """Arrow takes both zeros for equal: a column that differs by a sign is not copied."""
    table = Table.create(tmp_path / "t", record_key="k", index="record", options={GROUP_ROWS: "10"})
    keys = [f"k{n:03d}" for n in range(100)]
    wanted = {key: (0.0, [0.0]) for key in keys}
    table.bulk_insert(pa.table({"k": keys, "x": [0.0] * 100, "l": [[0.0]] * 100}))
    for x, some in ((-0.0, [0.0]), (-0.0, [-0.0]), (math.nan, [math.nan]), (0.0, [0.0])):
        table.upsert(pa.table({"k": ["k037"], "x": [x], "l": [some]}))
        wanted["k037"] = (x, some)
        assert pq.read_metadata(newest(table)).num_row_groups == 10
        found = pq.read_table(newest(table), columns=["k", "x", "l"]).to_pydict()
        rows_found = dict(zip(found["k"], zip(found["x"], found["l"], strict=True), strict=True))
        assert repr(sorted(rows_found.items())) == repr(sorted(wanted.items()))


def test_damage_is_found_before_it_is_copied(tmp_path):
    table = of_ten_groups(tmp_path / "t")
    path = newest(table)
    metadata = pq.read_metadata(path)
    chunk = metadata.row_group(7).column(metadata.num_columns - 1)
    data = bytearray(path.read_bytes())
    place = chunk.data_page_offset + chunk.total_compressed_size // 2
    data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptFileError, match=path.name):
        table.upsert(rows([5], ts=3))
    assert newest(table) == path


def test_a_footer_that_lies_is_found_before_anything_is_copied(tmp_path):
    """The chunk of a row group that would be copied lies outside of the file, its checksum fits."""
    table = of_ten_groups(tmp_path / "t")
    path = newest(table)
    data, entries = path.read_bytes(), pq.read_metadata(path).metadata
    body = FileBody.of(data, path.name)
    offsets = body.groups.of_chunks(DATA_PAGE)
    # As many bytes in the footer as before: the table knows how long the file is.
    assert len(data) < (1 << 20) - 1
    assert offsets[-1] >= 1 << 13
    offsets[-1] = (1 << 20) - 1
    lying = replace(body, groups=body.groups.with_numbers({DATA_PAGE: offsets}, {}))
    others = {key: text for key, text in entries.items() if not key.startswith(b"keymark.")}
    path.write_bytes(lying.closed(others, entries[b"keymark.file"].decode()))
    assert path.stat().st_size == len(data)
    with pytest.raises(CorruptFileError, match=f"{path.name}.* outside of it"):
        table.upsert(rows([5], ts=3))
    assert newest(table) == path


def test_a_batch_that_changes_most_row_groups_writes_the_file_whole(tmp_path):
    table = of_ten_groups(tmp_path / "t")
    table.upsert(rows(range(0, 100, 9), ts=3))
    assert pq.read_metadata(newest(table)).num_row_groups == 1


def test_zero_rows_switch_it_off(tmp_path):
    table = create(tmp_path / "t", {GROUP_ROWS: "0"}, partition_path=None)
    table.bulk_insert(rows(range(9000)))
    table.upsert(rows([5], ts=2))
    assert pq.read_metadata(newest(table)).num_row_groups == 1


@pytest.mark.parametrize("seed", range(30))
def test_a_layout_has_the_rows_of_the_merge(seed):
    """By a plain model: each group of the file before is copied or written, row by row."""
    rng = np.random.default_rng(seed)
    count, full, incoming = int(rng.integers(2, 9)), 4, 3
    sizes = rng.integers(1, full + 1, count)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    total = int(starts[-1])
    kept = rng.random(total) > rng.choice([0, 0.05, 0.3])
    source = np.arange(total)
    replaced = rng.random(total) < rng.choice([0, 0.05, 0.3])
    source[replaced] = total + rng.integers(0, incoming, int(replaced.sum()))
    inserted = total + np.arange(int(rng.integers(0, incoming + 1)))
    merge = Merge(np.concatenate([source[kept], inserted]), kept, np.zeros(incoming, np.uint8))
    layout = layout_of(merge, starts, full)
    changed = {g for g in range(count) for n in range(*starts[g : g + 2]) if merge.changed[n]}
    joins = len(inserted) > 0 and sizes[-1] < full
    if 2 * len(changed | ({count - 1} if joins else set())) > count:
        assert layout is None
        return
    read = [n for g in layout.read for n in range(*starts[g : g + 2])]
    of = [*read, *range(total, total + incoming)]
    new, updated, stored = (
        [of[place] for place in places] for places in (layout.new, layout.updated, layout.stored)
    )
    found = []
    for group in layout.groups:
        if group.is_copied:
            found += range(*starts[group.before : group.before + 2])
        elif group.before is not None:
            before = [stored.pop(0) for _ in range(group.rows)]
            assert before == list(range(*starts[group.before : group.before + 2]))
            found += [updated.pop(0) for _ in range(group.rows)]
        else:
            found += [new.pop(0) for _ in range(group.rows)]
    assert (new, updated, stored) == ([], [], [])
    assert found == merge.source.tolist()
    assert changed.isdisjoint(group.before for group in layout.groups if group.is_copied)


def test_small_row_groups_pay_where_half_of_them_would_stay():
    def merge_of(changed):
        source = np.arange(100)
        source[changed] = 100
        return Merge(source, np.ones(100, bool), np.ones(1, np.uint8))

    assert group_size(merge_of([1, 11, 21, 31, 41]), 10) == 10
    assert group_size(merge_of([1, 11, 21, 31, 41, 51]), 10) is None
    assert group_size(merge_of([1]), 51) is None
    assert group_size(merge_of([1]), 0) is None
    # At most 64 row groups.
    assert group_size(merge_of([1]), 1) == 2
