"""What a footer says about keys is what Arrow reads in it; damage is never taken for an answer."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from base_files import reader_of
from hypothesis import given
from hypothesis import strategies as st

from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet.base_file import (
    BaseFileOptions,
    FooterOptions,
    read_footer,
    write_base_file,
)
from keymark.table.format.parquet.footer_keys import FooterKeys, read_footer_keys
from keymark.table.storage.storage import BytesReader

DATA = Path(__file__).parents[2] / "data"
SMALL = FooterOptions(bloom_entries=40, bloom_fpp=0.05, bloom_max_entries=80)


def made(keys, **footer):
    rows = pa.table({"_hoodie_record_key": keys, "v": [{"a": [1.5, None]}] * len(keys)})
    options = BaseFileOptions(footer=FooterOptions(**footer) if footer else SMALL)
    return write_base_file(rows, options=options)


def both(data):
    source = reader_of(data)
    known = read_footer(source)
    expected = FooterKeys(known.bloom_text, known.bloom_type, known.min_key, known.max_key)
    return read_footer_keys(source), expected


@given(st.lists(st.text(min_size=1, max_size=300), min_size=1, max_size=5))
def test_it_is_what_arrow_reads(keys):
    found, expected = both(made(keys))
    assert found == expected
    assert found.bloom_text is not None
    assert found.min_key == min(keys, key=str.encode)
    short = read_footer_keys(BytesReader(name="f", data=made(keys)), bloom=False)
    assert (short.bloom_text, short.min_key, short.max_key) == (
        None, found.min_key, found.max_key,
    )  # fmt: skip


def test_a_footer_without_keys_of_its_own():
    found, expected = both(made(["a"], bloom_enabled=False))
    assert found == expected == FooterKeys(None, "SIMPLE", None, None)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1]}), sink, store_schema=False)
    assert both(sink.getvalue().to_pybytes()) == (found, found)
    with pq.ParquetWriter(sink := pa.BufferOutputStream(), pa.schema([("a", pa.int64())])) as file:
        file.write_table(pa.table({"a": [1]}))
        file.add_key_value_metadata({f"k{n}": "v" for n in range(100)} | {
            "hoodie_min_record_key": "low",
        })  # fmt: skip
    many, expected = both(sink.getvalue().to_pybytes())
    assert many == expected
    assert many.min_key == "low"


def test_footers_of_hudi():
    with tarfile.open(DATA / "hudi-0.15.0-variants.tar.gz") as tar:
        names = [n for n in tar.getnames() if n.endswith(".parquet") and ".hoodie/" not in n][:20]
        files = [tar.extractfile(name).read() for name in names]
    pairs = [both(data) for data in files]
    assert all(found == expected for found, expected in pairs)
    assert any(found.bloom_text is not None and found.min_key for found, _ in pairs)


def test_every_cut_and_every_changed_byte_is_found_or_means_the_same():
    data = made(["a", "b"], bloom_entries=1, bloom_fpp=0.5, bloom_max_entries=1)
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for at in range(start, len(data)):
        for change in (1, 0x80):
            changed = bytearray(data)
            changed[at] ^= change
            source = BytesReader(name="f", data=bytes(changed))
            try:
                expected = read_footer(source)
            except CorruptFileError:
                expected = None
            try:
                found = read_footer_keys(source)
            except CorruptFileError:
                continue
            if expected is not None:
                assert found.min_key == expected.min_key
                assert found.bloom_text == expected.bloom_text
    for cut in range(0, len(data), 7):
        with pytest.raises(CorruptFileError):
            read_footer_keys(BytesReader(name="f", data=data[:cut]))
