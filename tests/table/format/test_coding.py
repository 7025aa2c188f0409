from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keymark.table.errors import CorruptFileError
from keymark.table.format.coding import (
    ByteCursor,
    encode_hadoop_vint,
    encode_int32,
    encode_int64,
    encode_varint,
)
from keymark.table.format.hashes.checksum import ChecksumType, chunk_checksums


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (48, "30"), (127, "7f"), (128, "8f80"), (255, "8fff"), (312, "8e0138")],
)
def test_hadoop_vint_vectors(value, encoded):
    assert encode_hadoop_vint(value).hex() == encoded


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (127, "7f"), (300, "ac02"), (-1, "ffffffffffffffffff01")],
)
def test_varint_vectors(value, encoded):
    assert encode_varint(value).hex() == encoded


def test_checksum_vectors():
    assert chunk_checksums(b"123456789", 9, 16384).hex() == "e3069283"
    assert chunk_checksums(b"123456789", 9, 16384, ChecksumType.CRC32).hex() == "cbf43926"
    assert len(chunk_checksums(bytes(20000), 20000, 16384)) == 8


@given(
    st.integers(0, 2**64 - 1), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
)
def test_integers_read_back(unsigned, small, large):
    data = encode_varint(unsigned) + encode_int32(small) + encode_int64(large)
    cursor = ByteCursor(data, "file")
    assert (cursor.varint(), cursor.int32(), cursor.int64()) == (unsigned, small, large)
    assert not cursor.remaining


def test_protobuf_fields_in_order():
    cursor = ByteCursor(b"\x08\x96\x01\x12\x02hi\x08\x01", "file")
    assert cursor.protobuf() == [(1, 150), (2, b"hi"), (1, 1)]


@pytest.mark.parametrize(
    "data",
    [
        b"\x12\x05hi",
        b"\x08",
        b"\x08\x80",
        b"\x09" + bytes(8),
        b"\xff" * 11,
        b"\x08" + b"\x80" * 10 + b"\x01",
        b"\x12\xff\xff\x7f",
    ],
)
def test_damaged_protobuf_names_the_place(data):
    with pytest.raises(CorruptFileError) as caught:
        ByteCursor(data, "file", 1000).protobuf()
    assert caught.value.name == "file"
    assert 1000 <= caught.value.offset <= 1000 + len(data)


@given(st.binary(max_size=40))
def test_any_bytes_are_fields_or_corrupt(data):
    try:
        fields = ByteCursor(data, "file").protobuf()
    except CorruptFileError:
        return
    assert all(isinstance(value, (int, bytes)) for _, value in fields)


@pytest.mark.parametrize("length", [-1, 4])
def test_take_stays_inside(length):
    with pytest.raises(CorruptFileError):
        ByteCursor(b"abc", "file").take(length)
