"""Log files: those of Hudi byte for byte, ours read back, damage found or passed over."""

from __future__ import annotations

from pathlib import Path

import pytest
from hfile_cases import DATA as HFILES
from hfile_cases import scanned
from hypothesis import given, settings
from hypothesis import strategies as st

from keymark.table.errors import CorruptFileError
from keymark.table.format.hfile.reader import HFileReader
from keymark.table.format.log.block import MAGIC, ROLLBACK_COMMAND, BlockType, HeaderKey
from keymark.table.format.log.deletes import decode_deletes
from keymark.table.format.log.reader import read_blocks
from keymark.table.format.log.writer import empty_delete_block, encode_block
from keymark.table.storage.storage import BytesReader

DATA = HFILES.parent / "log"
LOG_FILES = sorted(DATA.glob("*.log"))


def blocks_of(data: bytes, *, complete: bool = True):
    return read_blocks(BytesReader(name="a.log", data=data), complete=complete)


def described(blocks) -> list[tuple]:
    return [(block.type, dict(block.headers), block.content()) for block in blocks]


def read(name: str) -> bytes:
    return (DATA / name).read_bytes()


def test_init_file_is_made_byte_for_byte():
    assert empty_delete_block("00000000000000013") == read("init.log")
    assert len(empty_delete_block("00000000000000011")) == 80
    assert len(empty_delete_block("20261121165816130010")) == 83


def test_rollback_file_is_made_byte_for_byte():
    headers = {
        HeaderKey.TARGET_INSTANT_TIME: "20261121165255570",
        HeaderKey.COMMAND_BLOCK_TYPE: ROLLBACK_COMMAND,
        HeaderKey.INSTANT_TIME: "20261121165304627006",
    }
    data = encode_block(BlockType.COMMAND, headers, b"")
    assert data == read("rollback.log")
    assert len(data) == 108


@pytest.mark.parametrize("path", LOG_FILES, ids=lambda path: path.stem)
def test_blocks_of_hudi_are_encoded_byte_for_byte(path):
    """Hudi's header order is arbitrary; in the order read the bytes are the same."""
    encoded = [
        encode_block(kind, {HeaderKey(key): text for key, text in headers.items()}, content)
        for kind, headers, content in described(blocks_of(path.read_bytes()))
    ]
    assert b"".join(encoded) == path.read_bytes()


def test_puts_of_a_commit():
    (block,) = blocks_of(read("puts.log"))
    assert block.type is BlockType.HFILE_DATA
    assert block.instant_time == "20261121165235819"
    place = {"offset": block.content_offset, "length": block.content_length}
    reader = HFileReader(block.source, **place)
    assert list(scanned(reader)) == [b"key-00020", b"key-00022"]
    assert reader.file_info["schema"].decode() == block.headers[HeaderKey.SCHEMA]


def test_puts_and_deletes_of_one_commit():
    puts, deletes = blocks_of(read("puts_and_deletes.log"))
    assert (puts.type, deletes.type) == (BlockType.HFILE_DATA, BlockType.DELETE)
    assert puts.instant_time == deletes.instant_time == "20261121165445551"
    keys = decode_deletes(deletes.content(), "a.log").to_pylist()
    assert (len(keys), keys[0], keys[-1]) == (10, "key-00001", "key-00100")


def test_rollback_names_its_target():
    (block,) = blocks_of(read("rollback.log"))
    assert block.type is BlockType.COMMAND
    assert block.headers[HeaderKey.TARGET_INSTANT_TIME] == "20261121165255570"
    assert block.content() == b""


header_keys = st.sampled_from(sorted(set(HeaderKey) - {HeaderKey.COMMAND_BLOCK_TYPE}))
data_blocks = st.tuples(
    st.sampled_from(sorted(set(BlockType) - {BlockType.COMMAND})),
    st.dictionaries(header_keys, st.text(max_size=30), max_size=5),
    st.binary(max_size=200) | st.just(MAGIC * 3),
)


@settings(deadline=None)
@given(st.lists(data_blocks, min_size=1, max_size=5), st.booleans())
def test_written_blocks_are_read(blocks, complete):
    data = b"".join(encode_block(*block) for block in blocks)
    assert described(blocks_of(data, complete=complete)) == blocks


def test_header_longer_than_one_read():
    headers = {HeaderKey.INSTANT_TIME: "1", HeaderKey.SCHEMA: "s" * 100_000}
    data = encode_block(BlockType.AVRO_DATA, headers, b"rows")
    assert described(blocks_of(data + data)) == [(BlockType.AVRO_DATA, headers, b"rows")] * 2


def test_unknown_header_keys_are_kept():
    data = encode_block(BlockType.DELETE, {HeaderKey.INSTANT_TIME: "1", 8: "from 1.x"}, b"")
    (block,) = blocks_of(data)
    assert block.headers[8] == "from 1.x"


def test_block_without_instant():
    (block,) = blocks_of(encode_block(BlockType.AVRO_DATA, {}, b""))
    with pytest.raises(CorruptFileError, match="INSTANT_TIME"):
        _ = block.instant_time


class Counting:
    """A file that counts what is read of it."""

    def __init__(self, data: bytes) -> None:
        self.name, self.data, self.bytes_read = "a.log", data, 0

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, offset: int, length: int) -> bytes:
        part = self.data[offset : offset + length]
        self.bytes_read += len(part)
        return part


def test_contents_are_not_read():
    headers = {HeaderKey.INSTANT_TIME: "1"}
    source = Counting(encode_block(BlockType.HFILE_DATA, headers, bytes(10_000_000)) * 2)
    (first, _) = read_blocks(source, complete=True)
    assert source.bytes_read < 100_000
    assert first.content() == bytes(10_000_000)


@pytest.mark.parametrize("name", ["init.log", "rollback.log", "puts_and_deletes.log"])
def test_every_truncation(name):
    data = read(name)
    whole = described(blocks_of(data))
    ends = {0}
    for kind, headers, content in whole:
        ends.add(max(ends) + len(encode_block(kind, headers, content)))
    for length in range(0, len(data), 1 if len(data) < 1000 else 61):
        prefix = sum(1 for end in ends if 0 < end <= length)
        assert described(blocks_of(data[:length], complete=False)) == whole[:prefix]
        if length not in ends or not length:
            with pytest.raises(CorruptFileError):
                blocks_of(data[:length])


@pytest.mark.parametrize("name", ["init.log", "rollback.log", "puts_and_deletes.log"])
def test_every_flipped_byte(name):
    """Headers carry no checksum: their text may change, but never the shape of the file."""
    data = read(name)
    shape = [(block.content_offset, block.content_length) for block in blocks_of(data)]
    for place in range(0, len(data), 1 if len(data) < 1000 else 7):
        for mask in (0x01, 0x80):
            damaged = bytearray(data)
            damaged[place] ^= mask
            blocks_of(bytes(damaged), complete=False)
            try:
                blocks = blocks_of(bytes(damaged))
            except CorruptFileError:
                continue
            assert [(b.content_offset, b.content_length) for b in blocks] == shape


def test_damaged_block_is_passed_over():
    first, second, third = (
        encode_block(BlockType.DELETE, {HeaderKey.INSTANT_TIME: text}, MAGIC + bytes(2000))
        for text in "123"
    )
    for place in (0, 6, 14, 21, len(second) - 1):
        damaged = bytearray(second)
        damaged[place] ^= 0x40
        data = first + bytes(damaged) + third
        with pytest.raises(CorruptFileError) as caught:
            blocks_of(data)
        assert len(first) <= caught.value.offset <= len(first) + len(second)
        found = blocks_of(data, complete=False)
        assert [block.instant_time for block in found] == ["1", "3"]


@pytest.mark.parametrize("tail", [b"#HUD", MAGIC, b"\0" * 100, MAGIC + b"\x7f" * 50])
def test_torn_tail(tail):
    data = read("init.log")
    assert len(blocks_of(data + tail, complete=False)) == 1
    with pytest.raises(CorruptFileError):
        blocks_of(data + tail)


def test_magic_across_the_borders_of_a_search():
    block = read("init.log")
    for gap in range((1 << 20) - 8, (1 << 20) + 3):
        assert len(blocks_of(b"x" * gap + block, complete=False)) == 1


def test_command_and_content_must_agree():
    headers = {HeaderKey.INSTANT_TIME: "1", HeaderKey.COMMAND_BLOCK_TYPE: "0"}
    for kind, given_headers, content in (
        (BlockType.DELETE, headers, b""),
        (BlockType.COMMAND, headers, b"x"),
        (BlockType.COMMAND, {}, b""),
    ):
        with pytest.raises(CorruptFileError):
            blocks_of(encode_block(kind, given_headers, content))


def test_header_entries_are_unique():
    headers = {HeaderKey.INSTANT_TIME: "first", HeaderKey.SCHEMA: "second"}
    data = encode_block(BlockType.AVRO_DATA, headers, b"")
    schema_entry = bytes([0, 0, 0, HeaderKey.SCHEMA, 0, 0, 0, len("second")])
    twice = data.replace(schema_entry, bytes(4) + schema_entry[4:])
    with pytest.raises(CorruptFileError, match="twice"):
        blocks_of(twice)


def test_golden_files_are_there():
    assert [path.stem for path in LOG_FILES] == ["init", "puts", "puts_and_deletes", "rollback"]
    assert Path(DATA, "README.md").exists()
