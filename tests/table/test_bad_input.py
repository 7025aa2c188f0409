"""Bad input: one clear line that names the thing, and the table as it was."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_cases import (
    DUP_POLICY,
    PAYLOAD,
    SHARDS,
    SMALL_BLOOMS,
    create,
    data_rows,
    files,
    left_over,
    rows,
    unpack,
)

from keymark import Table
from keymark.table.errors import (
    CorruptFileError,
    DuplicateKeyError,
    InputError,
    InvalidOptionError,
    NotATableError,
    StorageError,
    TableError,
    UnsupportedTableError,
)
from keymark.table.format.schema import META_COLUMNS
from keymark.table.layout.naming import BOOTSTRAPPED
from keymark.table.properties.seal import SEAL
from keymark.table.timeline.restore_metadata import RestorePlan, encode_restore_plan
from keymark.table.timeline.rollback_metadata import encode_plan

LOOKALIKE = "hoodie.parquet.max.file.sise"
GROWTH = "hoodie.metadata.record.index.growth.factor"


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table that every bad write leaves as it is."""
    made = create(tmp_path_factory.mktemp("bad") / "t")
    made.bulk_insert(rows(range(6)))
    return made


@pytest.fixture
def refused(table):
    """Asserts that a write is refused in one line and changes nothing."""
    before = data_rows(table)

    def check(error, match, write):
        with pytest.raises(error, match=match) as caught:
            write()
        assert "\n" not in str(caught.value)
        assert data_rows(table) == before
        assert left_over(table.storage.root) == []

    return check


def _changed(column, values):
    data = rows(["x1", "x2"])
    return data.set_column(data.schema.get_field_index(column), column, values)


BAD_ROWS = {
    "no key column": (rows([8]).drop_columns(["k"]), "record key field k is not a column"),
    "no partition column": (rows([8]).drop_columns(["p"]), "partition field p is not a column"),
    "no ordering column": (rows([8]).drop_columns(["ts"]), "ordering field ts is not a column"),
    "no data column": (rows([8]).drop_columns(["v"]), "no column 'v'"),
    "another column": (rows([8]).append_column("w", pa.array([1])), "column 'w'"),
    "a column twice": (rows([8]).append_column("v", pa.array(["a"])), "more than one column 'v'"),
    "a null key": (_changed("k", pa.array(["a", None])), "record key field k .* in row 1"),
    "an empty key": (_changed("k", pa.array(["", "b"])), "record key field k .* in row 0"),
    "a long key": (_changed("k", pa.array(["a", "b" * 32768])), "longer than 32767 bytes in row 1"),
    "another type": (_changed("ts", pa.array(["1", "x"])), "column 'ts'"),
    "a key of a float": (_changed("k", pa.array([1.5, 2.5])), "column 'k'"),
    "a nested key": (_changed("k", pa.array([[1], [2]])), "column 'k'"),
    "a partition upwards": (_changed("p", pa.array(["ok", "../up"])), "partition field p"),
    "a partition of dots": (_changed("p", pa.array([".", "ok"])), "partition field p"),
    "an absolute partition": (_changed("p", pa.array(["/etc", "ok"])), "partition field p"),
    "a reserved partition": (_changed("p", pa.array([".hoodie", "ok"])), "partition field p"),
    "Hudi's own partition": (
        _changed("p", pa.array(["__all_partitions__", "ok"])),
        "partition field p",
    ),
    "a partition with a NUL": (_changed("p", pa.array(["a\0b", "ok"])), "partition field p"),
    "flags of text": (
        rows([8]).append_column("_hoodie_is_deleted", pa.array(["yes"])),
        "_hoodie_is_deleted must be boolean",
    ),
}


@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert"])
@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows(table, refused, operation, name):
    data, message = BAD_ROWS[name]
    refused(InputError, message, lambda: getattr(table, operation)(data))


def test_a_very_long_partition_is_named(table, refused):
    data = _changed("p", pa.array(["ok", "x" * 300]))
    refused(TableError, "File name too long", lambda: table.upsert(data))


def test_a_partition_with_a_line_break_is_one_line(table, refused):
    data = _changed("p", pa.array(["ok", "x\n" + "y" * 300]))
    refused(TableError, "File name too long", lambda: table.upsert(data))


@pytest.mark.parametrize("value", [None, 3, "rows", [1], {"k": [1]}])
def test_rows_that_are_no_rows(table, refused, value):
    for write in (table.upsert, table.insert, table.bulk_insert):
        refused(InputError, "pyarrow Table", lambda write=write: write(value))


@pytest.mark.parametrize(
    "keys", [None, "k1", 7, [1], ["a", None], pa.array(["a", None]), pa.array([1.5]), [b"k1"]]
)
def test_keys_that_are_no_keys(table, refused, keys):
    for ask in (table.delete, table.lookup):
        refused(InputError, "key", lambda ask=ask: ask(keys))


@pytest.mark.parametrize("ask", ["delete", "lookup"])
def test_key_columns_that_are_missing(table, refused, ask):
    refused(InputError, "record key field k", lambda: getattr(table, ask)(pa.table({"z": ["a"]})))


def test_duplicates_with_policy_fail(table, refused):
    twice = rows(["n1", "n2", "n1"])
    known = rows(["n1", "k0"])
    for write in (table.insert, table.bulk_insert):
        refused(DuplicateKeyError, "1 repeated", lambda write=write: write(twice))
        refused(DuplicateKeyError, "1 in the table", lambda write=write: write(known))


def test_drop_is_not_for_bulk_insert(table, refused):
    dropping = Table(table.storage, {DUP_POLICY: "drop"})
    refused(InvalidOptionError, DUP_POLICY, lambda: dropping.bulk_insert(rows([9])))


def test_composite_keys_all_blank(tmp_path):
    table = create(tmp_path / "t", record_key=["k", "v"])
    blank = rows(["x", "x"]).set_column(0, "k", pa.array(["a", None]))
    blank = blank.set_column(3, "v", pa.array(["b", ""]))
    with pytest.raises(InputError, match="record key field k, v is null or empty in row 1"):
        table.upsert(blank)
    assert not data_rows(table)


def test_an_ordering_column_that_has_no_order(tmp_path):
    table = create(tmp_path / "t", ordering="tags")
    batch = rows(["a", "a"]).append_column("tags", pa.array([[1], [2]]))
    for write in (table.upsert, table.insert, table.bulk_insert):
        with pytest.raises(InputError, match=r"ordering field tags of type list<.*> has no order"):
            write(batch)


# ---------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({LOOKALIKE: "1"}, InvalidOptionError, "did you mean hoodie.parquet.max.file.size"),
        ({"hoodie.nonsense": "1"}, InvalidOptionError, "unknown option hoodie.nonsense"),
        ({"hoodie.clustering.inline": "true"}, UnsupportedTableError, "clustering"),
        ({PAYLOAD: "com.acme.Mine"}, UnsupportedTableError, "com.acme.Mine"),
        ({DUP_POLICY: "maybe"}, UnsupportedTableError, "maybe"),
        ({"hoodie.parquet.max.file.size": "-1"}, InvalidOptionError, "whole number"),
        ({"hoodie.parquet.max.file.size": "10 MB"}, InvalidOptionError, "whole number"),
        ({"hoodie.index.bloom.fpp": "high"}, InvalidOptionError, "number"),
        ({"hoodie.index.bloom.fpp": "nan"}, InvalidOptionError, "hoodie.index.bloom.fpp"),
        ({"hoodie.index.bloom.fpp": "0"}, InvalidOptionError, "hoodie.index.bloom.fpp"),
        ({"hoodie.index.bloom.fpp": "1"}, InvalidOptionError, "hoodie.index.bloom.fpp"),
        ({"hoodie.index.bloom.num_entries": "0"}, InvalidOptionError, "num_entries"),
        ({"hoodie.index.bloom.num_entries": "50000000"}, InvalidOptionError, "too large at"),
        ({GROWTH: "fast"}, InvalidOptionError, GROWTH),
        ({GROWTH: "nan"}, InvalidOptionError, GROWTH),
        ({GROWTH: "inf"}, InvalidOptionError, GROWTH),
        ({"hoodie.hfile.block.size": "0"}, InvalidOptionError, "hoodie.hfile.block.size"),
        ({"hoodie.parquet.block.size": "0"}, InvalidOptionError, "hoodie.parquet.block.size"),
        ({"hoodie.parquet.compression.codec": "lzo"}, UnsupportedTableError, "lzo"),
        ({"hoodie.parquet.bloom.filter.enabled": "maybe"}, InvalidOptionError, "true nor false"),
        ({"hoodie.index.type": "RANDOM"}, InvalidOptionError, "RANDOM"),
        ({"hoodie.index.type": "GLOBAL_BLOOM"}, InvalidOptionError, "differs from the table's own"),
        ({"keymark.recordkey.encoding": "prefixed"}, TableError, "keymark.recordkey.encoding"),
        ({"hoodie.populate.meta.fields": "false"}, InvalidOptionError, "meta.fields"),
    ],
)
def test_bad_options(table, options, error, message):
    with pytest.raises(error, match=message) as caught:
        Table(table.storage, options)
    assert "\n" not in str(caught.value)


GROUPS = "hoodie.metadata.record.index.{}.filegroup.count"


@pytest.mark.parametrize(
    ("changes", "options", "error", "message"),
    [
        ({"record_key": " , "}, {}, InvalidOptionError, "record_key is empty"),
        ({"record_key": []}, {}, InvalidOptionError, "record_key is empty"),
        ({"record_key": "a,a"}, {}, InvalidOptionError, "twice"),
        ({"partition_path": "p,p"}, {}, InvalidOptionError, "twice"),
        ({"index": "nonsense"}, {}, InvalidOptionError, "unknown index 'nonsense'"),
        ({"index": "hbase"}, {}, InvalidOptionError, "hoodie.index.hbase.table"),
        (
            {"index": "bucket"},
            {"hoodie.bucket.index.num.buckets": "0"},
            InvalidOptionError,
            "0 is too",
        ),
        ({}, {GROUPS.format("min"): "5", GROUPS.format("max"): "2"}, InvalidOptionError, "5 <= 2"),
        ({}, {GROUPS.format("min"): "0"}, InvalidOptionError, "1 <= 0"),
        ({}, {"hoodie.index.type": "BUCKET"}, InvalidOptionError, "contradicts index record"),
        ({"name": "a/b\n"}, {}, InvalidOptionError, "name"),
        ({}, {"keymark.recordkey.encoding": "prefixed"}, TableError, "keymark.recordkey.encoding"),
    ],
)
def test_bad_create(tmp_path, changes, options, error, message):
    identity = {"name": "t", "record_key": "k", "partition_path": "p", **changes}
    with pytest.raises(error, match=message) as caught:
        Table.create(str(tmp_path / "t"), options={**SHARDS, **options}, **identity)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "t" / ".hoodie").exists()


def test_creating_over_a_table(table):
    with pytest.raises(StorageError, match="holds a table already"):
        create(Path(table.storage.root))
    assert len(data_rows(table)) == 6


# ---------------------------------------------------------------- what is no table of ours


def test_paths_that_are_no_table(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty/.hoodie").mkdir(parents=True)
    for path in ("missing", "file", "empty", "file/below"):
        with pytest.raises(NotATableError, match="is not a Hudi table"):
            Table.open(str(tmp_path / path))
    with pytest.raises(StorageError, match="ftp://host/t: tables can be at file://, "):
        Table.open("ftp://host/t")
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        ("table.version=6", "table.version=5", UnsupportedTableError, "table.version=5"),
        ("table.version=6", "table.version=8", UnsupportedTableError, "table.version=8"),
        ("table.version=6", "x=y", UnsupportedTableError, "table.version=.missing"),
        ("COPY_ON_WRITE", "MERGE_ON_READ", UnsupportedTableError, "MERGE_ON_READ"),
        ("layout.version=1", "layout.version=2", UnsupportedTableError, "layout.version=2"),
        ("PARQUET", "ORC", UnsupportedTableError, "ORC"),
        ("hoodie.table.name=t", "hoodie.table.name=u", CorruptFileError, "checksum"),
        ("hoodie.table.name=t", "", CorruptFileError, "hoodie.table.name is missing"),
        ("hoodie.table.name=t", r"hoodie.table.name=\uZZZZ", CorruptFileError, "properties"),
        ("=RECORD_INDEX", "=NONSENSE", InvalidOptionError, "NONSENSE"),
    ],
)
def test_tables_of_other_kinds(tmp_path, old, new, error, message):
    create(tmp_path / "t")
    path = tmp_path / "t/.hoodie/hoodie.properties"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(error, match=message) as caught:
        Table.open(str(tmp_path / "t"))
    assert "\n" not in str(caught.value)


def test_a_table_that_hudi_bootstrapped(tmp_path):
    """Its base files hold the meta columns alone: the rows are in files outside of the table."""
    table = create(tmp_path / "t", index="global_simple")
    instant = table.bulk_insert(rows([1])).instant
    shutil.rmtree(tmp_path / "t/.hoodie/metadata")
    path = tmp_path / "t/.hoodie/hoodie.properties"
    lines = path.read_text().splitlines(keepends=True)
    gone = (SEAL, "metadata.partitions")
    path.write_text("".join(line for line in lines if not any(name in line for name in gone)))
    (base,) = (tmp_path / "t").rglob("*.parquet")
    meta = pq.ParquetFile(base).read(columns=list(META_COLUMNS)).replace_schema_metadata()
    base.unlink()
    skeleton = base.with_name(base.name.replace(instant, BOOTSTRAPPED))
    pq.write_table(meta.set_column(4, META_COLUMNS[4], pa.array([skeleton.name])), skeleton)
    for path in (tmp_path / "t/.hoodie").glob(f"{instant}.*"):
        path.rename(path.with_name(path.name.replace(instant, BOOTSTRAPPED)))
    before = files(tmp_path / "t")
    for work in (
        lambda: Table.open(str(tmp_path / "t")).scan().to_arrow(),
        lambda: Table.open(str(tmp_path / "t")).upsert(rows([2])),
    ):
        with pytest.raises(UnsupportedTableError, match="bootstrap"):
            work()
    assert files(tmp_path / "t") == before


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("SimpleKeyGenerator", "GlobalDeleteKeyGenerator", "GlobalDeleteKeyGenerator"),
        ("files,record_index", "files,partition_stats,record_index", "partition_stats"),
        (
            "hoodie.table.name=t",
            "hoodie.table.name=t\nhoodie.table.metadata.partitions.inflight=bloom_filters",
            "bloom_filters is being built",
        ),
    ],
)
def test_tables_that_can_be_read_and_not_written(tmp_path, old, new, message):
    table = create(tmp_path / "t")
    table.upsert(rows([1]))
    path = tmp_path / "t/.hoodie/hoodie.properties"
    lines = path.read_text().replace(old, new).splitlines(keepends=True)
    path.write_text("".join(line for line in lines if SEAL not in line))
    other = Table.open(str(tmp_path / "t"))
    assert data_rows(other).keys() == {"k1"}
    before = files(tmp_path / "t")
    for write in (lambda: other.upsert(rows([2])), lambda: other.delete(["k1"])):
        with pytest.raises(UnsupportedTableError, match=message):
            write()
    assert files(tmp_path / "t") == before


@pytest.mark.parametrize(
    ("action", "plan"),
    [
        ("replacecommit", b""),
        ("rollback", encode_plan("20260101000000000", "commit", {})),
        (
            "restore",
            encode_restore_plan(
                RestorePlan(instants=(("20260101000000000", "commit"),), savepoint=None)
            ),
        ),
    ],
)
def test_pending_actions_of_another_engine(tmp_path, action, plan):
    """What they take back is not what it was any more: only their own engine can go on."""
    table = create(tmp_path / "t")
    table.upsert(rows([1]))
    pending = tmp_path / "t/.hoodie" / f"20990101000000000.{action}.requested"
    pending.write_bytes(plan)
    with pytest.raises(UnsupportedTableError, match=f"a {action} of instant 20990101"):
        table.upsert(rows([2]))
    assert data_rows(table).keys() == {"k1"}
    pending.unlink()
    assert table.upsert(rows([2])).inserted == 1


@pytest.mark.parametrize("action", ["rollback", "restore", "clean"])
def test_pending_actions_without_a_plan_go(tmp_path, action):
    table = create(tmp_path / "t")
    table.upsert(rows([1]))
    pending = tmp_path / "t/.hoodie" / f"20990101000000000.{action}.requested"
    pending.write_bytes(b"")
    assert table.upsert(rows([2])).inserted == 1
    assert not pending.exists()


def test_without_permission(tmp_path):
    """Reading a folder as a file stands for what the operating system refuses."""
    create(tmp_path / "t")
    path = tmp_path / "t/.hoodie/hoodie.properties"
    path.unlink()
    path.mkdir()
    with pytest.raises(StorageError, match=r"hoodie\.properties"):
        Table.open(str(tmp_path / "t"))


def test_unknown_columns_of_a_read(table):
    with pytest.raises(InputError, match="column 'zz'"):
        table.scan(columns=["k", "zz"])


def test_a_bucket_table_that_does_not_say_so(tmp_path):
    folder = unpack("hudi-0.15.0-variants.tar.gz", tmp_path)
    path = folder / "e/.hoodie/hoodie.properties"
    path.write_text(path.read_text().replace("files,record_index", "files"))
    options = (
        r"give options hoodie\.index\.type=BUCKET and hoodie\.bucket\.index\.num\.buckets=4, or"
    )
    with pytest.raises(InputError, match=options):
        Table.open(str(folder / "e"))
    with pytest.raises(InputError, match=r"it is a bucket table: give option hoodie\.bucket"):
        Table.open(str(folder / "e"), options={"hoodie.index.type": "BUCKET"})


def test_sizes_at_their_limits_still_write(tmp_path):
    extreme = {
        "hoodie.parquet.max.file.size": "0",
        "hoodie.copyonwrite.record.size.estimate": "1",
        "hoodie.parquet.block.size": "1",
        "hoodie.hfile.block.size": "1",
        **SMALL_BLOOMS,
    }
    table = create(tmp_path / "t", extreme)
    assert table.bulk_insert(rows(range(4))).inserted == 4
    assert table.upsert(rows(range(2, 8), ts=2)).inserted == 4
    assert len(data_rows(table)) == 8
    assert table.check().ok


@pytest.mark.parametrize("as_of", ["2020", "", "yesterday", "2026-01-01", "2" * 16, "2" * 18])
def test_as_of_something_that_is_no_instant(tmp_path, as_of):
    table = create(tmp_path / "t")
    with pytest.raises(InputError, match="is not an instant"):
        table.scan(as_of=as_of)


def test_as_of_a_second_is_its_end(tmp_path):
    table = create(tmp_path / "t")
    result = table.bulk_insert(rows([1]))
    assert table.scan(as_of=result.instant[:14]).files_total == 1
