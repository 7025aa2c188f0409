"""What a handle of a table says of itself."""

from __future__ import annotations

import pytest
from table_cases import create

from keymark import Table
from keymark.table.errors import InputError


def test_a_handle_says_what_it_is(tmp_path):
    table = create(tmp_path / "t")
    said = repr(table)
    assert said.startswith(f"<Table {table.config.name} at {tmp_path / 't'}: record key k, ")
    assert said.endswith(f"index {table.choice.name}>")


@pytest.mark.parametrize("path", ["nope", "s3://bucket/t"])
def test_a_path_is_opened_by_another_name(path):
    with pytest.raises(InputError, match=rf"Table\.open\('{path}'\) opens the table"):
        Table(path)
