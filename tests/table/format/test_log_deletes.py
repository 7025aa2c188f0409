from __future__ import annotations

import pytest
from hfile_cases import DATA
from hypothesis import given, settings
from hypothesis import strategies as st

from table.errors import CorruptFileError, UnsupportedTableError
from table.format.coding import encode_int32
from table.format.log.deletes import decode_deletes, encode_deletes
from table.format.log.reader import read_blocks
from table.storage import BytesReader


def content(records: bytes, version: int = 3) -> bytes:
    return encode_int32(version) + encode_int32(len(records)) + records


def test_one_key_byte_for_byte():
    record = b"\x02\x12key-00011\x02\x18record_index\x04\x00"
    assert encode_deletes(["key-00011"], "record_index") == content(b"\x02" + record + b"\x00")


def test_no_key_byte_for_byte():
    assert encode_deletes([], "record_index") == content(b"\x00")
    assert len(encode_deletes([], "")) == 9


def test_deletes_of_hudi_byte_for_byte():
    data = (DATA.parent / "log" / "puts_and_deletes.log").read_bytes()
    block = read_blocks(BytesReader(name="a.log", data=data), complete=True)[-1]
    keys = decode_deletes(block.content(), "a.log")
    assert encode_deletes(keys, "record_index") == block.content()


@settings(deadline=None)
@given(st.lists(st.text(max_size=20)), st.sampled_from(["record_index", "", "a/ü=😀"]))
def test_keys_survive(keys, partition):
    assert decode_deletes(encode_deletes(keys, partition), "a.log") == keys


def test_other_ordering_values_are_skipped():
    long_value = b"\x02\x02\x02a\x00\x06\xfe\x01\x00"
    string_value = b"\x02\x02\x02b\x00\x0e\x04hi\x00"
    no_value = b"\x02\x02\x02c\x00\x00\x00"
    for records, key in ((long_value, "a"), (string_value, "b"), (no_value, "c")):
        assert decode_deletes(content(records), "a.log") == [key]


@pytest.mark.parametrize("version", [1, 2])
def test_java_objects_are_refused(version):
    with pytest.raises(UnsupportedTableError, match=f"version {version}"):
        decode_deletes(content(b"\x00", version), "a.log")


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\0\0\0\3",
        content(b"\x00", 0),
        content(b"\x00", 4),
        content(b"\x00") + b"\x00",
        content(b"\x00\x00"),
        content(b""),
        content(b"\x02\x00\x00\x00\x00"),
        content(b"\x02\x02\x02a\x00\x40\x00"),
        content(b"\x02\x02\x02\xff\x00\x00\x00"),
        content(b"\x02\x02\xfe\xff\xff\xff\x0fa\x00\x00\x00"),
        content(b"\x02\x02\x01a\x00\x00\x00"),
        content(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        content(b"\x01\x01"),
        encode_int32(3) + encode_int32(-1),
        encode_int32(3) + encode_int32(2**31 - 1) + b"\x00",
    ],
    ids=range(16),
)
def test_damage_is_named(damaged):
    with pytest.raises(CorruptFileError):
        decode_deletes(damaged, "a.log")


def test_every_truncation_and_flip():
    data = encode_deletes(["key-1", "clé", "😀"], "record_index")
    for length in range(len(data)):
        with pytest.raises(CorruptFileError):
            decode_deletes(data[:length], "a.log")
    for place in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[place] ^= 1 << bit
            try:
                decode_deletes(bytes(damaged), "a.log")
            except (CorruptFileError, UnsupportedTableError):
                continue


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes(records):
    try:
        keys = decode_deletes(content(records), "a.log")
    except CorruptFileError:
        return
    assert all(isinstance(key, str) for key in keys)
