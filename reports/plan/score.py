"""Predictions against runs that the fit has not seen: how far off, and was the choice right.

An error is |predicted / measured - 1|. Where both are zero it is zero; where one is, it is whole.
Errors are told by distance from the calibration: within about 3 times, 10 times, 100 times.
A choice is right if the recommended index, as measured, adds at most a tenth more to a write than
the index that was measured to add least.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from keymark.harness.store.units import Unit
from keymark.reports.errors import ReportError
from keymark.reports.model.projection import Run, place_in
from keymark.reports.plan.calibration import Calibration, SeenError
from keymark.reports.plan.decide import choose
from keymark.reports.plan.formulas import POINT_QUERIES, REQUESTS, unit_of
from keymark.reports.plan.observe import Observation, observations
from keymark.reports.plan.predict import farthest, quantity

TOLERATED = 0.10
SCORED = (
    *("tag", "shuffle", "index", "write", "around", "index_bytes", "bootstrap", "lookup"),
    *POINT_QUERIES,
    *REQUESTS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Off:
    """How far one quantity of one index was off, at one distance.

    Attributes:
        quantity: `tag`, `shuffle`, ...
        index: its index.
        beyond: how many times the farthest of the cells is beyond the calibrated range; 1 within.
        cells: that were compared.
        error: the median of the errors.
        worst: the largest error.
        within: share of cells whose measured value lies in the predicted range.
        noise: median over the cells of median repetition / fastest - 1; of bytes and counts 0.
        ratio: the largest |log(measured / predicted)|, of cells where both are above zero.
    """

    quantity: str
    index: str
    beyond: float
    cells: int
    error: float
    worst: float
    within: float
    noise: float
    ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredChoice:
    """A choice among some indexes, in one setting.

    Attributes:
        setting: what the cells have in common.
        among: `global` or `all`.
        recommended: by the plan; None where it recommended nothing.
        best: as measured.
        regret: what the recommended index added by what the best did; 0 without recommendation.
    """

    setting: str
    among: str
    recommended: str | None
    best: str
    regret: float

    @property
    def right(self) -> bool:
        """Whether the recommended index is the best, or nearly."""
        return 0 < self.regret <= 1 + TOLERATED


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """All that was compared.

    Attributes:
        cells: verified cells.
        outside: those whose workload is outside of what was calibrated.
        factors: by how many times they are, smallest and largest.
        largest_rows: of a table.
        off: by quantity and index.
        chosen: every choice.
    """

    cells: int
    outside: int
    factors: tuple[float, float]
    largest_rows: float
    off: tuple[Off, ...]
    chosen: tuple[ScoredChoice, ...]

    def hits(self, among: str) -> tuple[int, int, int]:
        """Right choices, choices, and settings without a recommendation."""
        every = [each for each in self.chosen if each.among == among]
        made = [each for each in every if each.recommended]
        return sum(each.right for each in made), len(made), len(every) - len(made)


def score(calibration: Calibration, runs: Sequence[Run]) -> Score:
    """Compare predictions with the verified cells of runs.

    Raises:
        ReportError: a run has only cells that the calibration was fitted to, or nothing to compare.
    """
    found = [each for run in runs for each in _unseen(calibration, run)]
    places = {each.cell: each.at for each in found if each.quantity == "tag"}
    if not places:
        raise ReportError(
            f"nothing to score: the runs have no verified upserts by {calibration.engine}"
        )
    factors = [farthest(calibration, at) for at in places.values()]
    return Score(
        cells=len(places),
        outside=sum(factor > 1 for factor in factors),
        factors=(min(factors), max(factors)),
        largest_rows=max(at.rows for at in places.values()),
        off=tuple(_all_off(calibration, found)),
        chosen=tuple(_choices(calibration, found)),
    )


def _unseen(calibration: Calibration, run: Run) -> list[Observation]:
    """What a run tells that the fit has not seen: of a run of the fit, its larger tables."""
    found = [
        each
        for each in observations(run, calibration.engine)
        if each.index in calibration.indexes and each.quantity in SCORED
    ]
    if run.run_id not in calibration.runs:
        return found
    _, most = calibration.ranges["rows"]
    larger = [each for each in found if each.at.rows > most]
    if not larger:
        raise ReportError(f"{run.name} is one of the runs that the calibration was fitted to")
    return larger


def with_errors(known: Sequence[SeenError], made: Score) -> tuple[SeenError, ...]:
    """What predictions beyond the calibration are widened by: known errors, and those of a score.

    Of one quantity, index and distance that the score has met the earlier errors go.
    """
    met = {(each.quantity, each.index, _distance(each.beyond)) for each in made.off}
    kept = [e for e in known if (e.quantity, e.index, _distance(e.beyond)) not in met]
    found = [
        SeenError(
            quantity=each.quantity,
            index=each.index,
            beyond=float(f"{each.beyond:.4g}"),
            off=float(f"{each.ratio:.4g}"),
        )
        for each in made.off
        if each.beyond > 1
    ]
    return (*kept, *found)


def _distance(beyond: float) -> int:
    """0 within about 3 times the calibrated range, 1 around 10 times, 2 around 100 times."""
    return round(math.log10(beyond))


def _all_off(calibration: Calibration, found: Sequence[Observation]) -> Iterable[Off]:
    known = calibration.model.known
    groups: dict[tuple[str, str, int], list[Observation]] = {}
    for each in found:
        if each.equation in calibration.equations or not each.value:
            distance = _distance(farthest(calibration, each.at))
            groups.setdefault((each.quantity, each.index, distance), []).append(each)
    ordered = sorted(groups, key=lambda k: (SCORED.index(k[0]), place_in(k[1], tuple(known)), k[2]))
    for kind in ordered:
        yield _off(calibration, groups[kind])


def _off(calibration: Calibration, points: Sequence[Observation]) -> Off:
    first = points[0]
    is_time = unit_of(first.quantity) == Unit.SECONDS
    said = [quantity(calibration, p.quantity, p.index, p.at) for p in points]
    pairs = list(zip(said, points, strict=True))
    errors = [abs(e.value / p.value - 1) if p.value else float(bool(e.value)) for e, p in pairs]
    within = [e.low <= p.value <= e.high for e, p in pairs]
    ratios = [abs(math.log(p.value / e.value)) for e, p in pairs if p.value > 0 and e.value > 0]
    return Off(
        quantity=first.quantity,
        index=first.index,
        beyond=max(farthest(calibration, each.at) for each in points),
        cells=len(points),
        error=median(errors),
        worst=max(errors),
        within=sum(within) / len(within),
        noise=median(p.noise for p in points) if is_time else 0.0,
        ratio=max(ratios, default=0.0),
    )


def _choices(calibration: Calibration, found: Sequence[Observation]) -> Iterable[ScoredChoice]:
    known = calibration.model.known
    settings: dict[str, dict[str, float]] = {}
    places: dict[str, Any] = {}
    for each in found:
        if each.quantity in ("tag", "index"):
            setting = each.cell.replace(f"/{each.index}", "", 1)
            costs = settings.setdefault(setting, {})
            costs[each.index] = costs.get(each.index, 0.0) + each.value
            places[setting] = each.at
    for setting, costs in settings.items():
        wide = [index for index, spec in known.items() if spec.is_global]
        for among, members in (("global", wide), ("all", list(known))):
            measured = {index: cost for index, cost in costs.items() if index in members}
            if len(measured) < 2:
                continue
            made = choose(calibration, places[setting], list(measured)).recommended
            best = min(measured, key=lambda index: measured[index])
            yield ScoredChoice(
                setting=setting,
                among=among,
                recommended=made,
                best=best,
                regret=measured[made] / measured[best] if made else 0.0,
            )


def document(made: Score) -> dict[str, Any]:
    """The score as `plan --score --json` prints it."""
    return {
        "cells": made.cells,
        "extrapolated": made.outside,
        "beyond": list(made.factors),
        "errors": [
            {
                "within_range" if name == "within" else name: value
                for name, value in asdict(each).items()
            }
            for each in made.off
        ],
        "recommendations": [
            {"among": among, **dict(zip(("right", "made", "none"), made.hits(among), strict=True))}
            for among in ("global", "all")
        ],
        "choices": [asdict(each) for each in made.chosen],
    }
