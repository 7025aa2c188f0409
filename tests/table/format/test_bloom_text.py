"""A filter's text answers as the decoded filter does, and damage that is looked at is told."""

from __future__ import annotations

import base64

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keymark.table.errors import CorruptFileError, InputError, UnsupportedTableError
from keymark.table.format.bloom.filter import DYNAMIC, SIMPLE, BloomFilter
from keymark.table.format.bloom.text import BloomText

TYPES = st.sampled_from([SIMPLE, DYNAMIC])


def made(type_code, texts, entries=4):
    bloom = BloomFilter.create(type_code=type_code, entries=entries, fpp=1e-2, max_entries=9)
    bloom.add(pa.array(texts, pa.string()))
    return bloom


@given(
    TYPES,
    st.lists(st.text(min_size=1), max_size=20),
    st.lists(st.text(min_size=1), max_size=20),
    st.integers(1, 12),
)
def test_the_text_answers_as_the_filter(type_code, held, others, entries):
    bloom = made(type_code, held, entries)
    text = BloomText.parse(bloom.serialize(), type_code, "f")
    asked = pa.array([*held, *others], pa.string())
    assert text.contains(asked).tolist() == bloom.contains(asked).tolist()
    assert (
        text.contains(asked.slice(len(held))).tolist()
        == bloom.contains(asked[len(held) :]).tolist()
    )
    assert text.contains(asked)[: len(held)].all()


@given(TYPES, st.integers(0, 400))
def test_damage_in_what_is_looked_at_is_told(type_code, at):
    keys = pa.array([f"k{n}" for n in range(9)])
    whole = made(type_code, keys.to_pylist()).serialize()
    at %= len(whole)
    damaged = whole[:at] + b"!" + whole[at + 1 :]
    try:
        found = BloomText.parse(damaged, type_code, "f").contains(keys)
    except CorruptFileError:
        return
    # The character holds no bit of these keys.
    assert found.all()


@pytest.mark.parametrize("type_code", [SIMPLE, DYNAMIC])
def test_a_text_of_another_length_is_refused(type_code):
    body = base64.b64decode(made(type_code, ["a", "b"]).serialize())
    for end in range(len(body)):
        with pytest.raises(CorruptFileError):
            BloomText.parse(base64.b64encode(body[:end]), type_code, "f")
    with pytest.raises(CorruptFileError):
        BloomText.parse(base64.b64encode(body + b"\0"), type_code, "f")


def test_every_bit_of_a_key_is_looked_at():
    whole = made(SIMPLE, ["key"], entries=1).serialize()
    body = bytearray(base64.b64decode(whole))
    key = pa.array(["key"])
    for at in range(13, len(body)):
        for bit in range(8):
            if body[at] >> bit & 1:
                cleared = body.copy()
                cleared[at] ^= 1 << bit
                text = base64.b64encode(bytes(cleared))
                assert not BloomText.parse(text, SIMPLE, "f").contains(key)[0]


def test_what_cannot_be_asked_is_refused():
    text = made(SIMPLE, ["a"]).serialize()
    with pytest.raises(UnsupportedTableError, match="unsupported type"):
        BloomText.parse(text, "RIBBON", "f")
    with pytest.raises(CorruptFileError):
        BloomText.parse(text, DYNAMIC, "f")
    with pytest.raises(CorruptFileError, match="is not Base64"):
        BloomText.parse(b"!" + text[1:], SIMPLE, "f")
    with pytest.raises(InputError):
        BloomText.parse(text, SIMPLE, "f").contains(pa.array(["a", ""]))
