"""Cells with the index hbase: an HBase table of their own that every repetition finds as loaded."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pyarrow as pa
import pytest
from harness_fakes import Taker, context
from hbase_fake import FakeHBase

from keymark import Table
from keymark.harness.engines import engine_indexes
from keymark.harness.engines.engine_pool import missing
from keymark.harness.errors import HarnessError
from keymark.harness.hbase import server as hbase_server
from keymark.harness.run import outside_entries
from keymark.harness.run.workload import steps
from keymark.harness.scenario.matrix import expand
from keymark.harness.scenario.scenario import load
from keymark.harness.scenario.workload_section import WorkloadSection
from keymark.harness.store.store import RunFolder

RUNNING = hbase_server.Running(
    folder="f", thrift_port=9, zookeeper_port=8, server_pid=1, thrift_pid=2
)


@pytest.fixture
def hbase(monkeypatch):
    monkeypatch.setattr(hbase_server, "running", lambda _: RUNNING)
    return FakeHBase().install(monkeypatch)


def cells(**options):
    overrides = {"indexes": ["record", "hbase"], "engines": ["native", "hudi@0.15.0"]}
    found = outside_entries.settled(expand(load("quickstart", overrides=overrides)), "2026-run")
    return [replace(c, options={**c.options, **options}) for c in found if c.index == "hbase"]


def rows(keys, ts):
    count = len(keys)
    return pa.table({"k": keys, "p": ["x"] * count, "ts": [ts] * count, "v": keys})


STEPS = steps(WorkloadSection(rounds=2, delete=True, lookup_present=0, lookup_absent=0))


class Inputs:
    """Two change batches and deletes."""

    def batch(self, round_):
        return rows(["a", "new"] if round_ == 1 else ["b", "newer"], 5)

    def deletes(self):
        return rows(["c", "new"], 6).select(["k", "p"])


@pytest.mark.usefixtures("hbase")
def test_each_cell_is_told_its_own_table():
    found = cells()
    names = [cell.options["hoodie.index.hbase.table"] for cell in found]
    assert len(set(names)) == len(found) == 2
    assert all(name.startswith("keymark_2026_run_") for name in names)
    for cell in found:
        assert cell.options["keymark.hbase.thrift.port"] == "9"
        assert cell.options["hoodie.index.hbase.zkport"] == "8"
        assert cell.options["hoodie.index.hbase.get.batch.size"] == "2000"
        assert cell.options["hoodie.index.hbase.put.batch.size.autocompute"] == "true"


@pytest.mark.usefixtures("hbase")
def test_cells_that_share_a_loaded_table_share_its_entries():
    overrides = {"indexes": ["hbase"], "dataset.sizes": [1000, 2000], "dataset.batches": [100, 200]}
    found = outside_entries.settled(expand(load("quickstart", overrides=overrides)), "run")
    names = {}
    for cell in found:
        names.setdefault(cell.table_id, set()).add(cell.options["hoodie.index.hbase.table"])
    assert len(found) == 4
    assert len(names) == len(set.union(*names.values())) == 2


def test_a_repetition_finds_the_entries_of_its_copy(tmp_path, hbase):
    cell = cells()[0]
    outside_entries.renew(cell)
    options = {n: v for n, v in cell.options.items() if not n.startswith("hoodie.parquet")}
    table = Table.create(
        tmp_path / "loaded", record_key="k", partition_path="p", ordering="ts", index="hbase",
        options=options,
    )  # fmt: skip
    table.bulk_insert(rows(["a", "b", "c", "d"], 1))
    name = cell.options["hoodie.index.hbase.table"]
    loaded = hbase.entries(name)
    for turn in range(3):
        path = tmp_path / f"copy{turn}"
        shutil.copytree(tmp_path / "loaded", path)
        copy = Table.open(path, options=options)
        copy.upsert(Inputs().batch(1))
        copy.upsert(Inputs().batch(2))
        copy.delete(["c", "new"])
        assert hbase.entries(name) != loaded
        outside_entries.restore(cell, tmp_path / "loaded", Inputs(), STEPS)
        assert hbase.entries(name) == loaded
    outside_entries.refill(cell, tmp_path / "loaded")
    assert hbase.entries(name) == loaded
    outside_entries.clear([cell])
    assert name not in hbase.tables


def test_of_a_workload_without_deletes_none_are_read(tmp_path, hbase):
    class Changes(Inputs):
        def deletes(self):
            raise AssertionError("there are none")

    cell = cells()[0]
    outside_entries.renew(cell)
    options = {n: v for n, v in cell.options.items() if not n.startswith("hoodie.parquet")}
    path = tmp_path / "t"
    table = Table.create(path, record_key="k", partition_path="p", index="hbase", options=options)
    table.bulk_insert(rows(["a", "b"], 1))
    name = cell.options["hoodie.index.hbase.table"]
    loaded = hbase.entries(name)
    only_reads = WorkloadSection(rounds=0, delete=False)
    for workload in (WorkloadSection(rounds=1, delete=False), only_reads):
        outside_entries.restore(cell, path, Changes(), steps(workload))
        assert hbase.entries(name) == loaded


def test_without_an_hbase_its_cells_are_left_out_with_a_line(monkeypatch):
    monkeypatch.setattr(hbase_server, "running", lambda _: None)
    found = missing(["native"], ["record", "hbase"])
    assert set(found) == {"native/hbase"}
    assert "make hbase" in found["native/hbase"]
    with pytest.raises(HarnessError, match="make hbase"):
        missing(["native"], ["hbase"])


def test_an_hbase_that_stopped_before_its_tables_were_named_fails_its_cells_alone(tmp_path):
    overrides = {"indexes": ["record", "hbase"], "workload.rounds": 2, "workload.delete": True}
    resolved = load("quickstart", overrides=overrides)
    folder = RunFolder.create(tmp_path / "run")
    outcome = Taker(resolved, context(tmp_path / "work"), folder).run(expand(resolved))
    assert list(outcome.failed) == ["native/hbase"]
    assert "make hbase" in outcome.failed["native/hbase"]


def test_hudi_has_the_index_before_1_1():
    assert "hbase" in engine_indexes("hudi@0.15.0")
    assert "hbase" in engine_indexes("hudi@1.0.2")
    assert "hbase" not in engine_indexes("hudi@1.1.1")
