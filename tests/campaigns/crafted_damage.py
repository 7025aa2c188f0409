"""Damages that no checksum gives away: valid files with wrong content.

The package's own writers make them. `DAMAGES` holds functions that damage a table and say what they
did; those that `BY_WRITE` names need a write of the table, which first recovers it.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from keymark import Table
from keymark.indexes.bucket.index import BucketIndex
from keymark.table.format.hashes.hashing import shards
from keymark.table.format.parquet import base_file as parquet
from keymark.table.format.parquet.base_file import read_footer, write_base_file
from keymark.table.layout.model import BaseFile
from keymark.table.metadata.bloom import bloom_key, bloom_records
from keymark.table.metadata.column_stats import column_stats_records, column_stats_tombstones
from keymark.table.metadata.partitions import BLOOM_FILTERS, COLUMN_STATS, FILES, RECORD_INDEX
from keymark.table.metadata.records import FILES as FILE_LIST
from keymark.table.metadata.records import encode_files, encode_locations
from keymark.table.metadata.shard import split_by_shard
from keymark.table.metadata.writer import DeltaCommit
from keymark.table.state.table_state import TableState, stored_schema

KEY = "_hoodie_record_key"


class NotHereError(Exception):
    """The damage does not fit the table as it is."""


def _state(table: Table) -> TableState:
    return TableState.load(table.storage)


def _metadata_state(table: Table, partition: str) -> TableState:
    """A table to whose metadata table a delta commit can be added that counts."""
    state = _state(table)
    if state.metadata is None or partition not in state.config.metadata_partitions:
        raise NotHereError
    if any(i.action == "deltacommit" for i in state.metadata.timeline.pending()):
        # Readers stop at the log block of a later instant.
        raise NotHereError
    return state


def _commit_records(
    state: TableState, partition: str, records: dict[str, bytes], deletes: list[str] | None = None
) -> None:
    """Add a delta commit with records to the metadata table, by their keys' shards."""
    groups = len(state.metadata.slices(partition))
    keys = pa.array([*records, *(deletes or [])], pa.string())
    for number, mine in enumerate(split_by_shard(keys, groups)):
        names = [keys[int(row)].as_py() for row in mine]
        puts = [name for name in names if name in records]
        gone = [name for name in names if name not in records]
        if names:
            _commit_group(state, partition, number, {name: records[name] for name in puts}, gone)
            state = TableState.load(state.storage)


def _commit_group(
    state: TableState, partition: str, number: int, records: dict[str, bytes], gone: list[str]
) -> None:
    latest = max(instant.time for instant in state.timeline.completed())
    taken = {instant.time for instant in state.metadata.timeline.instants}
    instant = next(t for n in range(50, 1000) if (t := f"{latest}{n:03d}") not in taken)
    delta = DeltaCommit(state.metadata, instant, 1 << 20)
    delta.begin()
    keys, values = pa.array(records, pa.string()), pa.array(records.values(), pa.binary())
    delta.stats.append(delta.group(partition, number, keys, values, gone).write())
    delta.complete()


def _chosen(state: TableState, rng: random.Random) -> BaseFile:
    if not state.snapshot.files:
        raise NotHereError
    return rng.choice(state.snapshot.files)


def _path(state: TableState, file: BaseFile) -> Path:
    return Path(state.storage.root, file.path)


def _keys(state: TableState, file: BaseFile) -> list[str]:
    return pq.read_table(_path(state, file), columns=[KEY])[KEY].to_pylist()


def file_deleted(table: Table, rng: random.Random) -> str:
    state = _state(table)
    file = _chosen(state, rng)
    _path(state, file).unlink()
    return file.path


def old_file_deleted(table: Table, rng: random.Random) -> str:
    state = _state(table)
    if any(instant.action == "clean" for instant in state.timeline.pending()):
        raise NotHereError
    current = {file.path for file in state.snapshot.files}
    listed = {f"{p}/{name}" for p, names in state.listing.items() for name in names}
    old = sorted(listed - current)
    if not old:
        raise NotHereError
    path = rng.choice(old)
    Path(state.storage.root, path).unlink()
    return path


def file_beside_a_clean_deleted(table: Table, rng: random.Random) -> str:
    """Of a table with a pending clean, a file that the clean needs to stay."""
    state = _state(table)
    if not any(instant.action == "clean" for instant in state.timeline.pending()):
        raise NotHereError
    return file_deleted(table, rng)


def file_replaced(table: Table, rng: random.Random) -> str:
    """By another valid one."""
    state = _state(table)
    file, other = _chosen(state, rng), _chosen(state, rng)
    if file.size == other.size:
        raise NotHereError
    _path(state, file).write_bytes(_path(state, other).read_bytes())
    return f"{file.path} by {other.path}"


def file_shortened(table: Table, rng: random.Random) -> str:
    """To a valid one with fewer rows."""
    state = _state(table)
    file = _chosen(state, rng)
    whole = pq.read_table(_path(state, file))
    data = bytes(write_base_file(whole.slice(0, len(whole) - 1), options=parquet.BaseFileOptions()))
    if len(data) == file.size:
        raise NotHereError
    _path(state, file).write_bytes(data)
    return file.path


def file_added(table: Table, rng: random.Random) -> str:
    """A committed file that is not listed: another file group of a completed commit."""
    state = _state(table)
    file = _chosen(state, rng)
    done = {i.time for i in state.timeline.completed({"commit"})}
    if state.metadata is None or file.instant_time not in done - state.timeline.rolled_back():
        raise NotHereError
    name = f"{uuid.UUID(int=rng.getrandbits(128))}-0_0-0-1_{file.instant_time}.parquet"
    path = Path(state.storage.root, file.partition_path, name)
    path.write_bytes(_path(state, file).read_bytes())
    return str(path)


def _relist(state: TableState, file: BaseFile, entry: tuple[int, bool]) -> str:
    record = encode_files({file.name: entry}, record_type=FILE_LIST)
    _commit_group(state, FILES, 0, {file.partition_path: record}, [])
    return file.path


def listing_lacks(table: Table, rng: random.Random) -> str:
    state = _metadata_state(table, FILES)
    return _relist(state, _chosen(state, rng), (0, True))


def listing_lacks_and_storage_too(table: Table, rng: random.Random) -> str:
    state = _metadata_state(table, FILES)
    file = _chosen(state, rng)
    if file.instant_time not in {i.time for i in state.timeline.completed({"commit"})}:
        raise NotHereError
    _path(state, file).unlink()
    return _relist(state, file, (0, True))


def listing_has_more(table: Table, rng: random.Random) -> str:
    state = _metadata_state(table, FILES)
    file = _chosen(state, rng)
    other = replace(file, file_id=f"{uuid.UUID(int=rng.getrandbits(128))}-0")
    return _relist(state, other, (file.size, False))


def listing_has_another_size(table: Table, rng: random.Random) -> str:
    state = _metadata_state(table, FILES)
    file = _chosen(state, rng)
    return _relist(state, file, (file.size + 1, False))


def entry_changed(table: Table, rng: random.Random) -> str:
    state = _metadata_state(table, RECORD_INDEX)
    file, other = _chosen(state, rng), _chosen(state, rng)
    keys = _keys(state, file)
    if file == other or not keys:
        raise NotHereError
    key = rng.choice(keys)
    (value,) = encode_locations([other.partition_path], [other.file_id], [1]).to_pylist()
    _commit_records(state, RECORD_INDEX, {key: value})
    return key


def entry_removed(table: Table, rng: random.Random) -> str:
    state = _metadata_state(table, RECORD_INDEX)
    keys = _keys(state, _chosen(state, rng))
    if not keys:
        raise NotHereError
    key = rng.choice(keys)
    _commit_records(state, RECORD_INDEX, {}, [key])
    return key


def entry_added(table: Table, rng: random.Random) -> str:
    state = _metadata_state(table, RECORD_INDEX)
    file = _chosen(state, rng)
    (value,) = encode_locations([file.partition_path], [file.file_id], [1]).to_pylist()
    key = f"ghost {rng.random()}"
    _commit_records(state, RECORD_INDEX, {key: value})
    return key


def entry_in_another_shard(table: Table, rng: random.Random) -> str:
    state = _metadata_state(table, RECORD_INDEX)
    file = _chosen(state, rng)
    keys = _keys(state, file)
    if not keys:
        raise NotHereError
    key = rng.choice(keys)
    (value,) = encode_locations([file.partition_path], [file.file_id], [1]).to_pylist()
    wrong = 1 - int(shards(pa.array([key]), 2)[0])
    _commit_group(state, RECORD_INDEX, wrong, {key: value}, [])
    return key


def _statistics(state: TableState, file: BaseFile) -> dict[str, bytes]:
    footer = read_footer(state.storage.open(file.path))
    schema = stored_schema(state)
    return dict(
        zip(
            *column_stats_records(file.partition_path, file.name, footer.metadata, schema),
            strict=True,
        )
    )


def column_stats_of_another(table: Table, rng: random.Random) -> str:
    """The record of a column says what another column's footer says."""
    state = _metadata_state(table, COLUMN_STATS)
    file, other = _chosen(state, rng), _chosen(state, rng)
    footer = read_footer(state.storage.open(other.path))
    schema = stored_schema(state)
    # The other file's ranges, under the name of this file.
    made = column_stats_records(file.partition_path, file.name, footer.metadata, schema)
    right = _statistics(state, file)
    wrong = {
        key: value for key, value in zip(*made, strict=True) if right.get(key) not in (None, value)
    }
    if not wrong:
        raise NotHereError
    key = rng.choice(sorted(wrong))
    _commit_records(state, COLUMN_STATS, {key: wrong[key]})
    return f"{file.path} {key}"


def column_stats_removed(table: Table, rng: random.Random) -> str:
    state = _metadata_state(table, COLUMN_STATS)
    file = _chosen(state, rng)
    column = rng.choice(["k", "ts", "v", KEY])
    keys, values = column_stats_tombstones(file.partition_path, file.name, [column])
    if rng.random() < 0.5:
        _commit_records(state, COLUMN_STATS, {}, keys)
    else:
        _commit_records(state, COLUMN_STATS, dict(zip(keys, values, strict=True)))
    return f"{file.path} {column}"


def filter_record_of_another(table: Table, rng: random.Random) -> str:
    state = _metadata_state(table, BLOOM_FILTERS)
    file, other = _chosen(state, rng), _chosen(state, rng)
    footers = [read_footer(state.storage.open(each.path)) for each in (file, other)]
    if footers[0].bloom_text in (None, footers[1].bloom_text):
        raise NotHereError
    made = bloom_records(file.partition_path, file.name, footers[1], file.instant_time)
    _commit_records(state, BLOOM_FILTERS, dict(zip(*made, strict=True)))
    return file.path


def filter_record_removed(table: Table, rng: random.Random) -> str:
    state = _metadata_state(table, BLOOM_FILTERS)
    file = _chosen(state, rng)
    _commit_records(state, BLOOM_FILTERS, {}, [bloom_key(file.partition_path, file.name)])
    return file.path


def _rewritten(
    table: Table, rng: random.Random, file: BaseFile, target: str, damaged: Callable[..., Any]
) -> None:
    """Update a row of a file while a function of the writer is replaced.

    The writer reads back what it wrote, and would see some of this.
    """
    state = _state(table)
    whole = pq.read_table(_path(state, file), columns=["k", "p", "ts", "v"])
    row = whole.slice(rng.randrange(len(whole)), 1)
    row = row.set_column(2, "ts", pa.array([99], pa.int64()))
    unseen = mock.patch("keymark.table.format.parquet.footer_check._FooterCheck._check_named")
    with mock.patch(target, damaged), unseen:
        table.upsert(row)


def row_duplicated(table: Table, rng: random.Random) -> str:
    """A row of one file group stands in another one, too."""
    state = _state(table)
    file = _chosen(state, rng)
    local = table.choice.name in ("simple", "bloom", "bucket")
    others = [
        other
        for other in state.snapshot.files
        if other.file_id != file.file_id
        and (other.partition_path == file.partition_path or not local)
        and _keys(state, other)
    ]
    if not others or not _keys(state, file):
        raise NotHereError
    source = pq.read_table(_path(state, rng.choice(others)))
    extra = source.slice(rng.randrange(len(source)), 1)
    column = extra.schema.get_field_index("_hoodie_partition_path")
    extra = extra.set_column(column, extra.schema.field(column), [[file.partition_path]])

    def damaged(rows: pa.Table, *, options: Any, **_: Any) -> Any:
        column = extra.schema.get_field_index("_hoodie_file_name")
        named = extra.set_column(column, extra.schema.field(column), rows["_hoodie_file_name"][:1])
        both = pa.concat_tables([rows, named.select(rows.column_names).cast(rows.schema)])
        return write_base_file(both, options=options)

    _rewritten(table, rng, file, "keymark.table.write.write_group.write_base_file", damaged)
    return f"{extra[KEY][0]} in {file.file_id}"


def row_of_another_partition(table: Table, rng: random.Random) -> str:
    state = _state(table)
    file = _chosen(state, rng)
    if not _keys(state, file):
        raise NotHereError

    def damaged(rows: pa.Table, *, options: Any, **_: Any) -> Any:
        paths = rows["_hoodie_partition_path"].to_pylist()
        paths[rng.randrange(len(paths))] = "elsewhere"
        column = rows.schema.get_field_index("_hoodie_partition_path")
        changed = rows.set_column(column, rows.schema.field(column), [paths])
        return write_base_file(changed, options=options)

    _rewritten(table, rng, file, "keymark.table.write.write_group.write_base_file", damaged)
    return file.file_id


def row_in_another_bucket(table: Table, rng: random.Random) -> str:
    if table.choice.name != "bucket":
        raise NotHereError
    right = BucketIndex.buckets

    def damaged(self: Any, keys: Any, config: Any, options: Any) -> Any:
        return (right(self, keys, config, options) + 1) % 2

    key = f"stray {rng.random()}"
    row = {"k": [key], "p": ["p0"], "ts": [5], "v": ["v"]}
    with mock.patch.object(BucketIndex, "buckets", damaged):
        table.upsert(pa.table(row))
    return key


def _with_range_or_filter(table: Table) -> TableState:
    state = _state(table)
    if table.choice.name not in ("bloom", "global_bloom"):
        raise NotHereError
    return state


def filter_lacks_a_key(table: Table, rng: random.Random) -> str:
    state = _with_range_or_filter(table)
    file = _chosen(state, rng)
    keys = _keys(state, file)
    if not keys:
        raise NotHereError
    lost, right = rng.choice(keys), parquet._bloom_text

    def damaged(found: Any, options: Any, previous: Any, inserted: Any) -> Any:
        del previous, inserted
        keys = found()
        kept = keys.filter(pc.not_equal(keys.cast(pa.string()), lost))
        return right(lambda: kept, options, None, None)

    _rewritten(table, rng, file, "keymark.table.format.parquet.base_file._bloom_text", damaged)
    return f"{file.file_id} {lost}"


def range_lacks_a_key(table: Table, rng: random.Random) -> str:
    state = _with_range_or_filter(table)
    file = _chosen(state, rng)
    keys = sorted(_keys(state, file))
    if len(keys) < 2:
        raise NotHereError
    right, end = parquet.hudi_entries, rng.choice((parquet.MIN_KEY, parquet.MAX_KEY))
    shorter = keys[1] if end == parquet.MIN_KEY else keys[-2]

    def damaged(*arguments: Any) -> Any:
        return {**right(*arguments), end: shorter.encode()}

    _rewritten(table, rng, file, "keymark.table.format.parquet.base_file.hudi_entries", damaged)
    return f"{file.file_id} {end.decode()} {shorter}"


BY_WRITE = {
    "a row duplicated": row_duplicated,
    "a row of another partition": row_of_another_partition,
    "a row in another bucket": row_in_another_bucket,
    "a filter lacks a key": filter_lacks_a_key,
    "a range lacks a key": range_lacks_a_key,
}
DAMAGES = {
    "a base file deleted": file_deleted,
    "an older base file deleted": old_file_deleted,
    "a base file beside a clean deleted": file_beside_a_clean_deleted,
    "a base file replaced": file_replaced,
    "a base file shortened": file_shortened,
    "a committed file added": file_added,
    "the listing lacks a file": listing_lacks,
    "listing and storage lack a file": listing_lacks_and_storage_too,
    "the listing has a file more": listing_has_more,
    "the listing has another size": listing_has_another_size,
    "an index entry changed": entry_changed,
    "an index entry removed": entry_removed,
    "an index entry added": entry_added,
    "an index entry in another shard": entry_in_another_shard,
    "column statistics of another file": column_stats_of_another,
    "column statistics removed": column_stats_removed,
    "a filter record of another file": filter_record_of_another,
    "a filter record removed": filter_record_removed,
    **BY_WRITE,
}
