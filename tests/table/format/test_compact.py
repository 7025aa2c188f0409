"""Compact index files: every key is found, absent ones hardly ever, damage is told."""

from __future__ import annotations

import mmap
import random

import numpy as np
import pyarrow as pa
import pytest

from keymark.table.errors import CorruptFileError, InputError
from keymark.table.format.compact import reader
from keymark.table.format.compact.kernels import PAGE
from keymark.table.format.compact.reader import CompactFile
from keymark.table.format.compact.writer import (
    STRETCH_BITS,
    STRETCH_ROWS,
    UNKNOWN_STRETCH,
    CompactWriter,
    hashes_of,
    write_file,
)
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.storage.storage import BytesReader

NAMES = [f"p{n % 3}/{n:05d}-0" for n in range(20_000)]


def keys_of(numbers):
    return pa.array([f"key {number:x}" for number in numbers], pa.string())


def written(count, *, groups=20_000, batches=1, **settings):
    """A file of `count` keys; the file group of each."""
    places = np.random.default_rng(count).integers(0, groups, count).astype(np.int32)
    writer = CompactWriter(NAMES[:groups], **settings)
    for part in np.array_split(np.random.default_rng(1).permutation(count), batches):
        writer.add(keys_of(part.tolist()), places[part])
    return finished(writer, count), places


def finished(writer, count):
    data = bytearray()
    assert writer.finish(data.extend) == count
    return bytes(data)


def opened(data):
    return CompactFile.open(BytesReader(name="f", data=data))


def test_the_system_is_told_of_its_own_pages(tmp_path, monkeypatch):
    """Some systems have pages of 16 or 64 KiB, and refuse what begins within one."""
    told = []

    class Watched(mmap.mmap):
        def madvise(self, option, start, length):
            told.append((start, length))
            super().madvise(option, start, length)

    data, places = written(70_000)
    (tmp_path / "f").write_bytes(data)
    monkeypatch.setattr(mmap, "mmap", Watched)
    monkeypatch.setattr(mmap, "PAGESIZE", 1 << 16)
    with CompactFile.open(LocalStorage.at(tmp_path).open("f")) as file:
        found = file.find(hashes_of(keys_of(range(0, 70_000, 5_000))))
    assert np.array_equal(places[5_000 * np.sort(found.rows)], found.groups[found.rows.argsort()])
    assert told
    assert all(start % (1 << 16) == 0 and length > 0 for start, length in told)


def find(data, keys):
    with opened(data) as file:
        return file.find(hashes_of(keys))


# Around a page, and on both sides of the two forms of the directory.
@pytest.mark.parametrize("count", [0, 1, 583, 584, 585, 70_000, (1 << 18) - 1, 1 << 18])
def test_every_key_is_found_and_no_absent_one(tmp_path, count):
    data, places = written(count, batches=3)
    (tmp_path / "f").write_bytes(data)
    asked = hashes_of(keys_of(range(count + 5_000)))
    for source in (BytesReader(name="f", data=data), LocalStorage.at(tmp_path).open("f")):
        with CompactFile.open(source) as file:
            assert (file.entries, file.groups[7:9]) == (count, NAMES[7:9])
            found = file.find(asked)
        assert np.array_equal(np.sort(found.rows), np.arange(count))
        assert np.array_equal(found.groups, places[found.rows])


def test_a_large_file_is_made_of_runs_on_the_disk(monkeypatch):
    count = 1_100_000
    data, places = written(count, batches=9, memory=1 << 20)
    assert len(data) < 7.6 * count + (1 << 20)
    monkeypatch.setattr(reader, "_WINDOW", 8)
    found = find(data, keys_of(range(0, 2 * count, 7)))
    wanted = np.arange(0, count, 7)
    assert np.array_equal(np.sort(found.rows), np.arange(len(wanted)))
    assert np.array_equal(found.groups, places[wanted][found.rows])


def test_a_few_keys_read_a_few_pages():
    """A block holds all that a search looks at."""
    read = []

    class Watched(BytesReader):
        def read(self, offset, length):
            read.append(length)
            return BytesReader.read(self, offset, length)

    data, _ = written(300_000)
    with CompactFile.open(Watched(name="f", data=data)) as file:
        assert len(file.find(hashes_of(keys_of([1, 2, 3]))).rows) == 3
    # The end, the names, the directory, and pages.
    assert [length for length in read[3:] if length > 2 * PAGE] == []


def test_all_entries_are_read_by_their_first_byte():
    """What is read of a file makes the same file."""
    data, _ = written(20_000)
    again = bytearray()
    with opened(data) as file:

        def part(number):
            words, groups = file.part(number)
            return words | groups.astype(np.uint64)

        assert write_file(again.extend, NAMES, file.bits, part) == 20_000
    assert again == data


def test_a_key_that_was_added_twice_has_both_file_groups():
    writer = CompactWriter(NAMES)
    for group in (3, 19_999):
        writer.add(keys_of([1]), np.array([group], np.int32))
    found = find(finished(writer, 2), keys_of([2, 1, 1]))
    assert sorted(zip(found.rows.tolist(), found.groups.tolist(), strict=True)) == [
        (1, 3),
        (1, 19_999),
        (2, 3),
        (2, 19_999),
    ]


def test_the_stretch_of_a_row_is_told_and_stretches_come_again():
    rows = np.array([0, STRETCH_ROWS - 1, STRETCH_ROWS, UNKNOWN_STRETCH * STRETCH_ROWS])
    writer = CompactWriter(NAMES)
    writer.add(keys_of(range(4)), np.full(4, 19_999, np.int32), rows)
    writer.add(keys_of([4]), np.array([7], np.int32))
    found = find(finished(writer, 5), keys_of(range(5)))
    order = np.argsort(found.rows)
    assert found.groups[order].tolist() == [19_999] * 4 + [7]
    assert found.stretches[order].tolist() == [0, 0, 1, 0, UNKNOWN_STRETCH]


def test_many_candidates_of_a_key_find_room():
    writer = CompactWriter(NAMES)
    writer.add(keys_of([1] * 500), np.arange(500, dtype=np.int32))
    found = find(finished(writer, 500), keys_of([0, 1, 2]))
    assert found.rows.tolist() == [1] * 500
    assert sorted(found.groups.tolist()) == list(range(500))


def test_one_file_group_takes_a_bit():
    data, _ = written(5_000, groups=1)
    assert len(find(data, keys_of(range(10_000))).rows) == 5_000


def test_hashes_of_keys_that_look_alike_are_spread_evenly():
    hashes = hashes_of(keys_of(range(1 << 16)))
    assert len(np.unique(hashes)) == len(hashes)
    for shift in (56, 48, 20, 8, 0):
        counts = np.bincount((hashes >> np.uint64(shift)).astype(np.int64) & 255, minlength=256)
        # 256 on average; six standard deviations.
        assert abs(counts - 256).max() < 6 * 16


@pytest.mark.parametrize("is_mapped", [False, True])
def test_any_damaged_byte_is_told_where_it_is_used(tmp_path, is_mapped):
    count, chance = 6_000, random.Random(1)
    data, _ = written(count)
    for place in [0, len(data) - 64, len(data) - 1, *chance.sample(range(len(data)), 80)]:
        damaged = bytearray(data)
        damaged[place] ^= 1 << chance.randrange(8)
        (tmp_path / "f").write_bytes(damaged)
        source = BytesReader(name="f", data=bytes(damaged))
        if is_mapped:
            source = LocalStorage.at(tmp_path).open("f")
        with pytest.raises(CorruptFileError), CompactFile.open(source) as file:
            file.find(hashes_of(keys_of(range(count))))


@pytest.mark.parametrize("size", [0, 10, 63, 64, 5_000, -1, -PAGE])
def test_a_file_that_is_cut_off_is_told(size):
    data, _ = written(5_000)
    with pytest.raises(CorruptFileError, match="f is damaged at byte"):
        opened(data[:size])


def test_file_groups_without_a_name_are_refused():
    with pytest.raises(InputError, match="from 0 to 1"):
        CompactWriter(["a", "b"]).add(keys_of([1]), np.array([2], np.int32))
    with pytest.raises(InputError, match="line feed"):
        CompactWriter(["a\nb"]).finish(bytearray().extend)
    # Whole by its checksums, but made by others.
    data = bytearray()
    write_file(data.extend, ["a"], 9, lambda _: np.array([9 << STRETCH_BITS], np.uint64))
    with pytest.raises(CorruptFileError, match="without a name"):
        opened(bytes(data)).part(0)
