"""How fast an index may ask HBase: Hudi's options, and what a task does about them.

Each task (here: each connection) sends batches of `get.batch.size` keys, at most ten of them a
second, and batches of `put.batch.size` entries, at most one a second. With
`put.batch.size.autocompute` a task's puts a second, and so its batches, are its share of
`qps.fraction` of what the table's region servers stand (`max.qps.per.region.server` each).

Source: SparkHoodieHBaseIndex (locationTagFunction, HBasePutBatchSizeCalculator), RateLimiter of
Hudi 0.15. Hudi takes the size of its puts from `get.batch.size`, whatever `put.batch.size` says;
here each has its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from keymark.indexes.hbase.spec import (
    HBASE_GET_BATCH,
    HBASE_PACE,
    HBASE_PUT_AUTO,
    HBASE_PUT_BATCH,
    HBASE_SHARE,
)
from keymark.table.properties.options import Options
from keymark.table.runtime.clock import Clock, SystemClock

_GET_BATCHES_A_SECOND = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """Keys in a batch, and keys a second, of one task."""

    get_batch: int
    gets_a_second: int
    put_batch: int

    @classmethod
    def of(cls, options: Options, *, servers: int, tasks: int) -> RateLimit:
        """The pace that options give a task, one of several beside each other."""
        get_batch = options.integer(HBASE_GET_BATCH)
        put_batch = options.integer(HBASE_PUT_BATCH)
        if options.flag(HBASE_PUT_AUTO):
            share = int(options.number(HBASE_SHARE) * servers * options.integer(HBASE_PACE))
            put_batch = max(1, math.ceil(share / tasks))
        return cls(
            get_batch=get_batch,
            gets_a_second=get_batch * _GET_BATCHES_A_SECOND,
            put_batch=put_batch,
        )


@dataclass(slots=True)
class Throttle:
    """Lets `a_second` keys pass in each second, counted from the first key."""

    a_second: int
    clock: Clock = field(default_factory=SystemClock)
    _begun: float = -1.0
    _left: int = 0

    def take(self, keys: int) -> None:
        """Wait until the keys may be sent."""
        while keys > 0:
            now = self.clock.seconds()
            if self._begun < 0 or now - self._begun >= 1:
                self._begun, self._left = now, self.a_second
            elif self._left == 0:
                self.clock.sleep(self._begun + 1 - now)
                continue
            sent = min(keys, self._left)
            self._left -= sent
            keys -= sent
