"""How many keys a second a task may send."""

from __future__ import annotations

import pytest
from hbase_fake import FakeHBase
from hypothesis import given
from hypothesis import strategies as st
from index_cases import batch, create

from keymark.indexes.hbase.rate_limit import RateLimit, Throttle
from keymark.table.properties.options import Options


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self):
        self.now, self.slept = 100.0, []

    def seconds(self):
        return self.now

    def sleep(self, seconds):
        assert seconds > 0
        self.slept.append(seconds)
        self.now += seconds


def test_defaults_are_those_of_hudi():
    pace = RateLimit.of(Options({}), servers=7, tasks=2)
    assert (pace.get_batch, pace.gets_a_second, pace.put_batch) == (100, 1000, 100)


@pytest.mark.parametrize(
    ("servers", "share", "tasks", "expected"),
    # The example of HBasePutBatchSizeCalculator: a task's part of a tenth of ten servers.
    [(10, "0.1", 200, 84), (1, "0.5", 2, 250), (1, "0.5", 100_000, 1), (3, "1.0", 7, 7143)],
)
def test_batches_of_puts_from_what_the_servers_stand(servers, share, tasks, expected):
    prefix = "hoodie.index.hbase"
    given_ = {
        f"{prefix}.put.batch.size.autocompute": "true",
        f"{prefix}.qps.fraction": share,
        f"{prefix}.max.qps.per.region.server": "16667",
    }
    if servers == 1:
        given_[f"{prefix}.max.qps.per.region.server"] = "1000"
    pace = RateLimit.of(Options(given_), servers=servers, tasks=tasks)
    assert pace.put_batch == expected


@given(st.integers(1, 50), st.lists(st.integers(1, 120), max_size=20))
def test_no_second_sees_more_keys_than_allowed(a_second, takes):
    clock = Clock()
    throttle = Throttle(a_second, clock)
    for keys in takes:
        throttle.take(keys)
    total = sum(takes)
    # All but the last second's keys had to wait for whole seconds.
    assert sum(clock.slept) == pytest.approx(max(0, -(-total // a_second) - 1))


def test_batches_are_as_large_as_the_options_say(tmp_path, monkeypatch):
    hbase = FakeHBase().install(monkeypatch)
    monkeypatch.setattr("keymark.indexes.hbase.rate_limit.SystemClock.sleep", lambda *_: None)
    options = {
        "hoodie.index.hbase.table": "t",
        "hoodie.index.hbase.get.batch.size": "7",
        "hoodie.index.hbase.put.batch.size": "11",
        "keymark.hbase.thrift.connections": "3",
    }
    table = create(tmp_path / "t", "hbase", options=options)
    table.bulk_insert(batch([f"k{n}" for n in range(30)]))
    assert [size for call, size in hbase.calls if call == "put"] == [11, 11, 8]
    hbase.calls.clear()
    table.lookup([f"k{n}" for n in range(30)])
    assert sorted(size for call, size in hbase.calls if call == "get") == [3, 3, 3, 7, 7, 7]
