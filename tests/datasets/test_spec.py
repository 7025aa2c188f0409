from __future__ import annotations

import subprocess
import sys

import pytest

from keymark.datasets.errors import DatasetError
from keymark.datasets.specs.spec import built_in_names, load_spec

SMALL = """
name = "small"
record_key = ["id"]
ordering = "ts"
rows = 50
[columns]
id = { kind = "uuid" }
ts = { kind = "ordering" }
n = { kind = "long", low = 0, high = 9, repeat = 2 }
"""


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL, "utf-8")
    return path


def refusal(source, overrides=None):
    with pytest.raises(DatasetError) as caught:
        load_spec(source, overrides)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_the_catalog_is_what_the_command_line_promises():
    assert built_in_names() == ("customers", "events", "iot", "trips", "wide")
    for name in built_in_names():
        assert load_spec(name).name == name


def test_a_file_with_overrides(small):
    spec = load_spec(small, {"rows": "70", "seed": 3, "columns.n.high": "5", "updates": "0.1"})
    assert (spec.rows, spec.seed, spec.columns["n"].high) == (70, 3, 5)
    assert [name for name, _ in spec.flat_columns()] == ["id", "ts", "n_0", "n_1"]
    assert spec.count(spec.updates) == 7
    assert load_spec(small, {"updates": "10"}).count(10) == 10


def test_all_mistakes_come_at_once_with_key_and_nearest_name(small):
    text = refusal(
        small,
        {
            "rws": 1,
            "seed": "x",
            "columns.n.lwo": 1,
            "columns.ts.kind": "orderin",
            "record_key": "idd",
            "colums.n.low": 1,
        },
    )
    assert text.startswith(f"{small}: ")
    for part in (
        "rws: unknown key (did you mean 'rows'?)",
        "seed: input should be a valid integer",
        "columns.n.lwo: unknown key (did you mean 'low'?)",
        "columns.ts: unknown kind 'orderin' (did you mean 'ordering'?)",
        "record_key: no column 'idd' (did you mean 'id'?)",
        "colums.n.low: no key 'colums' (did you mean 'columns'?)",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("overrides", "part"),
    [
        ({"rows": 0}, "rows"),
        ({"updates": "1.5"}, "updates: 1.5"),
        ({"updates": -1}, "updates"),
        ({"record_key": "ts"}, "kind uuid"),
        ({"partition_path": "n_0"}, "n_0: a key or partition column must not change"),
        ({"ordering": "n_1"}, "must be of kind ordering"),
        ({"columns.N_0.kind": "bool"}, "no key 'N_0'"),
        ({"columns.n.low": 10}, "low must not be above high"),
    ],
)
def test_what_contradicts_itself_is_refused(small, overrides, part):
    assert part in refusal(small, overrides)


def test_columns_that_spark_cannot_tell_apart_are_refused(small):
    small.write_text(SMALL + 'N_1 = { kind = "bool" }\n', "utf-8")
    assert "columns.N_1: there is already a column 'n_1'" in refusal(small)


def test_unknown_names_and_broken_files_are_named(tmp_path):
    assert "did you mean 'trips'?" in refusal("trip")
    assert "built in are customers" in refusal("nothing-like-it")
    broken = tmp_path / "broken.toml"
    broken.write_text("rows = ", "utf-8")
    assert str(broken) in refusal(broken)
    broken.write_bytes(b"\xff\xfe")
    assert str(broken) in refusal(broken)
    assert str(tmp_path) in refusal(tmp_path)


def test_nothing_but_a_session_brings_pyspark():
    code = (
        "import sys, keymark.datasets.cli;"
        "from keymark.datasets.generate import dataset, source, spark;"
        "sys.exit(any(name.split('.')[0] in ('pyspark', 'pandas') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
