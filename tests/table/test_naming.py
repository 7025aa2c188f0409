"""File names: what is printed can be parsed, what Hudi prints, too, and the rest is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keymark.table.errors import CorruptFileError
from keymark.table.layout import naming
from keymark.table.layout.model import BaseFile, LogFile
from keymark.table.runtime.ids import RANDOM

digits = st.text("0123456789", min_size=14, max_size=23)
tokens = st.builds("{}-{}-{}".format, *(st.integers(0, 1 << 31),) * 3)
file_ids = st.one_of(
    st.uuids().map(lambda u: f"{u}-0"),
    st.uuids().map(str),
    st.from_regex(r"(?!\.)[^_/\x00\n\r]{1,30}", fullmatch=True),
)
partitions = st.sampled_from(["", "p", "a/b", "dt=2024%2F01", "ü 日"])


@given(partition=partitions, file_id=file_ids, token=tokens, instant=digits, size=st.integers(0))
@pytest.mark.parametrize("extension", ["parquet", "hfile"])
def test_base_files(extension, partition, file_id, token, instant, size):
    file = BaseFile(
        partition_path=partition,
        file_id=file_id,
        write_token=token,
        instant_time=instant,
        size=size,
        extension=extension,
    )
    assert naming.parse_base_file(partition, file.name, size) == file
    assert file.path.rpartition("/")[2] == file.name
    assert file.path.startswith(partition)
    assert naming.parse_log_file(partition, file.name, size) is None


@given(file_id=file_ids, instant=digits, version=st.integers(1, 999999999), token=tokens)
def test_log_files(file_id, instant, version, token):
    log = LogFile(
        partition_path="files",
        file_id=file_id,
        base_instant_time=instant,
        version=version,
        write_token=token,
        size=3,
    )
    assert naming.parse_log_file("files", log.name, 3) == log
    assert naming.parse_base_file("files", log.name, 3) is None


def test_names_that_hudi_gave():
    name = "6a78b3e5-1f3a-4d4e-a2ad-d51ce23ce4fb-0_0-53-0_20261121165133262.parquet"
    file = naming.parse_base_file("p0", name, 1)
    assert (file.file_id, file.write_token) == ("6a78b3e5-1f3a-4d4e-a2ad-d51ce23ce4fb-0", "0-53-0")
    assert file.instant_time == "20261121165133262"
    log = naming.parse_log_file("files", ".files-0000-0_00000000000000013001.log.1_7-37-85", 1)
    assert (log.file_id, log.base_instant_time) == ("files-0000-0", "00000000000000013001")
    assert (log.version, log.write_token) == (1, "7-37-85")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "part-0.parquet",
        "a_1-2-3_20240101.orc",
        "a_1-2_20240101000000000.parquet",
        "a_b_1-2-3_20240101000000000.parquet",
        "a_1-2-3_2024x.parquet",
        ".a_1-2-3_20240101000000000.parquet.crc",
        ".hoodie_partition_metadata",
        ".a_2024.log.x_1-0-1",
        ".a_2024.log.99999999999_1-0-1",
        ".a_2024.log.1_1-0-1.cdc",
    ],
)
def test_other_names_are_no_files(name):
    assert naming.parse_base_file("p", name, 1) is None
    assert naming.parse_log_file("p", name, 1) is None


@given(partition=partitions, file_id=file_ids, instant=digits)
@pytest.mark.parametrize("kind", ["CREATE", "MERGE"])
def test_markers(kind, partition, file_id, instant):
    file = BaseFile(
        partition_path=partition,
        file_id=file_id,
        write_token="1-0-1",
        instant_time=instant,
        size=0,
    )
    path = naming.marker_path(instant, file, kind)
    assert naming.marked_file(path, instant) == file.path
    assert naming.marked_file(path.replace(kind, "OTHER"), instant) is None
    assert naming.marked_file(f"{naming.TEMP}/{instant}/MARKERS.type", instant) is None


@given(st.integers(0, 99999999))
def test_bucket_ids(bucket):
    file_id = naming.bucket_file_id(bucket, RANDOM.uuid())
    assert naming.is_bucket_file_id(file_id)
    assert naming.bucket_of(file_id) == bucket
    assert len(file_id) == 38


def test_ids_of_no_bucket():
    assert not naming.is_bucket_file_id(naming.numbered_file_id("f2c9f2eb-0000"))
    with pytest.raises(CorruptFileError, match="bucket number"):
        naming.bucket_of("f2c9f2eb-1f3a-4d4e-a2ad-d51ce23ce4fb-0")


@pytest.mark.parametrize("path", ["", "a", "a/b.c", "..a", "a..", "...", " ", "dt=1/x:y"])
def test_paths_that_stay(path):
    assert naming.check_relative(path, "x") == path


@pytest.mark.parametrize("path", ["/", "/a", "..", "a/..", "../a", "a/../b", ".", "a/.", "a\0b"])
def test_paths_that_leave(path):
    with pytest.raises(CorruptFileError, match="leaves the table"):
        naming.check_relative(path, "x")


def test_tokens_have_one_length():
    tokens = {naming.write_token(7) for _ in range(500)}
    assert len(tokens) > 490
    assert {len(token) for token in tokens} == {len("7-0-") + 10}


def test_tokens_have_one_length_and_those_of_contents_repeat():
    found = [naming.content_token(data) for data in (b"", b"a", b"ab" * 999)]
    assert found == [naming.content_token(data) for data in (b"", b"a", b"ab" * 999)]
    assert len(set(found)) == 3
    assert {len(token) for token in (*found, naming.write_token(0))} == {14}
    assert all(naming.parse_base_file("", f"f-0_{token}_1.hfile", 1) for token in found)
    assert all(int(token.split("-")[2]) < 1 << 31 for token in found)
