"""Columns of gzip pages, inflated before Arrow decodes them, are those that Arrow reads alone."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import math
import random
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet import inflated
from keymark.table.format.parquet.base_file import read_base_file, read_columns
from keymark.table.format.parquet.inflated import read_inflated
from keymark.table.storage.storage import BytesReader

DRAWN = {
    "t": (pa.string(), lambda rng: rng.choice(["", "a", "ü", "x" * 300])),
    "unique": (pa.string(), lambda rng: f"{rng.random():.17f}"),
    "n": (pa.int64(), lambda rng: rng.choice([-1, 0, 1, 1 << 40, -(1 << 62)])),
    "i": (pa.int16(), lambda rng: rng.randrange(-3, 3)),
    "x": (pa.float64(), lambda rng: rng.choice([0.0, -0.0, 1.5, -math.inf])),
    "b": (pa.bool_(), lambda rng: rng.random() < 0.5),
    "d": (pa.date32(), lambda rng: dt.date(1969 + rng.randrange(3), 1, 1)),
    "at": (pa.timestamp("us"), lambda rng: rng.randrange(1 << 50)),
    "m": (pa.decimal128(9, 2), lambda rng: decimal.Decimal(rng.randrange(-9999, 9999)) / 100),
    "y": (pa.binary(), lambda rng: bytes([rng.randrange(256)])),
    "list": (pa.list_(pa.string()), lambda rng: ["a", None] * rng.randrange(3)),
    "s": (
        pa.struct([("a", pa.int32()), ("b", pa.list_(pa.float64()))]),
        lambda rng: {"a": rng.randrange(9), "b": [0.5] * rng.randrange(3)},
    ),
}


def drawn(rng, count):
    """Rows of columns of many types, with nulls in some."""
    nulls = {name: rng.choice([0, 0.3, 1]) for name in DRAWN}
    return pa.table(
        {
            name: pa.array(
                [None if rng.random() < nulls[name] else draw(rng) for _ in range(count)], kind
            )
            for name, (kind, draw) in DRAWN.items()
        }
    )


def written(table, **options):
    """A file, with what its footer says."""
    sink = io.BytesIO()
    given = {"compression": "gzip", "store_schema": False, **options}
    pq.write_table(table, sink, **given)
    data = sink.getvalue()
    return BytesReader(name="f", data=data), pq.read_metadata(io.BytesIO(data))


@pytest.mark.parametrize("at_once", [1, 1 << 26])
@pytest.mark.parametrize("seed", range(6))
def test_rows_are_those_that_arrow_reads(seed, at_once):
    rng = random.Random(seed)
    table = drawn(rng, rng.choice([1, 700]))
    source, metadata = written(
        table,
        row_group_size=rng.choice([50, 1000]),
        data_page_size=rng.choice([100, 1 << 20]),
        use_dictionary=rng.choice([True, False, ["t", "n", "list.list.element"]]),
        use_deprecated_int96_timestamps=rng.random() < 0.5,
    )
    file = pq.ParquetFile(io.BytesIO(source.data), coerce_int96_timestamp_unit="us")
    groups = rng.choice([None, [0], [metadata.num_row_groups - 1]])
    for columns in (list(DRAWN), ["s"], ["list", "unique"], ["b", "t", "i"]):
        with mock.patch.object(inflated, "_AT_ONCE", at_once):
            found = read_inflated(source, metadata, columns, groups)
        numbers = range(metadata.num_row_groups) if groups is None else groups
        wanted = file.read_row_groups(list(numbers), columns=columns).select(columns)
        assert found.schema.equals(wanted.schema)
        assert found.to_pylist() == wanted.to_pylist()


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "snappy"},
        {"compression": {"t": "gzip", "n": "snappy"}},
        {"data_page_version": "2.0"},
        {"store_schema": True},
        {"write_page_checksum": True},
    ],
)
def test_other_files_are_left_to_arrow(options):
    table = pa.table({"t": ["a", None, "b"] * 50, "n": range(150)})
    source, metadata = written(table, **options)
    assert read_inflated(source, metadata, ["t", "n"], None) is None
    assert read_columns(source, metadata, None).equals(table.cast(pa.schema(table.schema)))


def test_nothing_to_read_is_left_to_arrow():
    table = pa.table({"t": ["a", None, "b"], "n": range(3)})
    source, metadata = written(table)
    assert read_inflated(source, metadata, [], None) is None
    assert read_columns(source, metadata, []).num_columns == 0
    empty, metadata = written(table.slice(0, 0))
    assert read_base_file(empty).num_rows == 0


def test_a_column_whose_name_is_the_path_of_another_one():
    table = pa.table({"s.a": [1, 2], "s": [{"a": 3}, {"a": None}]})
    source, metadata = written(table)
    for columns in (["s"], ["s.a"], ["s.a", "s"]):
        found = read_columns(source, metadata, columns)
        assert found.to_pylist() == table.select(columns).to_pylist()


def test_damage_in_a_page_names_the_file():
    source, metadata = written(pa.table({"n": range(5000)}), use_dictionary=False)
    chunk = metadata.row_group(0).column(0)
    place = chunk.data_page_offset + chunk.total_compressed_size // 2
    data = bytearray(source.data)
    data[place] ^= 0xFF
    with pytest.raises(CorruptFileError, match=r"f is .*(not inflate|its header says)"):
        read_inflated(BytesReader(name="f", data=bytes(data)), metadata, ["n"], None)


def test_pages_that_a_file_of_this_size_cannot_hold_are_left_to_arrow():
    source, metadata = written(pa.table({"t": ["x" * 1000] * 3000}), use_dictionary=False)
    with (
        mock.patch.object(inflated, "MOST_BYTES", 1000),
        mock.patch.object(inflated, "MOST_RATIO", 10),
    ):
        assert read_inflated(source, metadata, ["t"], None) is None
    assert read_inflated(source, metadata, ["t"], None).num_rows == 3000
