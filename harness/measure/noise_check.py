"""Whether the machine is quiet enough to measure, asked before the first step of a run.

The canary's processor work is repeated for some two seconds. If it varies by more than `NOISY`, a
report of the run would warn of it, so the run says so before it has taken an hour, or it waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from keymark.harness.errors import HarnessError, RunFolderError
from keymark.harness.measure.canary import processor_work
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


def noise_now(threads: int) -> float:
    """By how much the canary's processor work varies now, as a share.

    Args:
        threads: cores that the run uses.
    """
    processor_work(threads, time.perf_counter)  # the first pays for what is cold
    times = []
    for _ in range(BEATS):
        times.append(processor_work(threads, time.perf_counter))
        time.sleep(_PAUSE_S)
    return width(times)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseCheck:
    """What a run does on a noisy machine.

    Attributes:
        wait_s: for how long it waits until the machine is quiet; None: it warns, and begins.
        noise: by how much the canary varies now, on so many cores.
        clock: monotonic seconds.
        sleep: lets seconds pass.
    """

    wait_s: float | None = None
    noise: Callable[[int], float] = noise_now
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def warn_or_wait(self, progress: Progress, *, threads: int, runs: Path) -> None:
        """Warn of a noisy machine, or wait until it is quiet.

        Args:
            progress: who is told.
            threads: cores that the run uses.
            runs: the folder of this run and of earlier ones.

        Raises:
            HarnessError: the machine was not quiet in time.
        """
        share = self.noise(threads)
        if share <= NOISY:
            return
        usual = _usual(runs)
        noisy = f"the time of the same small work varies by {_percent(share)}, {usual}"
        if self.wait_s is None:
            hint = "--when-quiet 30m waits until it is quiet"
            progress.warn(f"the machine is too noisy for this: {noisy}; {hint}")
            return
        limit = duration(self.wait_s)
        progress.begin(f"the machine is too noisy for this: {noisy}; waiting for at most {limit}")
        deadline = self.clock() + self.wait_s
        while share > NOISY:
            left = deadline - self.clock()
            if left <= 0:
                raise HarnessError(
                    f"--when-quiet: the machine was not quiet within {limit}; at last the time of "
                    f"the same small work varied by {_percent(share)}, {usual}"
                )
            self.sleep(min(POLL_S, left))
            share = self.noise(threads)


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
    return f"and reports warn from {_percent(NOISY)} on"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
