from __future__ import annotations

import re

import pytest

from keymark.harness.engines import engine_pool, jars
from keymark.harness.errors import HarnessError
from keymark.table.errors import UnsupportedTableError


@pytest.fixture(autouse=True)
def known(monkeypatch, tmp_path):
    """An installation with neither Hudi's bundles nor the index `bloom`."""

    def load_index(name):
        if name == "bloom":
            raise UnsupportedTableError("index bloom is not supported yet")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(engine_pool, "load_index", load_index)


def test_what_is_there_takes_part():
    assert engine_pool.missing(["native"], ["record", "bucket"]) == {}


def test_an_index_that_native_lacks_is_left_out_with_a_line():
    found = engine_pool.missing(["native", "hudi@0.15.0"], ["record", "bloom"])
    assert found.pop("native/bloom") == "index bloom is not supported yet"
    # Not in the cache; or, where PySpark is another one, of no use.
    assert found == {"hudi@0.15.0": jars.missing_bundle("0.15.0")}


def test_with_nothing_left_there_is_no_run():
    with pytest.raises(HarnessError, match="index bloom is not supported yet"):
        engine_pool.missing(["native"], ["bloom"])
    first, second = (re.escape(jars.missing_bundle(version)) for version in ("0.15.0", "1.1.1"))
    with pytest.raises(HarnessError, match=f"bloom.*; {first}"):
        engine_pool.missing(["native", "hudi@0.15.0"], ["bloom"])
    with pytest.raises(HarnessError, match=f"{first}; {second}"):
        engine_pool.missing(["hudi@0.15.0", "hudi@1.1.1"], ["bloom"])
