"""Whether the machine is quiet enough to measure, asked before the first step of a run.

The canary's processor work is repeated for some two seconds. If its time varies by more than
`NOISY`, a report of the run would warn of it, so the run says so before it has taken an hour, or it
waits. A program that takes one of two cores all the time makes this work slow and steady, so what
other programs take of the cores counts as well.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from keymark.harness.errors import HarnessError, RunFolderError
from keymark.harness.measure.canary import processor_work
from keymark.harness.measure.environment import busy_core_seconds
from keymark.harness.run.runner import Progress
from keymark.harness.run.time_left import duration
from keymark.harness.store.beats import NOISY, noise_share, width
from keymark.harness.store.store import RunFolder

BEATS = 20
"""How often the work is repeated."""

POLL_S = 30.0
"""Between two looks at a machine that is waited for; a look is two seconds of little work."""

_PAUSE_S = 0.1
_ENOUGH = 10
"""Beats of an earlier run that say how steady the machine can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """How noisy the machine is now.

    Attributes:
        varied: by how much the time of the canary's processor work varies, as a share.
        taken: the share of the run's cores that other programs took meanwhile.
    """

    varied: float
    taken: float = 0.0

    @property
    def is_low(self) -> bool:
        """Whether the machine is quiet enough."""
        return max(self.varied, self.taken) <= NOISY

    def words(self, runs: Path) -> str:
        """What is wrong.

        Args:
            runs: the folder of earlier runs, which tell what is usual.
        """
        percent = _percent(self.varied)
        varied = f"the time of the same small work varies by {percent} ({_usual(runs)})"
        taken = f"other programs take {_percent(self.taken)} of its cores"
        parts = [varied] * (self.varied > NOISY) + [taken] * (self.taken > NOISY)
        return ", and ".join(parts)


def noise_now(threads: int) -> Noise:
    """How noisy the machine is now, seen for two seconds.

    Args:
        threads: cores that the run uses.
    """
    processor_work(threads, time.perf_counter)  # the first pays for what is cold
    began, busy, own = time.perf_counter(), busy_core_seconds(), time.process_time()
    times = []
    for _ in range(BEATS):
        times.append(processor_work(threads, time.perf_counter))
        time.sleep(_PAUSE_S)
    others = busy_core_seconds() - busy - (time.process_time() - own)
    cores_taken = others / (time.perf_counter() - began)
    spare = (os.cpu_count() or threads) - threads
    return Noise(varied=width(times), taken=max(0.0, cores_taken - spare) / threads)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseCheck:
    """What a run does on a noisy machine.

    Attributes:
        wait_s: for how long it waits until the machine is quiet; None: it warns, and begins.
        noise: how noisy the machine is now for a run, by the number of its cores.
        clock: monotonic seconds.
        sleep: lets seconds pass.
    """

    wait_s: float | None = None
    noise: Callable[[int], Noise] = noise_now
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def warn_or_wait(self, progress: Progress, *, threads: int, runs: Path) -> None:
        """Warn of a noisy machine, or wait until it is quiet.

        Args:
            progress: receives what is done.
            threads: cores that the run uses.
            runs: the folder of this run and of earlier ones.

        Raises:
            HarnessError: the machine was not quiet in time.
        """
        noise = self.noise(threads)
        if noise.is_low:
            return
        warning = f"the machine is too noisy for this: {noise.words(runs)}"
        if self.wait_s is None:
            progress.warn(f"{warning}; --when-quiet 30m waits until it is quiet")
            return
        limit = duration(self.wait_s)
        progress.begin(f"{warning}; waiting for at most {limit}")
        deadline = self.clock() + self.wait_s
        while not noise.is_low:
            left = deadline - self.clock()
            if left <= 0:
                raise HarnessError(
                    f"--when-quiet: the machine was not quiet within {limit}: {noise.words(runs)}"
                )
            self.sleep(min(POLL_S, left))
            noise = self.noise(threads)


def _usual(runs: Path) -> str:
    """What the time varies by on this machine when it is quiet, or the limit."""
    shares = []
    for path in runs.glob("*/canary.jsonl"):
        with suppress(OSError, RunFolderError):
            beats = RunFolder(path.parent).beats()
            if len(beats) >= _ENOUGH:
                shares.append(noise_share(beats))
    quiet = [share for share in shares if 0 < share <= NOISY]
    if quiet:
        return f"against {_percent(min(quiet))} in the quietest of the runs beside this one"
    return f"reports warn from {_percent(NOISY)} on"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
