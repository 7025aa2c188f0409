"""What a dead writer of Apache Hudi leaves: taken back by the next write, whatever its markers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from table_cases import create, data_rows, files_listed, files_stored, left_over, rows, unpack

from keymark import Table
from keymark.table.errors import UnsupportedTableError
from keymark.table.format.log.block import BlockType, HeaderKey
from keymark.table.format.log.writer import encode_block
from keymark.table.layout.naming import TEMP
from keymark.table.timeline.timeline import Timeline

DEAD = "20990101000000000"
TOKEN = "0-413-1331"


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = unpack("hudi-0.15.0-states.tar.gz", tmp_path_factory.mktemp("hudi"))
    return folder / "a_5_upsert"


@pytest.fixture
def root(source, tmp_path):
    return shutil.copytree(source, tmp_path / "t")


def _die(root: Path, *, state: str, markers: str) -> list[str]:
    """Leave what Hudi's writer leaves: base files in an old and a new partition, markers."""
    timeline = root / ".hoodie"
    (timeline / f"{DEAD}.commit.requested").write_bytes(b"")
    if state == "requested":
        return []
    (timeline / f"{DEAD}.inflight").write_bytes(b"{}")
    known = next((root / "p0").glob("*.parquet")).name.partition("_")[0]
    made = [
        f"p0/{known}_{TOKEN}_{DEAD}.parquet",
        f"p77/5d956fd1-5aad-486b-8d04-c1af70d258d9-0_{TOKEN}_{DEAD}.parquet",
    ]
    (root / "p77").mkdir()
    (root / "p77/.hoodie_partition_metadata").write_text(
        f"#partition metadata\n#Sat Nov 21 16:51:43 UTC 2026\ncommitTime={DEAD}\npartitionDepth=1\n"
    )
    for path in made:
        (root / path).write_bytes(b"PAR1 half")
        hidden = (root / path).with_name(f".{Path(path).name}.crc")
        hidden.write_bytes(b"crc")
    folder = root / TEMP / DEAD
    if markers == "direct":
        for path in made:
            marker = folder / f"{path}.marker.CREATE"
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.write_bytes(b"")
    elif markers == "timeline server":
        folder.mkdir(parents=True)
        (folder / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
        for number, path in enumerate(made):
            (folder / f"MARKERS{number}").write_text(f"{path}.marker.CREATE\n")
    if state == "metadata":
        _die_in_the_metadata_table(root)
    return made


def _die_in_the_metadata_table(root: Path) -> None:
    """A completed delta commit with a whole and a torn log file; the data commit is missing."""
    timeline = root / ".hoodie/metadata/.hoodie"
    for name in ("deltacommit.requested", "deltacommit.inflight"):
        (timeline / f"{DEAD}.{name}").write_bytes(b"")
    (timeline / f"{DEAD}.deltacommit").write_bytes(b"{}")
    for partition in ("files", "record_index", "column_stats"):
        folder = root / ".hoodie/metadata" / partition
        log = max(folder.glob(".*.log.*"), key=lambda path: path.name)
        stem = log.name.rpartition(".log.")[0]
        block = encode_block(
            BlockType.DELETE,
            {HeaderKey.INSTANT_TIME: DEAD, HeaderKey.SCHEMA: "{}"},
            b"\0\0\0\3\0\0\0\1\0",
        )
        (folder / f"{stem}.log.90_{TOKEN}").write_bytes(block)
        (folder / f"{stem}.log.91_{TOKEN}").write_bytes(block[:40])


@pytest.mark.parametrize("markers", ["direct", "timeline server", "none"])
@pytest.mark.parametrize("state", ["requested", "inflight", "metadata"])
def test_the_next_write_takes_it_back(root, state, markers):
    wanted = data_rows(Table.open(str(root)))
    before = left_over(root)
    made = _die(root, state=state, markers=markers)
    assert data_rows(Table.open(str(root))) == wanted
    assert Table.open(str(root)).check().ok
    table = Table.open(str(root))
    assert table.delete([min(wanted)]).deleted == 1
    assert left_over(root) == before
    for path in made:
        assert not (root / path).exists()
        assert not (root / path).with_name(f".{Path(path).name}.crc").exists()
    assert not (root / "p77/.hoodie_partition_metadata").exists()
    assert not (root / TEMP / DEAD).exists()
    wanted.pop(min(wanted))
    assert data_rows(table) == wanted
    assert table.check().ok
    assert files_listed(table) == files_stored(root)


def test_the_dead_instant_is_gone_from_the_timeline(root):
    _die(root, state="inflight", markers="direct")
    assert Table.open(str(root)).delete(["absent"]).instant < DEAD
    assert DEAD not in {i.time for i in Timeline.load(Table.open(str(root)).storage).instants}


def test_markers_of_a_completed_instant_are_swept(root):
    done = max((root / ".hoodie").glob("*.commit")).stem
    folder = root / TEMP / done / "p0"
    folder.mkdir(parents=True)
    live = max((root / "p0").glob("*.parquet"), key=lambda path: path.name.rpartition("_")[2])
    (folder / f"{live.name}.marker.MERGE").write_bytes(b"")
    wanted = data_rows(Table.open(str(root)))
    Table.open(str(root)).delete(["absent"])
    assert not folder.exists()
    assert live.exists()
    assert data_rows(Table.open(str(root))) == wanted


def test_a_clean_without_a_plan_is_taken_back(root):
    (root / f".hoodie/{DEAD}.clean.requested").write_bytes(b"")
    assert Table.open(str(root)).delete(["absent"]).unchanged == 1
    assert not (root / f".hoodie/{DEAD}.clean.requested").exists()


def test_a_compaction_of_the_metadata_table_is_taken_back(root):
    """Whoever began it is dead: its base files go, and the groups' slices are as they were."""
    before = left_over(root)
    group = "record-index-0000-0"
    pending = root / f".hoodie/metadata/.hoodie/{DEAD}001.compaction.requested"
    base = root / f".hoodie/metadata/record_index/{group}_0-0-7_{DEAD}001.hfile"
    pending.write_bytes(b"")
    base.write_bytes(b"half a file")
    wanted = data_rows(Table.open(str(root)))
    assert Table.open(str(root)).delete(["absent"]).unchanged == 1
    assert not pending.exists()
    assert not base.exists()
    assert data_rows(Table.open(str(root))) == wanted
    assert left_over(root) == before


@pytest.mark.parametrize("action", ["compaction", "logcompaction"])
def test_a_compaction_with_logs_on_top_is_refused(root, action):
    """Those log files would be merged without the base file that they are on top of."""
    timeline = root / ".hoodie/metadata/.hoodie"
    pending = timeline / f"{DEAD}001.{action}.requested"
    pending.write_bytes(b"")
    group = "record-index-0000-0"
    log = root / f".hoodie/metadata/record_index/.{group}_{DEAD}001.log.1_0-0-0"
    log.write_bytes(b"")
    wanted = data_rows(Table.open(str(root)))
    with pytest.raises(UnsupportedTableError, match=f"a {action} of instant {DEAD}001"):
        Table.open(str(root)).delete([min(wanted)])
    pending.unlink()
    log.unlink()
    assert data_rows(Table.open(str(root))) == wanted


def test_a_refusal_comes_before_anything_is_taken_back(root):
    made = _die(root, state="inflight", markers="direct")
    pending = root / ".hoodie/20990102000000000.replacecommit.requested"
    pending.write_bytes(b"")
    with pytest.raises(UnsupportedTableError, match="replacecommit"):
        Table.open(str(root)).delete(["absent"])
    assert all((root / path).exists() for path in made)


def test_a_dead_first_write(tmp_path):
    """Before the first commit nothing is visible, and nothing may become so."""
    root = tmp_path / "t"
    table = create(root)
    (root / ".hoodie/20200101000000000.commit.requested").write_bytes(b"")
    (root / ".hoodie/20200101000000000.inflight").write_bytes(b"")
    other = create(tmp_path / "other")
    other.upsert(rows([7], partition="p0"))
    (source,) = (tmp_path / "other/p0").glob("*.parquet")
    (root / "p0").mkdir()
    name = source.name.replace(source.stem.rpartition("_")[2], "20200101000000000")
    shutil.copy(source, root / "p0" / name)
    assert not data_rows(table)
    assert table.upsert(rows([1])).inserted == 1
    assert data_rows(table).keys() == {"k1"}
    assert left_over(root) == []


@pytest.mark.parametrize(("time", "stays"), [(DEAD, False), ("20200101000000000", True)])
def test_a_task_that_outlived_its_writer(root, time, stays):
    """Its instant is off the timeline: what it wrote goes, unless the instant may be archived."""
    path = f"p0/5d956fd1-5aad-486b-8d04-c1af70d258d9-0_{TOKEN}_{time}.parquet"
    (root / path).write_bytes(b"PAR1 half")
    marker = root / TEMP / time / f"{path}.marker.CREATE"
    marker.parent.mkdir(parents=True)
    marker.write_bytes(b"")
    Table.open(str(root)).delete(["absent"])
    assert (root / path).exists() == stays
    assert marker.exists() == stays


def test_a_task_that_outlived_a_completed_write(root):
    """What it wrote, no commit names: a reader that lists storage might take it for the slice."""
    done = max((root / ".hoodie").glob("*.commit")).stem
    named = max((root / "p0").glob(f"*_{done}.parquet"))
    file_id, _, _ = named.stem.split("_")
    path = f"p0/{file_id}_9-0-9_{done}.parquet"
    (root / path).write_bytes(b"PAR1 half")
    for name in (path, f"p0/{named.name}"):
        marker = root / TEMP / done / f"{name}.marker.MERGE"
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.write_bytes(b"")
    Table.open(str(root)).delete(["absent"])
    assert not (root / path).exists()
    assert named.exists()
