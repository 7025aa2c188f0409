"""Purge: keys vanish from every file, the rest stays as it is.

Strategy: what is left is searched by `purge_cases`, which knows gzip, Parquet by pyarrow and the
shape of a cell, and nothing of the package. Histories are compared with a dict.
"""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dict_model import DELETED, Model, Shape, frame
from faults import DEAD, Killed, every_fault
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from purge_cases import entries, grep, key_rows, unchanged
from table_cases import (
    DUP_POLICY,
    by_listing,
    create,
    data_rows,
    files_listed,
    files_stored,
    left_over,
    unpack,
)
from typer.testing import CliRunner

from keymark import Table
from keymark.table.cli import app
from keymark.table.errors import CorruptFileError, InputError
from keymark.table.format.hashes.hashing import shards
from keymark.table.format.log.deletes import encode_deletes
from keymark.table.metadata.records import encode_locations
from keymark.table.metadata.writer import DeltaCommit
from keymark.table.services.purge.purge import key_digest
from keymark.table.state.table_state import TableState

KEYS = [f"customer-{number:05d}" for number in range(30)]
STATS = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
}
SMALL_BLOCKS = {"hoodie.hfile.block.size": "150"}


def history(root, options=None, **identity):
    """A table whose keys are in base files, logs and old slices of both tables."""
    table = create(root, {**STATS, **SMALL_BLOCKS, **(options or {})}, **identity)
    table.bulk_insert(key_rows(KEYS))
    for turn in range(3):
        part = slice(turn * 4, turn * 4 + 9)
        table.upsert(key_rows(KEYS[part], ts=2 + turn, v=f"turn {turn}"))
    if identity.get("index", "record") == "record":
        table.delete(KEYS[20:22])
        table.compact()
        table.upsert(key_rows(KEYS[2:6], ts=9, v="last"))
    return table


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    root = tmp_path_factory.mktemp("purge") / "t"
    history(root)
    return root


@pytest.fixture
def root(start, tmp_path):
    return shutil.copytree(start, tmp_path / "t")


def assert_purged(table, report, keys, rows):
    """The keys are nowhere, the rows are all there, index and listing agree."""
    root = table.storage.root
    assert report.proven
    assert report.files_left == 0
    assert entries(root, keys) == []
    assert grep(root, [key for key in keys if len(key.encode()) >= 8]) == []
    assert data_rows(Table.open(root)) == rows
    assert {key: values for key, (_, values) in by_listing(root).items()} == rows
    if "record_index" in table.config.metadata_partitions:
        assert table.check().ok
    assert files_listed(table) == files_stored(root)
    assert left_over(root) == []


def test_keys_vanish_and_the_rest_stays(root):
    table = Table.open(root)
    rows = data_rows(table)
    keys = [KEYS[0], KEYS[4], KEYS[20], KEYS[29], "customer-absent"]
    assert len({path for path, _ in grep(root, keys)}) > 10
    report = table.purge(keys)
    wanted = {key: values for key, values in rows.items() if key not in keys}
    assert_purged(table, report, keys, wanted)
    assert (report.keys, report.deleted) == (5, 3)
    assert report.slices_retired > 3
    assert report.shards_compacted >= 2
    assert report.files_searched > 50
    assert report.keys_as_bytes == 5
    text = json.dumps(asdict(report))
    assert not any(key in text for key in keys)
    again = table.purge(keys)
    assert (again.deleted, again.slices_retired, again.shards_compacted) == (0, 0, 0)
    assert again.proven
    table.upsert(key_rows(keys, ts=20))
    assert data_rows(table).keys() == rows.keys() | set(keys)


def test_its_compaction_merges_all_blocks(tmp_path):
    """Hudi archives up to it, and passes over blocks of archived instants: files would be lost.

    A group that nothing was ever put into keeps the empty block that opened it.
    """
    root = tmp_path / "t"
    table = history(root, {"hoodie.metadata.index.bloom.filter.file.group.count": "20"})
    assert table.purge(KEYS[:1]).proven
    state = TableState.load(table.storage)
    compacted = max(path.stem for path in (root / ".hoodie/metadata/.hoodie").glob("*.commit"))
    for partition in state.config.metadata_partitions:
        for shard in state.metadata.shards(partition):
            earlier = [block for block in shard.blocks if block.instant_time < compacted]
            assert {block.content() for block in earlier} <= {encode_deletes([], "")}, partition


def test_every_key_can_go(root):
    """Shards and files that nothing is left of; the table goes on."""
    table = Table.open(root)
    report = table.purge(KEYS)
    assert_purged(table, report, KEYS, {})
    table.upsert(key_rows(KEYS[:3]))
    assert data_rows(table).keys() == set(KEYS[:3])
    assert table.check().ok


def test_time_travel_that_needed_an_erased_file_is_refused(root):
    table = Table.open(root)
    commits = TableState.load(table.storage).timeline.completed({"commit"})
    assert KEYS[0] in data_rows(table, as_of=commits[0].time)
    report = table.purge([KEYS[0]])
    for commit in commits:
        with pytest.raises(InputError, match="of their files were cleaned"):
            table.scan(as_of=commit.time)
    assert KEYS[0] not in data_rows(table, as_of=report.instants[0])


def test_the_report_is_matched_by_keys_and_salt(root):
    report = Table.open(root).purge([KEYS[3], KEYS[1], KEYS[3]])
    assert report.keys == 2
    assert report.key_digest == key_digest(pa.array([KEYS[1], KEYS[3]]), report.salt)
    assert report.key_digest != key_digest(pa.array([KEYS[1], KEYS[2]]), report.salt)
    assert report.key_digest != key_digest(pa.array([KEYS[1], KEYS[3]]), "00" * 16)


def test_a_savepoint_that_keeps_a_key_refuses_it_by_name(root):
    table = Table.open(root)
    table.purge([KEYS[10]])
    instant = table.savepoint()
    before = unchanged(root)
    with pytest.raises(InputError, match=f"drop {instant} first") as refused:
        table.purge([KEYS[0], "customer-absent"])
    assert KEYS[0] not in str(refused.value)
    assert unchanged(root) == before
    assert table.purge(["customer-absent", KEYS[10]]).proven
    table.drop_savepoint(instant)
    rows = data_rows(table)
    rows.pop(KEYS[0])
    assert_purged(table, table.purge([KEYS[0]]), [KEYS[0]], rows)


def test_a_build_under_way_refuses_it(tmp_path):
    table = create(tmp_path / "t")
    table.upsert(key_rows(KEYS[:3]))
    table.schedule_index("column_stats")
    before = unchanged(tmp_path / "t")
    with pytest.raises(InputError, match="column_stats is being built"):
        table.purge(KEYS[:1])
    assert unchanged(tmp_path / "t") == before


@pytest.mark.parametrize("key", ["", "x" * 32768])
def test_what_can_be_no_key_is_refused(root, key):
    with pytest.raises(InputError, match="not 1 to 32767"):
        Table.open(root).purge([KEYS[0], key])


def test_short_and_foreign_keys_by_their_entries(tmp_path):
    keys = ["a", "b", "ä", "Ключ", "😀x", "c,d", "e:f", "k", "with a space", "polygenelubricants"]
    table = create(tmp_path / "t", {**STATS, **SMALL_BLOCKS})
    table.bulk_insert(key_rows(keys))
    table.upsert(key_rows(keys[::2], ts=2))
    table.compact()
    rows = data_rows(table)
    for part in (keys[1:4], keys[:1], keys[4:8]):
        for key in part:
            rows.pop(key)
        assert_purged(table, table.purge(part), part, rows)


def test_composite_keys(tmp_path):
    table = create(tmp_path / "t", {**STATS, **SMALL_BLOCKS}, record_key=["k", "ts"])
    names = ["customer", "orders,ts:1", "__null__"] * 2
    batch = key_rows(names, ts=[1, 2, 3, 4, 5, 6])
    table.bulk_insert(batch)
    table.upsert(batch.set_column(3, "v", [["new"] * 6]))
    rows = data_rows(table)
    keys = ["k:customer,ts:1", "k:orders,ts:1,ts:5"]
    for key in keys:
        rows.pop(key)
    report = table.purge(keys)
    assert_purged(table, report, keys, rows)
    assert report.deleted == 2
    # The other rows of the same values stay, and those values are no part of the search.
    assert {values[0] for values in rows.values()} == set(names)


@pytest.mark.parametrize(
    "identity",
    [
        {"index": "global_simple"},
        {"index": "bucket", "options": {"hoodie.bucket.index.num.buckets": "2"}},
    ],
)
def test_tables_without_record_index(tmp_path, identity):
    table = history(tmp_path / "t", **identity)
    rows = data_rows(table)
    keys = [KEYS[0], KEYS[5], KEYS[29]]
    wanted = {key: values for key, values in rows.items() if key not in keys}
    assert_purged(table, table.purge(keys), keys, wanted)


def test_a_key_goes_from_every_partition(tmp_path):
    """With a partition-local index one key is several rows."""
    options = {"hoodie.bucket.index.num.buckets": "1"}
    table = create(tmp_path / "t", options, index="bucket")
    for partition in ("x", "y"):
        table.upsert(key_rows(KEYS[:3], p=partition))
    report = table.purge([KEYS[1]])
    assert report.proven
    assert report.deleted == 1
    assert grep(tmp_path / "t", [KEYS[1]]) == []
    found = [row["k"] for part in table.scan().tables() for row in part.to_pylist()]
    assert sorted(found) == sorted([KEYS[0], KEYS[2]] * 2)


def test_copies_that_the_index_knows_nothing_of(tmp_path):
    table = create(tmp_path / "t", {DUP_POLICY: "none"})
    table.bulk_insert(key_rows(KEYS[:4]))
    table.bulk_insert(key_rows(KEYS[2:5]))
    assert not table.check().ok
    assert table.purge([KEYS[2], KEYS[3]]).proven
    assert grep(tmp_path / "t", [KEYS[2], KEYS[3]]) == []
    assert table.check().ok


def test_entries_in_the_wrong_shard_and_of_keys_without_rows(root):
    table = Table.open(root)
    ghost = "customer-ghost"
    state = TableState.load(table.storage)
    instant = max(i.time for i in state.timeline.completed()) + "050"
    delta = DeltaCommit(state.metadata, instant, 1 << 20)
    delta.begin()
    wrong = 1 - int(shards(pa.array([ghost]), 2)[0])
    value = encode_locations(["p0"], ["00000000-0000-0000-0000-000000000000-0"], [1])
    delta.stats.append(delta.group("record_index", wrong, pa.array([ghost]), value).write())
    delta.complete()
    assert not table.check().ok
    assert table.purge([ghost]).proven
    assert grep(root, [ghost]) == []
    assert table.check().ok


def test_left_overs_are_swept(root):
    """Files that no listing names, markers with keys in them, a partition nobody uses."""
    table = Table.open(root)
    rows = data_rows(table)
    key = next(key for key in rows if key != KEYS[0])
    rows.pop(key)
    base = next(path for path in files_stored(root) if key in _keys(root / path))
    stray = f"{base.rpartition('/')[0]}/stray-0_0-0-0_20200101000000000.parquet"
    shutil.copy(root / base, root / stray)
    old = root / ".hoodie/.temp/20200101000000000/.keymark/0.keys"
    unused = root / ".hoodie/metadata/secondary/.hoodie_partition_metadata"
    spill = root / ".hoodie/.keymark/build/record_index/scan-0.keys"
    for path in (old, unused, spill):
        path.parent.mkdir(parents=True)
        path.write_bytes(key.encode())
    assert_purged(table, table.purge([key]), [key], rows)


def _keys(path):
    return pq.ParquetFile(path).read(["_hoodie_record_key"]).column(0).to_pylist()


def test_a_foreign_file_with_a_key_is_told_of(root, tmp_path):
    (root / "notes.txt").write_text(f"ask {KEYS[7]}")
    keys = tmp_path / "keys.txt"
    keys.write_text(f"{KEYS[7]}\n{KEYS[8]}\n")
    done = CliRunner().invoke(app, ["purge", str(root), "--keys", str(keys), "--json"])
    assert done.exit_code == 1
    answer = json.loads(done.stdout)
    assert (answer["proven"], answer["files_left"], answer["deleted"]) == (False, 1, 2)
    assert KEYS[7] not in done.stdout
    (root / "notes.txt").unlink()
    done = CliRunner().invoke(app, ["purge", str(root), "--keys", str(keys), "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["proven"] is True
    done = CliRunner().invoke(app, ["purge", str(root), "--key", KEYS[9], "--json"])
    assert json.loads(done.stdout)["deleted"] == 1


def test_a_key_in_a_row_of_another_key_is_counted(root):
    """The row stays, and the key's own entries are gone all the same."""
    table = Table.open(root)
    table.upsert(key_rows([KEYS[1]], ts=30, v=f"sent by {KEYS[0]}, see there"))
    rows = data_rows(table)
    rows.pop(KEYS[0])
    report = table.purge([KEYS[0], KEYS[5]])
    assert (report.proven, report.keys_in_other_values, report.keys_as_bytes) == (True, 1, 1)
    rows.pop(KEYS[5])
    assert data_rows(table) == rows
    assert entries(root, KEYS[:1]) == []
    assert grep(root, [KEYS[5]]) == []


def test_a_key_in_an_old_version_of_another_row_goes(root):
    table = Table.open(root)
    table.upsert(key_rows([KEYS[1]], ts=30, v=f"sent by {KEYS[0]}"))
    table.upsert(key_rows([KEYS[1]], ts=31, v="sent by nobody"))
    rows = data_rows(table)
    rows.pop(KEYS[0])
    assert_purged(table, table.purge([KEYS[0]]), [KEYS[0]], rows)


def test_a_key_within_a_longer_key(tmp_path):
    table = create(tmp_path / "t", STATS)
    longer = [f"{KEYS[0]}{end}" for end in "123"]
    table.bulk_insert(key_rows([KEYS[0], *longer]))
    report = table.purge([KEYS[0]])
    assert (report.proven, report.keys_in_other_values) == (True, 1)
    assert data_rows(table).keys() == set(longer)
    assert entries(tmp_path / "t", KEYS[:1]) == []


def test_errors_name_no_key(root):
    """A file that cannot be read proves nothing."""
    table = Table.open(root)
    path = root / max(files_stored(root))
    data = bytearray(path.read_bytes())
    for at in range(4, len(data) // 2, 97):
        data[at] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(CorruptFileError) as damaged:
        table.purge(KEYS)
    assert not any(key in str(damaged.value) for key in KEYS)


def test_hudis_own_tables(tmp_path):
    root = unpack("hudi-0.15.0-record_index.tar.gz", tmp_path) / "record_index/table"
    table = Table.open(root)
    rows = by_listing(root)
    keys = [min(rows), max(rows), sorted(rows)[len(rows) // 2]]
    assert all(len(key) >= 8 for key in keys)
    report = table.purge(keys)
    assert report.proven
    assert report.deleted == 3
    assert grep(root, keys) == []
    assert by_listing(root).keys() == rows.keys() - set(keys)
    assert table.check().ok


@pytest.mark.slow
def test_a_death_at_any_call_is_made_good_by_another_purge(tmp_path):
    start = tmp_path / "start"
    table = create(start, {"hoodie.metadata.index.column.stats.enable": "true"})
    table.bulk_insert(key_rows(KEYS[:5]))
    table.upsert(key_rows(KEYS[:2], ts=2, v="new"))
    table.delete(KEYS[4:5])
    keys = [KEYS[0], KEYS[4]]
    rows = {k: v for k, v in data_rows(Table.open(start)).items() if k not in keys}
    numbers = itertools.count()

    def copy():
        return str(shutil.copytree(start, tmp_path / f"t{next(numbers)}"))

    for _, storage in every_fault(DEAD, copy):
        try:
            report = Table(storage).purge(keys)
        except Killed:
            table = Table.open(storage.root)
            assert data_rows(table).keys() - set(keys) == rows.keys()
            assert_purged(table, table.purge(keys), keys, rows)
            shutil.rmtree(storage.root)
    assert storage.calls > 30
    assert_purged(Table.open(storage.root), report, keys, rows)


LONG = ["customer-1000-ß", "customer-2000", "a:b,c/d-and-more", "zzzzzzzzz", "Ключевой"]
SHORT = ["a", "😀x", "e:f", "zz"]
shapes = st.builds(
    Shape,
    composite=st.booleans(),
    partitions=st.sampled_from([0, 1]),
    event_time=st.just(False),
    moves=st.booleans(),
    ordering=st.just(True),
    max_file=st.sampled_from(["125829120", "2500"]),
    small_limit=st.sampled_from(["104857600", "0"]),
    shards=st.sampled_from(["1", "3"]),
    hive_style=st.just(False),
)
row_values = st.fixed_dictionaries(
    {
        "k": st.sampled_from(LONG + SHORT),
        "n": st.sampled_from([None, 7]),
        "p": st.sampled_from(["x", "y"]),
        "q": st.just("1"),
        "ts": st.integers(0, 4),
        DELETED: st.just(False),
    }
)
batches = st.lists(row_values, min_size=1, max_size=8)
steps = st.one_of(
    st.tuples(st.just("upsert"), batches),
    st.tuples(st.just("delete"), batches),
    st.tuples(st.just("bulk_insert"), batches),
    st.tuples(st.sampled_from(["compact", "clean"]), st.just([])),
    st.tuples(st.just("purge"), batches),
)


@pytest.mark.slow
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    shape=shapes,
    stats=st.booleans(),
    past=st.lists(steps, min_size=3, max_size=6),
    last=batches,
)
def test_histories_with_purges(shape, stats, past, last):
    chosen = {"hoodie.cleaner.commits.retained": "2", **(STATS if stats else {})}
    with tempfile.TemporaryDirectory() as folder:
        model = Model(shape)
        shape.create(Path(folder) / "t")
        for step, batch in [*past, ("purge", last)]:
            table = Table.open(f"{folder}/t", options={**shape.options, **chosen})
            if step == "purge":
                keys = sorted({shape.key(row) for row in batch})
                report = table.purge(keys)
                assert report.deleted == model.delete(batch)["deleted"]
                assert_purged(table, report, keys, wanted(model))
            elif step in ("compact", "clean"):
                getattr(table, step)()
            elif step == "delete":
                table.delete([shape.key(row) for row in batch])
                model.delete(batch)
            elif step == "upsert":
                table.upsert(frame(valued(batch), flags=False))
                model.upsert(batch)
            elif not model.clashes(batch):
                table.bulk_insert(frame(valued(batch), flags=False))
                model.insert(batch)


def valued(batch):
    for number, row in enumerate(batch):
        row["v"] = number
    return batch


def wanted(model):
    columns = ("k", "n", "p", "q", "ts", "v")
    return {key: tuple(row[c] for c in columns) for key, row in model.rows.items()}
