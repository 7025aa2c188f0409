from __future__ import annotations

import pytest

from keymark.harness.engines import engine_indexes, engine_mistake, hudi_version, table_version


@pytest.mark.parametrize(
    "name", ["native", "hudi@0.15.0", "hudi@1.1.1", "hudi@1.1.1-v8", "hudi@12.3.45"]
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
