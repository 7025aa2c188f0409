"""Everything that `advise` answers, before it is text or JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from keymark.harness.store.units import Unit
from keymark.reports.advise.findings import (
    SHARD_KEYS,
    Finding,
    Urgency,
    findings,
)
from keymark.reports.advise.history import History
from keymark.reports.advise.log_split import LogSplit
from keymark.reports.advise.situation import Asked, Situation, situation
from keymark.reports.plan import answer
from keymark.reports.plan.answer import Plan, PlanRequest
from keymark.reports.plan.calibration import Calibration
from keymark.reports.plan.latency import store_of
from keymark.reports.plan.predict import ADDED, PARTS, Estimate, quantity
from keymark.reports.plan.render import worded
from keymark.table.survey.model import TableSurvey

_REST = "around"
_WORTH = 0.1
"""Share of a write that another index must save to be advised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartCheck:
    """A part of a write by an event log, and by the plan.

    A log may hold more than one write, and has no time between stages: shares are compared.

    Attributes:
        part: `tag`, `index`, `write`, or `around` for all else.
        seconds: of stages in the log.
        share: of all of them.
        planned: of one write, by the plan.
        planned_share: the part's share of it.
    """

    part: str
    seconds: float
    share: float
    planned: Estimate
    planned_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The answer.

    Attributes:
        survey: the table.
        situation: it in the planner's words.
        plan: what each index would cost; None where no batch is known.
        parts: seconds of each part of a write with the index in use, by the plan; of a
            merge-on-read table only of those that the index adds.
        unpredicted: why there are no parts of that index; empty where there are, or no plan.
        findings: what is urgent first.
        outlook: what changes as the table grows, a line each.
        log: the split of the user's own event log; None where none was given.
        check: the plan beside it, part by part; none without all parts.
    """

    survey: TableSurvey
    situation: Situation
    plan: Plan | None
    parts: dict[str, Estimate]
    unpredicted: str
    findings: tuple[Finding, ...]
    outlook: tuple[str, ...]
    log: LogSplit | None = None
    check: tuple[PartCheck, ...] = ()


def advise(
    survey: TableSurvey, asked: Asked, calibration: Calibration, log: LogSplit | None = None
) -> Advice:
    """Advise on a surveyed table.

    Raises:
        ReportError: the user names an index that does not exist.
    """
    found = situation(survey, asked)
    plan = None
    if found.at is not None:
        wish = PlanRequest(
            at=found.at,
            executors=asked.executors,
            keys_stay=found.keys_stay,
            layout_stays=not survey.files.buckets,
            merge_on_read=survey.merge_on_read,
            store=store_of(survey.path),
        )
        plan = answer.plan(calibration, wish)
    better = plan and _better_index(plan, found)
    advised = (*((better,) if better else ()), *findings(survey, found))
    parts = _parts(plan, found)
    return Advice(
        survey=survey,
        situation=found,
        plan=plan,
        parts=parts,
        unpredicted=_unpredicted(plan, found),
        findings=advised,
        outlook=tuple(_outlook(survey, found.history, plan)),
        log=log,
        check=_check(log, parts),
    )


def _better_index(plan: Plan, found: Situation) -> Finding | None:
    """Another index, where it is sure to save a good part of each write.

    The share of a write is unknown where a part of writes is not known.
    """
    used, best = found.index, plan.choice.recommended
    if used is None or best in (None, used.name) or not plan.knows_writes:
        return None
    added, whole = plan.of("added_s"), plan.of("write_s")
    if used.name not in added:
        return None
    mine, other = added[used.name].estimate, added[best].estimate
    saved = mine.value - other.value
    share = saved / whole[used.name].estimate.value
    if mine.overlaps(other) or share < _WORTH:
        return None
    return Finding(
        kind="other_index",
        urgency=Urgency.NOW,
        what=f"{used.name} adds {_seconds(mine)} to a write, {best} would add {_seconds(other)}",
        why=f"that is {share:.0%} of a write, predicted for the engine {plan.calibration.engine}",
        do=", ".join(f"{name}={value}" for name, value in plan.choice.options.items()),
    )


def _seconds(found: Estimate) -> str:
    return worded(found, Unit.SECONDS.value)


def _parts(plan: Plan | None, found: Situation) -> dict[str, Estimate]:
    if plan is None or found.index is None or found.index.name not in plan.of("tag_s"):
        return {}
    name, at = found.index.name, plan.wish.at
    parts = ADDED if plan.wish.merge_on_read else PARTS
    return {part: quantity(plan.calibration, part, name, at) for part in parts}


def _unpredicted(plan: Plan | None, found: Situation) -> str:
    if plan is None or found.index is None:
        return ""
    return answer.why_unpredicted(plan.calibration, found.index.name)


def _check(log: LogSplit | None, parts: Mapping[str, Estimate]) -> tuple[PartCheck, ...]:
    """Each part of the plan beside what an event log has of it: shares need all parts."""
    if log is None or parts.keys() != set(PARTS):
        return ()
    seconds = {part: log.seconds.get(part, 0.0) for part in parts}
    seconds[_REST] = log.whole - sum(seconds.values())
    planned = sum(each.value for each in parts.values()) or 1.0
    return tuple(
        PartCheck(
            part=part,
            seconds=seconds[part],
            share=seconds[part] / (log.whole or 1.0),
            planned=estimate,
            planned_share=estimate.value / planned,
        )
        for part, estimate in parts.items()
    )


def _outlook(survey: TableSurvey, history: History | None, plan: Plan | None) -> list[str]:
    """When the answer changes as the table grows."""
    grows = history.rows_a_day if history else None
    if grows is None or grows <= 0:
        return []
    outlook = [f"grows by {grows:,.0f} rows a day, {grows / max(survey.rows, 1):.2%} of it"]
    index = survey.record_index
    if index is not None and not index.partitioned:
        room = len(index.shards) * SHARD_KEYS - survey.rows
        if room > 0:
            outlook.append(
                f"the {len(index.shards):,} file groups of the record index have room for "
                f"{room:,.0f} keys more (at {SHARD_KEYS:,} each): {room / grows:,.0f} days"
            )
    for each in plan.crossovers if plan else ():
        if each.along == "rows" and each.at > survey.rows:
            first, last = (max(rows - survey.rows, 0) / grows for rows in (each.low, each.high))
            outlook.append(
                f"from about {each.at:,.0f} rows on {each.above} adds less to a write than "
                f"{each.below}: in {(each.at - survey.rows) / grows:,.0f} days "
                f"({first:,.0f} to {last:,.0f})"
            )
    return outlook


def document(made: Advice) -> dict[str, Any]:
    """The answer as `advise --json` prints it."""
    survey = asdict(made.survey)
    survey.pop("properties")
    writes = survey.pop("writes")
    index = survey["record_index"]
    if index is not None:
        sizes = sorted(s["base_bytes"] + s["log_bytes"] for s in index["shards"])
        index["shards"] = len(sizes)
        index["largest_bytes"], index["median_bytes"] = sizes[-1], median(sizes)
    found = made.situation
    return {
        "table": survey,
        "writes": writes,
        "index": {"name": found.index and found.index.name, "known_by": found.index_known_by},
        "history": found.history and asdict(found.history),
        "findings": [asdict(each) for each in made.findings],
        "not_predicted": made.unpredicted or None,
        "parts": {part: asdict(each) for part, each in made.parts.items()},
        "outlook": list(made.outlook),
        "event_log": made.log
        and {**asdict(made.log), "check": [asdict(each) for each in made.check]},
        "plan": made.plan and answer.document(made.plan),
    }
