"""Every table of version 6 that Hudi 1.x wrote is measured as `table.source`, with every index."""

from __future__ import annotations

import tarfile
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from harness_fakes import Taker

from keymark.harness.engines.native import NativeEngine
from keymark.harness.run.context import RunContext
from keymark.harness.run.inputs import write_inputs
from keymark.harness.scenario import matrix, scenario
from keymark.harness.store.store import RunFolder
from keymark.harness.tables.table_folders import LocalTables

DATA = Path(__file__).parents[1] / "data"
REWRITTEN = {
    "1.0.2-record_index": {"native/bucket"},
    "1.0.2-complex_key": {"native/bucket"},
    "1.1.1-record_index": {"native/bucket"},
    "1.1.1-complex_key": {"native/bucket"},
    "1.1.1-keys": {f"native/{index}" for index in ("record", "global_simple", "bucket")},
}
"""The fixtures, and the cells that their rows are bulk-inserted for."""


@dataclass(frozen=True)
class Session:
    """The session of the tests in the place of a run's."""

    spark: Any

    def step(self, _label):
        return nullcontext()


def test_all_fixtures_are_here():
    names = {path.name for path in DATA.glob("hudi-1.*.tar.gz") if "-own" not in path.name}
    assert names == {f"hudi-{name}.tar.gz" for name in REWRITTEN}


@pytest.mark.spark
@pytest.mark.parametrize("name", REWRITTEN)
def test_a_table_of_hudi_1_x_is_measured_with_every_index(spark, tmp_path, name):
    with tarfile.open(DATA / f"hudi-{name}.tar.gz") as archive:
        archive.extractall(tmp_path / "made", filter="data")
    tables = [path.parent for path in (tmp_path / "made").rglob(".hoodie")]
    source = min(tables, key=lambda path: len(path.parts))  # the other is its metadata table
    resolved = scenario.load(
        "ci",
        overrides={
            "table.source": str(source),
            "indexes": ["record", "global_simple", "bucket"],
            "workload.lookup_present": 5,
            "workload.lookup_absent": 3,
        },
    )
    inputs = write_inputs(spark, resolved, tmp_path / "data")
    tools = RunContext(
        inputs=inputs[resolved.dataset.points[0]],
        engines={"native": NativeEngine(Session(spark), LocalTables())},
        work=tmp_path / "work",
        source=source,
        clock=time.perf_counter,
    )
    folder = RunFolder.create(tmp_path / "run")
    outcome = Taker(resolved, tools, folder).run(matrix.expand(resolved))
    assert outcome.failed == {}
    assert {note.partition(":")[0] for note in outcome.notes} == REWRITTEN[name]
