from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from keymark import Table
from keymark.datasets.cli import app
from keymark.datasets.errors import DatasetError
from keymark.datasets.profiles.folders import FORMATS, format_of, session_conf
from keymark.datasets.specs.spec import load_spec
from keymark.table.storage.stores import storage_at

ROOT = Path(__file__).parents[2]
ARCHIVE = ROOT / "tests" / "data" / "hudi-0.15.0-record_index.tar.gz"


def run(*arguments):
    result = CliRunner().invoke(app, ["profile", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def orders(tmp_path):
    lines = [f"{number % 250:04},{number},x" for number in range(300)]
    path = tmp_path / "orders.csv"
    path.write_text("\n".join(["id,n,note", *lines, ""]))
    return path


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (["a/b.parquet", "_SUCCESS"], "parquet"),
        (["x.csv.gz"], "csv"),
        (["_delta_log/0.json", "a.parquet"], "delta"),
        (["metadata/v1.metadata.json", "data/a.parquet"], "iceberg"),
        ([".hoodie/hoodie.properties", "a.parquet"], "hudi"),
    ],
)
def test_the_format_shows_in_the_folder(tmp_path, files, found):
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert format_of(str(tmp_path)) == found


def test_folders_that_tell_no_format_are_refused(tmp_path):
    with pytest.raises(DatasetError, match="no files of a known format"):
        format_of(str(tmp_path))
    (tmp_path / "a.parquet").write_text("")
    (tmp_path / "b.csv").write_text("")
    with pytest.raises(DatasetError, match="csv and parquet; name the format"):
        format_of(str(tmp_path))
    assert format_of(str(tmp_path / "b.csv")) == "csv"


@pytest.mark.parametrize(
    ("more", "part"),
    [
        (["--out", "{folder}/orders.csv"], "exists already"),
        (["--out", "{folder}/none/x.toml"], "its folder does not exist"),
        (["--option", "sep"], "sep: write key=value"),
        (["--format", "orc"], "'orc' is none of parquet"),
        (["--partition", "dd"], "no column 'dd'"),
    ],
)
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_mistakes_are_one_clear_error(orders, more, part):
    arguments = [text.format(folder=orders.parent) for text in more]
    with pytest.raises(DatasetError, match=part):
        run(orders, "--key", "id", *arguments)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_file_that_is_no_table_is_one_clear_error(tmp_path):
    (tmp_path / "a.parquet").write_text("nothing of the kind")
    with pytest.raises(DatasetError, match="cannot be read as parquet") as caught:
        run(tmp_path, "--key", "id")
    assert "\n" not in str(caught.value)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_csv_file_becomes_a_specification(orders, tmp_path):
    out = tmp_path / "like.toml"
    found = json.loads(run(orders, "--key", "id", "--ordering", "n", "--out", out, "--json"))
    assert (found["rows"], found["keys"], found["keys_repeated"]) == (300, 250, 50)
    assert found["keys_most_frequent"] == 2
    assert found["notes"] == ["50 keys come more than once; here each comes once"]
    assert found["key"][0]["length"] == dict.fromkeys(
        ("min", "mean", "p50", "p90", "p99", "max"), 4
    )
    spec = load_spec(out)
    assert (spec.name, spec.rows) == ("like", 250)
    assert spec.columns["id"].model_dump(exclude={"repeat"}) == {
        "kind": "numbered",
        "prefix": "",
        "width": 4,
    }
    printed = run(orders, "--key", "id")
    assert "length         min 4, mean 4.0" in printed
    assert printed.endswith('payload = { kind = "payload" }\n')


def test_columns_that_a_table_of_hudis_lacks_are_named_without_spark(tmp_path, monkeypatch):
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.setattr("keymark.table.runtime.spark.session", None)
    with pytest.raises(DatasetError, match=r"no column 'nokey'.*'uuid'"):
        run(tmp_path / "record_index" / "table", "--key", "nokey")


@pytest.mark.spark
def test_a_table_of_hudis_is_read_through_its_timeline(spark, tmp_path):
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    table = tmp_path / "record_index" / "table"
    expected = spark.read.parquet(str(tmp_path / "record_index" / "expected.parquet")).count()
    found = json.loads(run(table, "--key", "uuid", "--partition", "dt", "--json"))
    assert (found["rows"], found["keys"]) == (expected, expected)
    assert found["spec"]["partition_path"] == ["dt"]


@pytest.fixture
def lake(s3, monkeypatch):
    """The URL of a bucket, and the environment that leads to it."""
    for name, value in s3.options.items():
        monkeypatch.setenv(f"AWS_{name.removeprefix('keymark.storage.').upper()}", value)
    return s3.bucket()


@pytest.mark.spark
def test_a_table_on_a_store_is_read_there(lake):
    url = f"{lake}/trips"
    table = Table.create(url, record_key="uuid", ordering="n")
    table.bulk_insert(pa.table({"uuid": [f"{n:05}" for n in range(300)], "n": range(300)}))
    with pytest.raises(DatasetError, match="no column 'nokey'"):
        run(url, "--key", "nokey")
    # In a process of its own, whose Spark has the environment from the start.
    command = [sys.executable, "run_bench.py", "data", "profile", url, "--key", "uuid", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["rows"], found["keys"]) == (300, 300)


@pytest.fixture
def lent_session(spark):
    """The session of all tests, which has what it had before when a command has used it."""
    names = {
        name
        for format_ in FORMATS
        for name in session_conf(format_, {})
        if spark.conf.get(name, None) is None
    }
    yield spark
    for name in names:
        if spark.conf.get(name, None) is not None:
            spark.conf.unset(name)


@pytest.mark.usefixtures("lent_session")
@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none", "{url} does not exist or is empty"),
        ("_delta_log/0.json", "Spark has no reader for delta: "),
        ("metadata/v1.metadata.json", "Spark has no reader for iceberg: "),
        ("day=1/a.parquet", "Spark cannot read {url}: give it the jars of the store "),
        ("notes.txt", "{url} holds no files of a known format; name the format: "),
    ],
)
def test_other_tables_on_a_store_are_spark_s_to_read(lake, name, said):
    url = f"{lake}/orders"
    if name != "none":
        storage_at(url, {}).put(name, b"")
    with pytest.raises(DatasetError) as caught:
        run(url, "--key", "id")
    assert str(caught.value).startswith(said.format(url=url))
