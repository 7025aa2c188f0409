"""A write of Hudi's that runs in one task instead of 100 is found by counters alone.

Hudi 1.1.0 wrote the data table behind a coalesce on some builds of Spark (apache/hudi#17476):
the answers were right, the shuffle was the same, and one task did the work of many. The job here
writes with Hudi 1.1.1, whose bundle is the nearest that Maven Central has, and coalesces itself.
"""

from __future__ import annotations

import json
import sys
from textwrap import dedent

import pytest
from job_cases import say, value

from keymark.harness.engines import jars

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.xdist_group("hudi")]

RELEASE = "1.1.1"
TASKS, ROWS = 100, 20_000
WRITE = f"""
import sys
from pyspark.sql import SparkSession

path, jar, streaming, tasks = *sys.argv[1:4], int(sys.argv[4])
spark = (
    SparkSession.builder.master("local[2]").appName("write")
    .config("spark.driver.extraClassPath", jar)
    .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
    .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
    .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
    .config("spark.sql.adaptive.enabled", "false").config("spark.ui.enabled", "false")
    .getOrCreate()
)
rows = spark.range(0, {ROWS}, 1, 4).selectExpr("id", "id % 7 as city", "1L as ts")
options = {{
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.operation": "bulk_insert",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.streaming.write.enabled": streaming,
}}
writer = rows.repartition({TASKS}, "id").coalesce(tasks).write.format("hudi")
writer.options(**options).mode("overwrite").save(path)
spark.stop()
"""


@pytest.mark.parametrize("streaming", ["true", "false"])
def test_a_write_behind_a_coalesce_is_named_by_its_stage(capsys, tmp_path, streaming):
    if missing := jars.missing_bundle(RELEASE):
        pytest.skip(missing)
    (tmp_path / "write.py").write_text(WRITE)
    command = f"{sys.executable} write.py {{work}}/trips {jars.bundle(RELEASE)} {streaming}"
    (tmp_path / "job.toml").write_text(
        dedent(f"""\
        [job]
        name = "trips"
        repetitions = 1
        warmups = 0
        timeout = "10m"
        writes = ["{{work}}/trips"]
        values = {{tasks = "{TASKS}"}}

        [[job.step]]
        name = "write"
        command = "{command} {{tasks}}"
        """)
    )
    out = tmp_path / "pair"
    sides = ["--base", f"tasks={TASKS}", "--candidate", "tasks=1"]
    say(capsys, "run", tmp_path / "job.toml", *sides, "--out", out)
    base, candidate = (
        {
            metric: value(out, metric, cell=f"{side}/trips", step="write")
            for metric in ("tasks", "largest_tasks_records")
        }
        for side in ("base", "candidate")
    )
    assert candidate["tasks"] < base["tasks"]
    assert candidate["largest_tasks_records"] > 1.25 * base["largest_tasks_records"]

    said, _ = say(capsys, "gate", out, "--json", code=1)
    answer = json.loads(said)
    required = [each for each in answer["findings"] if each["level"] == "required"]
    assert {each["kind"] for each in required} == {"counter"}
    (worse,) = (
        each
        for each in required
        if (each["phase"], each["metric"]) == ("total", "largest_tasks_records")
    )
    assert worse["verdict"] == "regression"
    stages = [each for each in worse["causes"] if each["kind"] == "stage"]
    # The stage that writes read a hundredth of the rows in each task, and now reads all in one.
    assert stages[0]["candidate"] == ROWS
    assert stages[0]["baseline"] < 2 * ROWS / TASKS
    assert "Exchange" in stages[0]["name"]
