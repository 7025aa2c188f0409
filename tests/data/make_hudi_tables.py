"""Make the tables `record_index`, `complex_key` and `own*` of this folder with real Apache Hudi.

    python make_hudi_tables.py hudi-spark3.5-bundle_2.12-0.15.0.jar OUT
    python make_hudi_tables.py hudi-spark3.5-bundle_2.12-1.2.0.jar OUT own

The second makes tables of the release's own version, as it does by default.
Needs PySpark 3.5. Each goes to OUT/<name>/table; beside it what Hudi itself reads from it
(expected.parquet) and the options that it was written with (options.json), and all of that to
OUT/hudi-<version>-<name>.tar.gz. Releases from 1.0 on write table version 6. Rows are functions of
the row number; file ids and instants are new each time.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tarfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

COMMON = {
    "hoodie.datasource.write.partitionpath.field": "dt",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.metadata.enable": "true",
    "hoodie.upsert.shuffle.parallelism": "2",
    "hoodie.insert.shuffle.parallelism": "2",
    "hoodie.bulkinsert.shuffle.parallelism": "2",
    "hoodie.delete.shuffle.parallelism": "2",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.index.bloom.num_entries": "1000",
    "hoodie.bloom.index.filter.dynamic.max.entries": "5000",
    "hoodie.bloom.index.filter.type": "SIMPLE",
    "hoodie.write.markers.type": "DIRECT",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.metadata.record.index.max.filegroup.count": "2",
    "hoodie.record.index.update.partition.path": "true",
}
TABLES = {
    "record_index": {
        "hoodie.datasource.write.recordkey.field": "uuid",
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.index.bloom.filter.enable": "true",
        "hoodie.metadata.compact.max.delta.commits": "3",
    },
    "complex_key": {
        "hoodie.datasource.write.recordkey.field": "city,id",
        "hoodie.datasource.write.keygenerator.class": (
            "org.apache.hudi.keygen.ComplexKeyGenerator"
        ),
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "true",
    },
}
_PARTITIONED = "hoodie.metadata.record.level.index"
OWN = {
    "own": {"hoodie.datasource.write.recordkey.field": "uuid"},
    "own_partitioned": {
        "hoodie.datasource.write.recordkey.field": "uuid",
        "hoodie.index.type": "RECORD_LEVEL_INDEX",
        "hoodie.metadata.record.index.enable": "false",
        f"{_PARTITIONED}.enable": "true",
    },
    "own_merge_on_read": {
        "hoodie.datasource.write.recordkey.field": "uuid",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    },
}
"""Tables of a release's own version; the second is there since 1.1."""

VERSION_6 = {
    "hoodie.write.table.version": "6",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
}


def session(jar: str) -> SparkSession:
    """Hudi's classes must come from Spark's own class path: its Avro classes are cast there."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.extraClassPath": jar,
        "spark.executor.extraClassPath": jar,
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def rows(spark: SparkSession, low: int, high: int, ts: int, *, shift: int = 0) -> DataFrame:
    """Rows of the numbers low to high; `shift` moves them to another partition."""
    numbers = spark.range(low, high, 1, 2)
    digest = F.md5(F.col("id").cast("string"))
    uuid = [digest.substr(start, length) for start, length in UUID_PARTS]
    day = F.date_add(F.to_date(F.lit("2024-01-30")), ((F.col("id") + shift) % 3).cast("int"))
    tags = F.array((F.col("id") % 3).cast("int"), F.lit(7))
    return numbers.select(
        F.concat_ws("-", *uuid).alias("uuid"),
        F.date_format(day, "yyyy/MM/dd").alias("dt"),
        F.lit(ts).cast("long").alias("ts"),
        F.col("id"),
        F.concat(F.lit("city "), (F.col("id") % 17).cast("string")).alias("city"),
        (F.col("id") * 1.5).alias("fare"),
        (F.col("id") % 2 == 0).alias("paid"),
        F.timestamp_seconds(F.lit(1700000000) + F.col("id")).alias("at"),
        F.when(F.col("id") % 5 != 0, tags).alias("tags"),
    )


UUID_PARTS = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))


def make(spark: SparkSession, name: str, out: Path, version: str) -> None:
    """Bulk insert 1200 rows; update and insert; move 30 rows; delete 40; update again."""
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    options = {**COMMON, **{**TABLES, **OWN}[name], "hoodie.table.name": name}
    if name in TABLES and not version.startswith("0."):
        options = {**options, **VERSION_6}
        options.setdefault("hoodie.metadata.index.column.stats.enable", "false")
    second = rows(spark, 0, 1200, 2).where("id % 7 = 0").unionByName(rows(spark, 1200, 1260, 2))
    steps = [
        ("bulk_insert", rows(spark, 0, 1200, 1), "overwrite"),
        ("upsert", second, "append"),
        ("upsert", rows(spark, 300, 420, 3, shift=1).where("id % 4 = 0"), "append"),
        ("delete", rows(spark, 500, 540, 4), "append"),
        ("upsert", rows(spark, 0, 1300, 5).where("id % 11 = 3"), "append"),
    ]
    table = str(folder / "table")
    for operation, frame, mode in steps:
        writer = frame.write.format("hudi").options(**options).mode(mode)
        writer.option("hoodie.datasource.write.operation", operation).save(table)
    read = spark.read.format("hudi").load(table).toPandas()
    spark.createDataFrame(read).coalesce(1).write.parquet(str(folder / "read"))
    (part,) = (folder / "read").glob("*.parquet")
    part.rename(folder / "expected.parquet")
    shutil.rmtree(folder / "read")
    (folder / "options.json").write_text(json.dumps({"options": options}, indent=1))


def pack(folder: Path, archive: Path) -> None:
    """A table without Hadoop's checksum side-cars, as a tar archive."""
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, folder.name, filter=lambda f: None if f.name.endswith(".crc") else f)


if __name__ == "__main__":
    bundle, target = sys.argv[1], Path(sys.argv[2])
    release = re.search(r"-(\d+\.\d+\.\d+)\.jar$", bundle)[1]
    hudi = session(bundle)
    names = [*TABLES]
    if sys.argv[3:] == ["own"]:
        names = [name for name in OWN if name != "own_partitioned" or release >= "1.1"]
    for table_name in names:
        make(hudi, table_name, target, release)
        pack(target / table_name, target / f"hudi-{release}-{table_name}.tar.gz")
