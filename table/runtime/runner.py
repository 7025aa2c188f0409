"""Where tasks run: threads of this process, or Spark's executors.

Tasks are module-level functions of one frozen argument, so that both can run them and a retried
task does the same again.
"""

from __future__ import annotations

import gc
import heapq
import math
import os
import zipimport
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from keymark.table.errors import TableError
from keymark.table.runtime.lost_worker import worker_errors
from keymark.table.storage.durability import count_synced, seconds_synced, sync_all

A = TypeVar("A")
R = TypeVar("R")

Progress = Callable[[int, int, str], None]
"""Called with what is done, what there is to do, and in which unit."""

# A Spark job costs some tenths of a second, and its cores wait for the last of them: progress comes
# in at most this many steps, of some ten seconds on a core or two.
_STEPS = 20
_STEP_BYTES_MIN = 1 << 32
# Stands for the number of an item where a task tells how long it has synced.
_SYNCED = -1


class TaskRunner(Protocol):
    """Runs one function over many arguments."""

    def run(
        self,
        function: Callable[[A], R],
        items: Sequence[A],
        *,
        weights: Sequence[int],
        packed: bool = True,
    ) -> list[R]:
        """The results in the order of `items`.

        Args:
            function: what is done to each item.
            items: its arguments.
            weights: bytes of work per item.
            packed: whether a distributed task may take several items; where they are large on
                their own, one at a time keeps memory small.
        """

    @property
    def cores(self) -> int:
        """How many tasks run at a time."""

    def threads_each(self, items: int) -> int:
        """How many threads each item may use, by the number of items, so that no core is idle."""

    def distributes(self, weight: int) -> bool:
        """Whether work of that many bytes leaves this process."""


@dataclass(frozen=True, slots=True)
class LocalRunner:
    """Threads of this process; the kernels and pyarrow release the interpreter's lock."""

    threads: int = os.cpu_count() or 1

    def run(
        self,
        function: Callable[[A], R],
        items: Sequence[A],
        *,
        weights: Sequence[int],
        packed: bool = True,
    ) -> list[R]:
        """Run the heaviest first; each item is a task of its own anyway."""
        del packed
        if len(items) < 2 or self.threads < 2:
            return [function(item) for item in items]
        order = sorted(range(len(items)), key=lambda i: -weights[i])
        with ThreadPoolExecutor(self.threads) as pool:
            pending = {i: pool.submit(function, items[i]) for i in order}
            try:
                return [pending[i].result() for i in range(len(items))]
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    @property
    def cores(self) -> int:
        """One for each thread."""
        return self.threads

    def threads_each(self, items: int) -> int:
        """The threads that are left over, shared out."""
        return max(1, self.threads // max(1, items))

    def distributes(self, weight: int) -> bool:
        """Never."""
        del weight
        return False


@dataclass(frozen=True, slots=True)
class SparkRunner:
    """One Spark job of a few tasks per core; work below `local_bytes` stays in this process.

    A Python task costs Spark tens of milliseconds, so items are packed into tasks by weight.
    """

    spark: Any
    local_bytes: int = 64 << 20

    def run(
        self,
        function: Callable[[A], R],
        items: Sequence[A],
        *,
        weights: Sequence[int],
        packed: bool = True,
    ) -> list[R]:
        """Run a task per pack of items, or per item, and return the results in order."""
        if not items or not self.distributes(sum(weights)):
            return LocalRunner().run(function, items, weights=weights)
        context = self.spark.sparkContext
        packs = pack(weights, 2 * context.defaultParallelism if packed else len(items))
        slices = [[(i, items[i]) for i in members] for members in packs]
        rdd = context.parallelize(slices, len(slices)).mapPartitions(_PackTask(function))
        step = getattr(function, "__name__", "task").replace("_", " ")
        with worker_errors(step, min(len(slices), context.defaultParallelism)):
            answers = rdd.collect()
        count_synced(sum(seconds for number, seconds in answers if number == _SYNCED))
        done = dict(answers)
        for result in done.values():
            if isinstance(result, TableError):
                raise result
        return [done[i] for i in range(len(items))]

    @property
    def cores(self) -> int:
        """The cores of the session, on one machine or on many."""
        return int(self.spark.sparkContext.defaultParallelism)

    def threads_each(self, items: int) -> int:
        """One, the core of a Spark task; where all cores are this process's, those left over."""
        cores = self.cores if self._is_local else 1
        return max(1, cores // max(1, items))

    def distributes(self, weight: int) -> bool:
        """From `local_bytes` on."""
        return weight >= self.local_bytes

    @property
    def _is_local(self) -> bool:
        """Whether tasks run on this machine; those of local-cluster run as on a cluster."""
        master = str(self.spark.sparkContext.master)
        return master == "local" or master.startswith("local[")


@dataclass(frozen=True, slots=True)
class _PackTask:
    """What a Spark task does with its packs. A TableError is an answer: trying again is useless."""

    function: Callable[[Any], Any]

    def __call__(self, packs: Iterable[list[tuple[int, Any]]]) -> Iterator[tuple[int, Any]]:
        quiet_worker()
        done: list[tuple[int, Any]] = []
        synced = seconds_synced()
        for members in packs:
            for number, item in members:
                try:
                    done.append((number, self.function(item)))
                except TableError as error:
                    done.append((number, error))
        try:
            # The driver cannot sync what this process has put.
            sync_all()
        except TableError as error:
            done = [(number, error) for number, _ in done]
        yield from done
        yield _SYNCED, seconds_synced() - synced


def quiet_worker() -> None:
    """Keep a reused Python worker from doing work of its start anew at every task.

    PySpark 3.5 calls importlib.invalidate_caches() per task, which reads its zip archives in 65 to
    90 ms, and gc.collect() after it, which walks all modules loaded in 20 to 80 ms.
    """
    gc.freeze()
    zipimport.zipimporter.invalidate_caches = lambda self: None  # type: ignore[method-assign] # noqa: ARG005


def pack(weights: Sequence[int], count: int) -> list[list[int]]:
    """Spread items over at most `count` packs of about equal weight; none of them empty."""
    heap: list[tuple[int, int]] = [(0, number) for number in range(min(count, len(weights)))]
    packs: list[list[int]] = [[] for _ in heap]
    for item in sorted(range(len(weights)), key=lambda i: -weights[i]):
        load, number = heapq.heappop(heap)
        packs[number].append(item)
        heapq.heappush(heap, (load + weights[item] + 1, number))
    return packs


def shares(weight: int, total: int, cores: int) -> int:
    """How many cores an item of some work takes to be no slower than the rest of it: at least one.

    A quarter of a core's share does not count: a further core would not pay.
    """
    return max(1, math.ceil(weight * cores / max(1, total) - 0.25))


def threads_by_weight(weights: Sequence[int], cores: int, *, least: int) -> list[int]:
    """How many threads each item takes to be no slower than the rest: one for `least` bytes."""
    total = sum(weights)
    return [min(shares(weight, total, cores), 1 + weight // least) for weight in weights]


def no_progress(done: int, total: int, unit: str) -> None:
    """A Progress that shows nothing."""


@dataclass(frozen=True, slots=True)
class ProgressRunner:
    """Runs many items in a few steps, and says after each how far it came."""

    runner: TaskRunner
    progress: Progress
    unit: str

    def run(
        self, function: Callable[[A], R], items: Sequence[A], *, weights: Sequence[int]
    ) -> list[R]:
        """What the runner's `run` does."""
        most = max(_STEP_BYTES_MIN, sum(weights) // _STEPS)
        cores = self.runner.threads_each(1)
        results: list[R] = []
        self.progress(0, len(items), self.unit)
        while len(results) < len(items):
            start = end = len(results)
            weight = 0
            while end < len(items) and (end == start or weight + weights[end] <= most):
                weight += weights[end]
                end += 1
            # No core is to wait for the last of few large items.
            end = min(len(items), start + -(-(end - start) // cores) * cores)
            results += self.runner.run(function, items[start:end], weights=weights[start:end])
            self.progress(end, len(items), self.unit)
        return results
