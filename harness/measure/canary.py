"""A small fixed load between the repetitions: how steady the machine was while a run lasted.

The load is always the same work, so whatever makes its time vary also varies the times of the
run: other processes, a throttled processor, a busy disk. It runs between trials, never while an
engine works, and is left out where it would cost more than a hundredth of the run so far.

A beat is one such load: SHA-256 over a fixed buffer in a thread for each core of the run, until
the last one is done (hashing holds no interpreter lock), `HASHINGS` times, of which the median
counts; then a small file written and synced, then a page of memory after the other that the process
never had. The last is what every new process pays, the workers of Spark's Python tasks among them;
on a virtual machine its price can double while the processor is as fast as ever.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import numpy as np

from keymark.harness.measure import environment
from keymark.harness.store.results import Beat
from keymark.harness.store.store import RunFolder

COST = 0.01
"""Most of the run's time that the canary may take."""

FIRST = 3
"""Beats that every run takes, however short it is."""

HASHINGS = 15
"""How often a beat repeats the hashing.

Spark's processes collect garbage for up to 0.3 s when a trial has ended. With five of them on two
cores, single hashings of 9 ms varied by 69 % on a machine that did nothing else; their medians do
not see that.
"""

_PAUSE_S = 0.02
_BUFFER = bytes(range(256)) * (64 << 10)
_BLOCK = _BUFFER[: 1 << 20]
_FRESH = 16 << 20


def processor_work(threads: int, clock: Callable[[], float]) -> float:
    """Hash the buffer in several threads; the seconds until the last is done."""
    with ThreadPoolExecutor(threads) as pool:
        start = clock()
        list(pool.map(hashlib.sha256, [_BUFFER] * threads))
        return clock() - start


class Canary:
    """Takes beats into a run folder.

    Args:
        folder: where beats are kept.
        scratch: folder on the disk whose steadiness matters; made if it is not there.
        threads: cores that the run uses.
        clock: monotonic seconds.
        sleep: lets seconds pass.
    """

    def __init__(
        self,
        folder: RunFolder,
        scratch: Path,
        *,
        threads: int,
        clock: Callable[[], float],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._folder, self._scratch = folder, scratch
        self._threads, self._clock, self._sleep = threads, clock, sleep
        self._began = clock()
        self._spent = self._last = 0.0
        self._beats = 0
        self._steal = environment.stolen()

    def beat(self, before: str) -> None:
        """Take a beat, if it is affordable; `before` names the trial that comes next."""
        start = self._clock()
        due = self._spent + self._last <= COST * (start - self._began)
        if self._beats >= FIRST and not due:
            return
        cpu, disk, memory = self._work(), self._sync(), self._touch()
        stolen, since = environment.stolen(), self._steal
        self._steal = stolen
        self._folder.append_beat(
            Beat(
                at=time.time(),
                before=before,
                cpu_s=cpu,
                disk_s=disk,
                memory_s=memory,
                load_1m=environment.load(),
                mhz=environment.megahertz(),
                steal_s=max(stolen - since, 0.0),
            )
        )
        self._beats += 1
        self._last = self._clock() - start
        self._spent += self._last

    def _work(self) -> float:
        times = []
        for _ in range(HASHINGS):
            times.append(processor_work(self._threads, self._clock))
            self._sleep(_PAUSE_S)
        return median(times)

    def _sync(self) -> float:
        self._scratch.mkdir(parents=True, exist_ok=True)
        path = self._scratch / "canary"
        start = self._clock()
        with path.open("wb", buffering=0) as file:
            file.write(_BLOCK)
            os.fsync(file.fileno())
        spent = self._clock() - start
        path.unlink()
        return spent

    def _touch(self) -> float:
        with mmap.mmap(-1, _FRESH) as fresh:
            pages = np.frombuffer(fresh, np.uint8)[:: mmap.PAGESIZE]
            start = self._clock()
            pages[:] = 1
            spent = self._clock() - start
            del pages  # or the memory could not be given back
        return spent
