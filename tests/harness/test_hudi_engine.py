"""The engine `hudi@VERSION` against a stand-in of its process: no Java, no jar."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from harness_fakes import HeldFrame, RecordedChild
from py4j.protocol import Py4JError

from keymark.harness.engines import hudi_name, spark_child
from keymark.harness.engines.base import Layout
from keymark.harness.engines.hudi import HudiEngine
from keymark.harness.engines.hudi_options import table_options
from keymark.harness.engines.hudi_process import session_conf
from keymark.harness.errors import CellError
from keymark.harness.tables.table_folders import LocalTables

LAYOUT = Layout(name="t", record_key=("k",), partition_path=("dt",), ordering="ts")
FIRST, SECOND, THIRD = (f"2026010100000000{number}" for number in (1, 2, 3))


def engine(name="hudi@0.15.0", **answers):
    child = RecordedChild(**answers)
    return HudiEngine(hudi_name(name), child, LocalTables(), parallelism=3), child


def make_table(path, *, partitions="files", keys=None):
    """A table of version 6 with a file group per partition, of two commits."""
    (path / ".hoodie").mkdir(parents=True)
    (path / ".hoodie" / "hoodie.properties").write_text(
        "hoodie.table.name=t\nhoodie.table.version=6\nhoodie.table.recordkey.fields=k\n"
        "hoodie.table.partition.fields=dt\nhoodie.table.precombine.field=ts\n"
        f"hoodie.table.metadata.partitions={partitions}\n"
    )
    for instant in (FIRST, SECOND):
        (path / ".hoodie" / f"{instant}.commit").write_text(json.dumps({}))
    for number, (partition, held) in enumerate((keys or {"p": ["a"], "q": ["b"]}).items()):
        (path / partition).mkdir()
        (path / partition / ".hoodie_partition_metadata").touch()
        rows = pa.table({"_hoodie_record_key": held})
        for instant in (FIRST, SECOND)[number:]:
            pq.write_table(rows, path / partition / f"id-{number}_0-1-0_{instant}.parquet")
    return path


def test_every_call_gets_the_same_options():
    made, child = engine(digest=(1, "d"))
    table = made.create(Path("t"), LAYOUT, index="record", options={"hoodie.x": "1"})
    files = made.hold_rows(HeldFrame())
    for call in (table.bulk_insert, table.upsert, table.delete):
        call(files)
    made.digest(table.read(), ["k"])
    table.lookup(None)
    writes = [arguments for name, arguments in child.calls if name == "write"]
    assert [each["operation"] for each in writes] == ["bulk_insert", "upsert", "delete"]
    assert {each["files"] for each in writes} == {("file:/a.parquet", "file:/b.parquet")}
    given = [arguments["options"] for _, arguments in child.calls if "options" in arguments]
    assert all(each == given[0] for each in given)
    assert given[0]["hoodie.metadata.record.index.enable"] == "true"
    assert given[0]["hoodie.x"] == "1"


@pytest.mark.parametrize(
    ("index", "kind", "built"),
    [
        ("record", "RECORD_INDEX", "true"),
        ("global_simple", "GLOBAL_SIMPLE", "false"),
        ("simple", "SIMPLE", "false"),
        ("global_bloom", "GLOBAL_BLOOM", "false"),
        ("bloom", "BLOOM", "false"),
        ("bucket", "BUCKET", "false"),
    ],
)
def test_index_names_are_hudis_types(index, kind, built):
    engine = hudi_name("hudi@0.15.0")
    given = table_options(LAYOUT, index=index, engine=engine, parallelism=2, options={})
    assert given["hoodie.index.type"] == kind
    assert given["hoodie.metadata.record.index.enable"] == built
    assert given["hoodie.upsert.shuffle.parallelism"] == "2"


def options(name, given):
    return table_options(
        LAYOUT, index="record", engine=hudi_name(name), parallelism=2, options=given
    )


PAYLOAD = "hoodie.datasource.write.payload.class"
EVENT_TIME = {PAYLOAD: "org.apache.hudi.common.model.DefaultHoodieRecordPayload"}
VERSION, UPGRADE = "hoodie.write.table.version", "hoodie.write.auto.upgrade"
STATISTICS = "hoodie.metadata.index.column.stats.enable"


def test_hudi_1_writes_version_6_by_event_time_where_its_name_says_so():
    new = options("hudi@1.1.1-v6", EVENT_TIME)
    assert (new[VERSION], new[UPGRADE], new[STATISTICS]) == ("6", "false", "false")
    assert new["hoodie.record.merge.mode"] == "EVENT_TIME_ORDERING"
    mode = "hoodie.record.merge.mode"
    assert options("hudi@1.0.2-v6", {})[mode] == "COMMIT_TIME_ORDERING"
    assert mode not in options("hudi@1.1.1-v6", {PAYLOAD: "my.Payload"})
    told = options("hudi@1.1.1-v6", {VERSION: "8", "keymark.x": "1"})
    assert told[VERSION] == "8"
    assert "keymark.x" not in told
    assert not [name for name in options("hudi@0.15.0", EVENT_TIME) if "version" in name]


def test_hudi_1_does_with_tables_of_its_own_version_what_it_does_by_default():
    own = options("hudi@1.2.0", EVENT_TIME)
    assert own["hoodie.metadata.record.index.enable"] == "true"
    assert not {VERSION, UPGRADE, STATISTICS, "hoodie.metadata.enable"} & own.keys()
    older = options("hudi@1.2.0-v8", EVENT_TIME)
    assert (older[VERSION], older[UPGRADE]) == ("8", "false")
    assert STATISTICS not in older


def test_a_table_is_opened_with_the_metadata_partitions_that_it_has(tmp_path):
    made, child = engine()
    path = make_table(tmp_path / "t", partitions="files,record_index,column_stats")
    made.open(path, index="global_simple", options={}).upsert(())
    options = child.calls[-1][1]["options"]
    assert options["hoodie.metadata.record.index.enable"] == "true"
    assert options["hoodie.metadata.index.column.stats.enable"] == "true"
    assert options["hoodie.metadata.index.bloom.filter.enable"] == "false"
    assert options["hoodie.datasource.write.recordkey.field"] == "k"
    assert options["hoodie.datasource.write.partitionpath.field"] == "dt"


def test_the_index_is_told_by_the_table_where_it_must_be_built_there(tmp_path):
    made, _ = engine()
    with_index = make_table(tmp_path / "a", partitions="files,record_index")
    without = make_table(tmp_path / "b")
    assert made.open(with_index, index="record", options={}).info().index == "record"
    assert made.open(without, index="record", options={}).info().index == "none"
    assert made.open(without, index="bloom", options={}).info().index == "bloom"


def test_files_of_a_write_are_those_of_its_commit(tmp_path):
    made, _ = engine()
    path = make_table(tmp_path / "t", keys={"p": ["a"], "q": ["b"], "r": ["c"]})
    (path / "r" / f"id-2_0-1-0_{FIRST}.parquet").write_bytes(b"")
    outcome = made.open(path, index="record", options={}).upsert(())
    assert outcome.files_written == 2
    assert outcome.phases == {}
    # What a commit without base files left are those of earlier ones.
    (path / ".hoodie" / f"{THIRD}.deltacommit").write_text("{}")
    assert outcome.files_written == 0


def test_keys_are_brought_with_their_partitions_only_where_the_index_is_local(tmp_path):
    made, child = engine()
    path = make_table(tmp_path / "t", keys={"p": ["a"], "q": ["b"]})
    keys = pa.array(["b", "absent", "a"])
    expected = {"record": None, "global_simple": ["", "", ""], "simple": ["q", "p", "p"]}
    for index, partitions in expected.items():
        made.hold_keys(keys, made.open(path, index=index, options={}))
        assert child.calls[-1][1]["partitions"] == partitions
        assert child.calls[-1][1]["keys"] == ["b", "absent", "a"]


def test_answers_are_in_the_order_of_the_keys():
    made, _ = engine(places={"b": ("q", "id-1"), "a": ("p", "id-0")})
    answer = made.answer(None, pa.array(["a", "x", "b"]))
    assert answer.to_pydict() == {
        "record_key": ["a", "x", "b"],
        "partition_path": ["p", None, "q"],
        "file_id": ["id-0", None, "id-1"],
    }


def test_a_step_ends_even_when_it_fails():
    made, child = engine(write=CellError("no"))
    table = made.create(Path("t"), LAYOUT, index="record", options={})
    with pytest.raises(CellError), made.step("cell|r0|upsert_1"):
        table.upsert(())
    assert [name for name, _ in child.calls] == ["begin", "write", "end"]


def test_point_queries_go_by_the_key_column_where_there_is_one():
    made, child = engine(find=["row"], opened=["f"])
    rows = made.create(Path("t"), LAYOUT, index="record", options={}).read(keys=["a"])
    assert rows.collect() == ["row"]
    assert rows.inputFiles() == ["f"]
    assert child.calls[0][1]["column"] == "k"
    two = Layout(name="t", record_key=("a", "b"), partition_path=(), ordering=None)
    made.create(Path("t"), two, index="record", options={}).read(keys=["a:1,b:2"]).collect()
    assert child.calls[-1][1]["column"] == "_hoodie_record_key"


def test_the_jar_is_on_the_class_paths_and_never_in_spark_jars(tmp_path):
    brought = [tmp_path / "a.jar", tmp_path / "b.jar"]
    conf = session_conf(brought, tmp_path, tmp_path / "conf")
    paths = [*brought, tmp_path / "conf"]
    assert conf["spark.driver.extraClassPath"] == os.pathsep.join(map(str, paths))
    assert conf["spark.driver.extraClassPath"] == conf["spark.executor.extraClassPath"]
    assert not [name for name in conf if name.startswith("spark.jars")]


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "refused"), Py4JError("gone")])
def test_a_process_whose_spark_is_gone_ends_so_that_another_is_started(monkeypatch, error):
    ended = []
    monkeypatch.setattr(spark_child.os, "_exit", ended.append)
    monkeypatch.setattr(spark_child, "_has_spark", lambda: True)
    assert spark_child.explain(error).startswith(type(error).__name__)
    assert ended == []
    monkeypatch.setattr(spark_child, "_has_spark", lambda: False)
    spark_child.explain(error)
    assert ended == [1]


def test_a_secondary_index_is_built_upon_the_loaded_rows(tmp_path):
    made, child = engine("hudi@1.2.0")
    asked = {f"hoodie.metadata.index.secondary.{name}": "true" for name in ("enable", "column")}
    made.create(tmp_path, LAYOUT, index="record", options=asked).bulk_insert(("a.parquet",))
    made.create(tmp_path, LAYOUT, index="record", options={}).bulk_insert(("a.parquet",))
    assert [name for name, _ in child.calls] == ["write", "build_index", "write"]
    loaded, built, plain = (arguments["options"] for _, arguments in child.calls)
    assert built == loaded | asked
    assert plain == loaded
