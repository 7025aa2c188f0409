"""The streaming merge of a file group's sources equals a dict that they are applied to in turn."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keymark.table.errors import CorruptFileError
from keymark.table.format.hfile.reader import HFileReader
from keymark.table.format.hfile.writer import write_hfile
from keymark.table.metadata.merge import merged
from keymark.table.storage.storage import BytesReader

# Few letters, so that sources share keys; some keys are prefixes, some differ behind eight bytes.
keys = st.text("ab\x7fü😀", min_size=1, max_size=4) | st.integers(0, 30).map("common-{:03d}".format)
puts = st.dictionaries(keys, st.binary(max_size=30), max_size=40)
deletes = st.lists(keys, max_size=15)


def hfile(rows: dict[str, bytes], block_size: int = 64) -> HFileReader:
    ordered = sorted((key.encode(), value) for key, value in rows.items())
    columns = [pa.array(column, pa.binary()) for column in zip(*ordered, strict=True)]
    data = write_hfile(
        *(columns or [pa.array([], pa.binary())] * 2), schema='"bytes"', block_size=block_size
    )
    return HFileReader(BytesReader(name="a.hfile", data=data))


def opened(update, block_size: int = 64):
    if isinstance(update, dict):
        return hfile(update, block_size)
    return pa.array(update, pa.string())


def applied(updates) -> dict[bytes, bytes]:
    model: dict[str, bytes] = {}
    for update in updates:
        if isinstance(update, dict):
            model.update(update)
        else:
            for key in update:
                model.pop(key, None)
    return {key.encode(): value for key, value in model.items()}


def collected(sources) -> list[tuple[bytes, bytes]]:
    cells = []
    for batch_keys, batch_values in merged(sources):
        assert batch_keys.type == batch_values.type == pa.binary()
        assert len(batch_keys) == len(batch_values) > 0
        cells += zip(batch_keys.to_pylist(), batch_values.to_pylist(), strict=True)
    return cells


@settings(deadline=None, max_examples=200)
@given(st.lists(puts | deletes, max_size=8), st.sampled_from([1, 64, 1 << 20]))
def test_merge_is_a_dict_that_is_updated(oldest_first, block_size):
    sources = [opened(update, block_size) for update in reversed(oldest_first)]
    assert collected(sources) == sorted(applied(oldest_first).items())


def test_no_source_has_no_cell():
    assert collected([]) == []
    assert collected([hfile({}), pa.array([], pa.string())]) == []


def test_a_delete_counts_for_older_sources_only():
    older, newer = hfile({"a": b"1", "b": b"1"}), hfile({"a": b"2"})
    gone = pa.array(["b", "a", "a"])
    assert collected([newer, gone, older]) == [(b"a", b"2")]
    assert collected([gone, newer, older]) == []


def test_blocks_are_read_as_the_merge_comes_to_them():
    """No more than one block of each source is ahead of what was handed out."""
    rows = {f"{number:04d}": b"v" * 80 for number in range(400)}
    base, log = hfile(rows, 1000), hfile(dict.fromkeys(rows, b"new"), 1000)
    batches = merged([log, base])
    assert base.blocks_decoded == log.blocks_decoded == 0
    next(batches)
    assert base.blocks_decoded == log.blocks_decoded == 1
    count = sum(1 for _ in batches)
    assert base.blocks_decoded + log.blocks_decoded > 50
    assert count < base.blocks_decoded + log.blocks_decoded


def test_damage_of_any_source_ends_the_merge():
    rows = {f"{number:04d}": b"v" * 80 for number in range(100)}
    whole = hfile(rows, 1000)
    columns = [pa.array([key.encode() for key in rows], pa.binary()), pa.array(rows.values())]
    data = bytearray(write_hfile(*columns, schema='"bytes"', block_size=1000))
    data[len(data) // 4] ^= 1
    damaged = HFileReader(BytesReader(name="a.hfile", data=bytes(data)))
    for sources in ([whole, damaged], [damaged, whole]):
        with pytest.raises(CorruptFileError):
            collected(sources)
