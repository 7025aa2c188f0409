"""Everything that `plan` answers, before it is text, JSON or a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from keymark.harness.engines import engine_indexes
from keymark.harness.store.units import REQUEST_COUNTS
from keymark.indexes.spec import IndexSpec
from keymark.indexes.workload import Workload
from keymark.reports.errors import ReportError
from keymark.reports.plan.calibration import Calibration, calibrating
from keymark.reports.plan.decide import Choice, Crossover, Shards, choose, crossovers, laid_out
from keymark.reports.plan.formulas import POINT_QUERIES
from keymark.reports.plan.inputs import Inputs
from keymark.reports.plan.latency import UnknownLatency, unknown_latency, without_latency
from keymark.reports.plan.predict import (
    ADDED,
    PARTS,
    Estimate,
    Prediction,
    beyond,
    predictions,
    widened_by,
)
from keymark.reports.plan.price import Bill, Prices
from keymark.reports.plan.price_list import REQUEST_KINDS, Quote, RequestKind
from keymark.reports.plan.regret import Regrets, least_regretted, regrets

_SITUATION = (
    *("rows", "batch", "cores", "partitions", "files", "shards"),
    *("new_share", "key_bytes", "row_bytes", "ordered"),
)
_COPY_ON_WRITE = ("write_s", *(f"{kind}_s" for kind in POINT_QUERIES), *REQUEST_COUNTS)
"""Metrics that are not true of a merge-on-read table."""
COPY_ON_WRITE_ONLY = (
    "left out: the rest of a write, its requests, and reading one record; the table is "
    "merge-on-read, and these formulas are of copy-on-write, which rewrites every file that changes"
)
"""Why, in a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What is asked for.

    Attributes:
        at: the workload; shards 0: to be chosen.
        executors: that the cores belong to.
        keys_stay: a key never changes its partition, so that partition-local indexes will do.
        layout_stays: the table is there and not in buckets: an index that lays the rows out would
            need it loaded anew.
        indexes: to choose from instead of all that suit.
        merge_on_read: what the table is; only what an index adds to a write is predicted of it.
        store: scheme of the store where the table is; empty: it is on a disk.
        bill: what a month is reckoned with.
    """

    at: Workload
    executors: int = 1
    keys_stay: bool = False
    layout_stays: bool = False
    indexes: tuple[str, ...] = ()
    merge_on_read: bool = False
    store: str = ""
    bill: Bill | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The answer.

    Attributes:
        wish: what was asked, its workload complete.
        calibration: the constants.
        choice: what is recommended.
        candidates: the indexes that were compared.
        predictions: of all calibrated indexes; those that are true of the table.
        shards: the file groups of an index in shards, whichever index is recommended; None
            where none was calibrated.
        crossovers: along rows and batch; none where they hang on a store's latency.
        outside: how many times the workload is beyond what was calibrated, by what.
        regrets: over the inputs that are ranges; None where all are numbers.
    """

    wish: PlanRequest
    calibration: Calibration
    choice: Choice
    candidates: tuple[str, ...]
    predictions: tuple[Prediction, ...]
    shards: Shards | None
    crossovers: tuple[Crossover, ...]
    outside: dict[str, float]
    regrets: Regrets | None = None

    @property
    def unknown_latency(self) -> UnknownLatency | None:
        """What is missing from the predictions of a table on a store; None where nothing is."""
        return unknown_latency(self.calibration, self.wish.store)

    @property
    def knows_writes(self) -> bool:
        """Whether all of a write is predicted, so that its shares are known."""
        return not self.wish.merge_on_read and self.unknown_latency is None

    @property
    def index_share(self) -> float | None:
        """The share of a write that the cheapest index adds to it; None if writes are unknown."""
        if not self.knows_writes:
            return None
        best = self.choice.order[0]
        added, whole = (self.of(metric)[best].estimate.value for metric in ("added_s", "write_s"))
        return added / whole if whole else 0.0

    @property
    def tie_share(self) -> float | None:
        """The share of a write by which tied indexes differ; None without a tie, or a write."""
        if not self.choice.tied or not self.knows_writes:
            return None
        writes = self.of("write_s")
        tied = [writes[name].estimate.value for name in self.choice.tied]
        return 1 - min(tied) / max(tied)

    def of(self, metric: str) -> dict[str, Prediction]:
        """The predictions of a metric, by index."""
        return {each.index: each for each in self.predictions if each.metric == metric}


def plan(calibration: Calibration, wish: PlanRequest, inputs: Inputs | None = None) -> Plan:
    """Predict, compare, recommend.

    Args:
        calibration: the constants.
        wish: what is asked for; of inputs that are ranges, their middle.
        inputs: with their ranges.

    Raises:
        ReportError: an index is asked for that the calibration does not know, or something of a
            merge-on-read table that needs whole writes.
    """
    if wish.merge_on_read:
        _refuse_whole_writes(wish, inputs)
    candidates = _candidates(calibration, wish)
    at, shards = laid_out(calibration, wish.at)
    found = predictions(calibration, at)
    if wish.merge_on_read:
        found = [each for each in found if each.metric not in _COPY_ON_WRITE]
    over = None
    if inputs is not None:
        over = regrets(calibration, inputs.spans, inputs.workload, candidates)
    if wish.bill is not None:
        found += _money(found, wish.bill.prices, wish.executors)
    choice = least_regretted(choose(calibration, at, candidates), over, calibration.model, at)
    missing = unknown_latency(calibration, wish.store)
    if missing is not None:
        ends = [wish.at] if inputs is None else inputs.ends()
        choice = without_latency(choice, calibration, missing, ends)
        over = over if choice.recommended else None
    return Plan(
        wish=replace(wish, at=at),
        calibration=calibration,
        choice=choice,
        candidates=candidates,
        predictions=tuple(found),
        shards=shards,
        crossovers=() if missing else tuple(crossovers(calibration, at, candidates)),
        outside=beyond(calibration.ranges, at),
        regrets=over,
    )


def _refuse_whole_writes(wish: PlanRequest, inputs: Inputs | None) -> None:
    """Refuse a cost, and ranges, whose regret is a share of a write: none is predicted whole."""
    if wish.bill is not None:
        raise ReportError("--merge-on-read has no cost: whole writes are not predicted")
    ranges = [name for name, span in inputs.spans.items() if not span.is_single] if inputs else []
    if ranges:
        raise ReportError(f"--merge-on-read takes no range: give one number for {ranges[0]}")


def _candidates(calibration: Calibration, wish: PlanRequest) -> tuple[str, ...]:
    known = calibration.model.known
    found = [index for index in known if index in calibration.indexes]
    for index in wish.indexes:
        if index not in found:
            asked = [index] if index in _unmeasured(calibration) else []
            raise ReportError(
                f"the calibration {calibration.name} has no index {index!r} "
                f"(it has {', '.join(found)})"
                + (f"; `{measuring(calibration, asked)}` measures it" if asked else "")
            )
    if wish.indexes:
        return tuple(dict.fromkeys(wish.indexes))
    chosen = tuple(index for index in found if not why_apart(known[index], wish))
    if not chosen:
        raise ReportError(
            f"the calibration {calibration.name} has no global index; pass --keys-stay"
        )
    return chosen


def why_apart(spec: IndexSpec, wish: PlanRequest) -> str:
    """Why an index is not compared with the others; empty where it is."""
    if wish.indexes:
        return "" if spec.name in wish.indexes else "not asked for"
    if not (wish.keys_stay or spec.is_global):
        return "keys may change their partition (else: --keys-stay)"
    if wish.layout_stays and spec.owns_layout:
        return "the table would have to be loaded anew"
    return ""


def _unmeasured(calibration: Calibration) -> list[str]:
    """The indexes of the engine that have formulas and, in a calibration, no constants."""
    has = engine_indexes(calibration.engine)
    known = set(calibration.indexes)
    return [index for index in calibration.model.known if index in has and index not in known]


def unpredicted(made: Plan) -> list[str]:
    """The indexes that would suit and are left out, since the calibration has no cells of them."""
    if made.wish.indexes:
        return []
    known, wish = made.calibration.model.known, made.wish
    return [index for index in _unmeasured(made.calibration) if not why_apart(known[index], wish)]


def measuring(calibration: Calibration, indexes: Sequence[str]) -> str:
    """The command that measures the constants of indexes."""
    return " ".join([calibrating(calibration.engine), *(f"--index {index}" for index in indexes)])


def why_unpredicted(calibration: Calibration, index: str) -> str:
    """Why nothing is predicted of an index, in words; empty where it is predicted."""
    if index in calibration.indexes:
        return ""
    engine = calibration.engine
    if index in _unmeasured(calibration):
        command = measuring(calibration, [index])
        return f"this calibration of {engine} has no cells of it; `{command}` measures them"
    if index not in engine_indexes(engine):
        return f"{engine} has no such index"
    return "it has no formulas (docs/cost_model.md says why)"


def _money(found: Sequence[Prediction], prices: Prices, executors: int) -> list[Prediction]:
    by_index: dict[str, dict[str, Estimate]] = {}
    for each in found:
        by_index.setdefault(each.index, {})[each.metric] = each.estimate
    return [
        replace(
            each,
            metric="cost_month",
            unit=prices.currency,
            estimate=prices.month(by_index[each.index], index=each.index, executors=executors),
        )
        for each in found
        if each.metric == "write_s"
    ]


def unpriced(made: Plan) -> list[str]:
    """The kinds of requests that a write makes and that have no price: GET, PUT, ..."""
    if made.wish.bill is None:
        return []
    priced = made.wish.bill.prices.requests_1000
    return [kind.upper() for kind in REQUEST_KINDS if kind not in priced and counted(made, kind)]


def counted(made: Plan, kind: RequestKind) -> bool:
    """Whether the calibration has counted requests of a kind."""
    return bool(made.of(f"{kind}_requests"))


def quotes(made: Plan) -> list[Quote]:
    """The prices that ship and are in the cost: of requests, those that were counted."""
    bill = made.wish.bill
    counts = {kind for kind in REQUEST_KINDS if counted(made, kind)}
    return [
        quote
        for quote in (bill.quotes if bill else ())
        if quote.of not in REQUEST_KINDS or quote.of in counts
    ]


def _cost(made: Plan, bill: Bill) -> dict[str, Any]:
    machine, prices = bill.machine, bill.prices
    return {
        "currency": prices.currency,
        "writes_per_day": prices.writes_per_day,
        "machine": machine
        and {
            "name": machine.name,
            "cloud": machine.cloud,
            "cores": machine.cores,
            "memory_bytes": machine.memory_bytes,
            "sizes_page": machine.sizes_page,
        },
        "prices": [asdict(quote) | {"date": quote.date.isoformat()} for quote in quotes(made)],
        "storage": not bill.without_storage,
        "requests": any(counted(made, kind) for kind in REQUEST_KINDS),
        "requests_without_price": unpriced(made),
    }


def _left_out() -> dict[str, Any]:
    """What is not predicted of a merge-on-read table."""
    return {
        "parts": [part for part in PARTS if part not in ADDED],
        "metrics": list(_COPY_ON_WRITE),
        "why": COPY_ON_WRITE_ONLY,
    }


def document(made: Plan, also: Plan | None = None) -> dict[str, Any]:
    """The answer as `plan --json` prints it; `also` is that of another engine beside it."""
    at = made.wish.at
    return {
        "engine": made.calibration.engine,
        "recommended": made.choice.recommended,
        "options": made.choice.options,
        "why": made.choice.why,
        "order": list(made.choice.order),
        "ties": list(made.choice.ties),
        "tie_share": made.tie_share,
        "untold": [asdict(each) for each in made.choice.untold],
        "candidates": list(made.candidates),
        "not_predicted": unpredicted(made),
        "index_share": made.index_share,
        **({"left_out": _left_out()} if made.wish.merge_on_read else {}),
        "shards": made.shards and asdict(made.shards),
        **({"over_ranges": asdict(made.regrets)} if made.regrets else {}),
        "predictions": [
            {
                "index": each.index,
                "metric": each.metric,
                "unit": each.unit,
                **asdict(each.estimate),
                "extrapolated": each.extrapolated,
            }
            for each in made.predictions
        ],
        "crossovers": [asdict(each) for each in made.crossovers],
        **({"cost": _cost(made, made.wish.bill)} if made.wish.bill else {}),
        "situation": {
            "executors": made.wish.executors,
            **{name: getattr(at, name) for name in _SITUATION},
        },
        **({"unknown_latency": asdict(missing)} if (missing := made.unknown_latency) else {}),
        "calibration": {
            "name": made.calibration.name,
            "machine": made.calibration.where,
            "tables": made.calibration.tables or None,
            "runs": list(made.calibration.runs),
            "extrapolated": made.outside,
            "widened_by": widened_by(made.calibration, at) or None,
        },
        **({"also": document(also)} if also else {}),
    }
