"""What a handle of a table says about itself."""

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


@pytest.mark.parametrize("make", [Table.open, Table.create])
@pytest.mark.parametrize("path", [5, None, b"trips"])
def test_what_is_no_path_is_refused(make, path):
    told = f"a text or a Path, not {type(path).__name__}"
    with pytest.raises(InputError, match=told):
        make(path)
