from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from keymark.harness.engines import engine_pool, jars
from keymark.harness.engines.pipe import PATIENCE_S
from keymark.harness.errors import HarnessError
from keymark.harness.scenario import scenario
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


def test_what_hudi_cannot_be_asked_is_left_out_and_the_rest_is_measured(monkeypatch):
    monkeypatch.setattr(jars, "missing_bundle", lambda _: None)
    named = ["record", "bucket", "hbase"]
    absent = engine_pool.Demands(absent_keys=5)
    found = engine_pool.missing(["hudi@1.1.1"], named, demands=absent)
    assert found.keys() == {"hudi@1.1.1/bucket", "hudi@1.1.1/hbase"}
    assert "lookup_absent=0` measures it" in found["hudi@1.1.1/bucket"]
    assert "hudi@1.1.1 has no index hbase (it has record," in found["hudi@1.1.1/hbase"]
    assert engine_pool.missing(["hudi@1.1.1"], ["record", "bucket"]) == {}
    with pytest.raises(HarnessError, match="knows no absent one"):
        engine_pool.missing(["hudi@1.1.1"], ["bucket"], demands=absent)


def test_a_release_can_be_asked_for_what_it_is_known_not_to_have(monkeypatch):
    monkeypatch.setattr(jars, "missing_bundle", lambda _: None)
    named = ["record", "partitioned_record"]
    engines = ["hudi@0.15.0", "hudi@1.1.1-v6"]
    found = engine_pool.missing(engines, named)
    assert found.keys() == {f"{engine}/partitioned_record" for engine in engines}
    asked = engine_pool.Demands(refused=True)
    assert engine_pool.missing(engines, named, demands=asked) == {}
    assert engine_pool.missing(["hudi@1.2.0-v6", "hudi@1.1.1-v8"], named) == {}
    # An index that no release has is not asked.
    found = engine_pool.missing(engines[:1], ["record", "compact"], demands=asked)
    assert found.keys() == {"hudi@0.15.0/compact"}


@pytest.mark.parametrize(("minutes", "longest"), [(0, PATIENCE_S), (10, PATIENCE_S), (120, 7200)])
def test_a_process_may_be_silent_for_as_long_as_a_trial_takes(minutes, longest, tmp_path):
    said = scenario.load("ci", sets=[f"schedule.trial_minutes={minutes}"])
    pool = engine_pool.EnginePool(said, tmp_path, tmp_path, tables=None)
    process = SimpleNamespace(longest_s=PATIENCE_S, start=dict, close=lambda: None)
    assert pool._starts("hudi@1.2.0", process)
    assert process.longest_s == longest
