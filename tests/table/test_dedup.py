"""Of a repeated key the last counts: against a dictionary."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from keymark.table.index.dedup import last_of_each, sorted_last

KEYS = st.lists(st.text("abé𝄞", max_size=2), max_size=12)


@given(KEYS)
def test_last_of_each_keeps_the_order_of_the_rows(keys):
    expected = sorted({key: place for place, key in enumerate(keys)}.values())
    assert last_of_each(pa.array(keys, pa.string())).tolist() == expected


@given(KEYS)
def test_sorted_last_is_in_the_order_of_utf8(keys):
    last = {key: place for place, key in enumerate(keys)}
    expected = sorted(last, key=str.encode)
    distinct, positions = sorted_last(pa.array(keys, pa.string()))
    assert distinct.to_pylist() == expected
    assert positions.tolist() == [last[key] for key in expected]
