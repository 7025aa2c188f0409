"""Requests of each step on S3, as the engines count them and as the server does."""

from __future__ import annotations

import pytest
from served_requests import counted, differences, served, told, watched
from small_run import SMALL

from keymark.harness.engines import jars, s3a
from keymark.harness.engines.format_jars import missing_jars
from keymark.harness.engines.locations import unreached
from keymark.harness.errors import HarnessError
from keymark.table.storage.requests import Request

DELTA, ICEBERG = "delta@3.3.2", "iceberg@1.10.0"
MISSED = 12
"""HEAD requests of a write of Delta that its client does not count."""


def requests_of(tmp_path, s3, *engines, indexes=("record", "global_simple"), **sets):
    """Run `ci` on S3: by step the requests that the server got, and those in the samples."""
    given, folder = SMALL | {"schedule.repetitions": 1} | sets, tmp_path / "run"
    pairs = [f"{name}={value}" for name, value in given.items()]
    words = ["ci", *(word for each in pairs for word in ("--set", each))]
    words += [word for name in engines for word in ("--engine", name)]
    words += [word for name in indexes for word in ("--index", name)]
    done = watched(s3, folder, words, capture_output=True)
    assert done.returncode == 0, done.stderr
    return served(folder), counted(folder)


@pytest.mark.spark
def test_keymark_counts_exactly_what_the_server_gets(tmp_path, s3):
    got, by_engine = requests_of(tmp_path, s3, "native", **{"table.options.keymark.local.bytes": 0})
    assert differences(got, by_engine) == {}
    assert {label.split("|")[2] for label in got} > {"bulk_insert", "upsert_1", "lookup"}
    assert all(sum(each.values()) for each in by_engine.values())


@pytest.mark.spark
@pytest.mark.slow
def test_hudis_client_counts_what_the_server_gets(tmp_path, s3):
    lacking = jars.missing_bundle("1.2.0") or s3a.missing()
    if lacking:
        pytest.skip(lacking)
    got, by_engine = requests_of(tmp_path, s3, "hudi@1.2.0")
    # A request of a background thread can end, and be counted, in the next step.
    differing = differences(got, by_engine)
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
    got, by_engine = requests_of(tmp_path, s3, engine, indexes=[mode], **sets)
    missed = {
        label: {kind: ours[kind] - count for kind, count in servers.items() if ours[kind] != count}
        for label, (ours, servers) in differences(got, by_engine).items()
    }
    # In a write some of the requests escape Hadoop's counts, always as many of them.
    steps = {label.rpartition("|")[2] for label in missed}
    assert steps <= {"bulk_insert", "upsert_1", "delete"}, missed
    assert all(abs(count) <= MISSED for each in missed.values() for count in each.values()), missed
    assert all(sum(each.values()) for each in by_engine.values())


def test_differences_are_told_by_step_and_operation():
    of_server = {
        "native/record|r0|upsert_1": {"get": 3, "put": 9},
        "hudi@1.2.0/record|w0|lookup": {"get": 104, "head": 7},
        "hudi@1.2.0/record|r0|lookup": {"get": 104, "head": 7},
    }
    zeros = dict.fromkeys(Request, 0)
    of_engine = {label: zeros | got for label, got in of_server.items()}
    of_engine["hudi@1.2.0/record|r0|lookup"] |= {"get": 85}
    assert told(of_server, of_engine).splitlines() == [
        "- native: the counts of 1 of 1 steps are the server's, which got 12 requests in all.",
        "- hudi@1.2.0: the counts of 1 of 2 steps are the server's, which got 222 requests in all.",
        "",
        "Where they differ:",
        "",
        "| cell | repetition | step | operation | counted | server |",
        "|---|---|---|---|---:|---:|",
        "| hudi@1.2.0/record | r0 | lookup | GET | 85 | 104 |",
    ]


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
        "fs.s3a.connection.maximum": "10000",
        "fs.s3a.endpoint.region": "r",
        "fs.s3a.access.key": "given",
        "fs.s3a.secret.key": "hidden",
    }
    assert s3a.place("s3://bucket/t") == "s3a://bucket/t"
