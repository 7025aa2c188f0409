"""A small table with the compact index, and what its tests ask of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from keymark.indexes.compact.index import CompactIndex
from keymark.table.format.compact.writer import hashes_of
from keymark.table.index.protocol import LookupStats
from keymark.table.state.table_state import TableState
from keymark.table.values.hash_runs import HashSearch, find_hashes, load_hash_runs

NAME = "compact"


def runs_of(table):
    return sorted(Path(table.storage.root, ".hoodie/.keymark/hashes").glob("*"))


def has_hash(table, key):
    """Whether any run has the hash of a key."""
    hashes = hashes_of(pa.array([key]))
    runs = load_hash_runs(table.storage)
    return any(len(find_hashes(HashSearch(table.storage, r.path, hashes)).rows) for r in runs)


def asked(table, keys):
    """(partition path, file id) per key, and what the lookup touched."""
    stats = LookupStats()
    context = table._context(TableState.load(table.storage), stats)
    found = CompactIndex().lookup(pa.array(keys, pa.string()), context)
    places = found["partition_path"].to_pylist(), found["file_id"].to_pylist()
    return list(zip(*places, strict=True)), stats


def tagged(table, keys, partitions):
    """The partition path of each tag, and what tagging touched."""
    stats = LookupStats()
    context = table._context(TableState.load(table.storage), stats)
    found = CompactIndex().tag(pa.array(keys), pa.array(partitions, pa.string()), context)
    return found["partition_path"].to_pylist(), stats


def truth(table):
    """key -> (partition path, file id), from the rows."""
    names = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]
    rows = [row for part in table.scan(columns=names).tables() for row in part.to_pylist()]
    return {row[names[0]]: (row[names[1]], row[names[2]].split("_")[0]) for row in rows}


def assert_right(table, more_keys=("absent",)):
    """Every key is found where it is."""
    held = truth(table)
    keys = sorted({*held, *more_keys})
    assert asked(table, keys)[0] == [held.get(key, (None, None)) for key in keys]


def assert_covered(table):
    """No file is searched because no run covers it."""
    assert_right(table)
    assert asked(table, ["absent"])[1].files_read == 0
