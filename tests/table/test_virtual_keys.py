"""Virtual keys: the key is not stored, the key generator makes it. The proposal's rules by name."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_cases import create, files_stored, latest_files, rows, unpack

from keymark import Table, TableError
from keymark.table.errors import (
    CorruptFileError,
    IndexUnavailableError,
    InputError,
    InvalidOptionError,
    TableWarning,
)
from keymark.table.properties.config import COMPLEX_KEYS, TIMESTAMP_KEYS
from keymark.table.properties.options import (
    CONCATENATOR,
    HUDI_READS,
    KEY_GENERATOR,
    KEY_GENERATOR_TYPE,
    KEYS_IGNORED,
    META_FIELDS,
    TIME_OUTPUT,
    TIME_TYPE,
    VIRTUAL_COLUMNS,
)
from keymark.table.state import base_files

VIRTUAL = {META_FIELDS: "false"}
META = [
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
]
INDEXES = ["record", "global_simple", "simple", "global_bloom", "bloom", "bucket", "compact"]


@pytest.fixture(scope="module")
def hudi(tmp_path_factory):
    return unpack("hudi-0.15.0-keys.tar.gz", tmp_path_factory.mktemp("hudi"))


def values(table, **reading) -> dict[tuple[str, str], str]:
    """(partition path, value of k) -> value of v, as `scan` reads them; each pair once."""
    found = {}
    for file, part in zip(table.scan(**reading).files, table.scan(**reading).tables(), strict=True):
        for key, value in zip(part["k"].to_pylist(), part["v"].to_pylist(), strict=True):
            assert (file.partition_path, key) not in found
            found[file.partition_path, key] = value
    return found


def parquet(root) -> list[pa.Table]:
    return [pq.ParquetFile(f"{root}/{path}").read() for path in latest_files(root).values()]


@pytest.mark.parametrize("index", INDEXES)
def test_every_index_works_without_stored_keys(tmp_path, index):
    table = create(tmp_path / "t", VIRTUAL, index=index)
    assert table.upsert(rows(range(12))).inserted == 12
    again = rows(range(6, 15), ts=2, value="w", partition=[f"p{i % 3}" for i in range(6, 15)])
    result = table.upsert(again)
    assert (result.inserted, result.updated) == (3, 6)
    assert table.delete(pa.table({"k": ["k1", "k7"], "p": ["p1", "p1"]})).deleted == 2
    wanted = {(f"p{i % 3}", f"k{i}"): f"{'w' if i > 5 else 'v'}k{i}" for i in range(15)}
    del wanted["p1", "k1"], wanted["p1", "k7"]
    assert values(table) == wanted
    found = table.lookup(["k3", "k7", "nowhere"])
    assert found["partition_path"].to_pylist() == ["p0", None, None]
    (only,) = [part for part in table.scan(keys=["k9"]).tables() if part.num_rows]
    assert only["v"].to_pylist() == ["wk9"]


@pytest.mark.parametrize("index", ["record", "global_bloom"])
def test_keys_of_several_fields_and_moves(tmp_path, index):
    moves = {"hoodie.record.index.update.partition.path": "true"} if index == "record" else {}
    table = create(tmp_path / "t", {**VIRTUAL, **moves}, index=index, record_key="k,ts")
    table.upsert(rows(range(5), partition="a"))
    result = table.upsert(rows(range(3, 7), value="w", partition="b"))
    assert (result.inserted, result.moved) == (2, 2)
    assert table.lookup(["k:k4,ts:1"])["partition_path"].to_pylist() == ["b"]
    assert table.lookup(pa.table({"k": ["k0"], "ts": [1]}))["partition_path"].to_pylist() == ["a"]


def test_files_hold_null_and_no_filter(tmp_path):
    table = create(tmp_path / "t", VIRTUAL)
    table.upsert(rows(range(4)))
    table.upsert(rows(range(2), ts=2))
    table.bulk_insert(rows(range(10, 13)))
    for path in latest_files(tmp_path / "t").values():
        file = pq.ParquetFile(tmp_path / "t" / path)
        stored = file.read()
        assert stored.column_names[:5] == META
        assert all(stored[name].null_count == stored.num_rows for name in META)
        footer = {key.decode() for key in file.metadata.metadata}
        ours = {"keymark.file", "keymark.crc32"}
        assert footer == {"parquet.avro.schema", "writer.model.name", *ours}
    assert "hoodie.populate.meta.fields=false" in properties(tmp_path / "t")


def properties(root) -> str:
    return (Path(root) / ".hoodie/hoodie.properties").read_text()


def test_default_stores_keys_as_ever(tmp_path):
    """Proposal: by default the record key is written, and all is as it was."""
    table = create(tmp_path / "t")
    table.upsert(rows(range(4)))
    (stored, *_) = parquet(tmp_path / "t")
    assert stored["_hoodie_record_key"].to_pylist() == stored["k"].to_pylist()
    assert "populate.meta.fields=true" in properties(tmp_path / "t")
    assert "virtual" not in properties(tmp_path / "t")
    assert "keymark.hudi" not in properties(tmp_path / "t")


def test_record_key_reads_as_null(tmp_path):
    """Proposal: queries on `_hoodie_record_key` return NULL."""
    table = create(tmp_path / "t", VIRTUAL)
    table.upsert(rows(range(4)))
    for part in table.scan().tables():
        assert all(part[name].null_count == part.num_rows for name in META)


@pytest.mark.spark
def test_reading_by_spark(tmp_path, spark):
    table = create(tmp_path / "t", VIRTUAL, spark=spark)
    table.upsert(rows(range(6)))
    frame = table.read()
    assert frame.where("_hoodie_record_key is not null").count() == 0
    assert frame.columns[:5] == META
    assert sorted(row.k for row in table.read(keys=["k1", "k4", "zz"]).collect()) == ["k1", "k4"]
    assert [row.v for row in table.read(where="k = 'k3'").collect()] == ["vk3"]
    assert table.read(where="_hoodie_record_key = 'k3'").count() == 0


@pytest.mark.spark
def test_keys_that_are_ignored_are_null_to_conditions_of_spark(tmp_path, spark):
    """Also where the statistics of the files say that none is."""
    made = create(tmp_path / "t", {"hoodie.metadata.index.column.stats.enable": "true"})
    made.upsert(rows(range(6)))
    made.rewrite("ignore")
    table = Table.open(str(tmp_path / "t"), spark=spark)
    for where in ("_hoodie_record_key IS NULL", "_hoodie_record_key IS NULL OR ts = 7"):
        found = sorted(row.k for row in table.read(where=where).collect())
        assert found == sorted(row.k for row in table.read().where(where).collect())
        assert len(found) == 6


@pytest.mark.spark
@pytest.mark.parametrize("index", ["simple", "global_simple", "global_bloom", "record"])
def test_writing_by_spark(tmp_path, spark, index):
    table = create(tmp_path / "t", VIRTUAL, spark=spark, index=index)
    table.bulk_insert(spark.createDataFrame(rows(range(9)).to_pandas()))
    table.upsert(spark.createDataFrame(rows(range(6, 12), ts=2, value="w").to_pandas()))
    assert len(values(table)) == 12


def test_stored_values_are_ignored_with_a_warning(tmp_path):
    """Proposal: values that a file holds are ignored where virtual keys are set, with a warning."""
    table = create(tmp_path / "t", index="global_bloom")
    table.upsert(rows(range(4)))
    text = properties(tmp_path / "t").replace(
        "populate.meta.fields=true", "populate.meta.fields=false"
    )
    (tmp_path / "t/.hoodie/hoodie.properties").write_text(text)
    with pytest.warns(TableWarning, match="was true and is false"):
        table = Table.open(str(tmp_path / "t"))
    table.accept()
    with pytest.warns(TableWarning, match="stored record keys are ignored"):
        assert table.upsert(rows(range(2, 6), value="w")).inserted == 2
    assert all(
        part["_hoodie_record_key"].null_count == part.num_rows for part in table.scan().tables()
    )
    assert len(values(table)) == 6
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        table.lookup(["k0", "k1", "k2", "k3", "nowhere"])
        table.lookup(["k0"])
    assert len([w for w in told if w.category is TableWarning]) <= 1


def test_missing_key_columns_raise(tmp_path, monkeypatch):
    """Proposal: key columns that are not there raise, for writers and readers."""
    table = create(tmp_path / "t", VIRTUAL, index="global_bloom")
    with pytest.raises(InputError, match="record key field k is not a column"):
        table.upsert(rows(range(2)).drop_columns(["k"]))
    table.upsert(rows(range(2), partition="p"))
    (path,) = latest_files(tmp_path / "t").values()
    stored = pq.ParquetFile(tmp_path / "t" / path).read().replace_schema_metadata(None)
    pq.write_table(stored.drop_columns(["k"]), tmp_path / "t" / path)
    monkeypatch.setattr(base_files, "check_size", lambda *_: None)
    with pytest.raises(CorruptFileError, match=r"p/.* it has no column k"):
        table.lookup(["k1"])


@pytest.mark.parametrize("keys", ["k", "k,v"])
def test_null_parts_of_keys_raise(tmp_path, keys, monkeypatch):
    """Proposal: a null in a key column raises, for writers and readers; also one of several."""
    table = create(tmp_path / "t", VIRTUAL, index="global_bloom", record_key=keys)
    with_null = rows(range(2), partition="p").set_column(0, "k", pa.array(["k0", None]))
    for write in (table.upsert, table.bulk_insert, table.insert):
        with pytest.raises(InputError, match="record key field k is null in row 1"):
            write(with_null)
    table.upsert(rows(range(2), partition="p"))
    (path,) = latest_files(tmp_path / "t").values()
    stored = pq.ParquetFile(tmp_path / "t" / path).read().replace_schema_metadata(None)
    pq.write_table(stored.set_column(5, "k", pa.array(["k0", None])), tmp_path / "t" / path)
    monkeypatch.setattr(base_files, "check_size", lambda *_: None)
    with pytest.raises(
        CorruptFileError, match="no virtual key: record key field k is null in row 1"
    ):
        table.lookup(["nowhere"])


@pytest.mark.parametrize(
    "options",
    [
        {META_FIELDS: "true"},
        {"hoodie.recordkey.virtual.enabled": "false"},
        {VIRTUAL_COLUMNS: "k,v"},
        {CONCATENATOR: "-"},
        {KEYS_IGNORED: "true"},
        {HUDI_READS: "false"},
        {KEY_GENERATOR: COMPLEX_KEYS},
    ],
)
def test_options_that_differ_from_the_table_raise(tmp_path, options):
    """Proposal: writer options that differ from hoodie.properties raise."""
    create(tmp_path / "t", {**VIRTUAL, HUDI_READS: "true"}, record_key="v,k", partition_path=None)
    with pytest.raises(InvalidOptionError, match="differs from the table's own"):
        Table.open(str(tmp_path / "t"), options=options)
    same = {"hoodie.recordkey.virtual.enabled": "TRUE", VIRTUAL_COLUMNS: "v,k", HUDI_READS: "True"}
    Table.open(str(tmp_path / "t"), options=same)


def test_a_table_with_stored_keys_does_not_become_virtual_by_an_option(tmp_path):
    """Proposal: the definition of a table's keys does not change."""
    create(tmp_path / "t")
    for options in (VIRTUAL, {"hoodie.recordkey.virtual.enabled": "true"}):
        with pytest.raises(InvalidOptionError, match=r"populate\.meta\.fields=false differs"):
            Table.open(str(tmp_path / "t"), options=options)


def test_names_of_the_proposal(tmp_path):
    options = {
        "hoodie.recordkey.virtual.enabled": "true",
        "hoodie.recordkey.virtual.columns": "k",
        "hoodie.recordkey.virtual.concatenator": "_",
    }
    table = create(tmp_path / "t", options)
    table.upsert(rows(range(2)))
    assert table.config.virtual_keys
    assert table.lookup(["k1"])["file_id"].null_count == 0
    with pytest.raises(InvalidOptionError, match="differs from the record key"):
        create(tmp_path / "u", options, record_key="v")
    with pytest.raises(InvalidOptionError, match="needs virtual keys"):
        create(tmp_path / "u", {VIRTUAL_COLUMNS: "k"})


def test_concatenator_and_class_need_hudis_reading_given_up(tmp_path):
    options = {**VIRTUAL, CONCATENATOR: "|"}
    with pytest.raises(
        InvalidOptionError, match=r"set option keymark\.hudi\.reads=false if it need not read"
    ):
        create(tmp_path / "t", options, record_key="k,p", partition_path=None)
    table = create(
        tmp_path / "t", {**options, HUDI_READS: "false"}, record_key="k,p", partition_path=None
    )
    table.upsert(rows(range(3)))
    assert Table.open(str(tmp_path / "t")).lookup(["k1|p1"])["file_id"].null_count == 0
    with pytest.raises(InputError, match=r"holds the concatenator '\|' in row 0"):
        table.upsert(rows(["a|b"]))
    own = {**VIRTUAL, "hoodie.recordkey.virtual.class": "own_keys:Shouted"}
    with pytest.raises(InvalidOptionError, match="with the key generator own_keys:Shouted"):
        create(tmp_path / "u", own)
    unknown = {"hoodie.recordkey.virtual.class": "com.uber.marmaray.SimpleRecordKey"}
    with pytest.raises(TableError, match=r"com\.uber\.marmaray\.SimpleRecordKey is not supported"):
        create(tmp_path / "u", {**VIRTUAL, HUDI_READS: "false", **unknown})
    made = create(tmp_path / "u", {**own, HUDI_READS: "false"})
    made.upsert(rows(range(3)))
    assert made.upsert(rows(["K1"], partition="P1")).updated == 1


@pytest.mark.parametrize(
    ("text", "refused", "taken"), [("--", "a-", "a"), ("aba", "xab", "xa"), ("::", ":", "x")]
)
def test_joined_keys_are_of_one_row_only(tmp_path, text, refused, taken):
    """Behind a value that ends as the text begins, the text is found before its place."""
    options = {**VIRTUAL, CONCATENATOR: text, HUDI_READS: "false"}
    table = create(tmp_path / "t", options, record_key="k,p", partition_path=None)
    end = text[1:]
    table.upsert(rows([taken], partition=f"{end}y"))
    assert table.lookup([f"{taken}{text}{end}y"])["file_id"].null_count == 0
    with pytest.raises(InputError, match=r"record key field k holds the concatenator .* in row 1"):
        table.upsert(rows([taken, refused], partition="y"))
    table.upsert(rows([taken], partition=f"y{end}"))
    assert table.scan().to_arrow().num_rows == 2


def test_times_in_the_path_need_hudis_reading_given_up(tmp_path):
    times = {KEY_GENERATOR_TYPE: "TIMESTAMP", TIME_TYPE: "UNIX_TIMESTAMP", TIME_OUTPUT: "yyyy"}
    with pytest.raises(InvalidOptionError, match=TIMESTAMP_KEYS):
        create(tmp_path / "t", {**VIRTUAL, **times}, partition_path="ts")
    table = create(tmp_path / "t", {**VIRTUAL, **times, HUDI_READS: "false"}, partition_path="ts")
    table.upsert(rows(range(2)))
    assert set(values(table)) == {("1970", "k0"), ("1970", "k1")}


def test_keys_that_are_stored_and_ignored(tmp_path):
    """The proposal's way back: keys go on being stored while readers make them."""
    table = create(tmp_path / "t", {KEYS_IGNORED: "true"}, index="global_bloom")
    table.upsert(rows(range(4)))
    with pytest.warns(TableWarning, match="stored record keys are ignored"):
        table.upsert(rows(range(3, 6), value="w", partition=["p0", "p1", "p2"]))
    for stored in parquet(tmp_path / "t"):
        assert stored["_hoodie_record_key"].to_pylist() == stored["k"].to_pylist()
        assert stored["_hoodie_commit_time"].null_count == 0
    for part in table.scan().tables():
        assert part["_hoodie_record_key"].null_count == part.num_rows
        assert part["_hoodie_partition_path"].null_count == 0


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("virtual_simple", lambda n: f"k{n}"),
        ("virtual_complex", lambda n: f"k:k{n},n:{n}"),
        ("virtual_flat", lambda n: f"k{n}"),
    ],
)
def test_tables_of_hudi(hudi, tmp_path, name, keys):
    root = shutil.copytree(hudi / name, tmp_path / name)
    table = Table.open(str(root))
    assert {key for _, key in values(table)} == {f"k{n}" for n in range(30)}
    for part in table.scan().tables():
        # Hudi's row writer left empty texts, its Avro writer the name of the file.
        assert all(part[meta].null_count == part.num_rows for meta in META)
    more = Table.open(str(root), options={"hoodie.index.type": "GLOBAL_BLOOM"})
    assert more.lookup([keys(3), keys(29), keys(30)])["file_id"].null_count == 1
    batch = pa.table(
        {
            "k": ["k3", "k30"],
            "n": pa.array([3, 30], pa.int32()),
            "p": ["p0", "p0"],
            "at": [1, 1],
            "ts": [9, 9],
            "v": ["ours", "ours"],
        }
    )
    result = more.upsert(batch)
    assert (result.inserted, result.updated) == (1, 1)
    found = values(table)
    assert len(found) == 31
    assert sorted(found.values()).count("ours") == 2
    assert more.build_index("record_index")
    assert Table.open(str(root)).check().ok


def test_services_of_a_virtual_table(tmp_path):
    options = {**VIRTUAL, "hoodie.metadata.index.column.stats.enable": "true"}
    table = create(tmp_path / "t", {**options, "hoodie.metadata.index.bloom.filter.enable": "true"})
    table.upsert(rows(range(10)))
    first = table.savepoint()
    table.upsert(rows(range(5, 20), ts=2))
    assert table.check().ok
    assert table.check().keys == 20
    table.restore(first)
    assert table.check().ok
    assert len(values(table)) == 10
    table.drop_savepoint(first)
    report = table.purge(["k3"])
    assert report.proven
    assert report.deleted == 1
    table.drop_index("record_index")
    assert table.build_index("record_index")
    assert table.repair_shard(0) >= 0
    table.compact()
    table.clean()
    assert table.check().ok
    assert table.check().keys == 9
    assert len(files_stored(tmp_path / "t")) == len(table.scan().files)


def test_an_index_built_while_others_write_and_another_index(tmp_path):
    table = create(tmp_path / "t", VIRTUAL, index="simple")
    table.upsert(rows(range(10)))
    table.schedule_index()
    table.upsert(rows(range(10, 14)))
    table.run_index()
    assert table.check().ok
    assert table.check().keys == 14
    table.use_index("global_bloom")
    moved = Table.open(str(tmp_path / "t")).upsert(rows(["k1"], ts=2, partition="p2"))
    assert moved.moved == 1
    assert table.check().ok


def test_statistics_prune_a_virtual_table(tmp_path):
    options = {**VIRTUAL, "hoodie.metadata.index.column.stats.enable": "true"}
    table = create(tmp_path / "t", options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.upsert(rows(range(10)))
        assert len(values(table)) == 10


@pytest.mark.parametrize("name", ["record", "beside"])
def test_a_record_index_that_hudi_left_behind(tmp_path, name):
    """Hudi 0.15 upserted h1 and h2: with the record index, and with it beside GLOBAL_SIMPLE."""
    unpack("hudi-0.15.0-left_behind.tar.gz", tmp_path)
    table = Table.open(str(tmp_path / name))
    found = table.check()
    assert not found.ok
    assert found.missing == 2
    assert found.left_behind == max(table.scan().state.timeline.commit_times())
    with pytest.raises(IndexUnavailableError, match=r"table index build .* record_index"):
        table.upsert(rows(["h1"], partition="p0"))
    with pytest.raises(IndexUnavailableError, match="left behind"):
        table.repair_shard(0)
    # Reading does not rely on it.
    assert sum(part.num_rows for part in table.scan(keys=["h1", "h2", "k1"]).tables()) == 3
    if name == "record":
        with pytest.raises(IndexUnavailableError, match="left behind"):
            table.lookup(["h1"])
    assert table.build_index("record_index")
    table = Table.open(str(tmp_path / name))
    assert table.check().ok
    assert table.check().left_behind is None
    assert table.upsert(rows(["h1"], ts=3, partition="p0")).updated == 1
    assert table.upsert(rows(["h3"], partition="p0")).inserted == 1
    assert table.check().keys == 23
    assert not table.build_index("record_index")


def test_own_commits_leave_no_record_index_behind(tmp_path):
    table = create(tmp_path / "t", VIRTUAL)
    for write in (
        lambda: table.upsert(rows(range(4))),
        lambda: table.upsert(rows(range(4), ts=2)),
        lambda: table.bulk_insert(rows(range(10, 14))),
        lambda: table.delete(["k1"]),
        lambda: table.rollback(max(table.scan().state.timeline.commit_times())),
        lambda: table.purge(["k2"]),
        lambda: table.upsert(rows(range(20, 22))),
        table.compact,
        table.clean,
    ):
        write()
        assert table.check().left_behind is None
        assert table.check().ok
