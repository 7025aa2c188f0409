"""An index of keys that are made from row numbers, against a plain model of them."""

from __future__ import annotations

import itertools
import shutil
import uuid
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from bootstrap_cases import contents_of
from faults import DEAD, FROZEN, FULL, FaultStorage, Killed, every_fault
from hypothesis import given
from hypothesis import strategies as st

from keymark import Table
from keymark.table.errors import CorruptFileError, DuplicateKeyError, InputError, StorageError
from keymark.table.format.kernels.scatter import assign, no_sums, partition_numbers
from keymark.table.index.build import record_index, rows
from keymark.table.index.build.spill import encode_numbers, find_stretch, spilled_numbers
from keymark.table.runtime.runner import LocalRunner
from keymark.table.storage.local_storage import LocalStorage

UNDER = ".hoodie/metadata/record_index"
GROUPS = {f"hoodie.metadata.record.index.{end}.filegroup.count": "3" for end in ("min", "max")}
DAYS = ("2024-01-01", "2024-01-02")


@dataclass(frozen=True)
class Source:
    """Keys `k<n>`, or `x:<n>,y:a` with several key columns, in two partitions and waves of 100."""

    rows: int = 250
    salt: str = "k"
    several: bool = False
    partitioned: bool = True

    @property
    def fingerprint(self):
        return f"{self.salt} {self.several} {self.partitioned}"

    def places(self):
        groups = range(2 * -(-self.rows // 100))
        file_ids = [f"{uuid.uuid5(uuid.NAMESPACE_OID, str(group))}-0" for group in groups]
        days = {"d": [DAYS[group % 2] for group in groups]} if self.partitioned else {}
        return pa.table(days), file_ids

    def make(self, numbers):
        texts = pa.array([f"{self.salt}{number}" for number in numbers.tolist()])
        columns = {"x": texts} | ({"y": ["a"] * len(texts)} if self.several else {})
        return pa.table(columns), (numbers // 100 * 2 + numbers % 2).astype(np.int32)

    def model(self):
        """Key -> (partition path, file id)."""
        columns, file_ids = self.places()
        found = {}
        for number in range(self.rows):
            key = f"{self.salt}{number}"
            group = number // 100 * 2 + number % 2
            path = columns["d"][group].as_py() if self.partitioned else ""
            found[f"x:{key},y:a" if self.several else key] = path, file_ids[group]
        return found


def create(path, source, **options):
    """A table with one empty commit and no record index."""
    schema = [("x", pa.string()), ("y", pa.string()), ("d", pa.string())]
    table = Table.create(
        path,
        name="t",
        record_key=["x", "y"] if source.several else "x",
        partition_path="d" if source.partitioned else None,
        options=GROUPS | options,
    )
    table.bulk_insert(pa.schema(schema).empty_table())
    table.drop_index()
    return path


def build(storage, source, told=lambda *_: None):
    return Table(storage, GROUPS).build_mappings(source, told)


def answers(path, keys):
    found = Table.open(path).lookup(list(keys))
    places = zip(found["partition_path"].to_pylist(), found["file_id"].to_pylist(), strict=True)
    return dict(zip(keys, places, strict=True))


@pytest.fixture
def small(monkeypatch):
    """Tasks of 90 rows, made 30 at a time, one after the other."""
    monkeypatch.setattr(rows, "_ROWS_AT_ONCE", 30)
    monkeypatch.setattr("keymark.table.handle.LocalRunner", lambda: LocalRunner(1))


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.usefixtures("small")
def test_every_key_is_where_the_model_says(tmp_path, several, partitioned):
    source = Source(several=several, partitioned=partitioned)
    path = create(tmp_path / "t", source)
    seen = []
    assert build(LocalStorage.at(path), source, lambda *told: seen.append(told))
    assert seen == [
        (0, 3, "tasks of the key scan"),
        (3, 3, "tasks of the key scan"),
        (0, 3, "shards"),
        (3, 3, "shards"),
    ]
    model = source.model()
    assert answers(path, model) == model
    absent = ["k250", "k-1", "x:k250,y:a", "x:k1,y:b", "none"]
    assert set(answers(path, absent).values()) == {(None, None)}
    table = Table.open(path)
    assert sum(shard.entries for shard in table.info().shards) == len(model) == 250
    assert not LocalStorage.at(path).exists(".hoodie/.keymark/build/record_index")
    instants = set(table.lookup(["x:k0,y:a" if several else "k0"])["instant_time"].to_pylist())
    assert instants == {table.info().latest_instant}


def test_tasks_of_any_size_give_the_same_shards(tmp_path, monkeypatch):
    found = []
    for number, (at_once, task) in enumerate([(1 << 16, 1 << 22), (30, 90), (7, 10), (1, 1)]):
        monkeypatch.setattr(rows, "_ROWS_AT_ONCE", at_once)
        monkeypatch.setattr(rows, "_TASK_ROWS_MAX", task)
        path = shutil.copytree(tmp_path / "t", tmp_path / str(number)) if number else None
        path = path or create(tmp_path / "t", Source())
        storage = LocalStorage.at(path)
        if number == 0:
            shutil.copytree(path, tmp_path / "0")
            storage = LocalStorage.at(tmp_path / "0")
        assert build(storage, Source())
        found.append(contents_of(storage.root, UNDER))
    assert len(found[0]) == 7
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize("kind", [DEAD, FULL, FROZEN])
@pytest.mark.usefixtures("small")
def test_cut_off_at_every_change(tmp_path, kind):
    origin = create(tmp_path / "origin", Source())
    whole = shutil.copytree(origin, tmp_path / "whole")
    build(LocalStorage.at(whole), Source())
    wanted, model = contents_of(whole), Source().model()
    count = 0

    def fresh():
        nonlocal count
        count += 1
        return shutil.copytree(origin, tmp_path / f"{kind}{count}")

    for number, storage in every_fault(kind, fresh):
        try:
            build(storage, Source())
        except (Killed, StorageError):
            assert storage.struck
        else:
            assert not storage.struck
        # A build that was done before it was cut off is not done again.
        build(LocalStorage.at(storage.root), Source())
        assert answers(storage.root, model) == model, number
        found = contents_of(storage.root)
        assert {name: found[name] for name in wanted if "record_index" in name} == {
            name: data for name, data in wanted.items() if "record_index" in name
        }, number
        assert found.keys() == wanted.keys(), number
        assert not storage.exists(".hoodie/.keymark/build/record_index"), number
    assert count > 20


@pytest.mark.usefixtures("small")
def test_what_is_finished_is_not_done_again(tmp_path):
    path = create(tmp_path / "t", Source())
    counting = FaultStorage(LocalStorage.at(path), DEAD, at=10**6)
    other = shutil.copytree(path, tmp_path / "other")
    build(counting, Source())
    last = max(n for n, call in enumerate(counting.log) if call.endswith(".hfile"))
    with pytest.raises(Killed):
        build(FaultStorage(LocalStorage.at(other), DEAD, at=last + 1), Source())
    going_on = FaultStorage(LocalStorage.at(other))
    build(going_on, Source())
    assert len([call for call in going_on.log if call.endswith(".hfile")]) == 1
    assert not [call for call in going_on.log if call.endswith(".rows")]


@pytest.mark.usefixtures("small")
def test_a_build_that_died_at_its_commit_keeps_its_files(tmp_path):
    """Its delta commit is taken back, and made again under the same instant."""
    path = create(tmp_path / "t", Source())
    counting = FaultStorage(LocalStorage.at(shutil.copytree(path, tmp_path / "whole")))
    build(counting, Source())
    commits = [n for n, call in enumerate(counting.log, 1) if "010.deltacommit" in call]
    assert len(commits) == 3
    for number in (*commits, commits[-1] + 1):
        root = shutil.copytree(path, tmp_path / str(number))
        with pytest.raises(Killed):
            build(FaultStorage(LocalStorage.at(root), DEAD, at=number), Source())
        going_on = FaultStorage(LocalStorage.at(root))
        build(going_on, Source())
        assert not [call for call in going_on.log if call.endswith((".hfile", ".rows"))]


@pytest.mark.usefixtures("small")
def test_another_source_starts_over(tmp_path):
    path = create(tmp_path / "t", Source())
    with pytest.raises(Killed):
        build(FaultStorage(LocalStorage.at(path), DEAD, at=12), Source())
    other = Source(salt="other")
    build(LocalStorage.at(path), other)
    model = other.model()
    assert answers(path, model) == model


@dataclass(frozen=True)
class Repeating(Source):
    def make(self, numbers):
        return super().make(numbers % 249)


@pytest.mark.usefixtures("small")
def test_repeated_keys_are_counted(tmp_path):
    path = create(tmp_path / "t", Source())
    with pytest.raises(DuplicateKeyError, match=r"^1 rows"):
        build(LocalStorage.at(path), Repeating())


def test_a_key_that_is_made_anew_as_another_one_is_found(tmp_path, monkeypatch):
    """What the scan saw counts: the digest of the shards must be that of the scan."""
    path = create(tmp_path / "t", Source())
    real = Source.make
    calls = []

    def changing(self, numbers):
        calls.append(numbers)
        columns, groups = real(self, numbers)
        return columns, groups if len(calls) == 1 else 1 - groups % 2 + groups // 2 * 2

    monkeypatch.setattr(Source, "make", changing)
    with pytest.raises(CorruptFileError, match="nothing was taken into use"):
        build(LocalStorage.at(path), Source())


def test_tables_with_rows_or_without_a_commit_are_refused(tmp_path):
    empty = Table.create(tmp_path / "empty", name="t", record_key="x", partition_path="d")
    empty.drop_index()
    with pytest.raises(InputError, match="with a commit and without base files"):
        empty.build_mappings(Source())
    path = create(tmp_path / "t", Source())
    table = Table.open(path, options=GROUPS)
    assert table.build_mappings(Source())
    assert not table.build_mappings(Source()), "it has an index"
    table.drop_index()
    table.build_index()
    table.insert(pa.table({"x": ["a"], "y": ["b"], "d": ["c"]}))
    table.drop_index()
    with pytest.raises(InputError, match="without base files"):
        table.build_mappings(Source())


NUMBERS = st.lists(st.integers(0, 10**6), unique=True, max_size=60)


class Memory:
    """A file that is a byte string."""

    name = "x.rows"

    def __init__(self, data):
        self.data, self.size = data, len(data)

    def read(self, offset, length):
        return self.data[offset : offset + length]


@given(NUMBERS, st.integers(1, 6), st.integers(0, 1 << 62))
def test_numbers_come_back_by_shard(numbers, shards, first):
    keys = pa.array([f"k{number}" for number in numbers], pa.string())
    sums = no_sums(shards)
    words = np.arange(2, dtype=np.uint64)[None, :]
    owner = assign(keys, np.zeros(len(keys), np.int32), words, sums)
    source = Memory(encode_numbers(first, partition_numbers(owner, sums), sums))
    found = []
    for number in range(shards):
        stretch = find_stretch(source, number, shards)
        mine = spilled_numbers(stretch).tolist()
        assert mine == [first + at for at in np.flatnonzero(owner == number).tolist()]
        assert stretch.rows == stretch.digest.count == len(mine)
        found += mine
    assert sorted(found) == [first + at for at in range(len(numbers))]
    cut = Memory(source.data[:-1])
    with pytest.raises(CorruptFileError, match=r"x\.rows"):
        find_stretch(cut, 0, shards)


def test_scan_tasks_cover_the_rows_once():
    for count, shards in ((1, 1), (10**6, 10), (10**9, 89), (1 << 22, 64)):
        bounds = list(rows.task_bounds(count, shards))
        assert bounds[0][0] == 0
        assert bounds[-1][1] == count
        assert all(end == later for (_, end), (later, _) in itertools.pairwise(bounds))
        assert max(end - first for first, end in bounds) <= 1 << 22
    assert record_index.ENTRY_BYTES * 10**9 > 1 << 36, "progress comes in many steps"
