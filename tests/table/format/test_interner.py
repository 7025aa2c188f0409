"""Numbers of distinct strings, against a dict, over several batches and through growth."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keymark.table.format.hashes.hashing import string_buffers
from keymark.table.format.kernels import interner as module
from keymark.table.format.kernels.interner import Interner


def number(distinct, strings):
    offsets, data = string_buffers(pa.array(strings, pa.binary()))
    return distinct.number(data, offsets[:-1], np.diff(offsets)).tolist()


@given(st.lists(st.lists(st.binary(max_size=40), max_size=40), max_size=5))
def test_numbers_follow_the_order_of_coming(batches):
    distinct, model = Interner(), {}
    for strings in batches:
        wanted = [model.setdefault(string, len(model)) for string in strings]
        assert number(distinct, strings) == wanted
    assert distinct.values == list(model)


def test_tables_grow():
    distinct = Interner()
    strings = [b"%d" % n * (n % 7 + 1) for n in range(20_000)]
    assert number(distinct, strings) == list(range(20_000))
    assert number(distinct, strings[::-1]) == list(range(20_000))[::-1]
    assert distinct.values == strings


@pytest.mark.parametrize("length", [1, 7, 8, 9, 15, 16, 17, 31])
def test_every_byte_counts(length):
    strings = [bytes(length)]
    for place in range(length):
        changed = bytearray(length)
        changed[place] = 1
        strings.append(bytes(changed))
    assert number(Interner(), strings) == list(range(length + 1))


def test_equal_hashes_are_told_apart_by_their_bytes(monkeypatch):
    """The comparison itself, without the help of hashes."""
    same = module._same.py_func
    monkeypatch.setattr(module, "load_word", module.load_word.py_func)
    text = np.frombuffer(b"abcdefghijklmnopq", np.uint8)
    for length in (3, 8, 12, 16):
        data = np.frombuffer(b"--" + text[:length].tobytes(), np.uint8)
        assert same(data, 2, text, (0, length))
        for place in range(length):
            wrong = data.copy()
            wrong[2 + place] ^= 1
            assert not same(wrong, 2, text, (0, length))
