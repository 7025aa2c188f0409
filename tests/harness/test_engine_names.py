from __future__ import annotations

import pytest

from keymark.harness.engines import (
    engine_indexes,
    engine_mistake,
    hudi_releases,
    hudi_version,
    table_version,
)
from keymark.harness.errors import ScenarioError
from keymark.harness.scenario import scenario


@pytest.mark.parametrize(
    "name",
    [
        *("native", "hudi@0.15.0", "hudi@1.1.1", "hudi@1.1.1-v8", "hudi@12.3.45"),
        *("delta@3.3.2", "delta@3.0.0", "iceberg@1.10.0", "native@bare", "native@without-spark"),
    ],
)
def test_engines_that_there_are(name):
    assert engine_mistake(name) is None


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("hudi", "needs a release of three numbers, as in 'hudi@1.2.0', or with"),
        ("hudi@1.1", "needs a release of three numbers"),
        ("hudi@latest", "needs a release of three numbers"),
        ("hudi@1.1.1-rc1", "needs a release of three numbers"),
        ("hudi@1.1.1-v10", "Hudi 1.1.1 makes tables of version 6, 8, 9"),
        ("hudi@1.0.2-v9", "Hudi 1.0.2 makes tables of version 6, 8"),
        ("hudi@1.2.0-v9", "is named 'hudi@1.2.0': version 9 is its own"),
        ("hudi@0.15.0-v6", "is named 'hudi@0.15.0': version 6 is its own"),
        ("hudi-1.0.2", "did you mean 'hudi@1.0.2'?"),
        ("Hudi@1.0.2", "did you mean 'hudi@1.0.2'?"),
        ("hudi@0.14.1", "bundles for Spark 3.5 begin with 0.15.0"),
        ("nativ", "known are 'native' and 'hudi@VERSION'"),
        ("nativ", "of other formats: 'delta@3.3.2', 'iceberg@1.10.0'"),
        ("delta", "needs a release of three numbers, as in 'delta@3.3.2'"),
        ("Iceberg-1.10", "needs a release of three numbers, as in 'iceberg@1.10.0'"),
        ("delta@2.4.0", "Delta Lake's builds for Spark 3.5 begin with 3.0.0"),
        ("delta@4.0.0", "end before 4.0.0; Delta Lake 4.0 is built for Spark 4.0"),
        ("iceberg@1.3.1", "Apache Iceberg's builds for Spark 3.5 begin with 1.4.0"),
        ("native@sparkless", "native@worktree, native@without-spark, or a master"),
        ("", "unknown engine ''"),
    ],
)
def test_engines_that_there_are_not_with_help(name, told):
    mistake = engine_mistake(name)
    assert mistake is not None
    assert f"engine {name!r}" in mistake
    assert told in mistake


def test_versions_and_indexes():
    assert hudi_version("hudi@1.1.1") == "1.1.1"
    assert hudi_version("hudi@1.1.1-v6") == "1.1.1"
    assert hudi_version("native") is None
    told = {name: table_version(name) for name in ("native", "hudi@0.15.0", "hudi@1.0.2")}
    assert told == {"native": 6, "hudi@0.15.0": 6, "hudi@1.0.2": 8}
    assert table_version("hudi@1.2.0") == 9
    assert table_version("hudi@1.2.0-v6") == 6
    assert "simple" in engine_indexes("hudi@1.1.1")


def test_modes_of_a_format_are_those_of_its_engines_only():
    assert engine_indexes("delta@3.3.2") == ("merge", "merge_dv")
    assert engine_indexes("delta@3.0.0") == ("merge",)
    assert engine_indexes("iceberg@1.10.0") == ("merge_cow", "merge_mor")
    others = {*engine_indexes("native"), *engine_indexes("hudi@1.2.0")}
    assert not others & {"merge", "merge_dv", "merge_cow", "merge_mor"}
    assert table_version("delta@3.3.2") == 0
    assert hudi_version("delta@3.3.2") is None


def test_what_is_true_of_a_release_is_true_until_the_next_line_of_the_table():
    writers = {name: hudi_releases.release(name).metadata_writer for name in ("1.0.1", "1.0.2")}
    assert writers == {
        "1.0.1": "SparkHoodieBackedTableMetadataWriter",
        "1.0.2": "SparkMetadataWriterFactory",
    }
    listing = ("0.15.0", "1.0.0", "1.0.1", "1.0.2", "1.1.1", "1.2.0")
    listed = [name for name in listing if hudi_releases.release(name).lists_locations]
    assert listed == ["1.0.0", "1.0.1"]
    assert table_version("hudi@1.0.1") == 8


@pytest.mark.parametrize(
    ("engine", "version", "section"),
    [
        ("hudi@1.2.0", 6, "engine_options.hudi@1.2.0"),
        ("hudi@1.2.0-v8", 9, "engine_options.hudi@1.2.0-v8"),
        ("hudi@1.2.0", 8, "variants.old"),
        ("hudi@1.2.0", 6, "options"),
        ("hudi@1.2.0", 8, "index_options.record"),
    ],
)
def test_an_option_that_contradicts_the_version_of_the_engines_name(engine, version, section):
    sets = [f"table.{section}.hoodie.write.table.version={version}"]
    told = r"the engine's name says the version: hudi@1\.2\.0-v6, hudi@1\.2\.0-v8, hudi@1\.2\.0"
    with pytest.raises(ScenarioError, match=told) as caught:
        scenario.load("releases", sets=sets, overrides={"engines": [engine]})
    said = f"table.{section}: hoodie.write.table.version is {version}, and {engine} makes version"
    assert said in str(caught.value)
    assert "unknown option" not in str(caught.value)


def test_an_option_of_an_index_contradicts_the_engines_that_measure_it():
    option = "table.index_options.simple.hoodie.write.auto.upgrade=true"
    only = {"engines": ["hudi@1.2.0-v6", "hudi@1.2.0-v8"], "indexes": ["simple", "bloom"]}
    only |= {f"engine_indexes.{engine}": ["bloom"] for engine in only["engines"][1:]}
    with pytest.raises(ScenarioError) as caught:
        scenario.load("ci", sets=[option], overrides=only)
    (said,) = caught.value.mistakes
    assert said.startswith(
        "table.index_options.simple: hoodie.write.auto.upgrade is true, and hudi@1.2.0-v6 makes "
    )


def test_an_engine_that_makes_its_own_version_may_not_be_kept_from_upgrading():
    sets = ["table.engine_options.hudi@1.2.0.hoodie.write.auto.upgrade=false"]
    told = "hoodie.write.auto.upgrade is false, and hudi@1.2.0 makes version 9; the engine's name"
    with pytest.raises(ScenarioError, match=told):
        scenario.load("releases", sets=sets, overrides={"engines": ["hudi@1.2.0"]})


def test_an_option_that_says_the_version_of_the_engines_name_is_no_contradiction():
    sets = ["table.engine_options.hudi@1.2.0-v6.hoodie.write.table.version=6"]
    assert scenario.load("releases", sets=sets, overrides={"engines": ["hudi@1.2.0-v6"]})
