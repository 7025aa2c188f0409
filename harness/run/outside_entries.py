"""Cells of indexes that keep entries outside of the table: entries as the loaded table has them.

A repetition starts from a copy of the loaded table, and the entries of its index must be those of
the copy. What earlier repetitions did to the entries of the change batches' keys is undone, off the
clock, from an independent reading of the copy. How, the index says: its spec names an object with
the protocol CellEntries.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from keymark import Table
from keymark.harness.run.context import Inputs
from keymark.harness.run.step import NULL_COLUMNS, Step
from keymark.harness.scenario.matrix import Cell
from keymark.harness.tables import independent
from keymark.indexes.installed import measured_specs
from keymark.table.index.external import CHANGES
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.timeline.timeline import Timeline


class CellEntries(Protocol):
    """The entries of an index that are outside of the tables under test.

    `options` are those of a cell's table; they say where its entries are.
    """

    def missing(self) -> str | None:
        """One line that says how to get what holds the entries; None if it is there."""

    def options(self, run_id: str, number: int) -> Mapping[str, str]:
        """Options that give a loaded table, the run's first, second, ..., a place of its own."""

    def renew(self, options: Mapping[str, str]) -> None:
        """Before a load: make the place, without entries."""

    def put(self, options: Mapping[str, str], entries: pa.Table) -> None:
        """Put entries (rows of CHANGES), whatever they were."""

    def delete(self, options: Mapping[str, str], keys: pa.Array) -> None:
        """Delete the entries of keys."""

    def settle(self, options: Mapping[str, str]) -> None:
        """After a repetition's entries were put back: the next one must meet the same files."""

    def index_bytes(self, options: Mapping[str, str], listed: int) -> int:
        """Bytes of the entries; `listed` are those of the index within the table."""

    def clear(self, options: Mapping[str, str]) -> None:
        """At the end of a run: the place goes."""


def entries_of(index: str) -> CellEntries | None:
    """What the spec of an index names; None where there is nothing to do."""
    spec = measured_specs().get(index)
    return _loaded(spec.cells) if spec is not None and spec.cells else None


@cache
def _loaded(name: str) -> CellEntries:
    module, _, attribute = name.partition(":")
    made: CellEntries = getattr(importlib.import_module(module), attribute)()
    return made


def missing(index: str) -> str | None:
    """One line that says what an index lacks on this machine; None if it lacks nothing."""
    entries = entries_of(index)
    return None if entries is None else entries.missing()


def settled(cells: Sequence[Cell], run_id: str) -> tuple[Cell, ...]:
    """The cells, with options that say where their entries are; options of a scenario win.

    Cells that share a loaded table share its entries.
    """
    tables = list(dict.fromkeys(cell.table_id for cell in cells))
    return tuple(_told(cell, run_id, tables.index(cell.table_id)) for cell in cells)


@contextmanager
def prepared(cells: Sequence[Cell], run_id: str) -> Iterator[tuple[Cell, ...]]:
    """The cells as `settled` makes them; their entries go at the end of the block."""
    found = settled(cells, run_id)
    try:
        yield found
    finally:
        clear(found)


def _told(cell: Cell, run_id: str, number: int) -> Cell:
    entries = entries_of(cell.index)
    if entries is None or entries.missing() is not None:
        return cell
    return replace(cell, options={**entries.options(run_id, number), **cell.options})


def renew(cell: Cell) -> None:
    """Before a load: a place without entries."""
    entries = entries_of(cell.index)
    if entries is not None:
        entries.renew(cell.options)


def refill(cell: Cell, path: Path) -> None:
    """After a load that is not kept: the entries of the one at `path` that is."""
    entries = entries_of(cell.index)
    if entries is not None:
        entries.renew(cell.options)
        entries.put(cell.options, _entries(independent.locations(path), path))


def restore(cell: Cell, path: Path, inputs: Inputs, steps: Sequence[Step]) -> None:
    """After a repetition: the entries of the table that it started from a copy of.

    Args:
        cell: the cell.
        path: the loaded table.
        inputs: the change batches and deletes of the repetition.
        steps: of the repetition.
    """
    entries = entries_of(cell.index)
    if entries is None:
        return
    frames = [inputs.batch(n) for n in range(1, max((s.round for s in steps), default=0) + 1)]
    if any(step.deleted for step in steps):
        frames.append(inputs.deletes())
    if any(step.name == NULL_COLUMNS for step in steps):
        frames.append(inputs.nulled())
    # The table is opened for its key fields only.
    table = Table(LocalStorage.at(str(path)))
    keys = [table.keys_of(frame) for frame in frames]
    touched = pa.concat_arrays([pa.array([], pa.string()), *keys]).unique()
    held = independent.locations(path, touched)
    stored = pa.concat_arrays([pa.array([], pa.string()), *held["record_key"].chunks])
    entries.delete(cell.options, touched.filter(pc.invert(pc.is_in(touched, value_set=stored))))
    entries.put(cell.options, _entries(held, path))
    entries.settle(cell.options)


def index_bytes(cell: Cell, listed: int) -> int:
    """Bytes of a cell's index: those `listed` in its table, or those of its entries."""
    entries = entries_of(cell.index)
    return listed if entries is None else entries.index_bytes(cell.options, listed)


def clear(cells: Iterable[Cell]) -> None:
    """At the end of a run: the entries of its cells go."""
    for index, options in {(cell.index, tuple(cell.options.items())) for cell in cells}:
        entries = entries_of(index)
        if entries is not None:
            entries.clear(dict(options))


def _entries(located: pa.Table, path: Path) -> pa.Table:
    """The entries (rows of CHANGES) of located keys of a table as it was loaded."""
    loaded = max(Timeline.load(LocalStorage.at(str(path))).commit_times())
    columns = [located[name] for name in ("record_key", "partition_path", "file_id")]
    return pa.table([*columns, pa.repeat(pa.scalar(loaded), located.num_rows)], schema=CHANGES)
