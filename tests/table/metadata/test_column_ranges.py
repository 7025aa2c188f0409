"""Records of column statistics, looked up and read in arrays."""

import datetime as dt
import decimal
import io
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keymark.table.errors import CorruptFileError
from keymark.table.format.hfile.reader import HFileReader
from keymark.table.format.hfile.writer import write_hfile
from keymark.table.layout.model import BaseFile
from keymark.table.metadata import column_stats
from keymark.table.metadata.column_ranges import file_keys, read_ranges
from keymark.table.metadata.column_stats import Wrapper
from keymark.table.metadata.records import SCHEMA
from keymark.table.metadata.shard import split_by_shard
from keymark.table.storage.storage import BytesReader

DECIMAL = decimal.Decimal
ROWS = {
    "flag": [False, True, None],
    "int": pa.array([3, -4, None], pa.int32()),
    "long": [2**40, None, 7],
    "float": pa.array([1.5, 2.5, None], pa.float32()),
    "double": [3.0, 1.25, None],
    "text": ["b", "ü\0", None],
    "day": [dt.date(1969, 12, 31), None, dt.date(2024, 1, 2)],
    "amount": pa.array([DECIMAL("-1.50"), None, DECIMAL("2.25")], pa.decimal128(10, 2)),
    "nothing": pa.array([None] * 3, pa.string()),
    "raw": [b"\xff", b"a", None],
}


def base_file(number, partition="p"):
    return BaseFile(
        partition_path=partition,
        file_id=f"f{number}",
        write_token="1-0-1",
        instant_time="20240101000000000",
        size=1,
    )


def records_of(file, table):
    sink = io.BytesIO()
    pq.write_table(table, sink, store_schema=False)
    metadata = pq.read_metadata(pa.BufferReader(sink.getvalue()))
    keys, values = column_stats.column_stats_records(
        file.partition_path, file.name, metadata, table.schema
    )
    return dict(zip(keys, values, strict=True))


class HFileShard:
    """A file group that is one HFile."""

    def __init__(self, records):
        keys = pa.array(sorted(records), pa.string())
        values = pa.array([records[key] for key in sorted(records)], pa.binary())
        data = write_hfile(keys, values, schema=SCHEMA)
        self.reader = HFileReader(BytesReader(name="h", data=data))

    def lookup(self, keys):
        return self.reader.lookup(keys)


def shards_of(records, count=2):
    keys = pa.array(records.keys(), pa.string())
    names = list(records)
    return [
        HFileShard({names[row]: records[names[row]] for row in rows})
        for rows in split_by_shard(keys, count)
    ]


def ranges(shards, column, files):
    return read_ranges(shards, column, files, file_keys(files))


@pytest.mark.parametrize(
    ("column", "wrapper", "low", "high"),
    [
        ("flag", Wrapper.BOOLEAN, 0, 1),
        ("int", Wrapper.INT, -4, 3),
        ("long", Wrapper.LONG, 7, 2**40),
        ("float", Wrapper.FLOAT, 1.5, 2.5),
        ("double", Wrapper.DOUBLE, 1.25, 3.0),
        ("text", Wrapper.STRING, "b", "ü\0"),
        ("day", Wrapper.DATE, -1, 19724),
        ("amount", Wrapper.DECIMAL, DECIMAL("-1.5"), DECIMAL("2.25")),
    ],
)
def test_every_type(column, wrapper, low, high):
    files = [base_file(n) for n in range(20)]
    records = {}
    for file in files[::2]:
        records |= records_of(file, pa.table(ROWS))
    found = ranges(shards_of(records), column, files)
    assert found.found.tolist() == [n % 2 == 0 for n in range(20)]
    assert found.wrappers[::2].tolist() == [wrapper] * 10
    assert found.nulls[::2].tolist() == [1] * 10
    assert found.values[::2].tolist() == [3] * 10
    rows, lows, highs = found.ends(wrapper)
    assert rows.tolist() == list(range(0, 20, 2))
    assert (lows.tolist(), highs.tolist()) == ([low] * 10, [high] * 10)
    for other in set(Wrapper) - {wrapper}:
        assert not len(found.ends(other)[0])


def test_columns_without_range():
    file = base_file(0)
    shards = shards_of(records_of(file, pa.table(ROWS)))
    nothing = ranges(shards, "nothing", [file])
    assert nothing.found.tolist() == [True]
    assert (nothing.wrappers.tolist(), nothing.nulls.tolist()) == ([0], [3])
    assert not ranges(shards, "absent", [file]).found.any()
    assert not len(ranges(shards, "int", []).found)


def test_each_file_has_its_own():
    files = [base_file(n, partition) for n in range(3) for partition in ("", "p", "q")]
    records = {}
    for number, file in enumerate(files):
        records |= records_of(file, pa.table({"x": [number, number + 1], "s": [f"{number}", "~"]}))
    shards = shards_of(records, 3)
    rows, low, high = ranges(shards, "x", files).ends(Wrapper.LONG)
    assert (rows.tolist(), low.tolist()) == (list(range(9)), list(range(9)))
    assert high.tolist() == list(range(1, 10))
    _, low, high = ranges(shards, "s", files[::-1]).ends(Wrapper.STRING)
    assert low.tolist() == [f"{n}" for n in range(8, -1, -1)]
    assert set(high) == {"~"}


def broken(record, change):
    """A record whose payload is changed by (bytes before, bytes after)."""
    before, after = change
    assert record.count(before) == 1
    return record.replace(before, after)


@pytest.mark.parametrize(
    ("change", "column"),
    [
        ((b"\x02\x02s", b"\x02\x02t"), "s"),  # of another column
        ((b"f0_1", b"f9_1"), "s"),  # of another file
        ((b"\x0e\x06abc", b"\x1e\x06abc"), "s"),  # a wrapper that does not exist
        ((b"\x0e\x06abc", b"\x0e\x7fabc"), "s"),  # a text longer than the record
    ],
)
def test_odd_records_are_none(change, column):
    file = base_file(0)
    records = records_of(file, pa.table({"s": ["abc", "xyz"]}))
    assert ranges(shards_of(records), column, [file]).found.all()
    (key,) = records
    found = ranges(shards_of({key: broken(records[key], change)}), column, [file])
    assert not found.found.any()


def test_texts_that_are_no_utf8_are_no_ends():
    file = base_file(0)
    records = records_of(file, pa.table({"s": ["abc", "xyz"]}))
    (key,) = records
    cut = broken(records[key], (b"\x06xyz", b"\x06xy\xc3"))
    found = ranges(shards_of({key: cut}), "s", [file])
    assert found.found.all()
    assert not len(found.ends(Wrapper.STRING)[0])


def test_ends_in_different_wrappers_are_no_range():
    file = base_file(0)
    records = records_of(file, pa.table({"s": ["abc", "xyz"]}))
    (key,) = records
    found = ranges(shards_of({key: broken(records[key], (b"\x0e\x06xyz", b"\x00"))}), "s", [file])
    assert found.wrappers.tolist() == [0]


def test_tombstones_are_none():
    file = base_file(0)
    keys, values = column_stats.column_stats_tombstones("p", file.name, ["x"])
    found = ranges(shards_of(dict(zip(keys, values, strict=True))), "x", [file])
    assert not found.found.any()


def test_damaged_file_is_told():
    file = base_file(0)
    (shard,) = shards_of(records_of(file, pa.table(ROWS)), 1)
    data = bytearray(shard.reader._blocks._source.data)
    data[50] ^= 1
    shard.reader = HFileReader(BytesReader(name="h", data=bytes(data)))
    with pytest.raises(CorruptFileError):
        ranges([shard], "int", [file])


def test_not_a_number_has_no_end():
    """The highest value of a row group as parquet-java writes it where one is NaN."""

    class Chunk:
        has_min_max, has_null_count, null_count = True, True, 0
        min_raw, max_raw = 1.0, math.nan

    assert column_stats._ends(None, Wrapper.DOUBLE, Chunk) == []
    assert column_stats._ends(None, Wrapper.LONG, Chunk)
    Chunk.min_raw, Chunk.max_raw = b"a", b"\xc3"
    assert column_stats._ends(None, Wrapper.STRING, Chunk) == []
