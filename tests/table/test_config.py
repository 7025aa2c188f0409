"""hoodie.properties: text and meaning, its rewriting, and options against the table's facts."""

from __future__ import annotations

import pytest
from faults import DEAD, FULL, Killed, every_fault
from hypothesis import given
from hypothesis import strategies as st
from table_cases import create, data_rows, rows

from keymark import Table
from keymark.table.errors import CorruptFileError, StorageError, UnsupportedTableError
from keymark.table.properties.config import (
    COMPLEX_KEYS,
    NO_PARTITION_KEYS,
    SIMPLE_KEYS,
    TIMESTAMP_KEYS,
    checksum,
    decode_properties,
    encode_properties,
    load_config,
    parse_config,
    save_config,
)
from keymark.table.properties.options import check_options, defaults, unsupported
from keymark.table.storage.local_storage import LocalStorage

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=15)


def test_checksums_that_hudi_wrote():
    assert checksum("t") == "498511606"
    assert checksum("t_metadata") == "3339867397"


@given(st.dictionaries(texts, texts, max_size=6))
def test_any_text_comes_back(entries):
    assert decode_properties(encode_properties(entries), "p") == entries


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ({}, SIMPLE_KEYS),
        ({"type": "COMPLEX"}, COMPLEX_KEYS),
        ({"type": "NON_PARTITION"}, NO_PARTITION_KEYS),
        ({"type": "TIMESTAMP"}, TIMESTAMP_KEYS),
        ({"type": "GLOBAL_DELETE"}, "GLOBAL_DELETE"),
        ({"class": "org.apache.hudi.keygen.ComplexAvroKeyGenerator"}, COMPLEX_KEYS),
        ({"type": "SIMPLE", "class": COMPLEX_KEYS}, COMPLEX_KEYS),
    ],
)
def test_key_generators_by_class_and_by_type(named, found):
    """Hudi 1.x names the type."""
    entries = {f"hoodie.table.keygenerator.{name}": value for name, value in named.items()}
    minimal = {"hoodie.table.name": "n", "hoodie.table.version": "6"}
    assert parse_config({**minimal, **entries}).key_generator == found


def test_ordering_fields_as_hudi_1_1_names_them():
    minimal = {"hoodie.table.name": "n", "hoodie.table.version": "6"}
    assert parse_config({**minimal, "hoodie.table.ordering.fields": "ts"}).ordering == "ts"
    with pytest.raises(UnsupportedTableError, match=r"ordering\.fields=ts,no"):
        parse_config({**minimal, "hoodie.table.ordering.fields": "ts,no"})


def test_text_as_java_writes_it():
    data = (
        b"#Updated at 2026-11-21T16:51:43Z\n#Sat Nov 21 16:51:43 UTC 2026\n"
        b"a=GMT+8\\:00\n  b : x\\\n   y\nc=\\u00fc\\uD83D\\uDE00\nd=\n!e=1\nf g=h\n"
    )
    found = decode_properties(data, "p")
    assert found == {"a": "GMT+8:00", "b": "xy", "c": "ü😀", "d": "", "f": "g=h"}


@pytest.mark.parametrize("entry", [b"hoodie.table.name=\\ud800", b"\\uDFFF=a", b"a=\\u12"])
def test_what_is_no_text_is_damage(entry):
    with pytest.raises(CorruptFileError, match="not a properties file"):
        decode_properties(b"hoodie.table.checksum=1\n" + entry + b"\n", "p")


def test_meaning():
    minimal = {"hoodie.table.name": "n", "hoodie.table.version": "6"}
    config = parse_config(minimal)
    assert (config.record_key, config.partition_fields, config.ordering) == ((), (), None)
    assert config.zone is None
    full = parse_config(
        {
            **minimal,
            "hoodie.table.type": "copy_on_write",
            "hoodie.table.recordkey.fields": "a, b",
            "hoodie.table.partition.fields": "p,q",
            "hoodie.table.precombine.field": "ts",
            "hoodie.datasource.write.hive_style_partitioning": "True",
            "hoodie.table.timeline.timezone": "utc",
            "hoodie.table.metadata.partitions": "files,record_index",
            "hoodie.database.name": "db",
            "hoodie.table.checksum": checksum("n", "db"),
        }
    )
    assert full.record_key == ("a", "b")
    assert (full.hive_style, full.url_encode, full.ordering) == (True, False, "ts")
    assert str(full.zone) == "UTC"
    assert full.metadata_partitions == ("files", "record_index")


@pytest.fixture
def store(tmp_path):
    create(tmp_path / "t").upsert(rows([1]))
    return tmp_path / "t"


def test_reading_falls_back_to_the_backup_of_a_cut_off_rewrite(store):
    """Hudi deletes the file before it writes the new one."""
    folder = store / ".hoodie"
    (folder / "hoodie.properties").rename(folder / "hoodie.properties.backup")
    assert data_rows(Table.open(str(store))).keys() == {"k1"}
    storage = LocalStorage.at(str(store))
    save_config(storage, {**load_config(storage).properties, "x": "y"})
    assert load_config(storage).properties["x"] == "y"
    assert not (folder / "hoodie.properties.backup").exists()


@pytest.mark.parametrize("kind", [FULL, DEAD])
def test_a_rewrite_is_whole_or_not_at_all(store, kind):
    before = dict(load_config(LocalStorage.at(str(store))).properties)
    for number, storage in every_fault(kind, lambda: str(store)):
        wanted = {**before, "x": str(number)}
        try:
            save_config(storage, wanted)
        except (StorageError, Killed):
            found = load_config(LocalStorage.at(str(store))).properties
            assert found.get("x") in (str(number), before.get("x"))
        assert data_rows(Table.open(str(store))).keys() == {"k1"}
        before = dict(load_config(LocalStorage.at(str(store))).properties)
    assert not (store / ".hoodie/hoodie.properties.backup").exists()


def test_hadoops_side_car_of_the_old_content_goes(store):
    """A stale checksum makes the file unreadable to Hadoop."""
    car = store / ".hoodie/.hoodie.properties.crc"
    car.write_bytes(b"stale")
    storage = LocalStorage.at(str(store))
    save_config(storage, load_config(storage).properties)
    assert not car.exists()


def test_facts_are_kept_and_decide(tmp_path):
    moves = "hoodie.record.index.update.partition.path"
    create(tmp_path / "t", {moves: "true"})
    properties = load_config(LocalStorage.at(str(tmp_path / "t"))).properties
    assert properties[moves] == "true"
    assert properties["hoodie.index.type"] == "RECORD_INDEX"
    assert properties["hoodie.datasource.write.payload.class"].endswith(
        "OverwriteWithLatestAvroPayload"
    )
    assert properties["keymark.recordkey.encoding"] == "plain"
    table = Table.open(str(tmp_path / "t"))
    assert (table.choice.name, table.choice.reason) == (
        "record",
        "hoodie.index.type in hoodie.properties",
    )
    assert table.options().flag(moves)
    assert table.options().text("hoodie.datasource.insert.dup.policy") == "fail"


def test_every_default_is_allowed():
    given = {name: value for name, value in defaults().items() if value is not None}
    assert check_options(given) == given
    assert not defaults().keys() & unsupported().keys()
