"""The SQL of a write in other formats, as text: what it says is tried in test_formats_for_real."""

from __future__ import annotations

from keymark.harness.engines import format_sql
from keymark.harness.engines.base import Layout
from keymark.harness.engines.delta.dialect import DeltaDialect
from keymark.harness.engines.iceberg.dialect import IcebergDialect

ONE = Layout(name="t", record_key=("uuid",), partition_path=("dt",), ordering="ts")
TWO = Layout(name="t", record_key=("a", "b"), partition_path=(), ordering=None)
BY_TIME = {
    "hoodie.datasource.write.payload.class": (
        "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
    )
}


def test_the_newest_row_of_a_key_is_the_one_that_comes():
    assert format_sql.newest(ONE) == (
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY `uuid` ORDER BY `ts` DESC NULLS "
        "LAST, keymark_file DESC, keymark_row DESC) AS keymark_rank FROM keymark_numbered) "
        "WHERE keymark_rank = 1"
    )
    assert (
        "PARTITION BY `a`, `b` ORDER BY keymark_file DESC, keymark_row DESC)"
        in format_sql.newest(TWO)
    )


def test_a_stored_row_stays_only_where_event_time_decides_and_it_is_newer():
    by_time = format_sql.upsert("t", ONE, BY_TIME)
    assert by_time.startswith("MERGE INTO t AS t USING (SELECT * FROM (SELECT *, row_number()")
    assert by_time.endswith(
        "AS s ON t.`uuid` = s.`uuid` WHEN MATCHED AND NOT coalesce(t.`ts` > s.`ts`, false) "
        "THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert "WHEN MATCHED THEN UPDATE SET *" in format_sql.upsert("t", ONE, {})
    # Nulls are parts of a key of several columns.
    assert "ON t.`a` <=> s.`a` AND t.`b` <=> s.`b` WHEN" in format_sql.upsert("t", TWO, BY_TIME)


def test_a_merge_may_look_in_the_partitions_of_the_batch_alone():
    assert format_sql.partitions(ONE) == ("SELECT DISTINCT cast(`dt` AS string) FROM keymark_batch")
    some = format_sql.upsert("t", ONE, {}, partitions=[("b",), ("a'",), (None,)])
    assert (
        "ON t.`uuid` = s.`uuid` AND t.`dt` <=> s.`dt` AND "
        "(t.`dt` IN ('a\\'', 'b') OR t.`dt` IS NULL) WHEN MATCHED"
    ) in some
    # An empty text is a value like any other.
    assert "(t.`dt` IN ('')) WHEN" in format_sql.upsert("t", ONE, {}, partitions=[("",)])


def test_a_delete_asks_for_keys_alone():
    assert format_sql.delete("t", ONE) == (
        "MERGE INTO t AS t USING (SELECT DISTINCT `uuid` FROM keymark_batch) AS s "
        "ON t.`uuid` = s.`uuid` WHEN MATCHED THEN DELETE"
    )


def test_names_and_values_are_escaped():
    odd = Layout(name="t", record_key=("a`b",), partition_path=("d't",), ordering=None)
    made = format_sql.create("t", odd, source="delta", properties={"x'y": "z\\"})
    assert made == (
        "CREATE TABLE t USING delta PARTITIONED BY (`d't`) TBLPROPERTIES ('x\\'y' = 'z\\\\') "
        "AS SELECT * FROM keymark_batch"
    )
    assert "t.`a``b` = s.`a``b`" in format_sql.upsert("t", odd, {})


def test_a_lookup_joins_the_keys_with_the_file_of_each_row():
    assert format_sql.lookup("t", ONE, file_name="_file") == (
        "SELECT a.record_key, concat_ws('/', coalesce(cast(t.`dt` AS string), "
        "'__HIVE_DEFAULT_PARTITION__')) AS partition_path, t.keymark_file FROM (SELECT `uuid`, "
        "`dt`, _file AS keymark_file FROM t) AS t JOIN keymark_asked AS a "
        "ON t.`uuid` = a.record_key"
    )
    two = format_sql.lookup("t", TWO, file_name="_file")
    assert "SELECT a.record_key, '' AS partition_path" in two
    assert "concat('a:', CASE WHEN cast(t.`a` AS string) IS NULL THEN '__null__'" in two


def test_delta_names_tables_by_path_and_takes_codec_and_size_from_the_session():
    delta, options = DeltaDialect(), {"hoodie.parquet.max.file.size": "9", "delta.x": "1"}
    assert delta.relation("/runs/a@1/t") == "delta.`/runs/a@1/t`"
    assert delta.settings("/t", options) == {
        "spark.sql.parquet.compression.codec": "snappy",
        "spark.databricks.delta.optimize.maxFileSize": "9",
    }
    given = {"hoodie.parquet.compression.codec": "gzip", "spark.sql.x": "y"}
    assert delta.settings("/t", given) == {
        "spark.sql.parquet.compression.codec": "gzip",
        "spark.sql.x": "y",
    }
    assert delta.properties({**options, **given}) == {"delta.x": "1"}
    assert delta.compaction("/t", {}) == ("OPTIMIZE delta.`/t`",)
    assert delta.session(3)["spark.databricks.delta.snapshotPartitions"] == "3"


def test_iceberg_has_a_catalog_for_the_folder_of_each_namespace():
    iceberg, place = IcebergDialect(), "/runs/iceberg@1.10.0/merge_cow/table-r0"
    relation = iceberg.relation(place)
    catalog = relation.partition(".")[0]
    assert relation == f"{catalog}.`merge_cow`.`table-r0`"
    settings = iceberg.settings(place, {"spark.a": "b", "write.x": "1"})
    assert settings == {
        f"spark.sql.catalog.{catalog}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{catalog}.type": "hadoop",
        f"spark.sql.catalog.{catalog}.warehouse": "/runs/iceberg@1.10.0",
        f"spark.sql.catalog.{catalog}.cache-enabled": "false",
        "spark.a": "b",
    }
    assert iceberg.relation("s3a://b/x/ns/t").partition(".")[0] != catalog


def test_icebergs_words_for_codec_and_size_and_options_of_its_procedure():
    iceberg = IcebergDialect()
    options = {
        "hoodie.parquet.compression.codec": "gzip",
        "hoodie.parquet.max.file.size": "9",
        "hoodie.x": "1",
        "write.distribution-mode": "none",
        "rewrite_data_files.min-input-files": "2",
    }
    assert iceberg.properties(options) == {
        "write.parquet.compression-codec": "gzip",
        "write.target-file-size-bytes": "9",
        "write.distribution-mode": "none",
    }
    data, deletes = iceberg.compaction("/w/ns/t", options)
    assert data.endswith(
        ".system.rewrite_data_files(table => '`ns`.`t`', options => map('min-input-files', '2'))"
    )
    assert deletes.endswith(".system.rewrite_position_delete_files(table => '`ns`.`t`')")
    assert "options" not in iceberg.compaction("/w/ns/t", {})[0]
