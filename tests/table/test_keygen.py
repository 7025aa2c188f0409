"""Record keys and partition paths: Hudi's own tables, and the rules one by one."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_cases import unpack

from keymark.table.errors import InputError, UnsupportedTableError
from keymark.table.keygen import (
    check_key_generator,
    key_generator_for,
    partition_paths,
    record_keys,
)
from keymark.table.properties.config import (
    COMPLEX_KEYS,
    NO_PARTITION_KEYS,
    SIMPLE_KEYS,
    TableConfig,
    load_config,
)
from keymark.table.storage.local_storage import LocalStorage

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


def config(keys=("k",), partitions=("p",), *, hive=False, encode=False) -> TableConfig:
    return TableConfig(
        name="t",
        record_key=keys,
        partition_fields=partitions,
        ordering=None,
        key_generator=key_generator_for(keys, partitions),
        hive_style=hive,
        url_encode=encode,
        timezone="UTC",
        metadata_partitions=(),
        building=(),
        properties={},
    )


@pytest.fixture(scope="module")
def hudi(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hudi")
    unpack("hudi-0.15.0-variants.tar.gz", folder)
    return unpack("hudi-0.15.0-complex_key.tar.gz", folder)


@pytest.mark.parametrize(
    "name", ["b", "b_enc", "b_np", "b_one", "k_upsert", "complex_key/table", "e"]
)
def test_keys_and_paths_are_those_that_hudi_generated(hudi, name):
    root = hudi / name
    found = load_config(LocalStorage.at(str(root)))
    files = [p for p in Path(root).rglob("*.parquet") if ".hoodie" not in p.parts]
    assert files
    for path in files:
        stored = pq.ParquetFile(path).read()
        fields = tuple(field for field in found.record_key if field != "kdbl")
        keys = record_keys(stored, replace(found, record_key=fields))
        wanted = stored["_hoodie_record_key"].to_pylist()
        if name == "k_upsert":  # a double has no text of its own here and is refused
            wanted = [key.replace("kdbl:1.5,", "") for key in wanted]
        assert keys.to_pylist() == wanted
        paths = partition_paths(stored, found).to_pylist()
        assert paths == stored["_hoodie_partition_path"].to_pylist()


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (7, pa.int8(), "7"),
        (-(2**63), pa.int64(), "-9223372036854775808"),
        (2**64 - 1, pa.uint64(), "18446744073709551615"),
        (True, pa.bool_(), "true"),
        (" a b ", pa.string(), " a b "),
        ("ü😀\n", pa.large_string(), "ü😀\n"),
        (Decimal("1.50"), pa.decimal128(10, 2), "1.50"),
        (Decimal("-0.000001"), pa.decimal128(10, 6), "-0.000001"),
        (Decimal("1E+3"), pa.decimal128(10, 0), "1000"),
        # As Hudi 0.15.0 and 1.2.0 write them, by bulk insert and by upsert.
        (Decimal(0), pa.decimal128(38, 18), "0E-18"),
        (Decimal("1.5"), pa.decimal128(38, 18), "1.500000000000000000"),
        (Decimal("1E-18"), pa.decimal128(38, 18), "1E-18"),
        (Decimal("0.0000001"), pa.decimal128(10, 7), "1E-7"),
        (Decimal(0), pa.decimal128(10, 7), "0E-7"),
        (Decimal("-0.0000015"), pa.decimal128(10, 7), "-0.0000015"),
        (dt.date(2024, 3, 4), pa.date32(), "2024-03-04"),
        (1709528767123456, pa.timestamp("us"), "1709528767123456"),
        (1709528767123, pa.timestamp("ms", "UTC"), "1709528767123000"),
        (b"ab", pa.binary(), "6162"),
    ],
)
def test_text_of_a_value(value, kind, text):
    batch = pa.table({"k": pa.array([value], kind)})
    assert record_keys(batch, config()).to_pylist() == [text]
    chunked = pa.table({"k": pa.chunked_array([pa.array([value], kind)] * 2)})
    assert record_keys(chunked, config()).to_pylist() == [text, text]


def test_dictionaries_are_their_values():
    batch = pa.table({"k": pa.array(["b", "a", "b"]).dictionary_encode()})
    assert record_keys(batch, config()).to_pylist() == ["b", "a", "b"]
    assert partition_paths(batch, config(partitions=("k",))).to_pylist() == ["b", "a", "b"]


@pytest.mark.parametrize(
    "kind", [pa.float64(), pa.float32(), pa.list_(pa.int32()), pa.struct([("a", pa.int32())])]
)
def test_types_that_make_no_key(kind):
    with pytest.raises(InputError, match="field k of type"):
        record_keys(pa.table({"k": pa.nulls(1, kind)}), config())


def test_composite_keys():
    batch = pa.table({"a": ["x", None, "", "d:e,f"], "b": pa.array([1, 2, None, 4], pa.int32())})
    keys = record_keys(batch.slice(0, 2), config(("a", "b")))
    assert keys.to_pylist() == ["a:x,b:1", "a:__null__,b:2"]
    assert record_keys(batch.slice(3), config(("b", "a"))).to_pylist() == ["b:4,a:d:e,f"]
    with pytest.raises(InputError, match="record key field a, b is null or empty in row 2"):
        record_keys(batch, config(("a", "b")))


def test_paths():
    batch = pa.table({"a": ["x", None, "", "u v/ü=%"], "b": ["1", "2", "3", "4"]})
    both = config(partitions=("a", "b"))
    assert partition_paths(batch, both).to_pylist() == [
        "x/1",
        f"{NULL_PARTITION}/2",
        f"{NULL_PARTITION}/3",
        "u v/ü=%/4",
    ]
    styled = config(partitions=("a", "b"), hive=True, encode=True)
    assert partition_paths(batch, styled).to_pylist()[2:] == [
        f"a={NULL_PARTITION}/b=3",
        "a=u v%2Fü%3D%25/b=4",
    ]
    assert partition_paths(batch, config(partitions=())).to_pylist() == [""] * 4


@given(st.text(max_size=20))
def test_an_encoded_path_is_one_folder(value):
    batch = pa.table({"p": [value]})
    try:
        (path,) = partition_paths(batch, config(encode=True)).to_pylist()
    except InputError:
        assert value in (".", "..", ".hoodie", "__all_partitions__") or "\0" in value
    else:
        assert "/" not in path
        assert path


@given(st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=20))
def test_simple_keys_are_the_values(values):
    assert record_keys(pa.table({"k": values}), config()).to_pylist() == values


def test_generators_by_shape():
    assert key_generator_for(("k",), ("p",)) == SIMPLE_KEYS
    assert key_generator_for(("k", "l"), ("p",)) == COMPLEX_KEYS
    assert key_generator_for(("k",), ("p", "q")) == COMPLEX_KEYS
    assert key_generator_for(("k",), ()) == NO_PARTITION_KEYS
    assert key_generator_for(("k", "l"), ()) == NO_PARTITION_KEYS
    for generator in ("CustomKeyGenerator", "TimestampBasedKeyGenerator", "com.acme.Keys"):
        with pytest.raises(UnsupportedTableError, match=generator):
            check_key_generator(replace(config(), key_generator=f"x.{generator}"))
