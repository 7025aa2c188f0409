"""Make small tables whose keys are generated in unusual ways, with real Apache Hudi.

    python make_key_tables.py hudi-spark3.5-bundle_2.12-0.15.0.jar OUT [TABLE ...]

Needs PySpark 3.5. All tables go to OUT/hudi-<version>-keys.tar.gz. With Hudi 0.15: `timestamp`,
`custom`, and tables with virtual keys, each bulk inserted (rows 0 to 19) and upserted (rows 15 to
29); TABLEs, which Keymark made with virtual keys, are upserted (rows h1 and h2, of columns k, p, ts,
v) and go to OUT/hudi-<version>-left_behind.tar.gz. With Hudi 1.1: `named_key`, whose one key field is named in the key.
"""

from __future__ import annotations

import re
import shutil
import sys
import tarfile
from pathlib import Path

from make_hudi_tables import VERSION_6, session
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

KEYGEN = "org.apache.hudi.keygen"
WRITE = "hoodie.datasource.write"
TIME = "hoodie.keygen.timebased"
COMMON = {
    f"{WRITE}.recordkey.field": "k",
    f"{WRITE}.partitionpath.field": "p",
    f"{WRITE}.precombine.field": "ts",
    "hoodie.upsert.shuffle.parallelism": "2",
    "hoodie.bulkinsert.shuffle.parallelism": "2",
    "hoodie.index.bloom.num_entries": "100",
    "hoodie.bloom.index.filter.dynamic.max.entries": "500",
    "hoodie.write.markers.type": "DIRECT",
    "hoodie.metadata.enable": "true",
    "hoodie.index.type": "GLOBAL_SIMPLE",
    "hoodie.simple.index.update.partition.path": "true",
}
VIRTUAL = {"hoodie.populate.meta.fields": "false"}
TIMES = {
    f"{WRITE}.partitionpath.field": "at",
    f"{TIME}.timestamp.type": "EPOCHMILLISECONDS",
    f"{TIME}.output.dateformat": "yyyy-MM-dd",
    f"{TIME}.timezone": "GMT+8:00",
}
TABLES = {
    "timestamp": {**TIMES, f"{WRITE}.keygenerator.class": f"{KEYGEN}.TimestampBasedKeyGenerator"},
    "custom": {
        **TIMES,
        f"{WRITE}.keygenerator.class": f"{KEYGEN}.CustomKeyGenerator",
        f"{WRITE}.partitionpath.field": "p:SIMPLE,at:TIMESTAMP",
        f"{WRITE}.hive_style_partitioning": "true",
    },
    "virtual_simple": {**VIRTUAL, f"{WRITE}.keygenerator.class": f"{KEYGEN}.SimpleKeyGenerator"},
    "virtual_complex": {
        **VIRTUAL,
        f"{WRITE}.recordkey.field": "k,n",
        f"{WRITE}.keygenerator.class": f"{KEYGEN}.ComplexKeyGenerator",
    },
    "virtual_flat": {
        **VIRTUAL,
        f"{WRITE}.partitionpath.field": "",
        f"{WRITE}.keygenerator.class": f"{KEYGEN}.NonpartitionedKeyGenerator",
    },
}
LATER_TABLES = {
    "named_key": {
        **VERSION_6,
        f"{WRITE}.keygenerator.class": f"{KEYGEN}.ComplexKeyGenerator",
        "hoodie.metadata.index.column.stats.enable": "false",
        "hoodie.write.complex.keygen.new.encoding": "false",
        "hoodie.write.complex.keygen.validation.enable": "false",
    },
}


def rows(spark: SparkSession, low: int, high: int, ts: int) -> DataFrame:
    """Rows of the numbers low to high."""
    number = F.col("id")
    return spark.range(low, high, 1, 1).select(
        F.concat(F.lit("k"), number.cast("string")).alias("k"),
        number.cast("int").alias("n"),
        F.concat(F.lit("p"), (number % 3).cast("string")).alias("p"),
        (F.lit(1700000000000) + number * 7_000_000).alias("at"),
        F.lit(ts).cast("long").alias("ts"),
        F.concat(F.lit(f"v{ts}-"), number.cast("string")).alias("v"),
    )


def leave_behind(spark: SparkSession, tables: list[Path], archive: Path) -> None:
    """Upsert two new keys into tables of Keymark's, and pack them."""
    given = {**COMMON, **VIRTUAL, f"{WRITE}.operation": "upsert", "hoodie.table.name": "t"}
    given[f"{WRITE}.keygenerator.class"] = f"{KEYGEN}.SimpleKeyGenerator"
    given["hoodie.metadata.record.index.enable"] = "true"
    new = spark.createDataFrame(
        [("h1", "p0", 1, "new"), ("h2", "p9", 1, "new")], "k string, p string, ts long, v string"
    )
    with tarfile.open(archive, "w:gz") as tar:
        for path in tables:
            stored = (path / ".hoodie/hoodie.properties").read_text()
            given["hoodie.index.type"] = re.search(r"hoodie\.index\.type=(\w+)", stored)[1]
            new.write.format("hudi").options(**given).mode("append").save(str(path))
            tar.add(path, path.name, filter=lambda i: None if i.name.endswith(".crc") else i)


def main() -> None:
    """Make all tables of the jar's release."""
    jar, out = sys.argv[1], Path(sys.argv[2])
    version = re.search(r"-(\d+\.\d+\.\d+)\.jar", jar)[1]
    spark = session(jar)
    if sys.argv[3:]:
        tables = [Path(path) for path in sys.argv[3:]]
        leave_behind(spark, tables, out / f"hudi-{version}-left_behind.tar.gz")
        return
    found = TABLES if version.startswith("0.") else LATER_TABLES
    for name, options in found.items():
        shutil.rmtree(out / name, ignore_errors=True)
        given = {**COMMON, **options, "hoodie.table.name": name}
        steps = [("bulk_insert", rows(spark, 0, 20, 1), "overwrite")]
        steps.append(("upsert", rows(spark, 15, 30, 2), "append"))
        for operation, frame, mode in steps:
            writer = frame.write.format("hudi").options(**given).mode(mode)
            writer.option(f"{WRITE}.operation", operation).save(str(out / name))
    with tarfile.open(out / f"hudi-{version}-keys.tar.gz", "w:gz") as tar:
        for name in found:
            tar.add(out / name, name, filter=lambda i: None if i.name.endswith(".crc") else i)


if __name__ == "__main__":
    main()
