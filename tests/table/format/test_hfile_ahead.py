"""Blocks ahead: told before they are read, or fetched together; the bytes are the same."""

from __future__ import annotations

import dataclasses
import itertools
import os

import pytest
from hfile_cases import SCHEMA, binary, looked_up
from hypothesis import given
from hypothesis import strategies as st

from keymark.table.format.hfile import ahead
from keymark.table.format.hfile.ahead import BlocksAhead
from keymark.table.format.hfile.cache import BlockCache
from keymark.table.format.hfile.reader import HFileReader
from keymark.table.format.hfile.writer import write_hfile
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.storage.storage import BytesReader, Foretold

DATA = os.urandom(10_000)
ROWS = {b"%06d" % number: b"v" * 80 for number in range(4_000)}


@dataclasses.dataclass
class Far:
    """A file that remembers what was read of it."""

    data: bytes
    name: str = "a.hfile"
    reads: list[tuple[int, int]] = dataclasses.field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, offset: int, length: int) -> bytes:
        self.reads.append((offset, length))
        return self.data[offset : offset + length]


@dataclasses.dataclass
class Near(Far):
    """The same on a system that can be told."""

    told: list[tuple[int, int]] = dataclasses.field(default_factory=list)

    def foretell(self, offset: int, length: int) -> None:
        self.told.append((offset, length))


@pytest.fixture
def small(monkeypatch):
    """Lots of few bytes."""
    monkeypatch.setattr(ahead, "_TOLD", 200)
    monkeypatch.setattr(ahead, "_GAP", 100)
    monkeypatch.setattr(ahead, "_FETCHED_MAX", 500)


def read_all(source, places):
    blocks = BlocksAhead(source, places)
    for start, length in places:
        assert blocks.read(start, length) == source.data[start : start + length]


@pytest.mark.usefixtures("small")
def test_blocks_are_told_before_they_are_read():
    places = [(start, 100) for start in range(0, 4_000, 200)]
    source = Near(DATA)
    blocks = BlocksAhead(source, places)
    for number, place in enumerate(places):
        assert blocks.read(*place) == DATA[place[0] : place[0] + 100]
        # The lot that it is of, of two blocks, and two more.
        assert len(source.told) == min(len(places), 2 * (number // 2) + 6)
    assert source.told == source.reads == places


@pytest.mark.usefixtures("small")
def test_blocks_side_by_side_are_told_as_one():
    source = Near(DATA)
    read_all(source, [(0, 100), (100, 60), (300, 150), (450, 20), (800, 900)])
    assert source.told == [(0, 160), (300, 170), (800, 900)]


@pytest.mark.usefixtures("small")
def test_blocks_near_each_other_are_fetched_together():
    source = Far(DATA)
    read_all(source, [(0, 50), (50, 50), (200, 50), (351, 50), (451, 60), (900, 700), (1_600, 10)])
    assert source.reads == [(0, 250), (351, 160), (900, 700), (1_600, 10)]


@pytest.mark.usefixtures("small")
def test_no_more_is_fetched_at_once_than_the_most():
    source = Far(DATA)
    read_all(source, [(start, 90) for start in range(0, 2_000, 100)])
    assert [length for _, length in source.reads] == [490] * 4


@pytest.mark.parametrize("kind", [Near, Far])
@given(
    cuts=st.lists(st.integers(0, 9_999), unique=True, max_size=40),
    others=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 500)), max_size=5),
)
def test_the_bytes_are_those_of_the_file(kind, cuts, others):
    """Whatever else is read between the blocks."""
    cuts.sort()
    places = [(start, end - start) for start, end in itertools.pairwise(cuts)][::2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ahead, "_TOLD", 300)
        patch.setattr(ahead, "_GAP", 200)
        patch.setattr(ahead, "_FETCHED_MAX", 900)
        blocks = BlocksAhead(kind(DATA), places)
        for number, (start, length) in enumerate(places):
            assert blocks.read(start, length) == DATA[start : start + length]
            for at, size in others[number : number + 1]:
                assert blocks.read(at, size) == DATA[at : at + size]


def written():
    return write_hfile(binary(ROWS), binary(ROWS.values()), schema=SCHEMA, block_size=1_000)


def test_a_lookup_far_away_takes_few_requests():
    source = Far(written())
    reader = HFileReader(source)
    assert looked_up(reader, list(ROWS)[::7]) == dict(list(ROWS.items())[::7])
    assert reader.blocks_decoded > 200
    # The end of the file, what is read to open it, and all blocks.
    assert len(source.reads) < 10


def bytes_told(source):
    return {at for start, length in source.told for at in range(start, start + length)}


def test_a_lookup_nearby_tells_of_the_blocks_that_are_not_kept():
    cache, data = BlockCache(1 << 20), written()
    sources = Near(data), Near(data)
    for source, asked in zip(sources, (list(ROWS)[:9], list(ROWS)[:30]), strict=True):
        assert len(looked_up(HFileReader(source, cache=cache), asked)) == len(asked)
    first, second = (bytes_told(source) for source in sources)
    assert first
    assert second
    assert not first & second


def test_a_local_file_can_be_told(tmp_path):
    (tmp_path / "f").write_bytes(DATA)
    source = LocalStorage.at(tmp_path).open("f")
    assert isinstance(source, Foretold)
    assert not isinstance(BytesReader(name="f", data=DATA), Foretold)
    source.foretell(5_000, 1_000_000)
    assert source.read(0, 10_000) == DATA
