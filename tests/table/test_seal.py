"""The seal of hoodie.properties: what must not change is compared before each write."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path

import pytest
from table_cases import EVENT_TIME, MOVES, PAYLOAD, by_listing, create, data_rows, rows, unpack
from typer.testing import CliRunner

from keymark import Table
from keymark.table.cli import app
from keymark.table.errors import CorruptFileError, TableWarning, UnsupportedTableError
from keymark.table.properties.config import (
    SEAL,
    decode_properties,
    decode_seal,
    encode_properties,
    load_config,
    refuse_broken_seal,
)
from keymark.table.storage.local_storage import LocalStorage

PROPERTIES = ".hoodie/hoodie.properties"


@pytest.fixture
def root(tmp_path):
    table = create(tmp_path / "t", {MOVES: "true", PAYLOAD: EVENT_TIME})
    table.upsert(rows(range(6), ts=5))
    return tmp_path / "t"


def entries(root: Path) -> dict[str, str]:
    return decode_properties((root / PROPERTIES).read_bytes(), PROPERTIES)


def change(root: Path, **changes: str | None) -> None:
    """Change entries, named with `__` for a dot; None takes one away."""
    found = entries(root)
    for name, value in changes.items():
        found.pop(name.replace("__", "."), None)
        if value is not None:
            found[name.replace("__", ".")] = value
    (root / PROPERTIES).write_bytes(encode_properties(found))


def open_quietly(root: Path) -> Table:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        return Table.open(str(root))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hoodie.populate.meta.fields", "trua"),
        ("hoodie.datasource.write.hive_style_partitioning", "falsd"),
        ("hoodie.datasource.write.partitionpath.urlencode", "yes"),
        ("hoodie.table.timeline.timezone", "UTB"),
        ("keymark.recordkey.encoding", "plaim"),
    ],
)
def test_a_value_that_is_none_of_the_choices(root, name, value):
    change(root, **{name: value})
    with pytest.raises(CorruptFileError) as caught:
        Table.open(str(root))
    assert f"{name}={value}" in str(caught.value)
    assert PROPERTIES in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "old"),
    [
        ("hoodie.table.recordkey.fields", "v", "k"),
        ("hoodie.table.partition.fields", "v", "p"),
        ("hoodie.table.precombine.field", "k", "ts"),
        ("hoodie.table.precombine.field", None, "ts"),
        ("hoodie.populate.meta.fields", "false", "true"),
        ("hoodie.datasource.write.hive_style_partitioning", "true", "false"),
        ("keymark.recordkey.encoding", "named", "plain"),
        ("hoodie.datasource.write.payload.class", None, EVENT_TIME),
        ("hoodie.record.index.update.partition.path", "false", "true"),
        ("hoodie.table.timeline.timezone", "LOCAL", "UTC"),
        ("hoodie.archivelog.folder", "archive", "archived"),
        (
            "hoodie.table.keygenerator.class",
            "org.apache.hudi.keygen.ComplexKeyGenerator",
            "org.apache.hudi.keygen.SimpleKeyGenerator",
        ),
    ],
)
def test_a_changed_entry_refuses_writes_and_reads_warn(root, name, value, old):
    before = by_listing(root)
    change(root, **{name: value})
    with pytest.warns(TableWarning, match="may be read wrongly"):
        table = Table.open(str(root))
    for write in (lambda: table.upsert(rows([1, 9], ts=9)), lambda: table.delete(["k1"])):
        with pytest.raises(CorruptFileError) as caught:
            write()
        for part in (name, f"was {old}", f"is {value or '(not set)'}", "table accept PATH"):
            assert part in str(caught.value)
    assert by_listing(root) == before


def test_the_file_as_hudi_rewrites_it_keeps_the_seal(root):
    """Other order, other comments, the ordering field and the generator by their later names."""
    change(
        root,
        hoodie__table__precombine__field=None,
        hoodie__table__ordering__fields="ts",
        hoodie__table__keygenerator__class=None,
        hoodie__table__keygenerator__type="SIMPLE",
        hoodie__populate__meta__fields="TRUE",
        hoodie__timeline__path="timeline",
    )
    lines = (root / PROPERTIES).read_bytes().splitlines(keepends=True)
    (root / PROPERTIES).write_bytes(b"#Updated at 2026\n" + b"".join(reversed(lines[2:])))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = Table.open(str(root))
    assert table.upsert(rows([1, 9], ts=9)).inserted == 1
    assert table.check().ok


def test_a_raised_version_is_told_as_an_upgrade(root):
    change(root, hoodie__table__version="8")
    with pytest.raises(UnsupportedTableError, match=r"to version 8: .*downgrade_table"):
        Table.open(str(root))


def test_a_rewriting_of_keys_makes_the_new_seal(root):
    Table.open(str(root)).rewrite("on")
    config = load_config(LocalStorage.at(str(root)))
    assert decode_seal(config.properties[SEAL])["hoodie.populate.meta.fields"] == "false"
    refuse_broken_seal(config)
    Table.open(str(root)).upsert(rows([1, 9], ts=9))
    Table.open(str(root)).rewrite("off")
    assert Table.open(str(root)).check().ok


def test_another_index_makes_the_new_seal(root):
    Table.open(str(root)).use_index("global_bloom")
    table = Table.open(str(root))
    assert table.upsert(rows([1, 9], ts=9)).index == "global_bloom"


@pytest.mark.parametrize("text", ["[]", '"a"', "no JSON", "[" * 100_000])
def test_a_seal_that_fits_its_digest_and_holds_no_values_is_damaged(text):
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    with pytest.raises(CorruptFileError, match="the seal"):
        decode_seal(f"1 {digest} {text}")


def test_a_damaged_seal_is_made_anew_by_the_command(root):
    seal = entries(root)[SEAL]
    change(root, **{SEAL: seal.replace("ts", "tt")})
    with pytest.warns(TableWarning, match="does not fit its own digest"):
        table = Table.open(str(root))
    with pytest.raises(CorruptFileError, match=r"table accept PATH"):
        table.delete(["k1"])
    done = CliRunner().invoke(app, ["accept", str(root)])
    assert done.exit_code == 0, done.output
    assert entries(root)[SEAL] == seal
    assert Table.open(str(root)).delete(["k1"]).deleted == 1


def test_accepting_shows_what_is_new_and_takes_it(root):
    change(root, hoodie__table__precombine__field=None)
    table = open_quietly(root)
    shown = table.accept(dry_run=True)
    assert shown == ["hoodie.table.precombine.field was ts and is (not set)"]
    with pytest.raises(CorruptFileError):
        table.delete(["k1"])
    assert table.accept() == shown
    assert table.accept() == []
    assert Table.open(str(root)).upsert(rows([1], ts=1, partition="p1")).updated == 1


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("hoodie.table.recordkey.fields", "v", "are not made of these"),
        ("hoodie.table.recordkey.fields", "uuid", "has no column uuid"),
        ("hoodie.table.partition.fields", "v", "belong to another partition"),
        ("hoodie.table.partition.fields", "", "lies in a partition"),
        ("hoodie.datasource.write.hive_style_partitioning", "true", "another partition"),
    ],
)
def test_what_contradicts_the_files_is_never_accepted(root, name, value, told):
    """So it is in a table without a seal, which is compared with its files."""
    change(root, **{name: value})
    table = open_quietly(root)
    with pytest.raises(CorruptFileError, match=told):
        table.accept()
    change(root, **{SEAL: None})
    with pytest.raises(CorruptFileError, match=told):
        Table.open(str(root)).upsert(rows([1], ts=9))


def test_a_table_without_a_seal_gets_one_by_the_first_write(tmp_path):
    root = unpack("hudi-0.15.0-states.tar.gz", tmp_path) / "a_2_upsert"
    assert SEAL not in entries(root)
    before = data_rows(Table.open(str(root)))
    assert Table.open(str(root)).delete(["key-00001"]).deleted == 1
    assert decode_seal(entries(root)[SEAL])["hoodie.table.timeline.timezone"] == "LOCAL"
    assert data_rows(Table.open(str(root))).keys() == before.keys() - {"key-00001"}


def test_a_payload_class_that_no_write_can_use_is_not_sealed(tmp_path):
    root = unpack("hudi-1.1.1-keys.tar.gz", tmp_path) / "named_key"
    change(root, hoodie__compaction__payload__class="org.apachm.Payload")
    before = (root / PROPERTIES).read_bytes()
    with pytest.raises(UnsupportedTableError, match=r"org\.apachm\.Payload"):
        Table.open(str(root)).delete(["k:k1"])
    assert (root / PROPERTIES).read_bytes() == before


@pytest.mark.parametrize(
    "line",
    [
        "hoodie.table.precombinf.field=ts",
        "hoodie.table.precombine.field-ts",
        "hoodie.table.timeline.time:one=UTC",
        "hoodie.other=1Jhoodie.table.precombine.field=ts",
        "#comment Jhoodie.table.precombine.field=ts",
    ],
)
def test_a_damaged_name_is_told_where_there_is_no_seal(root, line):
    names = ("hoodie.table.precombine.field", "hoodie.table.timeline.timezone", SEAL)
    change(root, **dict.fromkeys(names))
    with (root / PROPERTIES).open("a") as file:
        file.write(line + "\n")
    with pytest.raises(CorruptFileError, match=r"seems to be a damaged|holds the entry"):
        Table.open(str(root))


def test_a_lost_metadata_partition_is_not_deleted(root):
    change(root, hoodie__table__metadata__partitions=None)
    listed = sorted((root / ".hoodie/metadata").rglob("*"))
    for write in (lambda t: t.upsert(rows([9])), lambda t: t.compact()):
        with pytest.raises(CorruptFileError, match=r"does not name \w+ any more"):
            write(Table.open(str(root)))
    assert sorted((root / ".hoodie/metadata").rglob("*")) == listed


def test_a_partition_that_hudi_dropped_is_no_damage(root):
    Table.open(str(root)).use_index("global_simple")
    table = Table.open(str(root))
    table.drop_index("record_index")
    before = entries(root)
    table.build_index("record_index")
    sealed = entries(root)[SEAL]
    table.drop_index("record_index")
    (root / PROPERTIES).write_bytes(encode_properties({**before, SEAL: sealed}))
    assert Table.open(str(root)).upsert(rows([9])).inserted == 1
