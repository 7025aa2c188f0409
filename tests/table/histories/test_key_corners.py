"""Keys at every corner go through all that a table does, and come out exactly (issue: edge cases).

Astral characters, 1 and 32,767 bytes, every separator, the corners of String.hashCode, and keys
that all fall into one shard: written, looked up, moved, deleted, compacted, indexed anew at once
and while a writer goes on, purged.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from history_checks import java_hash, shard_of
from table_cases import SMALL_BLOOMS, by_listing, data_rows, files_listed, files_stored

from keymark import Table
from keymark.table.errors import InputError
from keymark.table.format.hashes.hashing import java_hashes
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.state.table_state import TableState

LONGEST = 32767
MOVES = {"hoodie.record.index.update.partition.path": "true"}
FALLBACK = {"keymark.index.fallback": "global_bloom"}

ASTRAL = [
    "😀",
    "a😀b",
    "😀😀",
    "\U00010000",
    "\U0010ffff",
    "\uffff",
    "\ue000",
    "\ud7ff",
    "\U0001d4b3:\U0001d4b4",
]
LENGTHS = [
    *("a", "\0", "é"),
    *("l" * n for n in (110, 127, 128, 255, 256, 1024, LONGEST - 1, LONGEST)),
    "é" * (LONGEST // 2) + "!",
    "😀" * (LONGEST // 4) + "!!!",
]
SEPARATORS = [
    *(
        ",",
        ":",
        "/",
        "=",
        "%",
        " ",
        "\n",
        "\t",
        "\r",
        "\\",
        "'",
        '"',
        "_",
        ".",
        "..",
        "|",
        ";",
        "#",
    ),
    "k:a,n:7",
    "a,b:c/d=e%f g\nh\ti\\j",
    "%2F%00",
    "../../up",
    " leading",
    "trailing ",
    "__null__",
    "__empty__",
    "__HIVE_DEFAULT_PARTITION__",
    "a\0b",
    "\x7f\x80\x85\u2028",
]
HASHES = [
    "polygenelubricants",
    "Aa",
    "BB",
    "AaAa",
    "BBBB",
    "AaBB",
    "BBAa",
    "aaaaab",
    "\u0001\u0000",
]
MIXED = list(dict.fromkeys([*ASTRAL, *LENGTHS, *SEPARATORS, *HASHES]))
COLLIDING = ["".join("BB" if n >> bit & 1 else "Aa" for bit in range(9)) for n in range(512)]


def rows(keys, *, value, partition=None):
    paths = [f"p{number % 3}" for number in range(len(keys))]
    return pa.table(
        {
            "k": pa.array(keys, pa.string()),
            "p": paths if partition is None else [partition] * len(keys),
            "v": [value] * len(keys),
        }
    )


def exact(table, model):
    """Rows, places, lookups and shards are those of the model: key -> (partition, value)."""
    assert {key: row[1:] for key, row in data_rows(table).items()} == model
    stored = by_listing(table.storage.root)
    assert stored.keys() == model.keys()
    asked = [*model, *MIXED, "absent", "Aa" * 9 + "B"]
    for row in table.lookup(asked).to_pylist():
        wanted = stored[row["record_key"]][0] if row["record_key"] in model else (None, None)
        assert (row["partition_path"], row["file_id"]) == wanted
    checked = table.check()
    assert checked.ok, checked
    assert checked.keys == len(model)
    assert files_listed(table) == files_stored(table.storage.root)
    shards = TableState.load(table.storage).metadata.shards(RECORD_INDEX)
    for number, shard in enumerate(shards):
        found = shard.scan()[0].to_pylist()
        assert found == sorted(set(found))
        assert all(shard_of(key.decode(), len(shards)) == number for key in found)


@pytest.fixture
def make(tmp_path):
    def create(shards: str, block: str) -> Table:
        counts = {
            f"hoodie.metadata.record.index.{end}.filegroup.count": shards for end in ("min", "max")
        }
        options = {**SMALL_BLOOMS, **MOVES, **counts, "hoodie.hfile.block.size": block}
        path = str(tmp_path / "t")
        Table.create(path, name="t", record_key="k", partition_path="p", options=options)
        return Table.open(path, options={**options, **FALLBACK})

    return create


@pytest.mark.slow
@pytest.mark.parametrize("keys", [MIXED, COLLIDING], ids=["corners", "one shard"])
@pytest.mark.parametrize(("shards", "block"), [("1", "1048576"), ("4", "64"), ("7", "1048576")])
def test_through_all_that_a_table_does(make, keys, shards, block):
    table, model = make(shards, block), {}

    def write(method, chosen, *args, **named):
        data = rows(chosen, *args, **named)
        getattr(table, method)(data)
        model.update((row["k"], (row["p"], row["v"])) for row in data.to_pylist())

    def delete(chosen):
        table.delete(chosen)
        for key in chosen:
            model.pop(key, None)

    write("bulk_insert", keys[::2], value=1)
    write("insert", keys[1::2], value=2)
    exact(table, model)
    write("upsert", keys[::3], value=3, partition="p3")
    delete(keys[::5])
    exact(table, model)
    table.compact()
    exact(table, model)
    write("upsert", keys[::10], value=4)
    delete(keys[2::5])
    exact(table, model)
    table.drop_index()
    assert table.build_index()
    exact(table, model)
    table.drop_index()
    table.schedule_index()
    write("upsert", keys[2::10], value=5)
    delete(keys[3::10])
    table.run_index()
    exact(table, model)
    table.purge(keys[:1])
    model.pop(keys[0], None)
    exact(table, model)


def test_hashes_are_javas():
    known = {"polygenelubricants": -(1 << 31), "😀": 1772899, "Aa": 2112, "BB": 2112, "\0": 0}
    assert dict(zip(known, java_hashes(pa.array(known)).tolist(), strict=True)) == known
    found = java_hashes(pa.array(MIXED)).tolist()
    assert found == [java_hash(key) for key in MIXED]
    assert len(set(java_hashes(pa.array(COLLIDING)).tolist())) == 1


@pytest.mark.parametrize("key", ["", "x" * (LONGEST + 1), "é" * (LONGEST // 2 + 1)])
def test_keys_beyond_the_limits_are_refused_by_name(make, key):
    table = make("2", "1048576")
    table.upsert(rows(["a"], value=1))
    for method in ("upsert", "insert", "bulk_insert"):
        with pytest.raises(InputError, match="record key field k"):
            getattr(table, method)(rows(["b", key], value=1))
    exact(table, {"a": ("p0", 1)})
    # Asked for, such a key is one that is not there.
    assert table.lookup([key, "a"])["file_id"].null_count == 1
    assert table.delete([key]).deleted == 0
    exact(table, {"a": ("p0", 1)})
