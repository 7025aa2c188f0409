"""A small job of real PySpark, by Python and spark-submit; its candidate shuffles twice as much."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from job_cases import samples, say, value

from keymark.harness.store.store import RunFolder

pytestmark = pytest.mark.spark

ETL = """
import sys
from pyspark.sql import SparkSession, functions as F

out, copies = sys.argv[1], int(sys.argv[2])
spark = (
    SparkSession.builder.master("local[2]").appName("etl")
    .config("spark.sql.shuffle.partitions", "2").config("spark.ui.enabled", "false")
    .config("spark.sql.adaptive.enabled", "false").getOrCreate()
)
copied = F.explode(F.array(*map(F.lit, range(copies)))).alias("copy")
rows = spark.range(20_000).select(copied, "id")
rows.repartition(2, "id").write.mode("overwrite").parquet(out)
# The session is left to the end of the process, as many jobs do.
"""


def test_a_doubled_shuffle_is_caught_and_its_stage_named(capsys, tmp_path, monkeypatch):
    binaries = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{binaries}:{os.environ['PATH']}")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("STORE_TOKEN", "hunter2hunter2")
    (tmp_path / "etl.py").write_text(ETL)
    logs = "--conf spark.eventLog.compression.codec=lz4 --conf spark.eventLog.rolling.enabled=true"
    (tmp_path / "job.toml").write_text(
        dedent(f"""\
        [job]
        name = "etl"
        repetitions = 1
        warmups = 0
        writes = ["{{work}}"]
        values = {{copies = "1"}}

        [[job.step]]
        name = "by_python"
        command = "{sys.executable} etl.py {{work}}/a {{copies}}"

        [[job.step]]
        name = "by_submit"
        command = "spark-submit {logs} etl.py {{work}}/b {{copies}}"
        """)
    )
    out = tmp_path / "pair"
    words = ["--base", "copies=1", "--candidate", "copies=2"]
    _, told = say(capsys, "run", tmp_path / "job.toml", *words, "--out", out)
    assert "event log" not in told
    for step in ("by_python", "by_submit"):
        shuffled = [
            value(out, "shuffle_write_records", cell=f"{side}/etl", step=step)
            for side in ("base", "candidate")
        ]
        assert shuffled == [20_000, 40_000]
        assert value(out, "output_records", cell="base/etl", step=step) == 20_000
        assert value(out, "cpu_s", cell="base/etl", step=step) > 1
        assert value(out, "peak_memory_bytes", cell="base/etl", step=step) > 100 << 20
    assert all(each["valid"] for each in samples(out))
    said, _ = say(capsys, "gate", out, "--json", code=1)
    answer = json.loads(said)
    (worse,) = (
        each
        for each in answer["findings"]
        if (each["step"], each["metric"]) == ("by_python", "shuffle_write_records")
    )
    assert worse["verdict"] == "regression"
    (stage,) = (each for each in worse["causes"] if each["kind"] == "stage")
    assert (stage["baseline"], stage["candidate"]) == (20_000, 40_000)
    assert "Exchange" in stage["name"]
    assert stage["name"] in {each.name for each in RunFolder.open(out).stages()}
    for file in (each for each in out.rglob("*") if each.is_file()):
        assert b"hunter2" not in file.read_bytes(), file
