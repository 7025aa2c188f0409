"""Every HFile and log file in the metadata of a whole table that Hudi 0.15.0 made."""

from __future__ import annotations

import tarfile

import pytest
from hfile_cases import DATA, binary, looked_up, open_bytes, scanned

from keymark.table.format.hfile.block import BlockReader
from keymark.table.format.hfile.reader import HFileReader
from keymark.table.format.hfile.trailer import Trailer, read_trailer
from keymark.table.format.hfile.writer import write_hfile
from keymark.table.format.log.block import BlockType, HeaderKey
from keymark.table.format.log.deletes import decode_deletes, encode_deletes
from keymark.table.format.log.reader import read_blocks
from keymark.table.storage.storage import BytesReader

ARCHIVE = DATA.parent / "hudi-0.15.0-record_index.tar.gz"


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """Path -> content of the metadata table's files, without Hadoop's checksum side-cars."""
    with tarfile.open(ARCHIVE) as archive:
        return {
            member.name: archive.extractfile(member).read()
            for member in archive
            if "/.hoodie/metadata/" in member.name
            and (member.name.endswith(".hfile") or ".log." in member.name)
            and not member.name.endswith(".crc")
        }


def trailer_of(source: BytesReader, offset: int, length: int) -> Trailer:
    return read_trailer(BlockReader(source, offset, length))


def test_base_files(files):
    bases = {name: data for name, data in files.items() if name.endswith(".hfile")}
    assert len(bases) > 5
    for name, data in bases.items():
        reader = open_bytes(data)
        entries = scanned(reader)
        assert len(entries) == reader.entry_count > 0, name
        assert looked_up(reader, entries) == entries
        assert reader.file_info["minRecordKey"] == min(entries)
        assert reader.file_info["maxRecordKey"] == max(entries)


def test_log_files(files):
    """Written anew, HFiles have the same counts, sizes and file info, deletes the same bytes."""
    kinds = dict.fromkeys(BlockType, 0)
    for name, data in files.items():
        if ".log." not in name:
            continue
        source = BytesReader(name=name, data=data)
        for block in read_blocks(source, complete=True):
            kinds[block.type] += 1
            assert block.instant_time.isdigit()
            if block.type is BlockType.DELETE:
                content = block.content()
                assert encode_deletes(decode_deletes(content, name), "record_index") == content
            if block.type is not BlockType.HFILE_DATA:
                continue
            place = (block.content_offset, block.content_length)
            reader = HFileReader(source, offset=place[0], length=place[1])
            entries = scanned(reader)
            schema = block.headers[HeaderKey.SCHEMA]
            ours = write_hfile(binary(entries), binary(entries.values()), schema=schema)
            assert dict(open_bytes(ours).file_info) == dict(reader.file_info)
            theirs = trailer_of(source, *place)
            written = trailer_of(BytesReader(name="ours", data=ours), 0, len(ours))
            assert written.total_uncompressed_bytes == theirs.total_uncompressed_bytes
            assert written.data_index_count == theirs.data_index_count
            assert written.entry_count == theirs.entry_count == len(entries)
    assert kinds[BlockType.HFILE_DATA] > 10
    assert kinds[BlockType.DELETE] > 5
