"""Tables of Delta and Iceberg read from their files alone, tables made by hand."""

from __future__ import annotations

import json
import struct

import numpy as np
import pyarrow as pa
import pytest
from format_tables import add, bitmap, entry, make_delta, make_iceberg, rows, vector, write

from keymark.harness.engines.iceberg import own_copy
from keymark.harness.errors import HarnessError
from keymark.harness.tables import independent, probes
from keymark.harness.tables.formats import reader_of, roaring
from keymark.harness.tables.probes import Listing
from keymark.harness.tables.readings import FileReadings


def keys(table):
    return sorted(independent.locations(table)["record_key"].to_pylist())


@pytest.fixture
def delta(tmp_path):
    """Rows a to d in two days; a was replaced by its file, c by a deletion vector."""
    table = tmp_path / "delta"
    write(table / "dt=a" / "one.parquet", rows("ab"))
    write(table / "dt=a" / "two.parquet", rows("b"))
    write(table / "dt=b%20c" / "three.parquet", rows("cd"))
    first = [add("dt=a/one.parquet"), add("dt=b%2520c/three.parquet", dt="b c")]
    second = [{"remove": {"path": "dt=a/one.parquet"}}, add("dt=a/two.parquet")]
    gone = add("dt=b%2520c/three.parquet", dt="b c", vector=vector(table, [0]))
    third = [{"remove": {"path": "dt=b%2520c/three.parquet"}}, gone]
    return make_delta(table, [first, second, third])


def test_deltas_log_is_replayed_and_deletion_vectors_are_heeded(delta):
    found = independent.locations(delta).to_pydict()
    assert found == {
        "record_key": ["b", "d"],
        "partition_path": ["a", "b c"],
        "file_id": ["two", "three"],
    }
    assert independent.find(delta, "d", ["uuid", "dt"]) == [{"uuid": "d", "dt": "b c"}]
    assert independent.find(delta, "c", ["uuid"]) == []
    assert independent.matching(delta, "dt", "a", ["uuid"]) == [{"uuid": "b"}]
    assert independent.between(delta, "ts", (1, 2), ["uuid"]) == [{"uuid": "d"}]
    facts = independent.facts(delta)
    assert (facts.record_key, facts.partition_path, facts.ordering) == (("uuid",), ("dt",), "ts")
    assert facts.version == 0


def test_a_null_partition_and_one_of_another_type(tmp_path):
    table = tmp_path / "t"
    write(table / "x.parquet", rows("a"))
    make_delta(table, [[add("x.parquet", dt=None)]])
    assert independent.rows(table)["dt"].to_pylist() == [None]
    assert independent.locations(table)["partition_path"].to_pylist() == [
        "__HIVE_DEFAULT_PARTITION__"
    ]


def test_a_deletion_vector_in_the_log_itself(tmp_path):
    import base64

    from format_tables import B85, Z85

    table, data = tmp_path / "t", bitmap([1])
    text = base64.b85encode(data, pad=True).decode().translate(str.maketrans(B85, Z85))
    held = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": 1}
    write(table / "x.parquet", rows("ab", dt=["a", "a"]))
    make_delta(table, [[add("x.parquet", vector=held)]])
    assert keys(table) == ["a"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda log: (log / f"{0:020d}.json").unlink(), "lacks version 0; checkpoints are not"),
        (lambda log: (log / f"{1:020d}.json").write_text("{"), "cannot be read"),
        (lambda log: (log / f"{2:020d}.json").write_text('{"add": 1}'), "00002.json of"),
        (
            lambda log: next(log.parent.glob("*.bin")).write_bytes(bytes(60)),
            "no deletion vector of",
        ),
    ],
)
def test_a_damaged_log_is_one_error(delta, change, told):
    change(delta / "_delta_log")
    with pytest.raises(HarnessError, match=told):
        independent.slices(delta)


def test_a_vector_of_another_checksum_and_of_rows_that_are_not_there(delta, tmp_path):
    file = next(delta.glob("*.bin"))
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(HarnessError, match="has another checksum"):
        independent.slices(delta)
    table = tmp_path / "t"
    write(table / "x.parquet", rows("ab"))
    make_delta(table, [[add("x.parquet", vector=vector(table, [2]))]])
    with pytest.raises(HarnessError, match=r"x\.parquet has 2 rows, and 2 is gone"):
        independent.rows(table)


def test_the_digest_of_a_file_is_that_of_its_state(delta):
    readings = FileReadings()
    before = readings.digest(delta, ["uuid", "ts"])
    (delta / "_delta_log" / f"{2:020d}.json").write_text("")
    assert before[0] == 2
    assert readings.digest(delta, ["uuid", "ts"])[0] == 3


def test_rows_and_bytes_of_a_step_are_those_of_its_versions(delta):
    after = Listing.of(delta)
    stats = add("dt=a/two.parquet", stats={"numRecords": 7})
    (delta / "_delta_log" / f"{1:020d}.json").write_text(json.dumps(stats))
    log = "_delta_log/" + f"{1:020d}.json"
    data = "dt=a/two.parquet"
    before = Listing({k: v for k, v in after.sizes.items() if k not in (log, data)})
    assert probes.rows_written(delta, before, after) == 7
    (delta / "_delta_log" / "1.checkpoint.parquet").write_bytes(b"not data")
    left = probes.written(before, Listing.of(delta))
    assert left.data_bytes == after.sizes[data]
    assert left.commit_bytes > 0


@pytest.fixture
def iceberg(tmp_path):
    """Rows a to c in two days, b deleted by position; its metadata names another folder."""
    table, location = tmp_path / "iceberg", "file:/elsewhere/data/t"
    write(table / "data" / "dt=a" / "one.parquet", rows("ab", dt=["a", "a"]))
    write(table / "data" / "dt=b" / "two.parquet", rows("c", dt=["b"]))
    gone = pa.table({"file_path": [f"{location}/data/dt=a/one.parquet"], "pos": [1]})
    write(table / "data" / "dt=a" / "gone-deletes.parquet", gone)
    entries = [
        entry(f"{location}/data/dt=a/one.parquet"),
        entry(f"{location}/data/dt=b/two.parquet", dt="b"),
        entry(f"{location}/data/dt=b/old.parquet", dt="b", status=2),
        entry(f"{location}/data/dt=a/gone-deletes.parquet", content=1),
    ]
    return make_iceberg(table, entries, location=location)


def test_icebergs_manifests_and_position_deletes_are_read_in_the_tables_own_folder(iceberg):
    assert independent.locations(iceberg).to_pydict() == {
        "record_key": ["a", "c"],
        "partition_path": ["a", "b"],
        "file_id": ["one", "two"],
    }
    facts = independent.facts(iceberg)
    assert (facts.name, facts.record_key, facts.partition_path) == ("t", ("uuid",), ("dt",))
    commit = reader_of(iceberg).last_commit(iceberg)
    assert commit.files == 3
    after = Listing.of(iceberg)
    before = Listing({k: v for k, v in after.sizes.items() if "snap-" not in k})
    assert probes.rows_written(iceberg, before, after) == 5
    assert probes.rows_written(iceberg, after, after) == 0


def test_what_is_not_read_of_iceberg_is_said(iceberg, tmp_path):
    location = "file:/x"
    write(tmp_path / "t" / "data" / "dt=a" / "e.parquet", rows("a"))
    table = make_iceberg(
        tmp_path / "t", [entry(f"{location}/data/dt=a/e.parquet", content=2)], location=location
    )
    with pytest.raises(HarnessError, match="deletes by values, which is not read"):
        independent.slices(table)
    path = iceberg / "metadata" / "v2.metadata.json"
    metadata = json.loads(path.read_text())
    metadata["partition-specs"][0]["fields"][0]["transform"] = "bucket[4]"
    path.write_text(json.dumps(metadata))
    with pytest.raises(HarnessError, match=r"partitioned by bucket\[4\], which is not read"):
        independent.slices(iceberg)
    path.write_text("{")
    with pytest.raises(HarnessError, match="cannot be read"):
        independent.facts(iceberg)


def test_a_copy_of_iceberg_is_told_where_it_lies(iceberg):
    side_car = iceberg / "metadata" / ".v2.metadata.json.crc"
    side_car.write_bytes(b"crc")
    own_copy.settle(str(iceberg), str(iceberg), connection={})
    metadata = json.loads((iceberg / "metadata" / "v2.metadata.json").read_text())
    assert metadata["location"] == str(iceberg)
    assert metadata["metadata-log"] == []
    assert metadata["properties"]["gc.enabled"] == "false"
    assert metadata["snapshots"][0]["manifest-list"].startswith("file:/elsewhere/")
    assert not side_car.exists()
    kept = (iceberg / "metadata" / "v2.metadata.json").stat().st_mtime_ns
    own_copy.settle(str(iceberg), str(iceberg), connection={})
    assert (iceberg / "metadata" / "v2.metadata.json").stat().st_mtime_ns == kept


def container(kind, values):
    """A bitmap of one container of a kind; the header that leads to it."""
    head = struct.pack("<Iq", roaring.MAGIC, 1) + struct.pack("<I", 2)
    if kind == "run":
        first, last = values[0], values[-1]
        cookie = struct.pack("<I", 12347) + b"\x01"
        header = struct.pack("<HH", 5, len(values) - 1)
        return head + cookie + header + struct.pack("<HHH", 1, first, last - first)
    bits = np.zeros(65_536, np.uint8)
    bits[list(values)] = 1
    header = struct.pack("<II", 12346, 1) + struct.pack("<HH", 5, len(values) - 1)
    return head + header + struct.pack("<I", 0) + np.packbits(bits, bitorder="little").tobytes()


@pytest.mark.parametrize(
    ("kind", "values"), [("run", range(10, 9000)), ("bits", range(0, 65_536, 3))]
)
def test_containers_of_every_kind(kind, values):
    found = roaring.positions(container(kind, values), "here")
    assert found.tolist() == [(2 << 32) + (5 << 16) + value for value in values]


def test_arrays_and_damage():
    wanted = [0, 1, 65_535, 65_536, 200_000]
    data = bitmap(wanted)
    assert roaring.positions(data, "here").tolist() == wanted
    for length in range(len(data)):
        with pytest.raises(HarnessError, match="here: no set of deleted rows"):
            roaring.positions(data[:length], "here")
    with pytest.raises(HarnessError, match="magic number 0"):
        roaring.positions(bytes(40), "here")
