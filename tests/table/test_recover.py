"""`table recover`: files of the newest commits are empty, cut or gone; what is older stays."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from faults import DEAD, FaultStorage, Killed, every_fault
from table_cases import (
    DUP_POLICY,
    MOVES,
    by_hudi_rs,
    by_listing,
    create,
    left_over,
    rows,
    unpack,
)
from typer.testing import CliRunner

from keymark import Table
from keymark.table.cli import app
from keymark.table.errors import (
    CorruptFileError,
    IndexUnavailableError,
    InputError,
    TableError,
    TableWarning,
)
from keymark.table.properties.config import load_config
from keymark.table.properties.seal import RECOVERY
from keymark.table.services.recover.recover import Recoverer
from keymark.table.storage.local_storage import LocalStorage

PROPERTIES = ".hoodie/hoodie.properties"


def state(root: Path) -> dict[str, tuple]:
    """Key -> place and values, by listing storage."""
    return by_listing(root)


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """A table of five commits, a copy of it after each."""
    root = tmp_path_factory.mktemp("recover")
    table = create(root / "t", {MOVES: "true"})
    copies = []
    steps = (
        lambda: table.bulk_insert(rows(range(9))),
        lambda: table.upsert(rows(range(6, 12), ts=2)),
        lambda: table.upsert(rows([1, 20], ts=3, partition="p1")),
        lambda: table.delete(["k2"]),
        lambda: table.upsert(rows(range(4), ts=5, value="w")),
    )
    for number, step in enumerate(steps):
        step()
        copies.append(shutil.copytree(root / "t", root / f"{number}"))
    return copies


def new_files(before: Path, after: Path) -> list[str]:
    """The files that the steps between two copies made or changed."""
    found = []
    for path in sorted(after.rglob("*")):
        name = str(path.relative_to(after))
        if path.is_dir() or "/.keymark/lease/" in name or "/.temp/" in name:
            continue
        old = before / name
        if not old.exists() or old.read_bytes() != path.read_bytes():
            found.append(name)
    return found


def check(root: Path, wanted: Path) -> None:
    """The table is as it was in a copy, and works."""
    assert state(root) == state(wanted)
    table = Table.open(str(root))
    assert table.check().ok
    found = {}
    for part in table.scan().tables():
        found.update(zip(part["k"].to_pylist(), part["v"].to_pylist(), strict=True))
    assert found == {key: values[3] for key, (_, values) in state(wanted).items()}
    assert left_over_of(root) == []
    assert table.upsert(rows([0, 50], ts=9)).inserted == 1 + ("k0" not in found)
    assert Table.open(str(root)).check().ok
    assert sorted(key for key, _, _ in by_hudi_rs(root)) == sorted(state(root))


def left_over_of(root: Path) -> list[str]:
    return [path for path in left_over(root) if "/.keymark/torn/" not in path]


def test_twenty_empty_files_of_the_last_commits(history, tmp_path):
    """As a power cut leaves them, a .deltacommit among them."""
    root = shutil.copytree(history[4], tmp_path / "t")
    torn = [name for name in new_files(history[2], root) if "properties" not in name]
    assert any(name.endswith(".deltacommit") for name in torn)
    for name in torn:
        (root / name).write_bytes(b"")
    for ask in (
        lambda t: list(t.scan().tables()),
        lambda t: t.lookup(["k1"]),
        lambda t: t.upsert(rows([1])),
        lambda t: t.check(),
    ):
        with pytest.raises(CorruptFileError, match=r"table recover PATH"):
            ask(Table.open(str(root)))
    shown = CliRunner().invoke(app, ["recover", str(root), "--dry-run", "--json"])
    assert shown.exit_code == 0, shown.output
    report = json.loads(shown.output)
    assert not report["done"]
    assert len(report["given_up"]) == 2
    done = CliRunner().invoke(app, ["recover", str(root), "--json"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    assert report["done"]
    aside = root / report["moved_to"]
    assert (aside / torn[0]).exists()
    check(root, history[2])


def test_each_of_the_newest_files_in_turn(history, tmp_path):
    names = [name for name in new_files(history[3], history[4]) if not name.endswith(".inflight")]
    assert len(names) > 6
    for number, name in enumerate(names):
        for keep in (0.0, 0.6):
            root = shutil.copytree(history[4], tmp_path / f"{number}-{keep}")
            data = (root / name).read_bytes()
            (root / name).write_bytes(data[: int(len(data) * keep)])
            report = Table.recover(str(root))
            lost = name.endswith((".commit", ".parquet"))
            assert len(report.given_up) == lost, name
            check(root, history[3 if lost else 4])
            shutil.rmtree(root)


def test_a_compaction_of_the_metadata_table_that_lost_its_last_file(tmp_path):
    """Something was written on top of it, so that it cannot be taken back."""
    root = tmp_path / "t"
    table = create(root, {MOVES: "true"})
    table.bulk_insert(rows(range(9)))
    table.compact()
    table.upsert(rows([1, 20], ts=3))
    wanted = state(root)
    (merged,) = (root / ".hoodie/metadata/.hoodie").glob("*.commit")
    merged.unlink()
    with pytest.raises(TableError, match="table recover PATH"):
        Table.open(str(root)).upsert(rows([1], ts=4))
    report = Table.recover(str(root))
    assert report.metadata == "built anew"
    assert report.given_up == ()
    assert state(root) == wanted
    assert Table.open(str(root)).check().ok
    Table.open(str(root)).upsert(rows([1], ts=4))


def test_a_whole_table_is_left_alone(history, tmp_path):
    root = shutil.copytree(history[4], tmp_path / "t")
    report = Table.recover(str(root))
    assert not report.done
    assert report.torn == ()
    assert not (root / ".hoodie/.keymark/torn").exists()
    check(root, history[4])


def test_a_purge_names_the_folder_of_torn_files_that_hold_the_key(history, tmp_path):
    root = shutil.copytree(history[4], tmp_path / "t")
    (root / max(root.glob(".hoodie/*.commit"))).write_bytes(b"")
    Table.recover(str(root))
    report = Table.open(str(root)).purge(["k1"])
    assert not report.proven
    assert any("table recover" in note and ".keymark/torn" in note for note in report.notes)
    shutil.rmtree(root / ".hoodie/.keymark/torn")
    assert Table.open(str(root)).purge(["k1"]).proven


def test_torn_properties_with_a_whole_backup(history, tmp_path):
    root = shutil.copytree(history[4], tmp_path / "t")
    shutil.copy(root / PROPERTIES, root / f"{PROPERTIES}.backup")
    (root / PROPERTIES).write_bytes(b"")
    assert Table.open(str(root)).lookup(["k1"]).num_rows == 1
    assert Table.recover(str(root)).done
    before, after = (load_config(LocalStorage.at(str(place))) for place in (history[4], root))
    assert before == after
    check(root, history[4])


def test_an_older_slice_that_is_torn_costs_only_time_travel(history, tmp_path):
    root = shutil.copytree(history[4], tmp_path / "t")
    current = {path for _, path in sorted(latest(root).items())}
    older = [p for p in root.glob("p*/*.parquet") if str(p.relative_to(root)) not in current]
    times = sorted(path.name.split("_")[2].split(".")[0] for path in older)
    for path in older:
        path.write_bytes(b"")
    report = Table.recover(str(root))
    assert report.given_up == ()
    assert len(report.older_files) == len(older)
    with pytest.raises(InputError, match="are gone"):
        Table.open(str(root)).scan(as_of=times[0])
    check(root, history[4])


def latest(root: Path):
    from table_cases import latest_files

    return latest_files(root)


def twice(root: Path):
    """A table with two keys in two rows each, as the option allows."""
    table = create(root, {DUP_POLICY: "none"})
    table.insert(rows(range(4), partition="p0"))
    table.insert(rows(range(2), ts=2, partition="p1"))
    assert table.check().duplicate == 2
    return table


def is_open(root: Path) -> bool:
    """Whether the table takes writes again."""
    table = Table.open(str(root))
    result = table.upsert(rows([3, 9], ts=9, partition="p0"))
    return (result.updated, result.inserted) == (1, 1)


def test_a_key_in_two_rows_is_no_matter_of_recovery(tmp_path):
    """It stays there, whatever is built anew: the table would be closed to writes for good."""
    twice(tmp_path / "t")
    report = Table.recover(str(tmp_path / "t"))
    assert not report.done
    assert report.torn == ()
    assert is_open(tmp_path / "t")


def test_a_torn_commit_of_a_table_with_a_key_in_two_rows(tmp_path):
    root = tmp_path / "t"
    table = twice(root)
    wanted = table.lookup(["k0", "k1", "k2"]).to_pylist()
    table.upsert(rows([0, 8], ts=3, partition="p0"))
    max(root.glob(".hoodie/*.commit")).write_bytes(b"")
    report = Table.recover(str(root))
    assert len(report.given_up) == 1
    assert report.metadata == "kept"
    assert Table.open(str(root)).lookup(["k0", "k1", "k2"]).to_pylist() == wanted
    assert is_open(root)


def test_a_torn_index_of_a_table_with_a_key_in_two_rows(tmp_path):
    """It cannot be built anew, and the table is left without."""
    root = tmp_path / "t"
    table = twice(root)
    table.compact()
    for torn in root.glob(".hoodie/metadata/record_index/*.hfile"):
        torn.write_bytes(b"")
    with pytest.warns(TableWarning, match="is without record_index now: 2 rows have a record key"):
        assert Table.recover(str(root)).metadata == "built anew"
    again = Table.open(str(root))
    assert {part.partition for part in again.indexes() if part.state == "in use"} == {"files"}
    assert sum(part.num_rows for part in again.scan().tables()) == 6
    with pytest.raises(IndexUnavailableError, match="table index build"):
        again.upsert(rows([9]))
    assert not Table.recover(str(root)).done


def damage_keys(path: Path) -> None:
    """Damage the column of the record keys; the footer stays whole."""
    group = pq.ParquetFile(path).metadata.row_group(0)
    columns = [group.column(n) for n in range(group.num_columns)]
    (keys,) = [c for c in columns if c.path_in_schema == "_hoodie_record_key"]
    data, start = bytearray(path.read_bytes()), keys.dictionary_page_offset
    data[(start or keys.data_page_offset) + keys.total_compressed_size // 2] ^= 1
    path.write_bytes(bytes(data))


def test_a_damaged_page_of_an_older_file_closes_no_table(history, tmp_path):
    """No commit was torn: to go back, or to build the metadata table anew, is no remedy."""
    root = shutil.copytree(history[3], tmp_path / "t")
    damaged = next(path for (part, _), path in sorted(latest(root).items()) if part == "p0")
    damage_keys(root / damaged)
    for dry_run in (True, False):
        with pytest.raises(CorruptFileError) as found:
            Table.recover(str(root), dry_run=dry_run)
        assert found.value.name == damaged
        assert new_files(history[3], root) == [damaged]
    assert Table.open(str(root)).upsert(rows([4], ts=9, partition="p1")).updated == 1


def test_a_damaged_page_of_an_older_file_beside_a_torn_commit(history, tmp_path):
    root = shutil.copytree(history[4], tmp_path / "t")
    damaged = next(path for (part, _), path in sorted(latest(history[3]).items()) if part == "p0")
    damage_keys(root / damaged)
    max(root.glob(".hoodie/*.commit")).write_bytes(b"")
    assert len(Table.recover(str(root)).given_up) == 1
    assert RECOVERY not in load_config(LocalStorage.at(str(root))).properties
    assert Table.open(str(root)).upsert(rows([4], ts=9, partition="p1")).updated == 1


RUNS = {
    "record": "secondary/v/*.parquet",
    "partitioned_record": "keys/*.parquet",
    "compact": "hashes/*.compact",
}


@pytest.mark.parametrize("torn", ["run", "run and commit"])
@pytest.mark.parametrize("index", RUNS)
def test_a_torn_run_of_an_index_of_values(tmp_path, index, torn):
    """As a power cut leaves one that was put after the last commit."""
    root = tmp_path / "t"
    table = create(root, index=index)
    table.upsert(rows(range(6)))
    table.build_secondary("v")
    before = state(root)
    table.upsert(rows(range(4), ts=2, value="w"))
    if torn == "run":
        before = state(root)
    else:
        max(root.glob(".hoodie/*.commit")).write_bytes(b"")
    run = min((root / ".hoodie/.keymark").glob(RUNS[index]))
    run.write_bytes(b"")
    shown = Table.recover(str(root), dry_run=True)
    assert not shown.done
    assert run.exists()
    report = Table.recover(str(root))
    assert report.done
    assert len(report.given_up) == (torn != "run")
    assert (root / report.moved_to / run.relative_to(root)).exists()
    if torn == "run":
        (reason,) = report.torn
        assert reason.startswith(str(run.relative_to(root)))
    assert state(root) == before
    assert not Table.recover(str(root)).done
    assert Table.open(str(root)).check().ok
    assert Table.open(str(root)).upsert(rows([0, 9], ts=9)).updated == 1
    assert Table.open(str(root)).check().ok


def test_killed_at_any_call_and_done_again(history, tmp_path):
    """Whatever a recovery has done when it dies, another one ends it."""
    torn = [n for n in new_files(history[2], history[4]) if not n.endswith((".inflight",))]
    made = [0]

    def copy() -> str:
        made[0] += 1
        root = shutil.copytree(history[4], tmp_path / f"{made[0]}")
        for name in torn[::2]:
            if name != PROPERTIES:
                (root / name).write_bytes(b"")
        return str(root)

    wanted, refused = None, 0
    for _, storage in every_fault(DEAD, copy, limit=400):
        try:
            Recoverer(storage=storage, given={}).run(dry_run=False)
        except Killed:
            root = Path(storage.root)
            if RECOVERY in load_config(LocalStorage.at(str(root))).properties:
                refused += 1
                with pytest.raises(TableError, match="table recover PATH"):
                    Table.open(str(root)).upsert(rows([0], ts=9))
            Table.recover(str(root))
        found = state(Path(storage.root))
        wanted = wanted or found
        assert found == wanted
        assert Table.open(storage.root).check().ok
        shutil.rmtree(storage.root)
    assert refused > 20


@dataclass
class DiesAfter(FaultStorage):
    """Dies right after the first change of a path with that end."""

    end: str = ""

    def _count(self, call: str, path: str, *, stores: bool) -> None:
        super()._count(call, path, stores=stores)
        if path.endswith(self.end):
            self.kind, self.at = DEAD, self.calls + 1


ONE_VERSION = {
    "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.cleaner.fileversions.retained": "1",
}


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("torn", [".hoodie/*.commit", "p0/*.parquet"])
def test_a_pending_clean_of_files_that_are_current_again_is_given_up(tmp_path, torn, dies):
    """Its writer died before it deleted anything."""
    root = tmp_path / "t"
    table = create(root, {MOVES: "true", **ONE_VERSION})
    table.bulk_insert(rows(range(6)))
    table.upsert(rows(range(6), ts=2))
    wanted = shutil.copytree(root, tmp_path / "wanted")
    dying = DiesAfter(LocalStorage.at(str(root)), end=".clean.requested")
    with pytest.raises(Killed):
        Table(dying, ONE_VERSION).upsert(rows(range(6), ts=3, value="w"))
    pending = max(root.glob(".hoodie/*.clean.requested")).name.partition(".")[0]
    assert not (root / f".hoodie/{pending}.clean").exists()
    newest = max(root.glob(torn), key=lambda path: path.stem.rpartition("_")[2])
    newest.write_bytes(b"")
    if dies:
        dying = DiesAfter(LocalStorage.at(str(root)), end=".commit.requested")
        with pytest.raises(Killed):
            Recoverer(storage=dying, given={}).run(dry_run=False)
    report = Table.recover(str(root))
    assert report.done
    assert len(report.given_up) == (not dies)
    assert report.other_instants == (f"{pending}.clean",)
    again = Table.recover(str(root))
    assert not again.done
    assert again.torn == ()
    check(root, wanted)


def test_nothing_is_given_up_that_cleaning_has_left_no_way_back_to(tmp_path):
    """An empty table would be no recovery."""
    root = tmp_path / "t"
    table = create(root, {"hoodie.cleaner.commits.retained": "1"})
    for step in range(5):
        table.upsert(rows(range(6), ts=step))
    for path in root.glob("p*/*.parquet"):
        path.write_bytes(b"")
    before = new_files(tmp_path / "none", root)
    with pytest.raises(CorruptFileError, match="nothing was changed"):
        Table.recover(str(root))
    assert new_files(tmp_path / "none", root) == before


def test_a_table_of_hudis(tmp_path):
    folder = unpack("hudi-0.15.0-states.tar.gz", tmp_path)
    before, root = folder / "a_5_upsert", folder / "a_6_before_fail"
    Table.open(str(before))
    for name in new_files(before, root):
        if not name.endswith("hoodie.properties"):
            (root / name).write_bytes(b"")
    report = Table.recover(str(root))
    assert report.done
    assert state(root) == state(before)
    assert Table.open(str(root)).check().ok
    assert sorted(key for key, _, _ in by_hudi_rs(root)) == sorted(state(root))
