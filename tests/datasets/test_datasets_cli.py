from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from keymark.datasets.cli import app
from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.digest import digest_arrow
from keymark.datasets.generate.generated import GeneratedDataset
from keymark.datasets.specs.spec import load_spec


def answer(*arguments):
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def sets(**settings):
    return [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]


def test_describe_names_the_columns_and_their_types():
    described = answer("describe", "trips", *sets(rows=10, seed=5))
    assert (described["name"], described["rows"], described["seed"]) == ("trips", 10, 5)
    assert described["schema"][:3] == [
        {"name": "uuid", "type": "string"},
        {"name": "dt", "type": "string"},
        {"name": "ts", "type": "bigint"},
    ]


def test_describe_says_how_large_rows_are():
    described = answer("describe", "trips", *sets(record_bytes=500))
    assert described["record_bytes"] == 500
    assert described["payload_bytes"] == pytest.approx(404, abs=6)


def test_what_is_written_has_the_digest_that_is_printed(tmp_path):
    for round_ in (0, 2):
        out = tmp_path / f"round{round_}"
        settings = sets(rows=1001, round=round_, partitions=3)
        written = answer("write", "trips", *settings, "--out", out)
        files = sorted(out.iterdir())
        assert [file.name for file in files] == [f"part-0000{index}.parquet" for index in range(3)]
        assert written["files"] == 3
        assert written["bytes"] == sum(file.stat().st_size for file in files)
        assert written["out"] == str(out)
        assert digest_arrow(pq.read_table(out)) == (written["rows"], written["digest"])
        digest = answer("digest", "trips", *sets(rows=1001, round=round_))
        assert (digest["rows"], digest["digest"]) == (written["rows"], written["digest"])
        truth = GeneratedDataset(load_spec("trips", {"rows": 1001})).truth(round_, deleted=False)
        assert (digest["table_rows"], digest["table_digest"]) == truth


@pytest.mark.spark
def test_tasks_write_what_threads_write(tmp_path, spark):
    settings = sets(rows=1001, round=2, partitions=3)
    master = ("--master", spark.sparkContext.master)
    here = answer("write", "trips", *settings, "--out", tmp_path / "here")
    there = answer("write", "trips", *settings, "--out", tmp_path / "there", *master)
    assert there == here | {"out": str(tmp_path / "there")}
    for file in (tmp_path / "here").iterdir():
        assert (tmp_path / "there" / file.name).read_bytes() == file.read_bytes()
    assert len(list((tmp_path / "there").iterdir())) == 3
    found = answer("digest", "trips", *sets(rows=1001, round=2), *master)
    assert found == answer("digest", "trips", *settings)
    with pytest.raises(DatasetError, match="is not empty"):
        answer("write", "trips", *settings, "--out", tmp_path / "there", *master)


@pytest.mark.spark
def test_what_a_task_cannot_write_is_one_error(tmp_path, spark, monkeypatch):
    from keymark.datasets.generate import in_tasks

    gone = in_tasks.make_folder
    monkeypatch.setattr(in_tasks, "make_folder", lambda out: (gone(out), out.rmdir()))
    with pytest.raises(DatasetError, match=r"part-00000\.parquet cannot be written"):
        answer("write", "trips", "--out", tmp_path / "x", "--master", spark.sparkContext.master)


@pytest.mark.parametrize("partitions", [1, 7, 200])
def test_partitions_never_change_the_rows(partitions):
    digest = answer("digest", "iot", *sets(rows=150, partitions=partitions))
    assert digest["digest"] == answer("digest", "iot", *sets(rows=150))["digest"]


def test_more_partitions_than_rows_give_empty_files(tmp_path):
    written = answer("write", "trips", *sets(rows=2, partitions=4), "--out", tmp_path / "out")
    assert (written["rows"], written["files"]) == (2, 4)
    assert pq.read_table(tmp_path / "out").num_rows == 2


def test_chosen_columns_only(tmp_path):
    written = answer("write", "trips", *sets(rows=5, columns="fare,uuid"), "--out", tmp_path)
    assert pq.read_table(tmp_path).column_names == ["fare", "uuid"]
    assert (
        written["digest"] == answer("digest", "trips", *sets(rows=5, columns="uuid,fare"))["digest"]
    )


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["digest", "tripps"], "did you mean 'trips'"),
        (["digest", "trips", *sets(rws=1, round="x")], "round: 'x'.*rws: unknown key"),
        (["digest", "trips", "--set", "rows"], "write key=value"),
        (["describe", "trips", *sets(columns="uuid,fair")], "'fair'"),
        (["digest", "trips", *sets(rows=10, updates=11, round=1)], "updates 11 rows"),
    ],
)
def test_mistakes_are_one_clear_error(arguments, part):
    with pytest.raises(DatasetError, match=part):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_a_folder_that_holds_something_or_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("kept")
    for out, part in ((tmp_path, "is not empty"), (tmp_path / "file" / "x", "cannot be written")):
        with pytest.raises(DatasetError, match=part):
            CliRunner().invoke(
                app, ["write", "trips", *sets(rows=2), "--out", str(out)], catch_exceptions=False
            )
    assert (tmp_path / "file").read_text() == "kept"


def test_progress_goes_to_standard_error_with_the_time_left(capsys, monkeypatch):
    from keymark.datasets import cli

    now = iter([0.0, 1.0, 2.5, 2.6, 4.0])
    monkeypatch.setattr(cli.time, "monotonic", lambda: next(now))
    progress = cli._Progress("written")
    progress.total = 100
    for _ in range(4):
        progress.advance(10)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["20 of 100 rows written, 10 s left", "40 of 100 rows written, 6 s left"]


def test_ranges_without_rows_tell_no_time_left(capsys, monkeypatch):
    from keymark.datasets import cli

    now = iter([0.0, 5.0, 6.0])
    monkeypatch.setattr(cli.time, "monotonic", lambda: next(now))
    progress = cli._Progress("written")
    progress.total = 2
    progress.advance(0)
    assert capsys.readouterr().err == ""
    progress.advance(1)
    assert capsys.readouterr().err == "1 of 2 rows written, 6 s left\n"


def test_a_full_disk_is_one_error_and_leaves_no_half_file(tmp_path, monkeypatch):
    from keymark.datasets.generate import files

    class Full(files.pq.ParquetWriter):
        def write_table(self, *_):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.pq, "ParquetWriter", Full)
    with pytest.raises(DatasetError, match="No space left on device"):
        CliRunner().invoke(
            app, ["write", "trips", *sets(rows=9), "--out", str(tmp_path)], catch_exceptions=False
        )
    assert list(tmp_path.iterdir()) == []


def test_a_list_of_keys_says_which_are_there(tmp_path):
    out = tmp_path / "keys.parquet"
    asked = [*sets(rows=1000, round=3, moves=10), "--out", out, "--present", 30, "--moved", 20]
    told = answer("keys", "trips", *asked, "--absent", 10, "--deleted")
    assert told == {"keys": 40, "present": 30, "absent": 10, "out": str(out)}
    keys = pq.read_table(out)
    assert keys.column_names == ["uuid", "expect_present"]
    assert sum(keys["expect_present"].to_pylist()) == 30
    with pytest.raises(DatasetError, match="exists already"):
        answer("keys", "trips", "--out", out)


def test_the_history_of_rows_at_any_size():
    big = sets(rows=10**12, updates=10**10, deletes=10**9, delete_every=1, round=300)
    told = answer("history", "trips", *big, "--row", 5, "--row", 77)
    assert [each["row"] for each in told] == [5, 77]
    for each in told:
        assert each["changed_in"][0] == 0
        assert each["value"]["version"] == each["changed_in"][-1]
        assert each["deleted_in"] is None or each["deleted_in"] <= 300
    shown = CliRunner().invoke(app, ["history", "trips", *sets(rows=100), "--row", "5"])
    assert "changed_in       0" in shown.output
    with pytest.raises(DatasetError, match="rows are numbered 0 to 99 by round 0"):
        answer("history", "trips", *sets(rows=100), "--row", 100)
