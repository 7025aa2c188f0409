"""Gates of a user's own job: a PySpark program that upserts into a table of Hudi 1.x.

    python tests/measured/job_gates.py --out DIR [--rows 20000] [--gates 20] [--pairs 24]

The job is the one a user has: a Python program, a Hudi bundle, a job file. Three changes are gated
as `docs/gate.md` tells, each by `keymark run` and `keymark gate`:

- nothing: two configurations that mean the same, so many times as --gates says, 5 pairs each;
- shuffle: the input is shuffled twice, 5 pairs;
- slower: the upsert takes a tenth longer, by a pause in its program, --pairs pairs.

Counters are required, as always, and the time of the upsert as well (DIR/policy.toml). The pause is
a tenth of what the job took in the gates before. A gate that was cut off is resumed, one that has
an answer is kept. DIR/job_gates.json has the answers, DIR/job_gates.md the page. The exit code is
1 if a gate of nothing failed or one of the two changes was not caught.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from keymark.harness.engines import jars
from keymark.harness.store.store import RunFolder

PROGRAM = '''"""Upserts trips: the input is dealt out by its key, then written."""

import sys
import time

from pyspark.sql import SparkSession, Window, functions as F

step, path, jar, rows, shuffles, pause = *sys.argv[1:4], *map(float, sys.argv[4:])
spark = (
    SparkSession.builder.master("local[2]").appName("trips")
    .config("spark.driver.extraClassPath", jar)
    .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
    .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
    .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
    .config("spark.sql.shuffle.partitions", "4").config("spark.ui.enabled", "false")
    .config("spark.sql.adaptive.enabled", "false")
    .getOrCreate()
)
first, last = (0, int(rows)) if step == "bulk_insert" else (int(rows * 0.9), int(rows * 1.05))
trips = spark.range(first, last, 1, 4).selectExpr(
    "concat('trip-', lpad(id, 12, '0')) as uuid", "concat('city-', id % 4) as city",
    f"sha2(concat('{step}', id), 256) as note", "id * 0.01 as fare", f"{first}L as ts",
)
trips = trips.repartition(4, "uuid")
if shuffles > 1:
    # Spark joins two neighbouring repartitions into one; what stands between them keeps both.
    place = F.row_number().over(Window.partitionBy("note").orderBy("uuid"))
    trips = trips.withColumn("place", place).where("place > 0").drop("place")
trips.write.format("hudi").options(**{
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "uuid",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.operation": step,
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.upsert.shuffle.parallelism": "4",
    "hoodie.parquet.compression.codec": "snappy",
}).mode("overwrite" if step == "bulk_insert" else "append").save(path)
time.sleep(pause)
spark.stop()
'''
JOB = """
[job]
name = "trips"
restore = ["rm -rf {work}/trips", "cp -r BASE {work}/trips"]
writes = ["{work}/trips"]
tables = ["{work}/trips"]
warmups = 0

[job.values]
python = "PYTHON"
jar = "JAR"
rows = "ROWS"
shuffles = "1"
pause = "0"
name = "one"

# Each command is a JVM that lives for half a minute: the quick compiler pays for itself.
[job.environment]
JAVA_TOOL_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

[[job.step]]
name = "write"
command = "{python} trips.py upsert {work}/trips {jar} {rows} {shuffles} {pause}"
"""
POLICY = """
[[rule]]
metric = "wall_s"
phase = "total"
level = "required"
"""
PAIRS = 5
TOTAL = "total"


def asked() -> argparse.Namespace:
    """The words of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="a folder, which may hold answers")
    parser.add_argument("--rows", type=int, default=20_000, help="of the table")
    parser.add_argument("--gates", type=int, default=20, help="of two sides that are the same")
    parser.add_argument("--pairs", type=int, default=24, help="of the job that is slower")
    parser.add_argument("--release", default="1.2.0", help="of Hudi")
    return parser.parse_args()


def main() -> None:
    """Gate, and tell."""
    words = asked()
    words.out.mkdir(parents=True, exist_ok=True)
    write_job(words)
    answers = {}
    for number in range(words.gates):
        name = f"nothing_{number:02}"
        answers[name] = gated(words.out, name, ("name=one", "name=two"), PAIRS)
    answers["shuffle"] = gated(words.out, "shuffle", ("shuffles=1", "shuffles=2"), PAIRS)
    pause = statistics.median(walls(words.out)) / 10
    sides = ("pause=0", f"pause={pause:.2f}")
    answers["slower"] = gated(words.out, "slower", sides, words.pairs)
    told = json.dumps(answers, indent=1)
    (words.out / "job_gates.json").write_text(told, encoding="utf-8")
    page, is_right = page_of(answers, words, pause)
    (words.out / "job_gates.md").write_text(page, encoding="utf-8")
    sys.stdout.write(page)
    raise SystemExit(not is_right)


def write_job(words: argparse.Namespace) -> None:
    """Write the files that a user of the gate has, and the table that the job upserts into."""
    text = JOB.replace("PYTHON", sys.executable).replace("ROWS", str(words.rows))
    jar, base = str(jars.bundle(words.release)), (words.out / "base").resolve()
    text = text.replace("JAR", jar).replace("BASE", str(base))
    for name, content in (("trips.py", PROGRAM), ("job.toml", text), ("policy.toml", POLICY)):
        (words.out / name).write_text(content, encoding="utf-8")
    if not base.exists():
        loading = base.with_name("loading")
        load = [sys.executable, "trips.py", "bulk_insert", loading, jar, str(words.rows), "1", "0"]
        subprocess.run(load, cwd=words.out, check=True)
        # Only now: a load that was cut off is no table to upsert into.
        loading.rename(base)


def gated(out: Path, name: str, sides: tuple[str, str], pairs: int) -> dict[str, Any]:
    """The answer of one gate, as its `--json` tells it; kept as DIR/NAME.json."""
    kept = out / f"{name}.json"
    if not kept.exists():
        base, candidate = sides
        more = ["--resume"] if (out / name).exists() else []
        more += ["--set", f"job.repetitions={pairs}", "--out", name]
        keymark(out, "run", "job.toml", "--base", base, "--candidate", candidate, *more)
        answer = keymark(out, "gate", name, "--policy", "policy.toml", "--json")
        kept.write_text(answer, encoding="utf-8")
    found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
    return found


def keymark(folder: Path, *words: str) -> str:
    """What a command of Keymark prints. A gate ends with 1 or 3 too, which is an answer."""
    command = [sys.executable, "-m", "keymark", *words]
    done = subprocess.run(command, cwd=folder, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode not in ((0, 1, 3) if words[0] == "gate" else (0,)):
        raise SystemExit(f"`keymark {' '.join(words)}` ended with {done.returncode}")
    return done.stdout


def walls(out: Path) -> list[float]:
    """Seconds of the upserts in the gates of nothing."""
    return [
        each.value
        for path in sorted(out.glob("nothing_*/"))
        for each in RunFolder.open(path).samples()
        if (each.metric, each.phase, each.warmup) == ("wall_s", TOTAL, False)
    ]


def page_of(
    answers: dict[str, dict[str, Any]], words: argparse.Namespace, pause: float
) -> tuple[str, bool]:
    """The page, and whether each gate said what it had to say."""
    nothing = {name: each for name, each in answers.items() if name.startswith("nothing")}
    failed = [name for name, each in nothing.items() if each["verdict"] == "regression"]
    shuffled = worse(answers["shuffle"], "shuffle_write_bytes")
    slower = worse(answers["slower"], "wall_s")
    of_time = next(each for each in answers["slower"]["findings"] if is_time(each))
    ratio, low, high = (of_time[name] for name in ("ratio", "low", "high"))
    undecided = sum(each["verdict"] == "inconclusive" for each in nothing.values())
    stages = (each["name"] for each in shuffled.get("causes", ()) if each["kind"] == "stage")
    stage = next(stages, "none")
    caught = "both changes were" if shuffled and slower else "not both changes were"
    rows = (
        ("change", "verdict", "pairs", "what the gate says"),
        ("---",) * 4,
        (
            f"none, {len(nothing)} gates",
            f"{len(failed)} failed",
            f"{PAIRS} each",
            f"the time was undecided in {undecided}",
        ),
        (
            "the input is shuffled twice",
            answers["shuffle"]["verdict"],
            str(PAIRS),
            f"shuffled bytes {shuffled.get('ratio', 1):.2f} times, first stage `{stage}`",
        ),
        (
            f"{pause:.2f} s slower, a tenth",
            answers["slower"]["verdict"],
            str(of_time["pairs"]),
            f"{ratio - 1:+.1%} ({low - 1:+.1%} to {high - 1:+.1%})",
        ),
    )
    page = (
        f"# A job with an upsert of Hudi {words.release}, gated {len(answers)} times\n\n"
        f"Of {len(nothing)} gates of a job that did not change {len(failed)} failed; {caught} "
        "caught.\n\n"
    )
    page += "".join(f"| {' | '.join(row)} |\n" for row in rows)
    return page, not failed and bool(shuffled) and bool(slower)


def worse(answer: dict[str, Any], metric: str) -> dict[str, Any]:
    """The regression of a metric, of the whole step; empty if there is none."""
    return next(
        (
            each
            for each in answer["findings"]
            if (each["metric"], each["phase"], each["verdict"]) == (metric, TOTAL, "regression")
        ),
        {},
    )


def is_time(finding: dict[str, Any]) -> bool:
    """Whether a finding is of the time of the whole step."""
    return (finding["metric"], finding["phase"]) == ("wall_s", TOTAL)


if __name__ == "__main__":
    main()
