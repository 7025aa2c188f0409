"""Flat Avro records read by the field, against the reader that goes record by record."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keymark.table.format.avro.columns import (
    BOOLEAN,
    BYTES,
    FIXED4,
    FIXED8,
    LONG,
    NULL,
    REFUSED,
    read_records,
)
from keymark.table.format.avro.records import encode_bytes, encode_long
from keymark.table.format.hashes.hashing import string_buffers

SHAPE = ((NULL, BYTES), (LONG,), (NULL, LONG, BOOLEAN, FIXED4, FIXED8), (BYTES,))
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def record(text, number, choice, tail):
    branch, value = choice
    kinds = {0: b"", 1: value, 2: value, 3: value, 4: value}
    first = encode_long(0) if text is None else encode_long(1) + encode_bytes(text)
    return first + encode_long(number) + encode_long(branch) + kinds[branch] + encode_bytes(tail)


choices = st.one_of(
    st.just((0, b"")),
    INT64.map(lambda number: (1, encode_long(number))),
    st.booleans().map(lambda flag: (2, bytes([flag]))),
    st.binary(min_size=4, max_size=4).map(lambda raw: (3, raw)),
    st.binary(min_size=8, max_size=8).map(lambda raw: (4, raw)),
)
records = st.lists(
    st.tuples(st.none() | st.binary(max_size=200), INT64, choices, st.binary(max_size=9)),
    max_size=20,
)


def read(values):
    array = pa.array(values, pa.binary())
    good, fields = read_records(array, SHAPE)
    return good.tolist(), fields, string_buffers(array)[1].tobytes()


@given(records)
def test_round_trip(rows):
    good, fields, data = read([record(*row) for row in rows])
    assert all(good)
    for (text, number, (branch, raw), tail), found in zip(rows, fields.tolist(), strict=True):
        (has, at, size), (_, held, _), (kind, first, second), (_, tail_at, tail_size) = found
        assert (None if not has else data[at : at + size]) == text
        assert held == number
        assert kind == branch
        if branch == 1:
            assert encode_long(first) == raw
        elif branch == 2:
            assert bytes([first]) == raw
        elif branch:
            assert data[first : first + second] == raw
        assert data[tail_at : tail_at + tail_size] == tail


@given(records.filter(bool), st.data())
def test_cut_or_changed_records_stay_in_their_bytes(rows, data):
    values = [record(*row) for row in rows]
    place = data.draw(st.integers(0, len(values) - 1))
    whole = values[place]
    cut = data.draw(st.integers(0, len(whole) - 1))
    flipped = bytearray(whole)
    flipped[cut] ^= data.draw(st.integers(1, 255))
    values[place] = whole[:cut]
    good, _, _ = read(values)
    assert good == [row != place for row in range(len(values))]
    values[place] = bytes(flipped)
    good, fields, _ = read(values)
    end = sum(map(len, values))
    for row, one in enumerate(good):
        assert one or row == place
        if one:
            at, size = fields[row, 3, 1:].tolist()
            assert 0 <= at <= at + size <= end


@pytest.mark.parametrize(
    "value",
    [
        b"",
        encode_long(2),  # no such branch
        encode_long(-1),
        encode_long(0) + b"\xff" * 10,  # a number without end
        encode_long(1) + encode_long(-1),  # a negative length
        encode_long(1) + encode_long(1 << 62),
        encode_long(0) + encode_long(7) + encode_long(2) + b"\x02" + encode_bytes(b""),
    ],
)
def test_other_shapes(value):
    good, _, _ = read([record(None, 1, (0, b""), b""), value])
    assert good == [True, False]


def test_refused_branches_and_slices():
    array = pa.array([b"\x00", b"\x02", b"\x00"], pa.binary())
    good, fields = read_records(array, ((NULL, REFUSED),))
    assert good.tolist() == [True, False, True]
    assert fields.shape == (3, 1, 3)
    good, _ = read_records(array.slice(1, 1), ((NULL, REFUSED),))
    assert good.tolist() == [False]
    good, _ = read_records(array.slice(0, 0), ((NULL, REFUSED),))
    assert good.dtype == np.bool_
    assert not len(good)
