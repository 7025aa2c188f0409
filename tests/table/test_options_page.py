"""docs/options.md has every option of a table, with its default."""

from __future__ import annotations

import re
from pathlib import Path

from keymark.table.properties.options import (
    DUP_POLICY,
    KEY_GENERATOR_TYPE,
    OVERWRITE_PAYLOAD,
    PAYLOAD_CLASS,
    defaults,
    index_options,
)

_PAGE = (Path(__file__).parents[2] / "docs" / "options.md").read_text(encoding="utf-8")
_ROWS = {name: text.strip() for name, text in re.findall(r"\| `([a-z0-9._]+)` \| ([^|]*)\|", _PAGE)}


def test_every_option_is_on_the_page_with_its_default():
    # Those of a single index are on the page of indexes.
    known = {name: text for name, text in defaults().items() if name not in index_options()}
    assert _ROWS.keys() == known.keys()
    # Its values have a table of their own.
    assert known.pop(PAYLOAD_CLASS) == OVERWRITE_PAYLOAD
    assert f"| `{OVERWRITE_PAYLOAD}` (default) |" in _PAGE
    fixed = {name: text for name, text in known.items() if text is not None}
    assert {name: _ROWS[name] for name in fixed} == fixed


def test_a_default_that_depends_on_the_table_is_put_into_words():
    assert _ROWS[DUP_POLICY] == "`fail` if the index is `record`, else `none`"
    assert _ROWS[KEY_GENERATOR_TYPE] == "by the columns"
