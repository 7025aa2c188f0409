"""The block cache: bounded, exact, filled by lookups alone, and no memory of another file."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
from hfile_cases import SCHEMA, binary, looked_up, scanned
from hypothesis import given, settings
from hypothesis import strategies as st

from keymark.table.errors import CorruptFileError
from keymark.table.format.hfile import block
from keymark.table.format.hfile.cache import BlockCache
from keymark.table.format.hfile.reader import HFileReader
from keymark.table.format.hfile.trailer import TRAILER_SIZE
from keymark.table.format.hfile.writer import write_hfile
from keymark.table.storage.storage import BytesReader

ROWS = {b"%05d" % number: b"v" * 80 for number in range(0, 1000, 2)}
PLENTY = 1 << 30


def written(rows, block_size: int = 1000) -> bytes:
    return write_hfile(binary(rows), binary(rows.values()), schema=SCHEMA, block_size=block_size)


def opened(data: bytes, cache: BlockCache | None, name: str = "a", **options) -> HFileReader:
    return HFileReader(BytesReader(name=name, data=data), cache=cache, **options)


def part(size: int) -> np.ndarray:
    return np.zeros(size, np.uint8)


def test_the_parts_used_last_are_kept():
    cache = BlockCache(100)
    for key in "abc":
        cache.put(key, part(40))
    assert (cache.get("a"), cache.held) == (None, 80)
    assert cache.get("b") is not None
    cache.put("d", part(40))
    assert cache.get("c") is None
    assert cache.get("b") is not None
    assert (cache.hits, cache.misses, cache.held) == (2, 2, 80)


def test_a_part_above_the_capacity_drives_nothing_out():
    cache = BlockCache(100)
    cache.put("a", part(100))
    cache.put("b", part(101))
    assert cache.get("b") is None
    assert cache.get("a") is not None
    assert cache.held == 100


def test_a_part_put_twice_counts_once():
    cache = BlockCache(100)
    for _ in range(5):
        cache.put("a", part(60))
    assert cache.held == 60


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(st.integers(0, 1100), max_size=6)), st.sampled_from([0, 3000, PLENTY]))
def test_lookups_find_the_same_with_a_cache(lookups, capacity):
    data, cache = written(ROWS), BlockCache(capacity)
    for numbers in lookups:
        asked = {b"%05d" % number for number in numbers}
        expected = {key: ROWS[key] for key in asked if key in ROWS}
        assert looked_up(opened(data, cache), asked) == expected
        assert cache.held <= capacity


def test_a_block_in_the_cache_is_not_decoded_again():
    data, cache = written(ROWS), BlockCache(PLENTY)
    first, second = opened(data, cache), opened(data, cache)
    assert looked_up(first, [b"00500"]) == looked_up(second, [b"00500"])
    assert (first.blocks_decoded, second.blocks_decoded) == (1, 0)
    # The block and the layout.
    assert (cache.misses, cache.hits) == (2, 2)


def test_a_scan_neither_fills_nor_asks_the_cache():
    data, cache = written(ROWS), BlockCache(PLENTY)
    looked_up(opened(data, cache), [b"00500"])
    before = (cache.hits, cache.misses, cache.held)
    assert scanned(opened(data, cache)) == ROWS
    assert (cache.hits, cache.misses, cache.held) == before


@pytest.mark.parametrize(
    ("name", "scope"), [("b", ""), ("a", "other")], ids=["other path", "other instant or table"]
)
def test_files_are_told_apart(name, scope, monkeypatch):
    """Same size, same trailer: only who wrote them differs."""
    monkeypatch.setattr(block, "_TAIL_BYTES", TRAILER_SIZE)
    rows = dict.fromkeys(ROWS, b"w" * 80)
    ours, theirs = written(ROWS), written(rows)
    assert ours[-TRAILER_SIZE:] == theirs[-TRAILER_SIZE:]
    cache = BlockCache(PLENTY)
    assert looked_up(opened(ours, cache), [b"00500"])[b"00500"] == b"v" * 80
    found = looked_up(opened(theirs, cache, name, scope=scope), [b"00500"])
    assert found[b"00500"] == b"w" * 80


def test_a_path_made_again_is_told_apart():
    cache = BlockCache(PLENTY)
    for value in (b"v", b"w"):
        data = written(dict.fromkeys(ROWS, value * 80))
        found = looked_up(opened(data, cache, scope="table 1"), ROWS)
        assert set(found.values()) == {value * 80}


def test_hfiles_of_one_log_are_told_apart(monkeypatch):
    monkeypatch.setattr(block, "_TAIL_BYTES", TRAILER_SIZE)
    data, cache = written(ROWS), BlockCache(PLENTY)
    newer = written(dict.fromkeys(ROWS, b"w" * 80))
    log = data + newer
    for offset, value in ((0, b"v"), (len(data), b"w")):
        reader = opened(log, cache, offset=offset, length=len(data))
        assert looked_up(reader, [b"00500"]) == {b"00500": value * 80}


def test_damage_is_not_kept():
    data, cache = written(ROWS), BlockCache(PLENTY)
    damaged = bytearray(data)
    damaged[60] ^= 1
    for _ in range(2):
        with pytest.raises(CorruptFileError):
            looked_up(opened(bytes(damaged), cache), [b"00000"])
    assert looked_up(opened(data, cache), ROWS) == ROWS


def test_threads_share_a_cache():
    data, cache = written(ROWS), BlockCache(5000)
    failures = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        try:
            for _ in range(40):
                asked = {b"%05d" % number for number in random.integers(0, 1000, 5)}
                found = looked_up(opened(data, cache), asked)
                assert found == {key: ROWS[key] for key in asked if key in ROWS}
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert cache.held == sum(part.nbytes for part in cache._parts.values()) <= 5000


def test_a_copy_for_another_process_is_empty():
    cache = BlockCache(PLENTY)
    looked_up(opened(written(ROWS), cache), [b"00500"])
    copy = pickle.loads(pickle.dumps(cache))
    assert (copy.capacity, copy.held, copy.hits) == (PLENTY, 0, 0)
    assert cache.held > 0
