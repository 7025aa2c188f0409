"""Damaged tables: a typed error that names the file, or the right answer; never another answer.

Strategy: each file of a table in turn is emptied, taken away, cut short, and has bits flipped at
seeded places; the table is read, looked up and checked each time. Then the kinds one by one, with
what must be said.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from table_cases import MOVES, create, data_rows, left_over, rows, unpack
from table_cases import files as all_files

from keymark import Table
from keymark.table.errors import CorruptFileError, StorageError, TableError
from keymark.table.metadata.records import encode_files
from keymark.table.state.table_state import TableState
from keymark.table.storage.local_storage import LocalStorage

SEED = 20
# A commit that is gone was never completed, and a table without a marker of its commits is empty.
_COMMIT = re.compile(r"^\.hoodie/\d+\.commit$")


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """A table of three commits."""
    root = tmp_path_factory.mktemp("damage") / "t"
    table = create(root, {MOVES: "true"})
    table.bulk_insert(rows(range(9)))
    table.upsert(rows(range(6, 12), ts=3, partition="p1"))
    table.delete(["k1"])
    return root


@pytest.fixture(scope="module")
def hudis(tmp_path_factory):
    """A table of Hudi's with all metadata partitions, compacted."""
    folder = unpack("hudi-0.15.0-states.tar.gz", tmp_path_factory.mktemp("damage"))
    return folder / "a_6_before_fail"


def answer(root: Any) -> list[Any]:
    """All that a reader can ask."""
    table = Table.open(str(root))
    found = data_rows(table)
    keys = ["absent", "k1", *sorted(found)]
    checked = table.check()
    if not checked.ok:
        raise CorruptFileError("table", 0, f"the check tells: {checked}")
    # The check also reports pending work, which is no difference.
    return [found, table.lookup(keys).to_pylist(), replace(checked, pending=())]


def damages(path: str, data: bytes, chosen: random.Random):
    """The contents that a file is given in turn; None takes it away."""
    yield "empty", b""
    if not _COMMIT.match(path):
        yield "gone", None
    for _ in range(1 if data else 0):
        at = chosen.randrange(len(data))
        yield f"cut at {at}", data[:at]
        # The ends of files say the most.
        for place in (chosen.randrange(len(data)), len(data) - 1 - at % min(len(data), 500)):
            flipped = data[place] ^ 1 << chosen.randrange(8)
            yield f"bit of byte {place}", data[:place] + bytes([flipped]) + data[place + 1 :]


@pytest.mark.parametrize("kind", ["ours", "hudis"])
def test_any_damage_is_told_or_does_no_harm(kind, request, tmp_path):
    source = request.getfixturevalue(kind)
    root = shutil.copytree(source, tmp_path / "t")
    wanted = answer(root)
    chosen = random.Random(SEED)
    paths = all_files(root)
    told = 0
    for path in paths if kind == "ours" else chosen.sample(paths, 9):
        whole = (root / path).read_bytes()
        for what, data in damages(path, whole, chosen):
            if data is None:
                (root / path).unlink()
            else:
                (root / path).write_bytes(data)
            try:
                assert answer(root) == wanted, f"{path}: {what}"
            except TableError:
                told += 1
            (root / path).write_bytes(whole)
    assert told > 5
    assert answer(root) == wanted


def _only(root: Path, pattern: str) -> Path:
    """The file of that pattern with the latest instant that holds anything."""
    found = [path for path in root.glob(pattern) if path.stat().st_size]
    return max(found, key=lambda path: (path.name.rpartition("_")[2], path.name))


KINDS = {
    "data": "p1/*.parquet",
    "commit": ".hoodie/*.commit",
    "delta commit": ".hoodie/metadata/.hoodie/2*.deltacommit",
    "listing, base": ".hoodie/metadata/files/*.hfile",
    "listing, log": ".hoodie/metadata/files/.files*.log.[2-9]*",
    "index, log": ".hoodie/metadata/record_index/.record*.log.[2-9]*",
    "properties": ".hoodie/hoodie.properties",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keep", [0.0, 0.5, 0.99])
def test_a_cut_file_is_named_and_nothing_is_written(ours, tmp_path, kind, keep):
    root = shutil.copytree(ours, tmp_path / "t")
    path = _only(root, KINDS[kind])
    whole = path.read_bytes()
    if kind == "properties":
        keep *= whole.index(b"hoodie.table.name") / len(whole)
    path.write_bytes(whole[: int(len(whole) * keep)])
    before = all_files(root)

    def ask() -> None:
        answer(root)

    def write() -> None:
        table = Table.open(str(root))
        table.upsert(rows(range(4, 20), ts=9, partition="p1"))

    for act in (ask, write):
        with pytest.raises(CorruptFileError) as caught:
            act()
        assert path.name in str(caught.value)
        assert "\n" not in str(caught.value)
    assert all_files(root) == before
    path.write_bytes(whole)
    assert left_over(root) == []
    Table.open(str(root)).upsert(rows(range(4, 20), ts=9, partition="p1"))
    assert Table.open(str(root)).check().ok


def test_a_cut_base_file_of_the_index(hudis, tmp_path):
    root = shutil.copytree(hudis, tmp_path / "t")
    path = _only(root, ".hoodie/metadata/record_index/*.hfile")
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(CorruptFileError, match=re.escape(path.name)):
        Table.open(str(root)).check()


def test_a_log_file_that_grew_is_as_good(ours, tmp_path):
    """Storage may append: what the commit recorded is there, a torn block behind it is nobody's."""
    root = shutil.copytree(ours, tmp_path / "t")
    wanted = answer(root)
    path = _only(root, KINDS["index, log"])
    path.write_bytes(path.read_bytes() + b"#HUDI#\x00\x00")
    with pytest.raises(CorruptFileError, match=re.escape(path.name)):
        answer(root)
    path.write_bytes(path.read_bytes()[:-8])
    assert answer(root) == wanted


def test_a_whole_file_group_of_the_index_that_is_gone(ours, tmp_path):
    """Keys would be looked for in the wrong shard."""
    root = shutil.copytree(ours, tmp_path / "t")
    for path in (root / ".hoodie/metadata/record_index").glob(".record-index-0000-0*"):
        path.unlink()
    with pytest.raises(CorruptFileError, match=r"record-index-0000-0.* is gone"):
        Table.open(str(root)).lookup(["k1"])


# ---------------------------------------------------------------- names that lead away


@pytest.mark.parametrize("name", ["../../../out", "/etc/out", "p0/../../../out", "a/./b", "x\0y"])
@pytest.mark.parametrize("place", ["partition", "file"])
def test_names_in_the_listing_that_lead_away(ours, tmp_path, name, place):
    root = shutil.copytree(ours, tmp_path / "t")
    table = Table.open(str(root))
    base = "x-0_1-0-1_20200101000000000.parquet"
    _poison(table, *(("p0", f"{name}/{base}") if place == "file" else (name, base)))
    with pytest.raises(CorruptFileError, match=r"leaves the table|leads to another folder"):
        data_rows(table)
    with pytest.raises(CorruptFileError):
        table.upsert(rows([1]))


def _poison(table: Table, partition: str, name: str) -> None:
    """Add a commit whose listing names such a file, as only an attacker would."""
    from keymark.table.metadata.writer import DeltaCommit

    state = TableState.load(table.storage)
    time = "20990101000000000"
    state.timeline.begin(time, "commit")
    delta = DeltaCommit(state.metadata, time, 1 << 20)
    delta.begin()
    records = {
        "__all_partitions__": encode_files({partition: (0, False)}, record_type=1),
        partition: encode_files({name: (10, False)}, record_type=2),
    }
    delta.put_records("files", records)
    delta.complete()
    empty = {"partitionToWriteStats": {}, "extraMetadata": {}, "operationType": "UPSERT"}
    state.timeline.start(time, "commit")
    state.timeline.complete(time, "commit", json.dumps(empty).encode())


@pytest.mark.parametrize(
    "line",
    [
        "../../victim-0_1-0-1_{time}.parquet.marker.CREATE",
        "/victim-0_1-0-1_{time}.parquet.marker.CREATE",
        "p0/../../victim-0_1-0-1_{time}.parquet.marker.CREATE",
    ],
)
def test_markers_of_a_dead_writer_that_lead_away(ours, tmp_path, line):
    """Undoing deletes what markers name: it must not delete what is not the table's."""
    root = shutil.copytree(ours, tmp_path / "t")
    time = "20990101000000000"
    victim = tmp_path / f"victim-0_1-0-1_{time}.parquet"
    victim.write_bytes(b"precious")
    (root / f".hoodie/{time}.commit.requested").write_bytes(b"")
    markers = root / f".hoodie/.temp/{time}"
    markers.mkdir(parents=True)
    (markers / "MARKERS0").write_text(line.format(time=time))
    with pytest.raises(CorruptFileError, match="leaves the table"):
        Table.open(str(root)).upsert(rows([1]))
    assert victim.read_bytes() == b"precious"


def test_markers_that_name_files_of_others_delete_nothing(ours, tmp_path):
    root = shutil.copytree(ours, tmp_path / "t")
    wanted = answer(root)
    time = "20990101000000000"
    (root / f".hoodie/{time}.commit.requested").write_bytes(b"")
    markers = root / f".hoodie/.temp/{time}"
    markers.mkdir(parents=True)
    live = [path for path in all_files(root) if not path.startswith(f".hoodie/.temp/{time}")]
    (markers / "MARKERS0").write_text("".join(f"{path}.marker.CREATE\n" for path in live))
    assert Table.open(str(root)).delete(["absent"]).unchanged == 1
    assert answer(root) == wanted
    assert not (root / f".hoodie/{time}.commit.requested").exists()


def test_commits_that_name_files_elsewhere_touch_nothing(ours, tmp_path):
    root = shutil.copytree(ours, tmp_path / "t")
    victim = tmp_path / "victim-0_1-0-1_20200101000000000.parquet"
    victim.write_bytes(b"precious")
    for pattern in (".hoodie/*.commit", ".hoodie/metadata/.hoodie/2*.deltacommit"):
        path = _only(root, pattern)
        commit = json.loads(path.read_bytes())
        for stats in commit["partitionToWriteStats"].values():
            stats.append({**stats[0], "path": f"../{victim.name}", "partitionPath": ".."})
        path.write_text(json.dumps(commit))
    table = Table.open(str(root))
    assert table.upsert(rows([1, 20], ts=9)).inserted == 2
    assert table.check().missing_paths == (f"../{victim.name}",)
    assert victim.read_bytes() == b"precious"


def test_storage_refuses_paths_that_leave_it(tmp_path):
    (tmp_path / "out").write_bytes(b"precious")
    (tmp_path / "t").mkdir()
    storage = LocalStorage.at(str(tmp_path / "t"))
    calls = [
        storage.read,
        storage.open,
        storage.delete,
        storage.delete_tree,
        storage.list,
        storage.exists,
        lambda path: storage.put(path, b"x"),
        lambda path: storage.replace(path, b"x"),
        lambda path: list(storage.walk(path)),
    ]
    for path in ("../out", "a/../../out", ".."):
        for call in calls:
            with pytest.raises(StorageError, match="leaves the table"):
                call(path)
    assert (tmp_path / "out").read_bytes() == b"precious"
