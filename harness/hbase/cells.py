"""What cells with the index `hbase` need around their measurements: a table in HBase, as loaded.

Each cell has an HBase table of its own, made anew before each load and deleted at the end of the
run. A repetition starts from a copy of the loaded table, and its entries must be those of the copy:
what earlier repetitions did to the entries of the change batches' keys is undone, off the clock,
from an independent reading of the copy. Then HBase writes all it holds to disk, so that every
repetition meets the same files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from keymark import Table
from keymark.harness.errors import CellError
from keymark.harness.hbase import server as hbase_server
from keymark.harness.run.context import Inputs
from keymark.harness.run.step import NULL_COLUMNS, Step
from keymark.harness.scenario.matrix import Cell
from keymark.harness.tables import independent
from keymark.indexes import hbase_client
from keymark.indexes.hbase_client import Access, EntryClient
from keymark.indexes.hbase_entries import delete_entries, put_entries
from keymark.indexes.hbase_pace import Pace, Throttle
from keymark.indexes.specs.hbase import (
    HBASE_GET_BATCH,
    HBASE_PACE,
    HBASE_PUT_AUTO,
    HBASE_SHARE,
    HBASE_TABLE,
    THRIFT_HOST,
    THRIFT_PORT,
)
from keymark.table.index.external import CHANGES
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.timeline.timeline import Timeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


INDEX = "hbase"

# Off the clock nothing is held back.
_PACE = Pace(get_batch=1000, gets_a_second=1 << 40, put_batch=1000)


def missing() -> str | None:
    """One line that says how to get an HBase; None if one runs."""
    if hbase_server.running(hbase_server.default_folder()) is not None:
        return None
    return "no HBase runs on this machine: `make hbase` starts one"


def settled(cells: Sequence[Cell], run_id: str) -> tuple[Cell, ...]:
    """The cells, those with the index `hbase` told which HBase table is theirs, and where.

    Cells that share a loaded table share its HBase table. Options of a scenario win. Where it says
    nothing, every engine may send the same: batches of 2,000 gets, ten a second and task; 20,000
    puts a second, shared by its tasks.
    """
    found = hbase_server.running(hbase_server.default_folder())
    tables = list(dict.fromkeys(cell.table_id for cell in cells))
    return tuple(
        cell
        if cell.index != INDEX or found is None
        else _told(cell, run_id, tables.index(cell.table_id), found)
        for cell in cells
    )


@contextmanager
def prepared(cells: Sequence[Cell], run_id: str) -> Iterator[tuple[Cell, ...]]:
    """The cells as `settled` makes them; their HBase tables go at the end of the block."""
    found = settled(cells, run_id)
    try:
        yield found
    finally:
        clear(found)


def _told(cell: Cell, run_id: str, number: int, found: hbase_server.Running) -> Cell:
    return replace(
        cell,
        options={
            HBASE_TABLE: f"keymark_{re.sub('[^A-Za-z0-9]', '_', run_id)}_{number}",
            THRIFT_HOST: hbase_server.HOST,
            THRIFT_PORT: str(found.thrift_port),
            "hoodie.index.hbase.zkquorum": found.zookeeper,
            "hoodie.index.hbase.zkport": str(found.zookeeper_port),
            HBASE_GET_BATCH: "2000",
            HBASE_PUT_AUTO: "true",
            HBASE_SHARE: "1.0",
            HBASE_PACE: "20000",
            **cell.options,
        },
    )


def renew(cell: Cell) -> None:
    """Before a load: an HBase table without rows; Hudi does not make one."""
    if cell.index == INDEX:
        with hbase_client.connected(_access(cell)) as client:
            client.drop()
            client.create()


def refill(cell: Cell, path: Path) -> None:
    """After a load that is not kept: the entries of the one at `path` that is."""
    if cell.index == INDEX:
        renew(cell)
        with hbase_client.connected(_access(cell)) as client:
            _put(client, independent.locations(path), path)


def restore(cell: Cell, path: Path, inputs: Inputs, steps: Sequence[Step]) -> None:
    """After a repetition: the entries of the table that it started from a copy of.

    Args:
        cell: the cell.
        path: the loaded table.
        inputs: the change batches and deletes of the repetition.
        steps: of the repetition.
    """
    if cell.index != INDEX:
        return
    frames = [inputs.batch(n) for n in range(1, max((s.round for s in steps), default=0) + 1)]
    if any(step.deleted for step in steps):
        frames.append(inputs.deletes())
    if any(step.name == NULL_COLUMNS for step in steps):
        frames.append(inputs.nulled())
    touched = _keys(path, frames)
    placed = independent.locations(path)
    held = placed.filter(pc.is_in(placed["record_key"], value_set=touched))
    stored = pa.concat_arrays([pa.array([], pa.string()), *held["record_key"].chunks])
    absent = touched.filter(pc.invert(pc.is_in(touched, value_set=stored)))
    with hbase_client.connected(_access(cell)) as client:
        delete_entries(client, absent, _PACE, Throttle(_PACE.gets_a_second))
        _put(client, held, path)
        client.flush()


def index_bytes(cell: Cell, listed: int) -> int:
    """Bytes of a cell's index: those `listed` in its table, or HBase's files of its HBase table."""
    if cell.index != INDEX:
        return listed
    found = hbase_server.running(hbase_server.default_folder())
    if found is None:
        return listed
    with hbase_client.connected(_access(cell)) as client:
        client.flush()
    files = (Path(found.folder) / "data/hbase/data/default" / _access(cell).table).rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


def clear(cells: Iterable[Cell]) -> None:
    """At the end of a run: the cells' HBase tables go."""
    ours = (cell for cell in cells if cell.index == INDEX and HBASE_TABLE in cell.options)
    for access in {_access(cell) for cell in ours}:
        with hbase_client.connected(access) as client:
            client.drop()


def _put(client: EntryClient, located: pa.Table, path: Path) -> None:
    """Put the entries of located keys (independent.locations) of a table as it was loaded."""
    loaded = max(Timeline.load(LocalStorage.at(str(path))).commit_times())
    columns = [located[name] for name in ("record_key", "partition_path", "file_id")]
    instants = pa.repeat(pa.scalar(loaded), located.num_rows)
    entries = pa.table([*columns, instants], schema=CHANGES)
    put_entries(client, entries, _PACE, Throttle(_PACE.gets_a_second))


def _access(cell: Cell) -> Access:
    options = cell.options
    if HBASE_TABLE not in options:
        raise CellError("HBase ran when the run began and does not any more: `make hbase`")
    return Access(options[THRIFT_HOST], int(options[THRIFT_PORT]), options[HBASE_TABLE])


def _keys(path: Path, frames: Iterable[DataFrame]) -> pa.StringArray:
    """The distinct record keys of frames, as the table at `path` writes them.

    The table is opened for its key fields only.
    """
    table = Table(LocalStorage.at(str(path)))
    found = [table.keys_of(frame) for frame in frames]
    return pa.concat_arrays([pa.array([], pa.string()), *found]).unique()
