"""A store's latency: told where a calibration has none of it, and nothing hangs on it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from plan_cases import plan
from synthetic_plan import plan_run

from keymark.harness.scenario import scenario as scenarios
from keymark.indexes.workload import Workload
from keymark.reports.errors import ReportError
from keymark.reports.model.projection import load as load_runs
from keymark.reports.plan import calibration, fit
from keymark.reports.plan.answer import PlanRequest
from keymark.reports.plan.answer import plan as answer
from keymark.reports.plan.latency import STORES, measuring_on_store, store_of, waits
from keymark.table.storage import object_storage, stores

SIZE = ("--records", "5M", "--batch", "20k", "--partitions", 20, "--engine", "native")


@pytest.fixture(scope="module")
def package():
    return calibration.load()


@pytest.fixture(scope="module")
def on_s3(tmp_path_factory):
    return plan_run(tmp_path_factory.mktemp("s3") / "run", repetitions=1, on_store=True)


def test_a_fit_notes_where_the_tables_lay(on_s3, fitted, package):
    assert package.tables == calibration.load(fitted["fit"]).tables == "disk"
    assert "GiB, tables on a local disk" in package.where
    there = fit.calibrate(load_runs([on_s3]))
    assert (there.tables, there.on_store) == ("s3", True)
    assert there.where.endswith("tables on s3")
    assert json.loads(there.to_json())["tables"] == "s3"


def test_runs_on_a_disk_and_a_store_are_not_fitted_together(on_s3, fitted):
    with pytest.raises(ReportError, match=r"places .*: Run A: c1 on s3, Run B: c1 on disk"):
        fit.calibrate(load_runs([on_s3, fitted["run"]]))


def test_a_calibration_of_before_does_not_say(capsys, tmp_path, fitted):
    document = json.loads(fitted["fit"].read_text())
    del document["tables"]
    path = tmp_path / "fit.json"
    path.write_text(json.dumps(document))
    _, said = plan(capsys, *SIZE, "--calibration", path, "--store", "s3")
    assert "of which it is not noted where the tables lay" in said
    assert "tables on" not in said


def test_the_line_names_the_run(capsys):
    code, said = plan(capsys, *SIZE, "--store", "s3")
    assert code == 0, said
    (line,) = (line for line in said.splitlines() if line.startswith("the latency of a store"))
    assert line == (
        "the latency of a store is not in these predictions, whose tables lay on a local disk: "
        "keymark run calibrate --tables s3://bucket/folder would measure it"
    )
    assert "of this write" not in said
    _, said = plan(capsys, *SIZE, "--store", "s3://lake/trips", "--json")
    found = json.loads(said)
    assert found["unknown_latency"]["store"] == "s3"
    assert found["crossovers"] == []
    assert found["index_share"] is None
    _, said = plan(capsys, *SIZE)
    assert "latency" not in said


def test_the_line_stands_on_the_page(capsys, tmp_path):
    page = tmp_path / "plan.html"
    plan(capsys, *SIZE, "--store", "s3", "--html", page)
    assert "The latency of a store is not in these predictions" in page.read_text()


def test_a_page_says_what_is_left_out_of_a_merge_on_read_table(capsys, tmp_path):
    page = tmp_path / "plan.html"
    plan(capsys, *SIZE, "--merge-on-read", "--html", page)
    text = page.read_text(encoding="utf-8")
    assert text.count("Left out: the rest of a write, its requests, and reading one record") == 1
    assert "Not compared: simple, bloom, bucket, partitioned_record; keys may change" in text


def test_nothing_is_missing_of_a_calibration_on_a_store(capsys, on_s3):
    code, said = plan(capsys, *SIZE, "--calibration", on_s3, "--store", "s3", "--json")
    assert code == 0, said
    assert "unknown_latency" not in json.loads(said)


@pytest.mark.parametrize(
    ("engine", "store"),
    [*(("native", name) for name in STORES), ("hudi@0.15.0", "s3"), ("hudi@1.2.0", "gs")],
)
def test_the_command_is_one_of_keymark_run(engine, store):
    words = measuring_on_store(engine, store).split()
    assert words[:2] == ["keymark", "run"]
    options = dict(zip(words[3::2], words[4::2], strict=True))
    overrides = {"table.location": options["--tables"]}
    overrides |= {"engines": [options["--engine"]]} if "--engine" in options else {}
    made = scenarios.load(words[2], sets=(), overrides=overrides)
    assert made.engines == (engine,)
    assert made.table.location == options["--tables"]


def test_stores_are_those_of_tables():
    assert set(STORES) == {*object_storage.SCHEMES, stores.HDFS} - {"memory"}
    assert [store_of(path) for path in ("/lake", "file:///lake", "gs://lake/t")] == ["", "", "gs"]


def test_another_name_is_no_store(capsys):
    code, said = plan(capsys, *SIZE, "--store", "ftp")
    assert code == 2
    assert "'ftp' is none of the stores s3, s3a, gs, az, abfs, abfss, hdfs" in said


def test_a_recommendation_stands_where_no_other_index_may_wait_for_fewer_requests(package):
    """500 keys are in at most 500 blocks, and each of 20,000 files has a footer."""
    known = replace(package, scored_rows=1e8)
    at = Workload(rows=5e8, batch=500, partitions=1000, files=20_000, shards=25)
    assert waits(known, "record", at) < 600 < 19_000 / 2 < waits(known, "global_bloom", at)
    assert answer(known, PlanRequest(at=at, store="s3")).choice.recommended == "record"


def test_nothing_is_recommended_where_it_hangs_on_what_a_request_takes(package):
    at = Workload(rows=5e6, batch=20_000, partitions=20, files=20, shards=2, row_bytes=115.7)
    assert answer(package, PlanRequest(at=at)).choice.recommended == "record"
    made = answer(package, PlanRequest(at=at, store="s3"))
    assert made.choice.recommended is None
    assert made.choice.options == {}
    assert "global_bloom may wait for fewer requests there: a core reads 20" in made.choice.why
    assert made.choice.why.endswith("--tables s3://bucket/folder would tell")
    alone = answer(package, PlanRequest(at=at, store="s3", indexes=("record",)))
    assert alone.choice.recommended == "record"
    # The key says the file: nothing is read.
    owns = answer(package, PlanRequest(at=at, store="s3", keys_stay=True))
    assert owns.choice.recommended == "bucket"


def test_a_recommendation_over_ranges_stands_at_all_their_ends(capsys, package, tmp_path):
    path = tmp_path / "known.json"
    path.write_text(replace(package, scored_rows=1e8).to_json())
    words = ["--records", "500M", "--partitions", 1000, "--store", "s3", "--calibration", path]
    words += ["--json", "--batch", 500]
    for files, recommended in (("20000..30000", "record"), ("1000..30000", None)):
        _, said = plan(capsys, *words, "--files", files)
        found = json.loads(said)
        assert found["recommended"] == recommended
        assert ("over_ranges" in found) == (recommended is not None)


def test_of_a_merge_on_read_table_only_what_an_index_adds_is_predicted(capsys, fitted):
    size = ("--records", 10_000_000, "--batch", 50_000, "--calibration", fitted["fit"])
    whole, found = (
        json.loads(plan(capsys, *size, "--json", *words)[1]) for words in ((), ["--merge-on-read"])
    )
    metrics = {each["metric"] for each in found["predictions"]}
    assert {"added_s", "tag_s"} <= metrics
    assert metrics.isdisjoint({"write_s", *found["left_out"]["metrics"]})
    assert (found["index_share"], found["tie_share"]) == (None, None)
    assert found["recommended"] == whole["recommended"]
    for words in (("--machine", "m5.4xlarge"), ("--new-share", "0.1..0.5")):
        code, said = plan(capsys, *size, "--merge-on-read", *words)
        assert (code, said.count("error: --merge-on-read")) == (2, 1)
