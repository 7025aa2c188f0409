"""What keys depend on is a fact of the table: chosen at creation, told or found once, kept."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from table_cases import create, data_rows, rows, unpack

from keymark import Table, TableError
from keymark.table.errors import InputError, InvalidOptionError, UnsupportedTableError
from keymark.table.properties.config import (
    COMPLEX_KEYS,
    CUSTOM_KEYS,
    NO_PARTITION_KEYS,
    TIMESTAMP_KEYS,
)
from keymark.table.properties.options import (
    KEY_ENCODING,
    KEY_GENERATOR,
    KEY_GENERATOR_TYPE,
    PARTITION_SPEC,
    TIME_INPUT,
    TIME_OUTPUT,
    TIME_OUTPUT_ZONE,
    TIME_TYPE,
)

DAYS = {KEY_GENERATOR_TYPE: "timestamp", TIME_TYPE: "UNIX_TIMESTAMP", TIME_OUTPUT: "yyyy-MM-dd"}
OWN = {KEY_GENERATOR: "own_keys:Shouted"}


@pytest.fixture(scope="module")
def hudi(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hudi")
    unpack("hudi-1.1.1-keys.tar.gz", folder)
    return unpack("hudi-0.15.0-keys.tar.gz", folder)


@pytest.fixture
def copy(hudi, tmp_path):
    def make(name: str) -> Path:
        return shutil.copytree(hudi / name, tmp_path / name)

    return make


def paths(table) -> set[str]:
    return {file.partition_path for file in table.scan().files}


def test_timestamp_based_partitions(tmp_path):
    table = create(tmp_path / "t", DAYS, partition_path="ts")
    table.upsert(rows(range(3), ts=86400))
    table.upsert(rows([3], ts=3 * 86400 - 1))
    assert paths(table) == {"1970-01-02", "1970-01-03"}
    properties = table.config.properties
    assert properties[KEY_GENERATOR] == TIMESTAMP_KEYS
    # Hudi's processes are to agree on the zone, too.
    assert properties[TIME_OUTPUT_ZONE] == "UTC"
    assert properties[TIME_TYPE] == "UNIX_TIMESTAMP"
    assert PARTITION_SPEC not in properties
    # A table that says all this needs no options.
    again = Table.open(str(tmp_path / "t"))
    again.upsert(rows([9], ts=9 * 86400))
    assert len(data_rows(again)) == 5


def test_custom_partitions(tmp_path):
    options = {TIME_TYPE: "UNIX_TIMESTAMP", TIME_OUTPUT: "yyyy/MM"}
    table = create(tmp_path / "t", options, partition_path="p:SIMPLE,ts:timestamp")
    table.upsert(rows(range(2), ts=86400, partition="x"))
    assert paths(table) == {"x/1970/01"}
    assert table.config.key_generator == CUSTOM_KEYS
    assert table.config.partition_fields == ("p", "ts")
    assert Table.open(str(tmp_path / "t"), options={PARTITION_SPEC: "p:SIMPLE,ts:timestamp"})
    with pytest.raises(InvalidOptionError, match=r"differs from the table's own p:SIMPLE,ts:t"):
        Table.open(str(tmp_path / "t"), options={PARTITION_SPEC: "p:simple,ts:simple"})


@pytest.mark.parametrize(
    ("options", "identity", "text"),
    [
        (DAYS, {"partition_path": "p,ts"}, "one partition field, not 1 and 2"),
        (DAYS, {"partition_path": None}, "one partition field, not 1 and 0"),
        ({**DAYS, TIME_TYPE: "EPOCHMICROSECONDS"}, {}, "is none of UNIX_TIMESTAMP, EPOCHMILLI"),
        ({**DAYS, TIME_OUTPUT: ""}, {}, "output.dateformat"),
        ({**DAYS, TIME_OUTPUT: "G yyyy"}, {}, "G is not supported"),
        ({**DAYS, TIME_OUTPUT: "yyyy'"}, {}, "malformed"),
        ({**DAYS, TIME_OUTPUT_ZONE: "Mars/Base"}, {}, "'Mars/Base' is not a time zone"),
        ({**DAYS, TIME_TYPE: "DATE_STRING"}, {}, "texts need a date pattern"),
        ({**DAYS, TIME_TYPE: "DATE_STRING", TIME_INPUT: "dd/MM/yy"}, {}, "which century"),
        ({TIME_OUTPUT: "yyyy"}, {}, "needs a timestamp-based or custom"),
        ({KEY_GENERATOR_TYPE: "CUSTOM"}, {}, "neither field:simple nor field:timestamp"),
        ({KEY_GENERATOR_TYPE: "GLOBAL_DELETE"}, {}, "is none of SIMPLE, COMPLEX"),
        ({KEY_GENERATOR_TYPE: "SIMPLE", KEY_GENERATOR: COMPLEX_KEYS}, {}, "contradicts"),
        ({KEY_GENERATOR: NO_PARTITION_KEYS}, {}, "takes no partition fields"),
        ({KEY_GENERATOR: "com.acme.Keys"}, {}, "com.acme.Keys is not supported"),
        ({KEY_ENCODING: "named"}, {}, "complex key generator only"),
        ({PARTITION_SPEC: "p"}, {}, "differs from the partition fields ts"),
    ],
)
def test_choices_that_contradict_each_other(tmp_path, options, identity, text):
    with pytest.raises(TableError, match=text):
        create(tmp_path / "t", options, **{"partition_path": "ts", **identity})
    assert not (tmp_path / "t" / ".hoodie").exists()


@pytest.mark.parametrize(
    "options",
    [
        {KEY_GENERATOR: COMPLEX_KEYS},
        {"hoodie.datasource.write.keygenerator.class": COMPLEX_KEYS},
        {KEY_GENERATOR_TYPE: "CUSTOM"},
        {TIME_OUTPUT: "yyyy-MM"},
        {TIME_OUTPUT: "yyyy-mm-dd"},
        {TIME_INPUT: "yyyy"},
        {"hoodie.deltastreamer.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS"},
    ],
)
def test_another_key_definition_is_refused(tmp_path, options):
    create(tmp_path / "t", DAYS, partition_path="ts")
    with pytest.raises(InvalidOptionError, match="differs from the table's own"):
        Table.open(str(tmp_path / "t"), options=options)
    Table.open(str(tmp_path / "t"), options=DAYS)


def test_text_that_fits_no_pattern_names_its_row(tmp_path):
    options = {**DAYS, TIME_TYPE: "DATE_STRING", TIME_INPUT: "yyyy-MM-dd"}
    table = create(tmp_path / "t", options)
    with pytest.raises(InputError, match="'nonsense' in row 1 of the input does not fit"):
        table.upsert(rows(range(2), partition=["2024-01-02", "nonsense"]))


def test_times_far_away_are_a_wrong_type(tmp_path):
    table = create(tmp_path / "t", DAYS, partition_path="ts")
    with pytest.raises(InputError, match="outside the years 1 to 9999; is option"):
        table.upsert(rows([1], ts=1_700_000_000_000))


def test_a_table_of_hudi_needs_what_hudi_left_out(copy):
    root = copy("timestamp")
    more = pa.table(
        {"k": ["k3", "new"], "n": pa.array([3, 4], pa.int32()), "p": ["p", "p"]}
    ).append_column("at", pa.array([1700000000000, 1700095000000]))
    more = more.append_column("ts", pa.array([9, 9])).append_column("v", pa.array(["w", "w"]))
    with pytest.raises(InvalidOptionError, match=r"timestamp\.type: a timestamp-based partition"):
        Table.open(str(root)).upsert(more)
    Table.open(str(root), options={TIME_TYPE: "EPOCHMILLISECONDS"}).upsert(more)
    table = Table.open(str(root))
    assert table.config.properties[TIME_TYPE] == "EPOCHMILLISECONDS"
    assert paths(table) == {"2023-11-15", "2023-11-16", "2023-11-17"}
    assert len(data_rows(table)) == 31
    with pytest.raises(InvalidOptionError, match="differs"):
        Table.open(str(root), options={TIME_TYPE: "UNIX_TIMESTAMP"})


def test_custom_table_of_hudi(copy):
    root = copy("custom")
    with pytest.raises(UnsupportedTableError, match="field:simple,field:timestamp"):
        Table.open(str(root)).delete(["k1"])
    told = {
        PARTITION_SPEC: "p:simple,at:timestamp",
        TIME_TYPE: "EPOCHMILLISECONDS",
        TIME_OUTPUT: "yyyy-MM-dd",
        "hoodie.deltastreamer.keygen.timebased.timezone": "GMT+8:00",
    }
    gone = pa.table({"k": ["k1"], "p": ["p1"], "at": [1700007000000]})
    assert Table.open(str(root), options=told).delete(gone).deleted == 1
    table = Table.open(str(root))
    stored = next(iter(table.scan().tables()))
    assert stored.num_rows
    table.upsert(stored.select([c for c in stored.column_names if not c.startswith("_hoodie")]))
    assert len(data_rows(table)) == 29


def named(root, **more):
    return Table.open(str(root), options=more)


def test_encoding_of_a_single_complex_key_is_found_and_kept(copy):
    root = copy("named_key")
    keys = set(data_rows(Table.open(str(root))))
    assert "k:k3" in keys
    with pytest.raises(InvalidOptionError, match="differs from the keys of the table's rows"):
        named(root, **{KEY_ENCODING: "plain"}).delete(["k:k3"])
    table = Table.open(str(root))
    found = table.lookup(pa.table({"k": ["k3"]}))
    assert found["record_key"].to_pylist() == ["k:k3"]
    assert found["file_id"].null_count == 0
    table.delete(pa.table({"k": ["k3"]}))
    assert table.config.properties[KEY_ENCODING] == "named"
    assert set(data_rows(table)) == keys - {"k:k3"}
    with pytest.raises(InvalidOptionError, match="differs from the table's own named"):
        named(root, **{KEY_ENCODING: "plain"})


def test_named_encoding_of_our_own(tmp_path):
    options = {KEY_GENERATOR_TYPE: "COMPLEX", KEY_ENCODING: "named"}
    table = create(tmp_path / "t", options)
    table.upsert(rows(range(3)))
    table.upsert(rows(range(2), ts=2))
    assert set(data_rows(table)) == {"k:k0", "k:k1", "k:k2"}


def test_own_class(tmp_path):
    table = create(tmp_path / "t", OWN)
    table.upsert(rows(range(3)))
    table = Table.open(str(tmp_path / "t"))
    table.upsert(rows(["K1", "k9"], ts=2, partition="P"))
    assert set(data_rows(table)) == {"K0", "K1", "K2", "K9"}
    assert table.lookup(pa.table({"k": ["k9"]}))["partition_path"].to_pylist() == ["P"]
    assert table.config.key_generator == "own_keys:Shouted"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nowhere:Keys", "cannot be imported"),
        ("own_keys:Absent", "cannot be imported"),
        ("own_keys:_column", "is not a key generator class"),
        ("own_keys:KeysOnly", "it has no method partition_paths"),
        ("subprocess:Popen", "it has no method record_keys"),
        ("own_keys:Broken", "cannot be made: not with"),
        ("own_keys.Shouted", "is not supported"),
    ],
)
def test_classes_that_are_no_generator(tmp_path, name, text):
    with pytest.raises(TableError, match=text):
        create(tmp_path / "t", {KEY_GENERATOR: name})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Halved", "answers 1 for 2 rows"),
        ("Nulled", "the answer of record_keys of own_keys:Nulled is null in row 0"),
        ("Listed", "answers list, not a pyarrow array"),
        ("Escaping", "which no table can hold"),
    ],
)
def test_answers_that_no_generator_may_give(tmp_path, name, text):
    table = create(tmp_path / "t", {KEY_GENERATOR: f"own_keys:{name}"})
    with pytest.raises(InputError, match=text):
        table.upsert(rows(range(2)))
