"""What a calibration leaves open: constants that weigh too little in its cells to be known.

A constant is known if its work makes up a tenth of some cell at least. Below that it might be
anything up to there (`FittedEquation.limits`): little in a table like those that were measured, but
far beyond them it may be most of the work. Then the answer names the run that would measure it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from keymark.indexes.workload import Workload
from keymark.reports.plan.calibration import Calibration, calibrating
from keymark.reports.plan.constants import worded
from keymark.reports.plan.predict import ADDED, likely_added, work_of

TOO_MUCH = 0.5
"""An index whose open work is more than this of what it is predicted to add is not well known."""
_STEP = 10
_ROWS = ("rows", "entries", "sorted", "row_mb", "copied_mb", "block_mb")
_KEYS = ("keys", "pairs", "found", "absent")
_FILES = ("files", "described", "paths", "paged", "footers", "listed", "groups", "names")
_SHARDS = ("shards", "sampled", "listed_groups")
_GROUPS = "table.variants.shards.hoodie.metadata.record.index.{}.filegroup.count"


@dataclass(frozen=True, slots=True, kw_only=True)
class Untold:
    """What a calibration cannot tell about an index at a workload.

    Attributes:
        index: its name.
        amount: whose constant leaves the most open.
        words: what one of it is.
        seconds: that all such constants may add to a write beyond what is predicted.
        run: the command that would tell it.
    """

    index: str
    amount: str
    words: str
    seconds: float
    run: str


def untold(calibration: Calibration, index: str, at: Workload) -> Untold | None:
    """What is left open of what an index adds to a write; None where it is well known."""
    left = left_open(calibration, ADDED, index, at)
    seconds = sum(left.values())
    if seconds <= TOO_MUCH * likely_added(calibration, index, at):
        return None
    most = max(left, key=lambda name: left[name])
    return Untold(
        index=index,
        amount=most,
        words=worded(most),
        seconds=seconds,
        run=telling(calibration, most, at),
    )


def left_open(
    calibration: Calibration, quantities: Iterable[str], index: str, at: Workload
) -> dict[str, float]:
    """By amount, by how much quantities of an index may be more than is predicted."""
    left: dict[str, float] = {}
    for quantity in quantities:
        fitted, work = work_of(calibration, quantity, index, at)
        if fitted is None:
            continue
        # A calibration of an earlier version has no limits.
        for name, value, limit in zip(fitted.amounts, fitted.values, fitted.limits, strict=False):
            more = (limit - value) * work.get(name, 0.0)
            if more > 0:
                left[name] = left.get(name, 0.0) + more
    return left


def telling(calibration: Calibration, amount: str, at: Workload) -> str:
    """The command of a run that would tell the constant of an amount."""
    return " ".join([calibrating(calibration.engine), *_settings(calibration, amount, at)])


def _settings(calibration: Calibration, amount: str, at: Workload) -> list[str]:
    """The axis on which an amount grows, up to ten times as far as it was calibrated."""

    def reach(along: str) -> tuple[int, int]:
        most = calibration.ranges[along][1]
        wanted = max(2 * most, min(_STEP * most, float(getattr(at, along))))
        return round(most), round(wanted)

    if amount.startswith(_ROWS):
        return ["--set dataset.sizes=[{},{}]".format(*reach("rows"))]
    if amount.startswith(_KEYS):
        return ["--set dataset.batches=[{},{}]".format(*reach("batch"))]
    if amount.startswith(_SHARDS):
        groups = reach("shards")[1]
        return [f"--set {_GROUPS.format(end)}={groups}" for end in ("min", "max")]
    if amount.startswith(_FILES):
        # A load makes two files of each partition path.
        return [f"--set dataset.shapes.random.date_partitions={-(-reach('files')[1] // 2)}"]
    return []
