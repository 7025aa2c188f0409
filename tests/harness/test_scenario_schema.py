from __future__ import annotations

import tomllib

import jsonschema
import pytest

from keymark.harness.engines import engine_mistake, own_master
from keymark.harness.scenario import scenario
from keymark.harness.scenario.documents import BUILT_IN
from keymark.harness.scenario.schema import scenario_schema

SCHEMA = scenario_schema()
CHECKER = jsonschema.Draft7Validator(SCHEMA)


def wrong(text):
    return [error.message for error in CHECKER.iter_errors(tomllib.loads(text))]


def test_the_schema_is_one():
    jsonschema.Draft7Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", sorted(BUILT_IN.rglob("*.toml")), ids=lambda path: path.stem)
def test_built_in_scenarios_fit(path):
    assert wrong(path.read_text()) == []


def test_what_a_scenario_is_resolved_to_fits():
    for name in scenario.builtin_names():
        resolved = scenario.load(name).model_dump(mode="json")
        assert [error.message for error in CHECKER.iter_errors(resolved)] == []


@pytest.mark.parametrize(
    "text",
    [
        "rowz = 1",
        "[dataset]\nrowz = 1",
        "[dataset]\nrows = 0",
        '[dataset]\nrows = "many"',
        "[dataset.source]\nrecord_key = []\npath = 'x'",
        "[dataset.source]\npath = 'x'",
        '[table.options]\n"hoodie.parquet.max.file.sise" = 1',
        "[table.options]\nhoodie.parquet.max.file.size = 1",
        '[table.variants.a]\n"hoodie.x" = []',
        "[table.index_options.recrod]",
        "[workload]\nround = 1",
        "[workload]\nmodel_keys = [0]",
        '[schedule]\nwarm = "never"',
        "[spark]\nmaster = 1",
        'indexes = ["recrod"]',
        "indexes = []",
        'indexes = ["record", "record"]',
        'engines = ["hudi"]',
        'engines = ["native@local[0]"]',
        'include = "ci"',
        'include = [""]',
    ],
    ids=lambda text: text.replace("\n", " "),
)
def test_what_a_run_would_refuse_does_not_fit(text):
    assert len(wrong(text)) >= 1


def test_options_may_be_numbers_and_are_named_with_their_defaults():
    options = SCHEMA["definitions"]["TableSection"]["properties"]["options"]["properties"]
    assert options["hoodie.hfile.block.size"]["default"] == "1048576"
    assert (
        wrong('include = ["ci", "x/y.toml"]\n[table.options]\n"hoodie.hfile.block.size" = 3') == []
    )


def test_every_key_says_what_it_is():
    sections = [SCHEMA, *SCHEMA["definitions"].values()]
    named = {name: each for section in sections for name, each in section["properties"].items()}
    silent = {name for name, each in named.items() if not each.get("description")}
    assert silent == {"dataset", "table", "workload", "schedule", "spark"}
    assert all("title" not in each for each in named.values())


@pytest.mark.parametrize(
    ("name", "master"),
    [
        ("native@local[2]", "local[2]"),
        ("native@local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("native@worktree", None),
        ("native@0123456", None),
        ("native", None),
        ("hudi@0.15.0", None),
    ],
)
def test_engines_with_a_master_of_their_own(name, master):
    assert engine_mistake(name) is None
    assert own_master(name) == master
    assert wrong(f'engines = ["{name}"]') == []


@pytest.mark.parametrize("name", ["native@local", "native@local[0]", "native@local[2]x", "hudi@1"])
def test_engines_that_are_none(name):
    assert engine_mistake(name) is not None
    assert own_master(name) is None
    assert wrong(f'engines = ["{name}"]')
