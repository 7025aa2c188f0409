"""What a calibration found: each constant with its interval, in words. No numpy.

The interval is where the middle 95 % of the bootstrap draws lie. Constants of one formula lean on
each other: where two amounts grow alike, one may take the other's part.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from keymark.reports.plan.calibration import Calibration
from keymark.reports.plan.formulas import unit_of
from keymark.reports.plan.predict import Estimate, middle

WORDS = MappingProxyType({
    "once": "starting",
    "shards": "a file group of the index",
    "groups": "a file group of the partitions' indexes",
    "names": "the name of a file group, in each task",
    "entries": "an entry of the index",
    "sampled": "sampling the keys of a file group, in each task",
    "files": "a file",
    "described": "a task that describes files",
    "paths": "the statistics of a partition path",
    "listed": "a file in the table's list",
    "listed_groups": "a file group in the index's list",
    "footers": "a footer, or a filter",
    "block_mb": "a decoded megabyte of the index",
    "pairs": "a pair of key and file",
    "rows": "a row",
    "batch_mb": "a megabyte of the batch's rows",
    "row_mb": "a rewritten megabyte of rows",
    "copied_mb": "a copied megabyte of rows",
    "paged": "a file with pages to copy",
    "sorted": "a row to sort, for each doubling of their number",
    "keys": "a key",
    "found": "a key that is there",
    "absent": "a key that is not there",
    "written": "a file written",
    "asked": "a file, footer or file group of the index that tagging reads",
})  # fmt: skip
"""What one of an amount is; its name may end in the mode or the order of keys that it is for."""

_KINDS = MappingProxyType({
    "tasks": "in tasks",
    "threads": "in threads",
    "lookup": "in a lookup",
    "random": "keys without order",
    "ordered": "keys that grow",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """What one of an amount costs.

    Attributes:
        equation: that it is of, `<quantity>/<family>`.
        amount: its name in the formulas.
        words: what one of it is.
        unit: base unit.
        estimate: the constant and its interval.
        cells: kinds of work that the equation was fitted to.
        spread: how far a measured cell is off the equation: a typical |log(measured / fitted)|.
    """

    equation: str
    amount: str
    words: str
    unit: str
    estimate: Estimate
    cells: int
    spread: float


def constants(calibration: Calibration) -> list[Constant]:
    """All constants, equation by equation."""
    return [
        Constant(
            equation=name,
            amount=amount,
            words=worded(amount),
            unit=unit_of(name.split("/")[0]).value,
            estimate=Estimate(
                equation.values[place],
                *middle([draw[place] for draw in equation.draws], equation.values[place]),
            ),
            cells=equation.cells,
            spread=equation.spread,
        )
        for name, equation in calibration.equations.items()
        for place, amount in enumerate(equation.amounts)
    ]


def worded(amount: str) -> str:
    """An amount's name in words: `files_tasks` is a file, in tasks."""
    if amount in WORDS:
        return WORDS[amount]
    what, _, kind = amount.rpartition("_")
    if what not in WORDS or kind not in _KINDS:
        return amount  # of an index that came later
    return f"{WORDS[what]}, {_KINDS[kind]}"


def document(calibration: Calibration) -> dict[str, Any]:
    """The constants as `plan --constants --json` prints them."""
    found = [asdict(each) for each in constants(calibration)]
    return {
        "calibration": calibration.name,
        "machine": calibration.where,
        "constants": [each | each.pop("estimate") for each in found],
    }
