"""Queries of files that are out of the system's cache."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from harness_fakes import HonestTable, Quiet, context

from keymark.harness.errors import HarnessError, ScenarioError
from keymark.harness.run import bench, cell, workload
from keymark.harness.run.request import Request
from keymark.harness.scenario import matrix, scenario
from keymark.harness.tables import page_cache

COLD = ["workload.cold=true", "workload.rounds=1", "indexes=['record']"]


@pytest.fixture
def disk():
    """A folder whose files can be dropped; that of the other tests may be in memory."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        try:
            page_cache.check(Path(folder))
        except HarnessError as error:
            pytest.skip(str(error))
        yield Path(folder)


def test_files_are_dropped_and_read_again(disk):
    table = disk / "table"
    (table / "dt=1").mkdir(parents=True)
    data, empty = table / "dt=1" / "data", table / "empty"
    data.write_bytes(os.urandom(100_000))
    empty.write_bytes(b"")
    held = page_cache.cached_bytes(data)
    assert held >= 100_000
    page_cache.drop(table)
    assert [page_cache.cached_bytes(path) for path in (data, empty)] == [0, 0]
    page_cache.fill(table)
    assert page_cache.cached_bytes(data) == held


def test_what_stays_in_the_cache_is_an_error(disk, monkeypatch):
    (disk / "data").write_bytes(bytes(100_000))
    # As a file system in memory takes it.
    monkeypatch.setattr(os, "posix_fadvise", lambda *_: None)
    with pytest.raises(HarnessError, match=r"workload\.cold: 102,400 of 100,000 bytes in .* stay"):
        page_cache.drop(disk)
    monkeypatch.delattr(os, "posix_fadvise")
    with pytest.raises(HarnessError, match=r"workload\.cold: this system drops no files"):
        page_cache.check(disk)


def test_a_run_into_memory_is_refused_before_it_measures_anything(disk, monkeypatch):
    monkeypatch.setattr(os, "posix_fadvise", lambda *_: None)
    asked = Request(scenario=scenario.load("ci", sets=COLD), out=disk / "run")
    with pytest.raises(
        HarnessError, match=r"stay in the system's cache; write to a disk \(--out\)"
    ):
        bench.run(asked, Quiet())
    assert not asked.out.exists()


class Watched(HonestTable):
    """Notes of each of its files whether it is in the cache when the table is read."""

    seen: list[set[bool]]

    def rows(self):
        self.seen.append({page_cache.cached_bytes(file) > 0 for file in self._files()})
        return super().rows()


def test_a_cold_query_finds_no_file_in_the_cache_and_what_follows_finds_all(disk):
    class Table(Watched):
        seen: list[set[bool]] = []  # noqa: RUF012  as a fresh list for the tables of this test

    given = scenario.load("ci", sets=[*COLD, "workload.lookup_few=1"])
    (one,) = matrix.expand(given)
    held = context(disk, table=Table)
    trial = matrix.Trial(cell=one, repetition=0, warmup=False)
    cell.load(held, trial)
    steps = workload.steps(given.workload)
    results = cell.repeat(held, trial, steps)
    assert [result.mistake for result in results] == [None] * len(steps)
    reads = [step.name for step in steps if not step.changes_rows]
    found = dict(zip(reads, Table.seen[-len(reads) :], strict=True))
    assert found.pop("point_query_cold") == {False}
    assert list(found)[-1] == "lookup_few"
    assert set(map(frozenset, found.values())) == {frozenset([True])}


def test_cold_queries_follow_the_warm_ones():
    sets = [*COLD, "workload.range_query='fare'", "workload.column_query='city'"]
    names = [step.name for step in workload.steps(scenario.load("ci", sets=sets).workload)]
    at = names.index("range_query")
    assert names[at - 1 :] == [
        "column_query",
        "range_query",
        "point_query_cold",
        "range_query_cold",
    ]
    alone = scenario.load("ci", sets=[*sets, "workload.point_query=false"])
    assert "point_query_cold" not in [step.name for step in workload.steps(alone.workload)]


@pytest.mark.parametrize(
    ("sets", "told"),
    [
        (["workload.point_query=false"], "workload.cold: needs point_query or range_query"),
        (["table.location='s3://bucket/runs'"], "tables and a spark.master on this machine only"),
        (["spark.master='spark://other:7077'"], "tables and a spark.master on this machine only"),
    ],
)
def test_where_nothing_can_be_cold_is_refused(sets, told):
    with pytest.raises(ScenarioError, match=told):
        scenario.load("ci", sets=[*COLD, *sets])
