"""The time left of a run, by what its trials took: a slow cell may take as long as all others."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable
from statistics import fmean
from typing import NamedTuple

from keymark.harness.store.results import Sample


class TrialKind(NamedTuple):
    """Trials that should take the same time.

    Attributes:
        cell: id of the cell.
        steps: that they measure; none: they load or build the table.
    """

    cell: str
    steps: frozenset[str] = frozenset()


class TimeLeft:
    """Estimates the trials ahead by those that were taken.

    A trial takes as long as the last one of its kind. Where none was taken yet, it takes the mean
    of those whose cells are nearest: the same cell with other steps, then the same index of the
    engine, then the engine, then all.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._took: dict[TrialKind, float] = {}
        self._ahead: Counter[TrialKind] = Counter()
        self._began = 0.0

    def learn(self, samples: Iterable[Sample], loads: Collection[str] = ()) -> None:
        """Take the times of trials from samples: of this run before it was cut off, or of another.

        They leave out the verification, and are replaced as soon as a trial of the kind was taken.

        Args:
            samples: in the order in which they were taken.
            loads: the steps of a trial that loads or builds a table.
        """
        trials: dict[tuple[str, bool, int, bool], dict[str, float]] = {}
        for each in samples:
            if each.metric == "wall_s" and each.phase == "total":
                trial = (each.cell, each.warmup, each.repetition, each.step in loads)
                trials.setdefault(trial, {})[each.step] = each.value
        for (cell, _, _, is_load), steps in trials.items():
            kind = TrialKind(cell, frozenset() if is_load else frozenset(steps))
            self._took[kind] = sum(steps.values())

    def plan(self, ahead: Iterable[TrialKind]) -> None:
        """What is to be taken from here on."""
        self._ahead = Counter(ahead)

    def begin(self) -> None:
        """A trial begins."""
        self._began = self._clock()

    def end(self, kind: TrialKind) -> None:
        """The trial was taken."""
        self._took[kind] = self._clock() - self._began
        self._ahead[kind] -= 1

    def seconds(self, failed: Container[str] = ()) -> float | None:
        """The seconds that the trials ahead will take; None as long as nothing is known.

        Args:
            failed: ids of cells that are left out from here on.
        """
        if not self._took:
            return None
        return sum(count * self._estimate(kind) for kind, count in self._left(failed).items())

    def unknown(self, failed: Container[str] = ()) -> list[str]:
        """What is ahead and was never taken; `seconds` guesses its time by what was taken.

        Args:
            failed: ids of cells that are left out from here on.

        Returns:
            Names of engines; before any repetition `each repetition`, which has only loads to be
            guessed by.
        """
        ahead = self._left(failed)
        if self._took and _repeats(ahead) and not _repeats(self._took):
            return ["each repetition"]
        known = {_engine(kind) for kind in self._took}
        return [engine for engine in dict.fromkeys(map(_engine, ahead)) if engine not in known]

    def _left(self, failed: Container[str]) -> dict[TrialKind, int]:
        """The trials ahead, without those of failed cells."""
        return {
            kind: count
            for kind, count in self._ahead.items()
            if count > 0 and kind.cell not in failed
        }

    def _estimate(self, kind: TrialKind) -> float:
        is_load = not kind.steps
        known = {each: took for each, took in self._took.items() if is_load == (not each.steps)}
        near = known or self._took
        # Ids of cells begin with engine and index.
        parts = kind.cell.split("/")
        while not any(_begins(each.cell, parts) for each in near):
            parts.pop()
        near = {each: took for each, took in near.items() if _begins(each.cell, parts)}
        same = [took for each, took in near.items() if each.steps == kind.steps]
        return fmean(same or near.values())


def _repeats(kinds: Iterable[TrialKind]) -> bool:
    """Whether one of them is a repetition; the others load or build."""
    return any(kind.steps for kind in kinds)


def _engine(kind: TrialKind) -> str:
    return kind.cell.split("/")[0]


def _begins(cell: str, parts: list[str]) -> bool:
    return cell.split("/")[: len(parts)] == parts


def duration(seconds: float) -> str:
    """A time for readers: `40 s`, `12 min`, `3.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
