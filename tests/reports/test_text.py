from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keymark.reports.render.text import clean, listed, markdown, spreadsheet


def test_terminal_sequences_vanish():
    assert clean("a\x1b[31mred\x1b[0m\x1b]0;title\x07b") == "aredb"


def test_what_hides_is_shown():
    assert clean("a\u202eb\u200bc\x00d") == "a\\u202eb\\u200bc\\u0000d"
    assert clean("\ud800") == "\\ud800"


def test_lines_become_one_and_long_ones_end():
    assert clean("a\nb\tc") == "a b c"
    assert clean("x" * 1000) == "x" * 299 + "…"


@given(st.text(st.characters(exclude_categories=[])))
def test_nothing_unshowable_passes(text):
    shown = clean(text)
    assert len(shown) <= 300
    assert all(unicodedata.category(letter)[0] not in "CZ" or letter == " " or
               unicodedata.category(letter) == "Zs" for letter in shown)  # fmt: skip
    shown.encode("utf-8")


def test_markdown_cannot_break_out_of_a_cell():
    hostile = "a|b <script>alert(1)</script> [x](javascript:1) `c` *d* _e_ global_simple"
    safe = markdown(hostile)
    assert "|" not in safe.replace("\\|", "")
    assert "<" not in safe
    assert "\\[x\\]" in safe
    assert "\\`c\\`" in safe
    assert "global_simple" in safe


@pytest.mark.parametrize("start", ["=", "+", "-", "@"])
def test_formulas_are_disarmed(start):
    assert spreadsheet(f"{start}1+1") == f"'{start}1+1"
    assert spreadsheet(f"a{start}") == f"a{start}"


def test_lists_read_as_sentences():
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(["a", "b"]) == "a and b"
    assert listed(["a", "b", "c"]) == "a, b and c"
