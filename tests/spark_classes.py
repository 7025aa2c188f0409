"""Keep Spark's classes, read and checked, in a file: a JVM that maps it starts in half the time.

    python tests/spark_classes.py .venv/spark.jsa

A dynamic archive of class data sharing (JEP 350): the JVM writes the classes that it loaded when
it ends. `conftest.py` has the option that reads the file; a JVM with another class path or of
another build leaves it aside.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pandas as pd

from keymark.table.runtime.spark import session


def main(archive: Path) -> None:
    """Do what most tests do with Spark, in a JVM that writes `archive` as it ends."""
    new = archive.with_suffix(".new")
    os.environ["SPARK_SUBMIT_OPTS"] = (
        f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ArchiveClassesAtExit={new}"
        " -Xlog:disable -Xlog:all=error:stderr"
    )
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": folder,
        }
        spark = session("local[2]", options)
        rows = spark.createDataFrame(pd.DataFrame({"key": ["a", "b"] * 500, "value": range(1000)}))
        rows.write.parquet(f"{folder}/rows")
        read = spark.read.parquet(f"{folder}/rows")
        same = read.mapInArrow(lambda batches: batches, read.schema).repartition(2, "key")
        same.join(rows.withColumnRenamed("key", "other"), "value").groupBy("key").count().toPandas()
        process = spark.sparkContext._gateway.proc
        spark.stop()
        process.stdin.close()
        process.wait()
    new.replace(archive)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
