"""Tables in another time zone: instants of UTC and of LOCAL tables, read in either process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from table_cases import create, data_rows, rows

from keymark import Table
from keymark.table.properties.config import load_config, save_config
from keymark.table.storage.local_storage import LocalStorage

# Runs in a process of its own: a process has one zone.
SCRIPT = """
import json, sys
from table_cases import data_rows, rows
from keymark import Table
from keymark.table.runtime.clock import SystemClock
from keymark.table.storage.local_storage import LocalStorage

class Clock(SystemClock):
    def millis(self):
        return 1_700_000_000_000

table = Table(LocalStorage.at(sys.argv[1]), clock=Clock())
result = table.upsert(rows([2]))
found = table.lookup(["k1", "k2"])["instant_time"].to_pylist()
print(json.dumps([result.instant, found, sorted(data_rows(table)), table.check().ok]))
"""


def in_tokyo(root: Path) -> list[object]:
    environment = {
        **os.environ,
        "TZ": "Asia/Tokyo",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(root)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return json.loads(done.stdout)


class Clock:
    """Ten seconds before the other process's."""

    def millis(self):
        return 1_699_999_990_000

    def seconds(self):
        return 0.0


@pytest.mark.parametrize(
    ("zone", "first", "second"),
    [
        ("UTC", "20231114221310000", "20231114221320000"),
        ("LOCAL", "20231114221310000", "20231115071320000"),
    ],
)
def test_a_write_in_tokyo(tmp_path, zone, first, second):
    """A LOCAL table has the times of its writer's clock on the wall, as with Hudi."""
    root = tmp_path / "t"
    create(root)
    storage = LocalStorage.at(str(root))
    facts = {**load_config(storage).properties, "hoodie.table.timeline.timezone": zone}
    save_config(storage, facts)
    table = Table(Table.open(str(root)).storage, clock=Clock())
    assert table.upsert(rows([1])).instant == first
    instant, found, keys, ok = in_tokyo(root)
    assert instant == second
    assert (keys, ok) == (["k1", "k2"], True)
    # The index holds moments: a LOCAL table's first one reads nine hours later there.
    assert found == [first if zone == "UTC" else "20231115071310000", second]
    assert data_rows(Table.open(str(root))).keys() == {"k1", "k2"}
    back = Table.open(str(root)).lookup(["k1", "k2"])["instant_time"].to_pylist()
    assert back == [first, "20231114221320000"]
    assert Table.open(str(root)).upsert(rows([3])).instant > second
