"""The rewriting beside the copy, once and small: rows and index stay."""

from __future__ import annotations

from rewrite_ratio import measure


def test_a_turn_leaves_rows_and_index_as_they_were(tmp_path):
    found = measure(str(tmp_path), 300, 1)
    assert set(found["medians"]) == {"on", "off"}
