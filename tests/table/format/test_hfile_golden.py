"""HFiles that Hudi's own writers made are read entry by entry."""

from __future__ import annotations

import pytest
from hfile_cases import (
    BASE_FILE,
    SCHEMA,
    SYNTHETIC,
    binary,
    golden_entries,
    golden_key,
    looked_up,
    open_bytes,
    scanned,
)

from keymark.table.format.hfile.block import BlockKind, BlockReader
from keymark.table.format.hfile.index import read_root
from keymark.table.format.hfile.trailer import read_trailer
from keymark.table.format.hfile.writer import write_hfile
from keymark.table.storage.storage import BytesReader

by_name = pytest.mark.parametrize(
    ("path", "count"), SYNTHETIC.items(), ids=[path.stem for path in SYNTHETIC]
)


def parts(data: bytes):
    blocks = BlockReader(BytesReader(name="a.hfile", data=data), 0, None)
    trailer = read_trailer(blocks)
    blocks.codec = trailer.codec
    return blocks, trailer


@by_name
def test_scan_gives_every_entry_in_order(path, count):
    reader = open_bytes(path.read_bytes())
    assert reader.entry_count == count
    assert list(scanned(reader).items()) == list(golden_entries(count).items())
    assert reader.file_info["schema"] == SCHEMA.encode()


@by_name
def test_lookup_tells_present_from_absent(path, count):
    reader = open_bytes(path.read_bytes())
    asked = [golden_key(number) for number in range(7 * count + 20)] + [b"a", b"key-", b"z"]
    assert looked_up(reader, asked) == golden_entries(count)


@by_name
def test_one_key_decodes_one_block(path, count):
    for number in range(0, count, 13):
        reader = open_bytes(path.read_bytes())
        assert looked_up(reader, [golden_key(7 * number)]) == {
            golden_key(7 * number): b"value %d" % number
        }
        assert reader.blocks_decoded == 1


@by_name
def test_index_rows_that_are_no_keys_are_absent(path, count):
    """HBase stores a row between two blocks that is no key of either."""
    data = path.read_bytes()
    root = read_root(*parts(data))
    rows = [root.row(entry) for entry in range(root.entries.shape[1])]
    expected = golden_entries(count)
    around = [row + suffix for row in rows for suffix in (b"", b"\x00", b"0")]
    found = looked_up(open_bytes(data), around)
    assert found == {row: expected[row] for row in around if row in expected}
    if "hbase_1024_GZ_100" in path.stem:
        assert set(rows) - set(expected)


def test_levels_of_index():
    levels = {path.stem: parts(path.read_bytes())[1].index_levels for path in SYNTHETIC}
    assert levels.pop("hudi_0.15.0_hbase_256_GZ_150_index_96") == 4
    assert set(levels.values()) == {1}


def test_blocks_are_cut_where_hbase_cuts_them():
    path = next(path for path in SYNTHETIC if path.stem == "hudi_0.15.0_hbase_1024_GZ_100")
    theirs = path.read_bytes()
    entries = golden_entries(100)
    ours = write_hfile(binary(entries), binary(entries.values()), schema=SCHEMA, block_size=1024)
    sizes = []
    trailers = []
    for data in (theirs, ours):
        blocks, trailer = parts(data)
        root = read_root(blocks, trailer)
        trailers.append(trailer)
        sizes.append([len(blocks.read(int(at), BlockKind.DATA)) for at in root.entries[0].tolist()])
    assert sizes[0] == sizes[1] == [1024, 1034, 1034, 1034, 564]
    assert trailers[0].total_uncompressed_bytes == trailers[1].total_uncompressed_bytes == 9241
    assert dict(open_bytes(ours).file_info) == dict(open_bytes(theirs).file_info)


def test_compacted_shard_of_a_record_index():
    reader = open_bytes(BASE_FILE.read_bytes())
    entries = scanned(reader)
    assert len(entries) == reader.entry_count == 31
    assert reader.file_info["minRecordKey"] == min(entries) == b"key-00001"
    assert reader.file_info["maxRecordKey"] == max(entries) == b"key-00104"
    assert reader.file_info["bloomFilterTypeCode"] == b"DYNAMIC_V0"
    written_as = b"record-index-0001-0_6-238-704_20261121165235819001.hfile"
    assert all(written_as in value for value in entries.values())


def test_our_file_of_the_same_shard_agrees():
    """Same schema, bloom and names: everything but compressed sizes and index rows is equal."""
    data = BASE_FILE.read_bytes()
    reader = open_bytes(data)
    blocks, trailer = parts(data)
    bloom = blocks.read(trailer.last_data_block_offset, BlockKind.DATA)
    info = reader.file_info
    own = {name: info[name] for name in ("minRecordKey", "maxRecordKey", "bloomFilterTypeCode")}
    entries = scanned(reader)
    ours = write_hfile(
        binary(entries),
        binary(entries.values()),
        schema=info["schema"].decode(),
        bloom=_bloom(data),
        file_info=own,
    )
    assert parts(ours)[0].read(0, BlockKind.DATA) == bloom
    assert dict(open_bytes(ours).file_info) == dict(info)
    assert _bloom(ours) == _bloom(data)
    ours_trailer = parts(ours)[1]
    assert ours_trailer.total_uncompressed_bytes == trailer.total_uncompressed_bytes
    assert ours_trailer.meta_index_count == trailer.meta_index_count == 1


def _bloom(data: bytes) -> bytes:
    return parts(data)[0].read(data.index(BlockKind.META.value), BlockKind.META)
