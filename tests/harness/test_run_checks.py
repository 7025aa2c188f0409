"""What is checked of a run before it writes anything."""

from __future__ import annotations

import shutil
from collections import namedtuple

import pytest

from keymark.datasets.errors import DatasetError
from keymark.harness.errors import HarnessError
from keymark.harness.run.checks import check, disk_bytes
from keymark.harness.run.request import Request, begin
from keymark.harness.scenario import scenario

TINY = ["dataset.rows=20000", "dataset.batch_rows=1000", "dataset.partitions=4"]
Usage = namedtuple("Usage", "total used free")  # noqa: PYI024  as shutil's


def needed(*sets):
    return disk_bytes(scenario.load("quickstart", sets=[*TINY, *sets]))


def test_disk_is_counted_by_rows_loads_and_one_rewritten_table():
    # Rows as files, the shared load, that of bucket, and a trial; a record index and its copy.
    index = 20_000 * 2 * 30
    one = (needed() - index) // 4
    assert 50 < one / 20_000 < 500
    assert needed("dataset.rows=200000") == pytest.approx(40 * one + 10 * index, rel=0.01)
    assert needed("table.shared_load=false") == pytest.approx(6 * one + index, abs=4)
    alone = needed("indexes=['record']", "dataset.load_files=false")
    assert alone == pytest.approx(2 * one + index, abs=4)
    assert needed("table.location='s3://bucket/runs'") == pytest.approx(one, abs=4)


def test_a_run_that_does_not_fit_is_refused_in_one_line_and_leaves_no_folder(tmp_path, monkeypatch):
    asked = Request(scenario=scenario.load("quickstart", sets=TINY), out=tmp_path / "a" / "run")
    assert check(asked).startswith("needs about 0.0 GB of disk, ")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**9, 10**9, 10**6))
    with pytest.raises(HarnessError, match=r"needs about 0\.0 GB of disk, and 0\.0 GB are free"):
        check(asked)
    assert not (tmp_path / "a").exists()


def test_a_run_that_was_made_before_says_how_long_it_took(tmp_path):
    resolved = scenario.load("quickstart", sets=TINY)

    def past(name, started, **values):
        made = Request(scenario=resolved, out=tmp_path / name)
        folder, record = begin(made, {})
        folder.write_record(record.but(started=f"2026-01-{started}:00+00:00", **values))

    asked = Request(scenario=resolved, out=tmp_path / "new")
    past("old", "01T10:00", finished="2026-01-01T10:01:00+00:00")
    past("running", "03T10:00")
    past("rested", "04T10:00", finished="2026-01-05T10:00:00+00:00", sessions=2)
    assert check(asked).endswith(", about 60 s as the last time")
    past("latest", "02T10:00", finished="2026-01-02T12:30:00+00:00")
    assert check(asked).endswith(", about 2.5 h as the last time")
    other = scenario.load("quickstart", sets=[*TINY, "dataset.seed=2"])
    assert check(Request(scenario=other, out=tmp_path / "new")).endswith("are free")


def test_of_a_run_that_goes_on_the_need_is_not_told(tmp_path):
    found = Request(scenario=scenario.load("quickstart", sets=TINY), out=tmp_path, resume=True)
    assert check(found) == "going on with the run"


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (["dataset.batch_rows=90000"], "trips: round 1 updates 45000 rows per round, but"),
        (["dataset.batch_rows=90000", "workload.rounds=3"], "trips: round 1 updates 45000 rows"),
        (["dataset.delete_rows=30000"], "trips: round 1 deletes up to row 30000 of 20000"),
    ],
)
def test_a_dataset_with_too_few_rows_for_its_rounds_is_refused(sets, said, tmp_path):
    loaded = scenario.load("ci", sets=["dataset.rows=20000", *sets])
    with pytest.raises(DatasetError, match=said):
        check(Request(scenario=loaded, out=tmp_path / "out"))
    assert not (tmp_path / "out").exists()
