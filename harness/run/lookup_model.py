"""Lookups of M keys in N shards, cold and warm, before and after a compaction: the lookup model.

RFC-8 says that a lookup takes K + (M/N)*c: all shards are read at a time, and each takes a time in
proportion to its keys. A point of the model is one M in one state of the index:

    logs        as the writes left it: log blocks, and a base file if the index has one
    compacted   one base file in each shard
    cold        a handle that has looked nothing up; the files are in the system's cache
    warm        a handle that has looked the same keys up before
    present     keys that are in the table, drawn at random
    absent      keys that never were

Few keys take milliseconds, so a point's value is the median of several lookups, each of other keys
and with a handle of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.compute as pc

from keymark.harness.run.context import RunContext
from keymark.harness.scenario.matrix import Trial
from keymark.table.index.protocol import LookupStats

LOGS, COMPACTED = "logs", "compacted"
COLD, WARM = "cold", "warm"
PRESENT, ABSENT = "present", "absent"

_LOOKUPS = 5
_KEYS_OF_A_POINT = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One number of keys in one state of index and cache; see the module."""

    state: str
    cache: str
    kind: str
    keys: int

    @property
    def step(self) -> str:
        """The name under which its numbers are kept: `lookup_logs_cold_present_1000`."""
        return f"lookup_{self.state}_{self.cache}_{self.kind}_{self.keys}"

    @property
    def lookups(self) -> int:
        """How many lookups its value is the median of."""
        return max(1, min(_LOOKUPS, _KEYS_OF_A_POINT // self.keys))


@dataclass(frozen=True, slots=True)
class Lookup:
    """One lookup on the clock: seconds, what it touched, what it asked and what it answered."""

    wall: float
    stats: LookupStats
    asked: pa.Table
    answer: pa.Table


def points(state: str, numbers: Sequence[int]) -> tuple[Point, ...]:
    """The points of a state of the index, in the order in which they are taken."""
    return tuple(
        Point(state=state, cache=cache, kind=kind, keys=keys)
        for keys in numbers
        for kind in (PRESENT, ABSENT)
        for cache in (COLD, WARM)
    )


def asked(pool: pa.Table, point: Point, number: int) -> pa.Table:
    """The keys of one lookup: others for each number, as far as the pool has others.

    Args:
        pool: record_key (string), expect_present (bool); keys of a kind in random order.
        point: how many keys, and of which kind.
        number: of the lookup.
    """
    column = pool.column("expect_present")
    of_kind = pool.filter(column if point.kind == PRESENT else pc.invert(column))
    spare = of_kind.num_rows - point.keys
    start = number * point.keys % (spare + 1)
    return of_kind.slice(start, point.keys).combine_chunks()


def lookups(context: RunContext, trial: Trial, point: Point, path: Path) -> list[Lookup]:
    """Take a point: its lookups, each with a handle of its own."""
    found = []
    for number in range(point.lookups):
        chosen = asked(
            context.inputs.model_keys(), point, trial.repetition * point.lookups + number
        )
        keys = chosen.column("record_key").combine_chunks()
        cell = trial.cell
        table = context.engines[cell.engine].open(path, index=cell.index, options=cell.options)
        if point.cache == WARM:
            table.lookup(keys)
        stats = LookupStats()
        start = context.clock()
        answer = table.lookup(keys, stats=stats)
        wall = context.clock() - start
        found.append(Lookup(wall, stats, chosen, answer))
    return found


def values(point: Point, found: Sequence[Lookup]) -> dict[tuple[str, str], float]:
    """The numbers of a point, medians over its lookups."""
    return {
        ("total", "wall_s"): median(each.wall for each in found),
        ("total", "keys"): point.keys,
        ("total", "shards_read"): median(each.stats.shards_read for each in found),
        ("total", "blocks_decoded"): median(each.stats.blocks_decoded for each in found),
    }
