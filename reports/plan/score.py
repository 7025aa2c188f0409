"""Predictions against runs that the fit has not seen: how far off, and was the choice right.

An error is |predicted / measured - 1|. Where both are zero it is zero; where one is, it is whole.
Errors are grouped by distance from the calibration: within about 3 times, 10 times, 100 times.
A choice is right if the recommended index, as measured, adds at most a tenth more to a write than
the index that was measured to add least.

What is judged are the predictions of a calibration, or those that were written down before the run
(`ahead.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any, Protocol

from keymark.harness.store.units import REQUEST_COUNTS, Unit
from keymark.indexes.workload import Workload
from keymark.reports.errors import ReportError
from keymark.reports.model.projection import Run, place_in
from keymark.reports.plan.calibration import Calibration, SeenError
from keymark.reports.plan.decide import choose
from keymark.reports.plan.formulas import (
    POINT_QUERIES,
    SHUFFLE_REST,
    WHOLE,
    CostModel,
    unit_of,
)
from keymark.reports.plan.observe import Observation, engine_in, observations
from keymark.reports.plan.predict import PARTS, Estimate, farthest, quantity, total

TOLERATED = 0.10
LOOKUP = "lookup"
SCORED = (
    *("tag", "shuffle", SHUFFLE_REST, "index", "write", "around", WHOLE),
    *("index_bytes", "bootstrap", LOOKUP),
    *POINT_QUERIES,
    *REQUEST_COUNTS,
)
_OF_OWN_TABLES = ("index", "bootstrap", WHOLE)
"""Quantities that tables of another version do not tell: Hudi streams writes of the metadata table
in those of version 8 and later, and else reads the keys of all new files for the record index."""
AMONG = ("global", "all")
"""What a choice is made among: the indexes that are right for any table, or all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Off:
    """How far one quantity was off, at one distance, of one index or of all.

    Attributes:
        quantity: `tag`, `shuffle`, ...
        index: its index; empty: of all of them.
        beyond: how many times the farthest of the cells is beyond the calibrated range; 1 within.
        cells: that were compared.
        error: the median of the errors.
        worst: the largest error.
        within: share of cells whose measured value is in the predicted range.
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
        among: a word of AMONG.
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
        engine: the calibration's.
        engines: whose cells were compared with predictions of the calibration's engine: itself, or
            the same release with tables of another version.
        cells: verified cells.
        outside: those whose workload is outside of what was calibrated.
        factors: by how many times they are, smallest and largest.
        largest_rows: of a table.
        off: by quantity, index and distance.
        distances: by quantity and distance, over all indexes.
        chosen: every choice.
    """

    engine: str
    engines: tuple[str, ...]
    cells: int
    outside: int
    factors: tuple[float, float]
    largest_rows: float
    off: tuple[Off, ...]
    distances: tuple[Off, ...]
    chosen: tuple[ScoredChoice, ...]

    def hits(self, among: str) -> tuple[int, int, int]:
        """Right choices, choices, and settings without a recommendation."""
        every = [each for each in self.chosen if each.among == among]
        made = [each for each in every if each.recommended]
        return sum(each.right for each in made), len(made), len(every) - len(made)


class Predictor(Protocol):
    """Makes the predictions that are judged."""

    def estimate(self, cell: str, quantity: str, index: str, at: Workload) -> Estimate | None:
        """A quantity of a cell; None where nothing is predicted."""

    def recommended(
        self, setting: str, among: str, at: Workload, indexes: Sequence[str]
    ) -> str | None:
        """The index that is recommended in a setting; None where none is."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """The predictions of a calibration, made now."""

    calibration: Calibration

    def estimate(self, cell: str, quantity: str, index: str, at: Workload) -> Estimate | None:
        """See `Predictor`."""
        del cell
        return estimate(self.calibration, quantity, index, at)

    def recommended(
        self, setting: str, among: str, at: Workload, indexes: Sequence[str]
    ) -> str | None:
        """See `Predictor`."""
        del setting, among
        return choose(self.calibration, at, indexes).recommended


def estimate(calibration: Calibration, name: str, index: str, at: Workload) -> Estimate | None:
    """A quantity of an index, or the whole write; None where its constants were not calibrated.

    A lookup without an equation of its own is tagging.
    """
    is_tagging = name == LOOKUP and calibration.model.name_of(name, index) is None
    parts = PARTS if name == WHOLE else ("tag",) if is_tagging else (name,)
    equations = {calibration.model.equation_of(part, index, at) for part in parts} - {None}
    if not equations <= calibration.equations.keys():
        return None
    return total([quantity(calibration, part, index, at) for part in parts])


def score(
    calibration: Calibration, runs: Sequence[Run], predictor: Predictor | None = None
) -> Score:
    """Compare predictions with the verified cells of runs.

    Args:
        calibration: what the distances are counted from.
        runs: that measured.
        predictor: whose predictions are judged; None: those of the calibration.

    Raises:
        ReportError: a run has only cells that the calibration was fitted to, or nothing to compare.
    """
    predictor = predictor or Predicted(calibration)
    found = [each for run in runs for each in _unseen(calibration, run)]
    places = {(each.run, each.cell): each.at for each in found if each.quantity == "tag"}
    if not places:
        raise ReportError(
            f"nothing to score: the runs have no verified upserts by {calibration.engine}"
        )
    compared = list(_compared(calibration, found, predictor))
    factors = [farthest(calibration, at) for at in places.values()]
    return Score(
        engine=calibration.engine,
        engines=tuple(dict.fromkeys(_engine(calibration, run) for run in runs)),
        cells=len(places),
        outside=sum(factor > 1 for factor in factors),
        factors=(min(factors), max(factors)),
        largest_rows=max(at.rows for at in places.values()),
        off=tuple(_grouped(calibration, compared, by_index=True)),
        distances=tuple(_grouped(calibration, compared, by_index=False)),
        chosen=tuple(_choices(calibration, found, predictor)),
    )


def _engine(calibration: Calibration, run: Run) -> str:
    return engine_in((cell.engine for cell in run.cells if cell.verified), calibration.engine)


def _unseen(calibration: Calibration, run: Run) -> list[Observation]:
    """What a run tells that the fit has not seen: of a run of the fit, its larger tables."""
    engine = _engine(calibration, run)
    scored = set(SCORED) if engine == calibration.engine else set(SCORED) - set(_OF_OWN_TABLES)
    found = [
        each
        for each in observations(run, engine)
        if each.index in calibration.indexes and each.quantity in scored
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
    met = {(each.quantity, each.index, distance(each.beyond)) for each in made.off}
    kept = [e for e in known if (e.quantity, e.index, distance(e.beyond)) not in met]
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


def distance(beyond: float) -> int:
    """0 within about 3 times the calibrated range, 1 around 10 times, 2 around 100 times."""
    return round(math.log10(beyond))


_Pair = tuple[Observation, Estimate]


def _compared(
    calibration: Calibration, found: Sequence[Observation], predictor: Predictor
) -> Iterable[_Pair]:
    for each in found:
        predicted = predictor.estimate(each.cell, each.quantity, each.index, each.at)
        known = each.quantity in (WHOLE, LOOKUP) or each.equation in calibration.equations
        if predicted is not None and (known or not each.value):
            yield each, predicted


def _grouped(
    calibration: Calibration, compared: Sequence[_Pair], *, by_index: bool
) -> Iterable[Off]:
    known = tuple(calibration.model.known)
    groups: dict[tuple[str, str, int], list[_Pair]] = {}
    for each, predicted in compared:
        far = distance(farthest(calibration, each.at))
        groups.setdefault((each.quantity, each.index if by_index else "", far), []).append(
            (each, predicted)
        )
    ordered = sorted(groups, key=lambda k: (SCORED.index(k[0]), place_in(k[1], known), k[2]))
    for kind in ordered:
        yield _off(calibration, groups[kind], index=kind[1])


def _off(calibration: Calibration, pairs: Sequence[_Pair], *, index: str) -> Off:
    first = pairs[0][0]
    is_time = unit_of(first.quantity) == Unit.SECONDS
    errors = [abs(e.value / p.value - 1) if p.value else float(bool(e.value)) for p, e in pairs]
    within = [e.low <= p.value <= e.high for p, e in pairs]
    ratios = [abs(math.log(p.value / e.value)) for p, e in pairs if p.value > 0 and e.value > 0]
    return Off(
        quantity=first.quantity,
        index=index,
        beyond=max(farthest(calibration, each.at) for each, _ in pairs),
        cells=len(pairs),
        error=median(errors),
        worst=max(errors),
        within=sum(within) / len(within),
        noise=median(each.noise for each, _ in pairs) if is_time else 0.0,
        ratio=max(ratios, default=0.0),
    )


def setting_of(cell: str, index: str) -> str:
    """What cells of all indexes on the same data have in common of their ids."""
    return cell.replace(f"/{index}", "", 1)


def choices_in(
    model: CostModel, places: Mapping[str, Workload]
) -> Iterator[tuple[str, Workload, list[str]]]:
    """What a setting's index is chosen among: a word of AMONG, the workload, two indexes or more.

    Args:
        model: of the engine.
        places: by index the workload of its cell.
    """
    at = common_place(model, places)
    for among in AMONG:
        indexes = [name for name in places if model.known[name].is_global or among == AMONG[1]]
        if len(indexes) > 1:
            yield among, at, indexes


def common_place(model: CostModel, places: Mapping[str, Workload]) -> Workload:
    """The workload of a setting, by its cells' by index: some of it only one index's cell says."""
    at = next(iter(places.values()))
    at = replace(at, local_shards=max(own.local_shards for own in places.values()))
    for index, own in places.items():
        if model.cost(index).fewest_shards is not None:
            at = replace(at, shards=own.shards)
        if model.known[index].owns_layout:
            at = replace(at, buckets=own.buckets)
    return at


def _choices(
    calibration: Calibration, found: Sequence[Observation], predictor: Predictor
) -> Iterable[ScoredChoice]:
    settings: dict[tuple[str, str], dict[str, float]] = {}
    places: dict[tuple[str, str], dict[str, Workload]] = {}
    for each in found:
        if each.quantity in ("tag", "index"):
            # Cells of several runs may have one name.
            place = each.run, setting_of(each.cell, each.index)
            costs = settings.setdefault(place, {})
            costs[each.index] = costs.get(each.index, 0.0) + each.value
            places.setdefault(place, {})[each.index] = each.at
    for (run, setting), costs in settings.items():
        for among, at, indexes in choices_in(calibration.model, places[run, setting]):
            measured = {index: costs[index] for index in indexes}
            made = predictor.recommended(setting, among, at, indexes)
            best = min(measured, key=lambda index: measured[index])
            yield ScoredChoice(
                setting=setting,
                among=among,
                recommended=made,
                best=best,
                regret=measured[made] / measured[best] if made in measured else 0.0,
            )


def document(made: Score) -> dict[str, Any]:
    """The score as `plan --score --json` prints it."""
    return {
        "engine": made.engine,
        "engines": list(made.engines),
        "cells": made.cells,
        "extrapolated": made.outside,
        "beyond": list(made.factors),
        "errors": [_entry(each) for each in made.off],
        "distances": [_entry(each) for each in made.distances],
        "recommendations": [
            {"among": among, **dict(zip(("right", "made", "none"), made.hits(among), strict=True))}
            for among in AMONG
        ],
        "choices": [asdict(each) for each in made.chosen],
    }


def _entry(each: Off) -> dict[str, Any]:
    named = {"within": "within_range"}
    return {named.get(name, name): value for name, value in asdict(each).items()}
