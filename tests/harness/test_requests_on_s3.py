"""Requests of each step on S3, as the engines count them and as the server does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from s3_server import KEY, SECRET
from small_run import SMALL

from keymark.harness.engines import jars, s3a
from keymark.harness.engines.format_jars import missing_jars
from keymark.harness.engines.locations import unreached
from keymark.harness.errors import HarnessError
from keymark.harness.measure.counters import label_of
from keymark.harness.store.store import RunFolder
from keymark.table.storage.requests import Request

DELTA, ICEBERG = "delta@3.3.2", "iceberg@1.10.0"
MISSED = 12
"""HEAD requests of a write of Delta that its client does not count."""

HERE = Path(__file__).parent


def watched(tmp_path, s3, *engines, indexes=("record", "global_simple"), **sets):
    """Run `ci` on S3: by step the requests that the server got, and those in the samples."""
    seen, folder = tmp_path / "seen.jsonl", tmp_path / "run"
    connection = {name: value for name, value in s3.options.items() if value not in (KEY, SECRET)}
    given = SMALL | {"schedule.repetitions": 1} | sets
    given |= {f"table.options.{name}": value for name, value in connection.items()}
    words = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
    words += [word for name in engines for word in ("--engine", name)]
    words += [word for name in indexes for word in ("--index", name)]
    script, url = HERE / "watched_run.py", f"{s3.bucket()}/runs"
    run = [sys.executable, script, s3.endpoint, seen, "ci", "--out", folder, "--tables", url]
    done = subprocess.run(
        [*run, *words],
        env={
            **os.environ,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "PYTHONPATH": os.pathsep.join(map(str, HERE.parents[:2])),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    served = [json.loads(line) for line in seen.read_text().splitlines()]
    counted: dict[str, dict[str, float]] = {}
    for sample in RunFolder(folder).samples():
        kind = sample.metric.removesuffix("_requests")
        if kind != sample.metric:
            counted.setdefault(label_of(sample), {})[kind] = sample.value
    return {each["label"]: each["got"] for each in served}, counted


def differences(served, counted):
    """The steps whose counts are not the server's; no request is of another kind."""
    assert {kind for got in served.values() for kind in got} <= set(Request)
    every = {label: {kind: got.get(kind, 0) for kind in Request} for label, got in served.items()}
    return {label: (counted[label], got) for label, got in every.items() if counted[label] != got}


@pytest.mark.spark
def test_keymark_counts_exactly_what_the_server_gets(tmp_path, s3):
    served, counted = watched(tmp_path, s3, "native", **{"table.options.keymark.local.bytes": 0})
    assert differences(served, counted) == {}
    assert {label.split("|")[2] for label in served} > {"bulk_insert", "upsert_1", "lookup"}
    assert all(sum(got.values()) for got in counted.values())


@pytest.mark.spark
@pytest.mark.slow
def test_hudis_client_counts_what_the_server_gets(tmp_path, s3):
    lacking = jars.missing_bundle("1.2.0") or s3a.missing()
    if lacking:
        pytest.skip(lacking)
    served, counted = watched(tmp_path, s3, "hudi@1.2.0")
    # A request of a background thread can end, and be counted, in the next step.
    differing = differences(served, counted)
    assert len(differing) <= 1, differing
    for ours, servers in differing.values():
        assert all(ours[kind] == servers[kind] for kind in ("put", "list", "delete")), differing


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("engine", "mode"), [(DELTA, "merge_dv"), (ICEBERG, "merge_mor")])
def test_requests_of_other_formats_are_what_the_server_gets(tmp_path, s3, engine, mode):
    lacking = missing_jars(engine) or s3a.missing()
    if lacking:
        pytest.skip(lacking)
    sets = {"workload.lookup_absent": 0}
    served, counted = watched(tmp_path, s3, engine, indexes=[mode], **sets)
    told = {
        label: {kind: ours[kind] - got[kind] for kind in got if ours[kind] != got[kind]}
        for label, (ours, got) in differences(served, counted).items()
    }
    # In a write some of the requests escape Hadoop's counts, always as many of them.
    assert {label.rpartition("|")[2] for label in told} <= {"bulk_insert", "upsert_1", "delete"}, (
        told
    )
    assert all(abs(count) <= MISSED for each in told.values() for count in each.values()), told
    assert all(sum(got.values()) for got in counted.values())


def test_engines_that_a_store_does_not_fit_are_left_out_in_a_line_each(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    every = ("native", "native@without-spark", "hudi@1.2.0", DELTA, "pyiceberg@0.12.0")
    assert unreached(every, None, {}) == {}
    assert unreached(every, "s3://b/x", {DELTA: "no jar"}) == {
        "hudi@1.2.0": s3a.missing(),
        "pyiceberg@0.12.0": "pyiceberg@0.12.0 does not tell its requests, so its tables are on a "
        "disk only",
    }
    assert "keymark engine install s3a" in s3a.missing()
    found = unreached(every, "gs://b/x", {})
    assert found[DELTA] == f"{DELTA} has no connection to gs://b/x: its client here is that of S3"
    assert found.keys() == {"hudi@1.2.0", DELTA, "pyiceberg@0.12.0"}
    with pytest.raises(HarnessError, match="keymark engine install s3a"):
        unreached(["hudi@1.2.0", DELTA], "s3://b/x", {DELTA: "no jar"})


def test_settings_of_hadoops_client_come_from_options_or_the_environment(monkeypatch):
    for name in ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of the environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    given = {"keymark.storage.access_key_id": "given", "keymark.storage.region": "r"}
    assert s3a.settings(given) == {
        "fs.s3a.path.style.access": "true",
        "fs.s3a.endpoint.region": "r",
        "fs.s3a.access.key": "given",
        "fs.s3a.secret.key": "hidden",
    }
    assert s3a.place("s3://bucket/t") == "s3a://bucket/t"
