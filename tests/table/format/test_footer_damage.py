"""Flipped bits in footers: Arrow must never end the process, whatever a footer says."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest

from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet.base_file import (
    BaseFileOptions,
    FooterOptions,
    read_base_file,
    read_footer,
    write_base_file,
)
from keymark.table.storage.storage import BytesReader

ROWS = pa.table(
    {
        "_hoodie_record_key": ["a", "b"],
        "n": [[1, 2], [3]],
        "x": [1.5, None],
        "s": [{"t": "u"}, None],
    }
)
SMALL = BaseFileOptions(footer=FooterOptions(bloom_entries=20, bloom_max_entries=100))


def read(data: bytes) -> pa.Table:
    """All that the package asks of a base file."""
    source = BytesReader(name="f", data=data)
    metadata = read_footer(source).metadata
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            statistics = metadata.row_group(group).column(column).statistics
            if statistics is not None and statistics.has_min_max:
                assert statistics.min_raw is not None
    return read_base_file(source)


@pytest.mark.parametrize("path", [None, "f"], ids=["as others write it", "with checksums"])
def test_flipped_bits_of_a_footer(path):
    data = bytes(write_base_file(ROWS, options=SMALL, path=path))
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = _flip(data, start, sealed=path is not None)
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def _flip(data: bytes, start: int, *, sealed: bool) -> int:
    """0 if each flip is refused, or with checksums reads right."""
    for bit in range(start * 8, (len(data) - 8) * 8, 3):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            found = read(bytes(changed))
        except CorruptFileError:
            continue
        # Without its entries a footer looks like that of another writer, and reads right.
        if sealed and not found.equals(ROWS):
            return 2
    return 0
