"""Damaged files end in CorruptFileError or give the same entries: never others, never a crash."""

from __future__ import annotations

import gzip
import struct
import tracemalloc

import pytest
from hfile_cases import (
    DATA,
    SCHEMA,
    SYNTHETIC,
    binary,
    golden_entries,
    looked_up,
    open_bytes,
    scanned,
)

from keymark.table.errors import CorruptFileError, TableError, UnsupportedTableError
from keymark.table.format.hashes.checksum import chunk_checksums
from keymark.table.format.hfile.block import (
    BYTES_PER_CHECKSUM,
    HEADER_SIZE,
    BlockKind,
    BlockReader,
    Codec,
    compress_block,
    encode_block,
)
from keymark.table.format.hfile.file_info import encode_file_info
from keymark.table.format.hfile.index import encode_entry
from keymark.table.format.hfile.trailer import TRAILER_SIZE, Trailer, read_trailer
from keymark.table.format.hfile.writer import write_hfile
from keymark.table.storage.storage import BytesReader

FLIPS = (0x01, 0x10, 0x80)
NONE_FILE = DATA / "hudi_0.15.0_hbase_512_NONE_40.hfile"
DEEP_FILE = DATA / "hudi_0.15.0_hbase_256_GZ_150_index_96.hfile"
KEY_SUFFIX = b"\x00\x7f" + b"\xff" * 7 + b"\x04"


def source(data: bytes) -> BytesReader:
    return BytesReader(name="a.hfile", data=data)


def small_file() -> tuple[bytes, dict[bytes, bytes]]:
    rows = {b"key-%02d" % number: b"value %d" % number for number in range(12)}
    data = write_hfile(binary(rows), binary(rows.values()), schema=SCHEMA, block_size=200)
    return data, rows


def check_harmless(data: bytes, rows: dict[bytes, bytes], refusals=CorruptFileError) -> bool:
    """Whether the file reads as before; any other outcome than a refusal fails."""
    asked = [*rows, *(key + b"x" for key in rows)]
    outcomes = []
    for read in (scanned, lambda reader: looked_up(reader, asked)):
        try:
            found = read(open_bytes(data))
        except refusals:
            outcomes.append(False)
        else:
            assert found == rows
            outcomes.append(True)
    return all(outcomes)


def trailer_end(data: bytes) -> int:
    """Where the trailer's zero padding starts."""
    return len(data) - TRAILER_SIZE + len(data[-TRAILER_SIZE:-4].rstrip(b"\0"))


def places(data: bytes, step: int = 1) -> list[int]:
    """Every byte that means something, some of the padding, the version."""
    start = trailer_end(data)
    return [*range(0, start, step), *range(start, len(data), 251), *range(len(data) - 4, len(data))]


def flipped(data: bytes, place: int, mask: int) -> bytes:
    damaged = bytearray(data)
    damaged[place] ^= mask
    return bytes(damaged)


def test_every_flipped_byte():
    data, rows = small_file()
    outcomes = [
        check_harmless(flipped(data, place, mask), rows) for place in places(data) for mask in FLIPS
    ]
    assert outcomes.count(False) > 0.8 * len(FLIPS) * trailer_end(data)


@pytest.mark.parametrize(
    "path", [DEEP_FILE, NONE_FILE, *list(SYNTHETIC)[-2:]], ids=lambda p: p.stem
)
def test_flipped_bytes_of_files_by_others(path):
    """Where there is neither gzip nor checksum (1.1.1, NONE), a value's bytes go unguarded."""
    data, rows = path.read_bytes(), golden_entries(SYNTHETIC[path])
    unguarded = "native" in path.stem and "NONE" in path.stem
    for place in places(data, 17):
        damaged = flipped(data, place, 0x04)
        if not unguarded:
            check_harmless(damaged, rows, (CorruptFileError, UnsupportedTableError))
            continue
        try:
            scanned(open_bytes(damaged))
            looked_up(open_bytes(damaged), rows)
        except (CorruptFileError, UnsupportedTableError):
            continue


@pytest.mark.parametrize("path", [None, DEEP_FILE, NONE_FILE], ids=["small", "deep", "none"])
def test_every_truncation(path):
    data = small_file()[0] if path is None else path.read_bytes()
    for length in [*range(0, trailer_end(data), 3), *range(trailer_end(data), len(data), 97)]:
        with pytest.raises(CorruptFileError):
            scanned(open_bytes(data[:length]))


def test_range_outside_of_the_file():
    data, _ = small_file()
    for place in ({"offset": -1}, {"offset": 10}, {"length": len(data) + 1}, {"length": 100}):
        with pytest.raises(CorruptFileError):
            scanned(open_bytes(data, **place))


def test_error_names_file_and_offset():
    data, _ = small_file()
    with pytest.raises(CorruptFileError) as caught:
        scanned(open_bytes(b"123" + flipped(data, 60, 1), offset=3))
    assert caught.value.name == "a.hfile"
    assert caught.value.offset == 3
    assert "checksum" in caught.value.detail


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_checksum_types(kind):
    """Type 0 has bytes in place of sums but nothing to verify, 1 is CRC32, 2 is CRC32C."""
    data, rows = small_file()
    size = struct.unpack_from(">i", data, 29)[0]
    changed = bytearray(data)
    changed[24] = kind
    sums = chunk_checksums(bytes(changed), size, BYTES_PER_CHECKSUM, kind) if kind else bytes(4)
    changed[size : size + 4] = sums
    assert scanned(open_bytes(bytes(changed))) == rows
    changed[size] ^= 1
    if kind:
        with pytest.raises(CorruptFileError, match="checksum"):
            scanned(open_bytes(bytes(changed)))
    else:
        assert scanned(open_bytes(bytes(changed))) == rows


@pytest.mark.parametrize(
    ("payload", "claimed"),
    [
        (b"x" * 100, 2**31 - 1),
        (b"x" * 100, 101),
        (b"x" * 100, 99),
        (b"x" * 100, 0),
        (bytes(64 << 20), 1000),
        (bytes(64 << 20), 2**31 - 1),
        (b"x" * 100, -1),
    ],
)
def test_bombs_do_not_go_off(payload, claimed):
    blocks = BlockReader(source(block_of(gzip.compress(payload), claimed)), 0, None)
    tracemalloc.start()
    with pytest.raises(CorruptFileError):
        blocks.read(0, BlockKind.DATA)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


def block_of(compressed: bytes, uncompressed: int) -> bytes:
    """A data block without checksums: nothing but gzip guards its payload."""
    size = HEADER_SIZE + len(compressed)
    sizes = (size - HEADER_SIZE, uncompressed, -1, 0, BYTES_PER_CHECKSUM, size)
    return struct.pack(">8siiqBii", b"DATABLK*", *sizes) + compressed


@pytest.mark.parametrize(
    "spoil",
    [
        lambda stream: stream[:-8],
        lambda stream: stream[:-1],
        lambda stream: stream + b"\0",
        lambda stream: stream + stream,
        lambda stream: stream[:-8] + bytes([stream[-8] ^ 1]) + stream[-7:],
        lambda stream: stream[:-1] + bytes([stream[-1] ^ 1]),
        lambda stream: b"\x1f\x8c" + stream[2:],
        lambda stream: stream[:0],
    ],
    ids=range(8),
)
def test_gzip_stream_is_whole_and_alone(spoil):
    payload = b"x" * 100
    sound = block_of(gzip.compress(payload), 100)
    assert BlockReader(source(sound), 0, None).read(0, BlockKind.DATA) == payload
    spoilt = BlockReader(source(block_of(spoil(gzip.compress(payload)), 100)), 0, None)
    with pytest.raises(CorruptFileError):
        spoilt.read(0, BlockKind.DATA)


def test_size_of_a_block_is_what_its_index_entry_says():
    block = block_of(gzip.compress(b"x"), 1)
    blocks = BlockReader(source(block + bytes(10)), 0, None)
    assert blocks.read(0, BlockKind.DATA, len(block)) == b"x"
    for size in (0, HEADER_SIZE - 1, len(block) - 1, len(block) + 1):
        with pytest.raises(CorruptFileError):
            blocks.read(0, BlockKind.DATA, size)


def cell(row: bytes, value: bytes = b"v") -> bytes:
    key = struct.pack(">h", len(row)) + row + KEY_SUFFIX
    return struct.pack(">ii", len(key), len(value)) + key + value + b"\0"


def whole_block(kind, payload):
    return encode_block(kind, compress_block(kind, payload), len(payload), -1)


def crafted(*blocks: tuple[bytes, bytes], entry_count: int, codec: Codec = Codec.GZ) -> bytes:
    """An HFile out of (row in the index, payload) pairs, whatever they are."""
    data, index = b"", b""
    for row, payload in blocks:
        block = whole_block(BlockKind.DATA, payload)
        key = struct.pack(">h", len(row)) + row + KEY_SUFFIX
        index += encode_entry(len(data), len(block), key)
        data += block
    root = len(data)
    data += whole_block(BlockKind.ROOT_INDEX, index)
    info = len(data)
    file_info = {"KEY_VALUE_VERSION": struct.pack(">i", 1)}
    data += whole_block(BlockKind.FILE_INFO, encode_file_info(file_info))
    trailer = Trailer(
        file_info_offset=info,
        load_on_open_offset=root,
        uncompressed_data_index_size=len(index),
        total_uncompressed_bytes=0,
        data_index_count=len(blocks),
        meta_index_count=0,
        entry_count=entry_count,
        index_levels=1,
        first_data_block_offset=0,
        last_data_block_offset=0,
        codec=codec,
    )
    return data + trailer.encode()


def test_crafted_file_is_sound():
    data = crafted((b"a", cell(b"a") + cell(b"b")), (b"bz", cell(b"c")), entry_count=3)
    assert set(scanned(open_bytes(data))) == {b"a", b"b", b"c"}


@pytest.mark.parametrize(
    "blocks",
    [
        [(b"a", cell(b"b") + cell(b"a"))],
        [(b"a", cell(b"a") + cell(b"a"))],
        [(b"b", cell(b"a") + cell(b"b"))],
        [(b"a", cell(b"a") + cell(b"c")), (b"b", b"")],
        [(b"a", cell(b"a") + cell(b"c")), (b"c", cell(b"c"))],
        [(b"b", cell(b"b") + cell(b"c")), (b"a", cell(b"d"))],
        [(b"a", cell(b"a") + cell(b"b")[:-1])],
        [(b"a", cell(b"a")[:-1] + b"\1" + cell(b"b"))],
        [(b"a", cell(b"a").replace(KEY_SUFFIX, b"\1" + KEY_SUFFIX[1:]) + cell(b"b"))],
        [(b"a", cell(b"a").replace(KEY_SUFFIX, KEY_SUFFIX[:-1] + b"\x08") + cell(b"b"))],
        [(b"a", struct.pack(">ii", 13, 2**31 - 1) + cell(b"a")[8:] + cell(b"b"))],
        [(b"a", struct.pack(">ii", -1, 1) + cell(b"a")[8:] + cell(b"b"))],
        [(b"a", cell(b"a").replace(b"\0\1a", b"\xff\xffa") + cell(b"b"))],
    ],
    ids=range(13),
)
def test_cells_out_of_order_or_shape(blocks):
    data = crafted(*blocks, entry_count=2)
    with pytest.raises(CorruptFileError):
        scanned(open_bytes(data))
    with pytest.raises(CorruptFileError):
        looked_up(open_bytes(data), [b"a", b"b", b"c"])


def test_wrong_number_of_entries():
    data = crafted((b"a", cell(b"a")), entry_count=2)
    assert looked_up(open_bytes(data), [b"a"]) == {b"a": b"v"}
    with pytest.raises(CorruptFileError, match="1 entries, the trailer says 2"):
        scanned(open_bytes(data))


def test_missing_mvcc_bytes_follow_the_file_info():
    """HBase expects a byte behind each value only if KEY_VALUE_VERSION is 1."""
    data = crafted((b"a", cell(b"a") + cell(b"b")), entry_count=2)
    blocks = BlockReader(source(data), 0, None)
    trailer = read_trailer(blocks)
    plain = b"".join(part[:-1] for part in (cell(b"a"), cell(b"b")))
    without = crafted((b"a", plain), entry_count=2)
    cut = without.index(BlockKind.FILE_INFO.value)
    info = whole_block(BlockKind.FILE_INFO, encode_file_info({"schema": b""}))
    without = without[:cut] + info + without[-TRAILER_SIZE:]
    assert scanned(open_bytes(without)) == scanned(open_bytes(data)) == {b"a": b"v", b"b": b"v"}
    assert trailer.entry_count == 2


def test_codecs_are_refused_by_name():
    data = bytearray(NONE_FILE.read_bytes())
    place = data.rindex(b"HoodieHBaseKVComparator") + len(b"HoodieHBaseKVComparator") + 1
    assert data[place] == Codec.NONE
    for codec in set(Codec) - {Codec.NONE, Codec.GZ}:
        data[place] = codec
        with pytest.raises(UnsupportedTableError, match=codec.name):
            open_bytes(bytes(data))
    for code in (7, 100):
        data[place] = code
        with pytest.raises(CorruptFileError):
            open_bytes(bytes(data))


def test_a_codec_that_contradicts_the_blocks_is_damage():
    data = crafted((b"a", cell(b"a")), entry_count=1, codec=Codec.SNAPPY)
    with pytest.raises(CorruptFileError, match="the blocks are gzip"):
        open_bytes(data)
    assert issubclass(CorruptFileError, TableError)
