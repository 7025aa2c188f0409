"""The engines of other formats against a stand-in of their process: no Java, no jar."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from format_tables import add, make_delta
from harness_fakes import HeldFrame, RecordedChild

from keymark.harness.engines import engine_pool, format_jars, jars
from keymark.harness.engines.base import Layout, compactable, merge_on_read
from keymark.harness.engines.format_engine import FormatEngine
from keymark.harness.errors import CellError, HarnessError
from keymark.harness.tables.table_folders import LocalTables
from keymark.indexes.installed import measured_specs

LAYOUT = Layout(name="t", record_key=("uuid",), partition_path=("dt",), ordering="ts")
DELTA, ICEBERG = "delta@3.3.2", "iceberg@1.10.0"


def engine(name=DELTA, **answers):
    child = RecordedChild(**answers)
    return FormatEngine(name, child, LocalTables()), child


def test_a_load_makes_the_table_in_its_mode_and_keeps_what_the_format_has_no_words_for():
    made, child = engine()
    table = made.create(Path("/w/ns/t"), LAYOUT, index="merge_dv", options={"delta.x": "1"})
    table.bulk_insert(made.hold_rows(HeldFrame()))
    name, said = child.calls[-1]
    assert (name, said["files"]) == ("run", ("file:/a.parquet", "file:/b.parquet"))
    (statement,) = said["statements"]
    assert statement.startswith("CREATE TABLE delta.`/w/ns/t` USING delta PARTITIONED BY (`dt`)")
    for said in (
        "'delta.x' = '1'",
        "'delta.enableDeletionVectors' = 'true'",
        "'keymark.table.name' = 't'",
        "'keymark.recordkey.fields' = 'uuid'",
        "'keymark.ordering.field' = 'ts'",
    ):
        assert said in statement


@pytest.mark.parametrize(
    ("index", "mode"), [("merge_cow", "copy-on-write"), ("merge_mor", "merge-on-read")]
)
def test_a_mode_of_iceberg_is_that_of_all_three_kinds_of_writes(index, mode):
    made, child = engine(ICEBERG)
    made.create(Path("/w/ns/t"), LAYOUT, index=index, options={}).bulk_insert(("f",))
    (statement,) = child.calls[-1][1]["statements"]
    for kind in ("merge", "update", "delete"):
        assert f"'write.{kind}.mode' = '{mode}'" in statement


def test_writes_and_reads_are_of_one_relation_under_the_same_settings():
    made, child = engine(ICEBERG, digest=(1, "d"), find=["row"], opened=[])
    table = made.create(Path("/w/ns/t"), LAYOUT, index="merge_cow", options={})
    table.upsert(("f",))
    table.delete(("f",))
    compactable(table).compact_rows()
    made.hold_keys(pa.array(["a"]), table)
    table.lookup(None)
    made.digest(table.read(), ["uuid"])
    assert table.read(keys=["a"]).collect() == ["row"]
    said = [arguments for _, arguments in child.calls if "settings" in arguments]
    assert len(said) == 6
    assert all(each["settings"] == said[0]["settings"] for each in said)
    writes = [each["statements"][0].split()[0] for each in said[:3]]
    assert writes == ["MERGE", "MERGE", "CALL"]
    assert ("hold_keys", {"keys": ["a"]}) in child.calls
    assert child.calls[-1][1]["column"] == "uuid"


def test_a_merge_of_the_batchs_partitions_asks_for_them_first():
    made, child = engine(query=[("2026-01-01",)])
    options = {"keymark.merge.partitions": "batch"}
    made.create(Path("/t"), LAYOUT, index="merge", options=options).upsert(("f",))
    assert [name for name, _ in child.calls] == ["query", "run"]
    (statement,) = child.calls[-1][1]["statements"]
    assert "AND (t.`dt` IN ('2026-01-01')) WHEN MATCHED" in statement


def test_another_payload_class_is_refused():
    made, _ = engine()
    options = {"hoodie.datasource.write.payload.class": "my.Payload"}
    with pytest.raises(CellError, match=r"has no MERGE for hoodie.* = my\.Payload"):
        made.create(Path("/t"), LAYOUT, index="merge", options=options)


def test_keys_of_several_columns_are_looked_for_by_their_text():
    two = Layout(name="t", record_key=("a", "b"), partition_path=(), ordering=None)
    made, child = engine(select=["row"])
    rows = made.create(Path("/t"), two, index="merge", options={}).read(keys=["a:1,b:o'"])
    assert rows.collect() == ["row"]
    where = child.calls[-1][1]["where"]
    assert where.startswith("concat_ws(',', concat('a:', CASE WHEN cast(`a` AS string) IS NULL")
    assert where.endswith(" IN ('a:1,b:o\\'')")


def test_a_table_says_in_which_mode_it_is(tmp_path):
    made, _ = engine()
    for name in ("merge", "merge_dv"):
        properties = measured_specs()[name].table_properties
        make_delta(tmp_path / name, [[]], configuration=properties)
        table = made.open(tmp_path / name, index=name, options={})
        assert table.info().index == name
    make_delta(tmp_path / "other", [[]], configuration={})
    assert made.open(tmp_path / "other", index="merge", options={}).info().index == "none"


def test_a_write_tells_the_times_and_files_of_its_commit(tmp_path):
    times = {"scanTimeMs": "1500", "rewriteTimeMs": "500", "executionTimeMs": "2250"}
    first, second = add("a.parquet"), add("b.parquet")
    info = {"commitInfo": {"operation": "MERGE", "operationMetrics": times}}
    make_delta(tmp_path / "t", [[first], [{"remove": {"path": "a.parquet"}}, second, info]])
    made, _ = engine()
    table = made.open(tmp_path / "t", index="merge", options={})
    outcome = table.upsert(("f",))
    assert outcome.files_written == 1
    assert outcome.phases == {"tag": 1.5, "write": 0.5, "prepare": 0.25}
    log = tmp_path / "t" / "_delta_log" / f"{1:020d}.json"
    log.write_text(json.dumps(second))
    assert table.upsert(("f",)).phases == {}


def test_what_a_format_lacks_is_said_by_name():
    made, _ = engine()
    table = made.create(Path("/t"), LAYOUT, index="merge", options={})
    for call in (table.check, table.compact, table.drop_index, table.build_index):
        with pytest.raises(CellError, match=r"^delta@3\.3\.2 has no record index$"):
            call()
    with pytest.raises(CellError, match="has no purge"):
        table.purge(None)
    with pytest.raises(CellError, match="only Hudi reads base files without"):
        merge_on_read(table)
    with pytest.raises(CellError, match="cannot start from a table of Hudi's"):
        made.adopt(Path("/t"), index="merge", options={})


def test_a_missing_jar_or_another_spark_leaves_the_engine_out_with_a_line(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(format_jars.metadata, "version", lambda _: "3.5.9")
    found = engine_pool.missing(["native", DELTA, ICEBERG], ["record", "merge"])
    assert found.pop("native/merge")
    assert found == {
        DELTA: "Delta Lake 3.3.2 is not in the cache; get it once by: "
        "keymark engine install delta@3.3.2",
        ICEBERG: "Apache Iceberg 1.10.0 is not in the cache; get it once by: "
        "keymark engine install iceberg@1.10.0",
    }
    monkeypatch.setattr(format_jars.metadata, "version", lambda _: "4.1.0")
    for name, build in ((DELTA, "delta-spark_4.1_2.13"), (ICEBERG, "4.0_2.13, from 1.10.0 on")):
        with pytest.raises(
            HarnessError, match=r"Spark 3\.5, and this is PySpark 4\.1\.0; .*" + build
        ):
            engine_pool.missing([name], ["merge", "merge_cow"])


def test_jars_are_installed_together_and_listed_only_if_all_are_there(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(format_jars.metadata, "version", lambda _: "3.5.9")
    named = format_jars.format_name(DELTA)
    first, second = format_jars.format_jars(named)
    assert [path.name for path in (first, second)] == [
        "delta-spark_2.12-3.3.2.jar",
        "delta-storage-3.3.2.jar",
    ]
    first.parent.mkdir(parents=True)
    first.write_bytes(b"jar")
    assert format_jars.installed_formats() == ()
    assert format_jars.missing_jars(DELTA)
    fetched = []

    def fetch(jar, place, _download):
        fetched.append(jar[1])
        path = jars.kept(jar, place)
        path.write_bytes(b"jar")
        return path

    monkeypatch.setattr(jars, "fetch", fetch)
    assert format_jars.install_jars(named, None) == first.parent
    assert fetched == ["delta-spark_2.12", "delta-storage"]
    assert format_jars.installed_formats() == (DELTA,)
    assert format_jars.missing_jars(DELTA) is None


def test_an_index_of_another_engine_is_left_out(monkeypatch):
    monkeypatch.setattr(engine_pool, "missing_jars", lambda _: None)
    found = engine_pool.missing([DELTA], ["merge", "merge_cow", "record"])
    assert found == {
        f"{DELTA}/{name}": f"{DELTA} has no index {name} (it has merge, merge_dv)"
        for name in ("merge_cow", "record")
    }
