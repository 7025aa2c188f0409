"""What the canary says about the machine's noise, in numbers.

The canary is the same small work again and again, between the repetitions. What varies in its time
is the machine's doing. Of its times the middle four fifths are looked at: a single slow beat says
little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from keymark.harness.store.results import Beat

LOADS = {"processor": "cpu_s", "disk": "disk_s", "memory": "memory_s"}
"""Kinds of load, each with the field of a beat that holds its time."""

NOISY = 0.10
"""Where the processor's times vary by more, as a share, a report warns of the machine."""

_BEATS_MIN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How much the time of one kind of load varied.

    Attributes:
        load: `processor`, `disk` or `memory`.
        middle: the median, in seconds.
        low: a tenth of the beats took less.
        high: a tenth of the beats took more.
        worst: the slowest.
        share: (high - low) / middle.
        drift: median of the last third over that of the first.
    """

    load: str
    middle: float
    low: float
    high: float
    worst: float
    share: float
    drift: float


def noise_share(beats: Sequence[Beat]) -> float:
    """By how much the processor's times varied, as a share; 0 where the beats say nothing.

    A difference of times between cells that is smaller than that may be the machine's.
    """
    return next((each.share for each in spreads(beats) if each.load == "processor"), 0.0)


def spreads(beats: Sequence[Beat]) -> list[Spread]:
    """Every load's spread; none where there are too few beats or a time that cannot be."""
    times = {load: [getattr(beat, name) for beat in beats] for load, name in LOADS.items()}
    if len(beats) < _BEATS_MIN or min(map(min, times.values())) <= 0:
        return []
    return [_spread(load, values) for load, values in times.items()]


def width(times: Sequence[float]) -> float:
    """By how much times vary: the width of their middle four fifths, as a share of the median."""
    tenths = quantiles(times, n=10, method="inclusive")
    return (tenths[-1] - tenths[0]) / median(times)


def _spread(load: str, values: Sequence[float]) -> Spread:
    tenths = quantiles(values, n=10, method="inclusive")
    middle, third = median(values), len(values) // 3
    return Spread(
        load=load,
        middle=middle,
        low=tenths[0],
        high=tenths[-1],
        worst=max(values),
        share=width(values),
        drift=median(values[-third:]) / median(values[:third]),
    )
