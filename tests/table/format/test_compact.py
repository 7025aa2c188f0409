"""Compact index files: every key is found, absent ones hardly ever, damage is told."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from keymark.table.errors import CorruptFileError, InputError
from keymark.table.format.compact.kernels import PAGE
from keymark.table.format.compact.reader import CompactFile
from keymark.table.format.compact.writer import CompactWriter, hashes_of

NAMES = [f"p{n % 3}/{n:05d}-0" for n in range(20_000)]


def keys_of(numbers):
    return pa.array([f"key {number:x}" for number in numbers], pa.string())


def write(path, count, *, groups=20_000, batches=1, **settings):
    """A file of `count` keys; the file group of each."""
    places = np.random.default_rng(count).integers(0, groups, count).astype(np.int32)
    writer = CompactWriter(NAMES[:groups], **settings)
    for part in np.array_split(np.random.default_rng(1).permutation(count), batches):
        writer.add(keys_of(part.tolist()), places[part])
    assert writer.finish(path) == count
    return places


# Of each width of the directory, at its ends, and around a page.
@pytest.mark.parametrize("count", [0, 1, 583, 584, 585, 4_095, 4_096, 70_000])
def test_every_key_is_found_and_no_absent_one(tmp_path, count):
    places = write(tmp_path / "f", count, batches=3)
    with CompactFile.open(tmp_path / "f") as file:
        assert (file.entries, file.groups[7:9]) == (count, NAMES[7:9])
        found = file.find(keys_of(range(count + 5_000)))
    assert np.array_equal(np.sort(found.rows), np.arange(count))
    assert np.array_equal(found.groups, places[found.rows])


def test_a_large_file_is_made_of_runs_on_the_disk(tmp_path):
    count = 1_100_000
    places = write(tmp_path / "f", count, batches=9, memory=1 << 20, folder=tmp_path)
    size = (tmp_path / "f").stat().st_size
    assert size < 7.6 * count + (1 << 20)
    with CompactFile.open(tmp_path / "f") as file:
        found = file.find(keys_of(range(0, 2 * count, 7)))
    wanted = np.arange(0, count, 7)
    assert np.array_equal(np.sort(found.rows), np.arange(len(wanted)))
    assert np.array_equal(found.groups, places[wanted][found.rows])
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_key_that_was_added_twice_has_both_file_groups(tmp_path):
    writer = CompactWriter(NAMES)
    for group in (3, 19_999):
        writer.add(keys_of([1]), np.array([group], np.int32))
    writer.finish(tmp_path / "f")
    with CompactFile.open(tmp_path / "f") as file:
        found = file.find(keys_of([2, 1, 1]))
    assert sorted(zip(found.rows.tolist(), found.groups.tolist(), strict=True)) == [
        (1, 3),
        (1, 19_999),
        (2, 3),
        (2, 19_999),
    ]


def test_many_candidates_of_a_key_find_room(tmp_path):
    writer = CompactWriter(NAMES)
    writer.add(keys_of([1] * 500), np.arange(500, dtype=np.int32))
    writer.finish(tmp_path / "f")
    with CompactFile.open(tmp_path / "f") as file:
        found = file.find(keys_of([0, 1, 2]))
    assert found.rows.tolist() == [1] * 500
    assert sorted(found.groups.tolist()) == list(range(500))


def test_one_file_group_takes_a_bit(tmp_path):
    write(tmp_path / "f", 5_000, groups=1)
    with CompactFile.open(tmp_path / "f") as file:
        assert len(file.find(keys_of(range(10_000))).rows) == 5_000


def test_hashes_of_keys_that_look_alike_are_spread_evenly():
    hashes = hashes_of(keys_of(range(1 << 16)))
    assert len(np.unique(hashes)) == len(hashes)
    for shift in (56, 48, 20, 8, 0):
        counts = np.bincount((hashes >> np.uint64(shift)).astype(np.int64) & 255, minlength=256)
        # 256 on average; six standard deviations.
        assert abs(counts - 256).max() < 6 * 16


def test_any_damaged_byte_is_told_where_it_is_used(tmp_path):
    count, path = 6_000, tmp_path / "f"
    write(path, count)
    data, chance = path.read_bytes(), random.Random(1)
    padding = range(64 + 8 * 257 + sum(len(name) + 1 for name in NAMES), 100 * PAGE)
    for place in [8, 16, 24, 32, 40, 48, 64, 900, *chance.sample(range(len(data)), 60)]:
        damaged = bytearray(data)
        damaged[place] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        is_padding = place in padding and place < len(data) - 11 * PAGE
        if is_padding:
            continue
        with pytest.raises(CorruptFileError), CompactFile.open(path) as file:
            file.find(keys_of(range(count)))


@pytest.mark.parametrize("size", [0, 10, 63, 64, 5_000, -1, -PAGE])
def test_a_file_that_is_cut_off_is_told(tmp_path, size):
    write(tmp_path / "f", 5_000)
    data = (tmp_path / "f").read_bytes()
    (tmp_path / "f").write_bytes(data[:size])
    with pytest.raises(CorruptFileError, match="f is damaged at byte 0"):
        CompactFile.open(tmp_path / "f")


def test_what_is_there_is_not_replaced(tmp_path):
    write(tmp_path / "f", 10)
    with pytest.raises(FileExistsError):
        write(tmp_path / "f", 11)
    with CompactFile.open(tmp_path / "f") as file:
        assert file.entries == 10


def test_file_groups_without_a_name_are_refused():
    with pytest.raises(InputError, match="from 0 to 1"):
        CompactWriter(["a", "b"]).add(keys_of([1]), np.array([2], np.int32))
    with pytest.raises(InputError, match="line feed"):
        CompactWriter(["a\nb"])
