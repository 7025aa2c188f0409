"""The latency of a store, which no calibration of tables on a local disk can tell.

Tagging reads files, footers, or file groups and data blocks of an index; an index that is kept up
to date is written to. On a store each of them is one request or a few, and what one takes is not
known. So the order of indexes holds there only as far as the best one waits for fewer of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from keymark.harness.engines import NATIVE
from keymark.indexes.spec import TASKS
from keymark.indexes.workload import Workload
from keymark.reports.plan.calibration import Calibration, calibrating
from keymark.reports.plan.decide import Choice, laid_out
from keymark.reports.plan.formulas import asked

STORES = ("s3", "s3a", "gs", "az", "abfs", "abfss", "hdfs")
"""Where tables can be beside a local disk (docs/object_stores.md)."""
_S3 = "s3"
_FEW = 3.0
"""Requests of one thing that is read, at most: its size, its footer or trailer, its content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownLatency:
    """What is missing from predictions for a table on a store.

    Attributes:
        store: the scheme of its URL.
        measured: where the tables of the calibration lay, in words.
        run: the command that would measure it.
    """

    store: str
    measured: str
    run: str

    @property
    def line(self) -> str:
        """It in a sentence."""
        return (
            f"the latency of a store is not in these predictions, {self.measured}: "
            f"{self.run} would measure it"
        )


def store_of(path: str) -> str:
    """The scheme of the store where a folder is; empty for one on a disk."""
    scheme, mark, _ = path.partition("://")
    return scheme if mark and scheme in STORES else ""


def unknown_latency(calibration: Calibration, store: str) -> UnknownLatency | None:
    """What is missing for a table on a store; None where nothing is, or the table is on a disk."""
    if not store or calibration.on_store:
        return None
    return UnknownLatency(
        store=store,
        measured="whose tables lay on a local disk"
        if calibration.tables
        else "of which it is not noted where the tables lay",
        run=measuring_on_store(calibration.engine, store),
    )


def measuring_on_store(engine: str, store: str = _S3) -> str:
    """The command of a calibration with tables on a store.

    Runs of Hudi reach S3 alone (harness/engines/locations.py).
    """
    scheme = store if engine == NATIVE else _S3
    return f"{calibrating(engine)} --tables {scheme}://bucket/folder"


def waits(calibration: Calibration, index: str, at: Workload) -> float:
    """How many things a write reads and writes for an index, one after the other on a core.

    A data block counts as one, though blocks beside each other are fetched together.
    """
    model = calibration.model
    if model.known[index].owns_layout:
        return 0.0  # The key says the file: what its tagging counts are names of files.
    tag = model.amounts("tag", index, at, TASKS)
    kept = model.amounts("index", index, at, TASKS)
    blocks = tag.get("block_mb", 0.0) * 1e6 / at.block_bytes
    return asked(tag) + blocks + sum(n for name, n in kept.items() if name.startswith("shards"))


def without_latency(
    choice: Choice, calibration: Calibration, missing: UnknownLatency, places: Sequence[Workload]
) -> Choice:
    """A choice, or none where it hangs on what a request takes.

    It stands if at all places every other index waits for at least as many requests, by however
    many of them a thing may take.

    Args:
        choice: by the predictions.
        calibration: that they are of.
        missing: from them.
        places: what was planned for: the ends of all inputs that are ranges; at least one.
    """
    best = choice.recommended
    if best is None:
        return choice
    tag = calibration.model.name_of("tag", best)
    for place in places:
        at, _ = laid_out(calibration, place)
        mine = waits(calibration, best, at)
        for other in choice.order:
            few = 1.0 if calibration.model.name_of("tag", other) == tag else _FEW
            its = waits(calibration, other, at)
            if few * mine > its:
                why = (
                    f"without the latency of a store {best} is predicted to add least to a write, "
                    f"but {other} may wait for fewer requests there: a core reads "
                    f"{its:,.0f} files, footers, file groups or blocks for it and {mine:,.0f} "
                    f"for {best}, each by a request or a few; {missing.run} would tell"
                )
                return replace(choice, recommended=None, options={}, why=why)
    return choice
