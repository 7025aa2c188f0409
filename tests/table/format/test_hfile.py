"""What is written is read back, for every shape of key and value; bad keys are refused."""

from __future__ import annotations

import dataclasses
import random
from itertools import pairwise

import pyarrow as pa
import pytest
from hfile_cases import SCHEMA, binary, looked_up, open_bytes, scanned
from hypothesis import given, settings
from hypothesis import strategies as st

from keymark.table.errors import InputError
from keymark.table.format.hfile.block import BYTES_PER_CHECKSUM, HEADER_SIZE, BlockKind, BlockReader
from keymark.table.format.hfile.index import read_root
from keymark.table.format.hfile.trailer import TRAILER_SIZE, read_trailer
from keymark.table.format.hfile.writer import write_hfile
from keymark.table.storage.storage import BytesReader

unhurried = settings(deadline=None, max_examples=60)

astral = st.text(st.sampled_from("aé中\uff01\ue000😀"), min_size=1, max_size=6)
edge_lengths = st.sampled_from([1, 114, 115, 116, 127, 128, 255, 256, 32767])
long_keys = st.builds(lambda tail, size: tail.rjust(size, b"k")[:size], st.binary(), edge_lengths)
keys = st.one_of(
    st.binary(min_size=1, max_size=20), astral.map(lambda text: text.encode()), long_keys
)
entries = st.dictionaries(keys, st.binary(max_size=300), max_size=40)


def written(rows: dict[bytes, bytes], **options) -> bytes:
    ordered = dict(sorted(rows.items()))
    return write_hfile(binary(ordered), binary(ordered.values()), schema=SCHEMA, **options)


@unhurried
@given(entries, st.sampled_from([1, 64, 1000, 1 << 20]))
def test_written_entries_are_scanned_and_found(rows, block_size):
    data = written(rows, block_size=block_size)
    reader = open_bytes(data)
    assert reader.entry_count == len(rows)
    assert list(scanned(reader).items()) == sorted(rows.items())
    assert looked_up(reader, rows) == rows


@unhurried
@given(entries, st.lists(keys, max_size=30))
def test_lookup_is_a_dict_lookup(rows, asked):
    reader = open_bytes(written(rows, block_size=500))
    asked = set(asked) | set(list(rows)[::3])
    assert looked_up(reader, asked) == {key: rows[key] for key in asked if key in rows}


@unhurried
@given(entries, st.lists(keys, max_size=30), st.integers(1, 6))
def test_parts_of_the_keys_find_what_all_of_them_find_and_share_no_block(rows, asked, parts):
    data = written(rows, block_size=200)
    asked = sorted(set(asked) | set(list(rows)[::2]))
    at_once = open_bytes(data)
    wanted = looked_up(at_once, asked)
    cuts = open_bytes(data).cuts(binary(asked), parts)
    assert len(cuts) < parts
    assert [0, *cuts, len(asked)] == sorted([0, *cuts, len(asked)])
    found, blocks = {}, []
    for start, end in pairwise([0, *cuts, len(asked)]):
        reader = open_bytes(data)
        found |= looked_up(reader, asked[start:end])
        blocks.append(reader.blocks_decoded)
    assert found == wanted
    assert sum(blocks) == at_once.blocks_decoded
    assert max(blocks) - min(blocks) <= 1


@given(st.lists(astral, unique=True, max_size=20))
@settings(deadline=None, max_examples=30)
def test_text_of_any_arrow_type_sorts_by_utf8(texts):
    texts.sort(key=lambda text: text.encode())
    values = binary(text.encode() for text in texts)
    files = {
        write_hfile(pa.array(texts, kind), values, schema=SCHEMA)
        for kind in (pa.string(), pa.large_string())
    }
    files.add(write_hfile(binary(t.encode() for t in texts), values, schema=SCHEMA))
    assert len(files) == 1
    positions, found = open_bytes(files.pop()).lookup(pa.array(texts, pa.large_string()))
    assert positions.tolist() == list(range(len(texts)))
    assert found.equals(values)


def test_slices_of_arrays_are_read_at_their_offset():
    column = binary(b"%03d" % number for number in range(50))
    part = column.slice(10, 5)
    reader = open_bytes(write_hfile(part, part, schema=SCHEMA))
    positions, values = reader.lookup(column.slice(8, 5))
    assert positions.tolist() == [2, 3, 4]
    assert values.to_pylist() == [b"010", b"011", b"012"]


@pytest.mark.parametrize(
    "column",
    [
        [b""],
        [b"k" * 32768],
        [b"a", b"a"],
        [b"b", b"a"],
        [b"ab", b"a"],
        [b"\xff", b"\x01"],
        [b"a", None],
    ],
)
def test_bad_keys_are_refused(column):
    with pytest.raises(InputError):
        write_hfile(binary(column), binary([b"v"] * len(column)), schema=SCHEMA)


def test_null_values_are_refused():
    with pytest.raises(InputError):
        write_hfile(binary([b"a"]), binary([None]), schema=SCHEMA)


def test_values_must_match_keys():
    with pytest.raises(ValueError, match="1 keys with 2 values"):
        write_hfile(binary([b"a"]), binary([b"", b""]), schema=SCHEMA)


def test_only_strings_are_keys():
    with pytest.raises(TypeError):
        write_hfile(pa.array([1]), binary([b""]), schema=SCHEMA)


@pytest.mark.parametrize("asked", [[b"b", b"a"], [b"a", b"a"], [b"aaaaaaaab", b"aaaaaaaa"]])
def test_lookup_of_unsorted_keys_is_refused(asked):
    with pytest.raises(ValueError, match="sorted"):
        open_bytes(written({b"a": b"1"})).lookup(binary(asked))


def test_lookup_of_null_is_refused():
    with pytest.raises(InputError):
        open_bytes(written({b"a": b"1"})).lookup(binary([None]))


def test_only_blocks_that_can_hold_a_key_are_decoded():
    rows = {b"%05d" % number: b"v" * 100 for number in range(0, 2000, 2)}
    reader = open_bytes(written(rows, block_size=4096))
    blocks = len(list(reader.scan()))
    assert reader.blocks_decoded == blocks > 20
    for asked, decoded in (([b"00500"], 1), ([b"00501"], 1), ([b"0", b"/"], 0), ([b"9"], 1)):
        reader = open_bytes(written(rows, block_size=4096))
        looked_up(reader, asked)
        assert reader.blocks_decoded == decoded
    reader = open_bytes(written(rows, block_size=4096))
    assert looked_up(reader, rows) == rows
    assert reader.blocks_decoded == blocks
    assert looked_up(reader, []) == {}
    assert reader.blocks_decoded == blocks


def test_a_file_may_lie_inside_another():
    data = written({b"a": b"1", b"b": b"2"})
    reader = open_bytes(b"before" + data + b"behind", offset=6, length=len(data))
    assert scanned(reader) == looked_up(reader, [b"a", b"b"]) == {b"a": b"1", b"b": b"2"}


def test_empty_file_as_hbase_writes_it():
    data = written({})
    trailer = read_trailer(BlockReader(BytesReader(name="a", data=data), 0, None))
    assert (trailer.first_data_block_offset, trailer.last_data_block_offset) == (-1, -1)
    assert (trailer.entry_count, trailer.data_index_count) == (0, 0)
    reader = open_bytes(data)
    assert scanned(reader) == looked_up(reader, [b"a"]) == {}
    assert "hfile.LASTKEY" not in reader.file_info


def test_layout_of_a_base_file():
    """Offsets, previous offsets and counts, followed from block to block."""
    rows = {b"%04d" % number: b"v" * 90 for number in range(100)}
    own = {"minRecordKey": b"0000", "maxRecordKey": b"0099"}
    data = written(rows, block_size=2000, bloom=b"bits", file_info=own)
    blocks = BlockReader(BytesReader(name="a", data=data), 0, None)
    trailer = read_trailer(blocks)
    at, seen, previous = 0, [], []
    while at < len(data) - TRAILER_SIZE:
        header = data[at : at + HEADER_SIZE]
        seen.append(BlockKind(header[:8]))
        previous.append((at, int.from_bytes(header[16:24], "big", signed=True)))
        blocks.read(at, seen[-1])
        at += HEADER_SIZE + int.from_bytes(header[8:12], "big")
    assert at == len(data) - TRAILER_SIZE
    count = trailer.data_index_count
    assert seen[:count] == [BlockKind.DATA] * count
    assert seen[count:] == [
        BlockKind.META,
        BlockKind.ROOT_INDEX,
        BlockKind.ROOT_INDEX,
        BlockKind.FILE_INFO,
    ]
    offsets = [offset for offset, _ in previous]
    links = [link for _, link in previous]
    assert links == [-1, *offsets[: count - 1], -1, -1, offsets[count + 1], -1]
    assert trailer.last_data_block_offset == offsets[count - 1]
    assert trailer.load_on_open_offset == offsets[count + 1]
    assert trailer.file_info_offset == offsets[-1]
    assert read_root(blocks, trailer).entries[0].tolist() == offsets[:count]
    assert dict(open_bytes(data).file_info).items() >= own.items()


def test_checksums_cover_chunks_of_a_large_block():
    incompressible = random.Random(1).randbytes(40000)
    data = written({b"a": incompressible})
    header = data[:HEADER_SIZE]
    on_disk = int.from_bytes(header[8:12], "big")
    covered = int.from_bytes(header[29:33], "big")
    assert covered > 2 * BYTES_PER_CHECKSUM
    assert HEADER_SIZE + on_disk - covered == 4 * (covered // BYTES_PER_CHECKSUM + 1)
    assert scanned(open_bytes(data)) == {b"a": incompressible}


def test_trailer_fields_survive():
    data = written({b"a": b"1"})
    trailer = read_trailer(BlockReader(BytesReader(name="a", data=data), 0, None))
    assert trailer.encode() == data[-TRAILER_SIZE:]
    assert trailer.encode() != dataclasses.replace(trailer, entry_count=2).encode()
