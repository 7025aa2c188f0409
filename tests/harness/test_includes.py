from __future__ import annotations

import os

import pytest

from keymark.harness.errors import ScenarioError
from keymark.harness.scenario import includes, scenario


@pytest.fixture
def files(tmp_path):
    """Writes scenario files; the path of the one called `mine.toml`."""

    def write(**texts):
        for name, text in texts.items():
            (tmp_path / f"{name}.toml").write_text(text)
        return str(tmp_path / "mine.toml")

    return write


def mistakes(path, **arguments):
    with pytest.raises(ScenarioError) as caught:
        scenario.load(path, **arguments)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return caught.value.mistakes


def test_later_values_win_and_tables_are_merged(files):
    path = files(
        first='name = "x"\ndescription = "y"\n[dataset]\nrows = 10\nseed = 1\n'
        "[table.options]\na = 1",
        second='indexes = ["bloom"]\n[dataset]\nrows = 20\npartitions = 5',
        mine='include = ["first.toml", "second.toml"]\n[dataset]\nseed = 3\n[table.options]\nb = 2',
    )
    values = includes.read(path).values
    assert values == {
        "name": "mine",
        "indexes": ["bloom"],
        "dataset": {"rows": 20, "seed": 3, "partitions": 5},
        "table": {"options": {"a": 1, "b": 2}},
    }


def test_a_built_in_scenario_can_be_built_upon(files):
    loaded = scenario.load(
        files(mine='include = ["ci"]\nindexes = ["bloom"]\n[dataset]\nbatch_rows = 50'),
        sets=["dataset.seed=9"],
    )
    ci = scenario.load("ci")
    assert (loaded.name, loaded.description, loaded.indexes) == ("mine", "", ("bloom",))
    assert loaded.table == ci.table
    changed = {"batch_rows": 50, "seed": 9}
    assert loaded.dataset == ci.dataset.model_copy(update=changed)


def test_paths_are_those_of_the_file_that_names_them(files, tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "data.toml").write_text('[dataset]\nname = "mine.data.toml"')
    (tmp_path / "below" / "base.toml").write_text('include = ["data.toml"]')
    path = files(mine='include = ["below/base.toml"]')
    found = includes.read(path).values["dataset"]["name"]
    assert found == str(tmp_path / "below" / "mine.data.toml")


def test_a_url_of_rows_is_no_path_beside_the_file(files):
    path = files(mine='[dataset.source]\npath = "s3a://bucket/orders"\nrecord_key = ["id"]')
    assert includes.read(path).values["dataset"]["source"]["path"] == "s3a://bucket/orders"


def test_each_mistake_names_the_file_where_it_stands(files, tmp_path):
    path = files(
        base='indexes = ["recrod"]\n[dataset]\nrowz = 3\nrows = -1\n[workload]\nrounds = "two"',
        mine='include = ["base.toml"]\n[dataset]\nrows = -2\n[spark]\nmastr = "local"',
    )
    base = tmp_path / "base.toml"
    assert sorted(mistakes(path, sets=["workload.rounds='three'"])) == sorted(
        [
            f"{base}: indexes: unknown index 'recrod' (did you mean 'record'?)",
            f"{base}: dataset.rowz: unknown key (did you mean 'rows'?)",
            "dataset.rows: input should be greater than or equal to 1, not -2",
            "spark.mastr: unknown key (did you mean 'master'?)",
            "workload.rounds: input should be a valid integer, not 'three'",
        ]
    )


def test_a_wrong_option_is_told_with_its_file(files, tmp_path):
    path = files(
        base='[table.options]\n"hoodie.hfile.blok.size" = 3',
        mine='include = ["base.toml"]\n[table.options]\n"hoodie.parquet.blok.size" = 3',
    )
    found = mistakes(path)
    assert len(found) == 2
    assert f"{tmp_path / 'base.toml'}: table.options: unknown option hoodie.hfile.blok" in str(
        found
    )
    assert any(each.startswith("table.options: unknown option hoodie.parquet") for each in found)


def test_circles_end(files):
    path = files(
        one='include = ["two.toml"]', two='include = ["mine.toml"]', mine='include = ["one.toml"]'
    )
    (mistake,) = mistakes(path)
    assert mistake.endswith(
        "two.toml: include: 'mine.toml': it includes itself: mine.toml > one.toml > two.toml > "
        "mine.toml"
    )
    (mistake,) = mistakes(files(mine='include = ["mine.toml"]'))
    assert "it includes itself: mine.toml > mine.toml" in mistake


def test_what_many_files_include_is_no_circle_but_ends(files):
    twice = 'include = ["n{0}.toml", "n{0}.toml"]'
    texts = {f"n{n}": twice.format(n + 1) for n in range(12)}
    path = files(**texts, n12="[dataset]\nrows = 7", mine='include = ["n12.toml", "n12.toml"]')
    assert includes.read(path).values["dataset"] == {"rows": 7}
    found = mistakes(files(mine=twice.format(0)))
    assert "more than 50 files are included" in found[0]


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ('"ci"', "include: must be a list of files and built-in names"),
        ("[1]", "include: must be a list"),
        ('[""]', "'': no file can have this name"),
        ('["a\\u0000b"]', "no file can have this name"),
        ('["bse.toml"]', "'bse.toml': No such file or directory (did you mean 'base.toml'?)"),
        ('["quickstrat"]', "(did you mean 'quickstart'?)"),
        ('["."]', "'.': not a file"),
        ('["/dev/zero"]', "'/dev/zero': not a file"),
        ('["broken.toml"]', "'broken.toml': not TOML: "),
        ('["binary.toml"]', "'binary.toml': not TOML: "),
        ('["large.toml"]', "'large.toml': not TOML: larger than 1,048,576 bytes"),
        ('["deep.toml"]', "'deep.toml': not TOML: nested too deeply"),
    ],
)
def test_what_cannot_be_included_is_told_with_the_rest(files, tmp_path, value, part):
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "large.toml").write_bytes(b"#" * (1 << 21))
    path = files(
        base="",
        broken="a = = 1",
        deep="a = " + "[" * 100_000,
        mine=f"include = {value}\n[dataset]\nrows = 0",
    )
    found = mistakes(path)
    assert len(found) == 2
    assert part in found[0]
    assert found[1].startswith("dataset.rows: ")


def test_a_pipe_is_not_waited_for(files, tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    (mistake,) = mistakes(files(mine='include = ["pipe.toml"]'))
    assert mistake == "include: 'pipe.toml': not a file"
