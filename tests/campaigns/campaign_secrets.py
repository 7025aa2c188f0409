"""Secrets in every place where a user may put one: none of them is in a file of the run.

A case is a whole run of the command line, in a process of its own, with one secret in one place.
The run ends well, fails, or is killed in its midst. Then every file that it left, event logs
decompressed, and all that it said are searched for the secret.
"""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
from campaign import Outcome

ROOT = Path(__file__).parents[2]
SECRET = "Can4ry/S3cret+of=this"
_URL = quote(SECRET, safe="")
SMALL = {
    "dataset.rows": "400",
    "dataset.batch_rows": "60",
    "dataset.delete_rows": "20",
    "workload.lookup_present": "50",
    "workload.lookup_absent": "20",
}
PLACES: dict[str, Sequence[str]] = {
    "environment, AWS": (),
    "environment, other": (),
    "S3A key": (f"spark.conf.spark.hadoop.fs.s3a.secret.key={SECRET}",),
    "S3A key of a bucket": (f"spark.conf.spark.hadoop.fs.s3a.bucket.b.secret.key={SECRET}",),
    "Azure key": (
        f"spark.conf.spark.hadoop.fs.azure.account.key.me.dfs.core.windows.net={SECRET}",
    ),
    "password of a key store": (
        f"spark.conf.spark.driver.extraJavaOptions=-Djavax.net.ssl.keyStorePassword={SECRET}",
    ),
    "variable of executors": (f"spark.conf.spark.executorEnv.MY_PASSWORD={SECRET}",),
    "token": (f"spark.conf.spark.hadoop.my.service.token={SECRET}",),
    "table option": (f"table.options.keymark.storage.aws_secret_access_key={SECRET}",),
    "option of Hudi": (f"table.options.hoodie.datasource.hive_sync.password={SECRET}",),
    "URL of a source": (f"table.source=https://me:{_URL}@127.0.0.1:9/table",),
    "URL of a jar": (f"spark.conf.spark.jars=https://me:{_URL}@127.0.0.1:9/x.jar",),
    "URL of a master": (f"spark.master=spark://me:{_URL}@127.0.0.1:9",),
    "URL of the tables": (),
    "unknown setting": (f"table.password={SECRET}",),
    "wrong value": (f"schedule.repetitions=password={SECRET}",),
}
ENDS = ("ends", "fails", "killed", "resumed")
ENGINES = ("native", "hudi@0.15.0")


@dataclass(frozen=True)
class Secrets:
    """The campaign."""

    seed: int = 36
    seconds: float = 300.0
    share: int = 2

    def cases(self) -> Sequence[str]:
        """Every place, end and engine; Hudi's runs only end and die."""
        return [
            f"{engine}: {end}: {place}"
            for engine in ENGINES
            for end in (ENDS if engine == "native" else ("ends", "killed"))
            for place in PLACES
        ]

    def run(self, case: str, folder: Path) -> Outcome:
        """Run, and search what is left."""
        engine, end, place = case.split(": ")
        out, said = folder / "run", ""
        command = _command(engine, place, out, failing=end == "fails")
        if end in ("killed", "resumed"):
            said = _killed(command, place, out)
        if end != "killed":
            again = ("--resume",) if end == "resumed" else ()
            asked = [*command, *again]
            done = subprocess.run(
                asked, cwd=ROOT, env=_variables(place), capture_output=True, check=False
            )
            said += (done.stdout + done.stderr).decode(errors="replace")
        outcome, searched = Outcome(), 0
        for path in folder.rglob("*"):
            if path.is_file():
                searched += 1
                if any(_holds(data) for data in (str(path).encode(), *_contents(path))):
                    outcome.failures.append(f"{case}: in {path.relative_to(folder)}")
        if _holds(said.encode()):
            outcome.failures.append(f"{case}: said")
        outcome.counts = Counter(
            {"runs": 1, "files searched": searched, f"runs that left {min(searched, 1)} files": 1}
        )
        return outcome


def _command(engine: str, place: str, out: Path, *, failing: bool) -> list[str]:
    sets = [f"{name}={value}" for name, value in SMALL.items()] + list(PLACES[place])
    if failing:
        sets.append("table.options.hoodie.record.index.max.filegroup.count=none")
    command = [sys.executable, "run_bench.py", "run", "ci", "--out", str(out)]
    command += ["--engine", engine, "--index", "record"]
    if place == "URL of the tables":
        command += ["--tables", f"s3://me:{_URL}@bucket/runs"]
    return command + [word for each in sets for word in ("--set", each)]


def _variables(place: str) -> dict[str, str]:
    named = {
        "environment, AWS": "AWS_SECRET_ACCESS_KEY",
        "environment, other": "MY_SERVICE_PASSWORD",
    }
    more = {named[place]: SECRET} if place in named else {}
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def _killed(command: Sequence[str], place: str, out: Path) -> str:
    """Kill a run, Spark too, a moment after its first samples are there; what it said."""
    process = subprocess.Popen(
        command, cwd=ROOT, env=_variables(place), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    until = time.monotonic() + 60
    samples = out / "samples.jsonl"
    while process.poll() is None and time.monotonic() < until:
        if samples.exists() and samples.stat().st_size:
            break
        time.sleep(0.1)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    return process.communicate()[0].decode(errors="replace")


def _contents(path: Path) -> Iterator[bytes]:
    """The bytes of a file, and what they are decompressed."""
    yield path.read_bytes()
    if path.suffix in (".zstd", ".gz"):
        kind = path.suffix.removeprefix(".").replace("gz", "gzip")
        try:
            with pa.input_stream(str(path), compression=kind) as stream:
                while block := stream.read(1 << 20):
                    yield block
        except OSError:
            # Killed while it was written: what was readable has been.
            return


def _holds(data: bytes) -> bool:
    """Whether a secret is in some bytes, as it is or as a URL, JSON or base64 would have it."""
    plain = SECRET.encode()
    forms = (plain, _URL.encode(), plain.replace(b"/", b"\\/"), base64.b64encode(plain))
    return any(form in data for form in forms)


CAMPAIGN = Secrets()
