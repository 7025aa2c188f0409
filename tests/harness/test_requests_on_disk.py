"""What Hadoop counts of a local disk: bytes and no operations. So Hudi has no requests there."""

from __future__ import annotations

import pytest


def counted(spark):
    """Hadoop's own statistics of local files, by name; none before the first of them is touched."""
    files = spark.sparkContext._jvm.org.apache.hadoop.fs.FileSystem
    of_disk = files.getGlobalStorageStatistics().get("file")
    if of_disk is None:
        return {}
    return {each.getName(): each.getValue() for each in of_disk.getLongStatistics()}


@pytest.mark.spark
def test_hadoops_statistics_of_a_disk_hold_bytes_and_no_operations(spark, tmp_path):
    before = counted(spark)
    for name in ("first", "second"):
        spark.range(1000).write.parquet(str(tmp_path / name))
        assert spark.read.parquet(str(tmp_path / name)).distinct().count() == 1000
    after = counted(spark)
    for name in ("bytesRead", "bytesWritten"):
        assert after[name] > before.get(name, 0)
    assert {name: after[name] for name in after if name.endswith("Ops")} == {
        "readOps": 0,
        "largeReadOps": 0,
        "writeOps": 0,
    }
