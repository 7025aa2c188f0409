"""An upsert of 3 % of the rows, two thirds of them updates, with the record index.

Tiny where benchmarks are disabled. `--benchmark-enable` loads 1,000,000 uuid-keyed rows in 20 date
partitions and about 220 base files, and upserts 30,000 of them by Spark on two cores.
"""

from __future__ import annotations

import hashlib
import shutil
import uuid

import numpy as np
import pyarrow as pa
import pytest

from keymark import Table

PARTITIONS = 20
FILES = 220


def rows(seed: int, low: int, high: int, ts: int) -> pa.Table:
    """Rows as a function of their number; `ts` orders their versions."""
    numbers = range(low, high)
    keys = [uuid.UUID(bytes=hashlib.md5(f"{seed}/{i}".encode()).digest()) for i in numbers]
    return pa.table(
        {
            "uuid": [str(key) for key in keys],
            "dt": [f"2024-01-{key.int % PARTITIONS + 1:02d}" for key in keys],
            "ts": pa.array(np.full(len(keys), ts)),
            "rider": [f"rider-{i % 997}" for i in numbers],
            "fare": pa.array(np.arange(low, high) * 0.25),
            "payload": [hashlib.sha256(f"{ts}/{key}".encode()).hexdigest() for key in keys],
        }
    )


@pytest.fixture(scope="module")
def loaded(request, tmp_path_factory):
    """(folder of a loaded table, its number of rows)."""
    count = 1_000_000 if request.config.getoption("benchmark_enable") else 4_000
    folder = tmp_path_factory.mktemp("upsert") / "loaded"
    table = Table.create(
        str(folder),
        record_key="uuid",
        partition_path="dt",
        ordering="ts",
        options={
            "hoodie.metadata.record.index.min.filegroup.count": "4",
            "hoodie.metadata.record.index.max.filegroup.count": "4",
            "hoodie.parquet.max.file.size": str(97 * count // FILES),
        },
    )
    table.bulk_insert(rows(1, 0, count, 1))
    return folder, count


def run(benchmark, loaded, tmp_path, spark=None):
    folder, count = loaded
    share = 3 * count // 100
    change = rows(1, count - 2 * share // 3, count + share // 3, 2)
    incoming = change if spark is None else spark.createDataFrame(change.to_pandas())
    options = {"hoodie.parquet.small.file.limit": "0"}
    results = []

    def restore():
        copy = tmp_path / f"copy{len(results)}"
        shutil.copytree(folder, copy)
        return (Table.open(str(copy), options=options, spark=spark),), {}

    def upsert(table):
        results.append(table.upsert(incoming))
        return table

    table = benchmark.pedantic(upsert, setup=restore, rounds=3, warmup_rounds=1)
    benchmark.extra_info["phases"] = [result.phases for result in results]
    benchmark.extra_info["base_files"] = table.info().base_files
    assert {result.inserted for result in results} == {share // 3}
    assert {result.updated for result in results} == {2 * share // 3}
    assert table.check().ok


def test_upsert_in_process(benchmark, loaded, tmp_path):
    run(benchmark, loaded, tmp_path)


@pytest.mark.spark
def test_upsert_by_spark(benchmark, loaded, tmp_path, spark):
    run(benchmark, loaded, tmp_path, spark)
