"""Answers as text for a terminal; what is foreign in them was made safe before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType

from keymark.harness.engines import NATIVE, hudi_name, table_version
from keymark.harness.store.units import REQUEST_COUNTS, Unit
from keymark.reports.plan.answer import (
    COPY_ON_WRITE_ONLY,
    Plan,
    counted,
    measuring,
    quotes,
    unpredicted,
    unpriced,
    why_apart,
)
from keymark.reports.plan.calibration import Calibration
from keymark.reports.plan.constants import constants
from keymark.reports.plan.decide import Choice, Crossover
from keymark.reports.plan.latency import measuring_on_store
from keymark.reports.plan.predict import PARTS, Estimate
from keymark.reports.plan.price_list import REQUEST_KINDS, Machine
from keymark.reports.plan.regret import Regrets
from keymark.reports.plan.score import AMONG, Off, Score, distance
from keymark.reports.render.format_values import amount, digits

_UNITS = frozenset(Unit)
_LITTLE = 0.05
_UNIT_WORDS = MappingProxyType({
    "hour": "an hour",
    "GiB hour": "a GiB and hour",
    "GiB month": "a GiB and month",
    "1000 requests": "for 1,000 requests",
})  # fmt: skip
COLUMNS = (
    ("write_s", "write"),
    ("added_s", "index's part"),
    ("tag_s", "tagging"),
    ("lookup_s", "lookup"),
    ("shuffle_bytes", "shuffle"),
    ("write_shuffle_bytes", "whole shuffle"),
    ("index_bytes", "storage"),
    ("memory_bytes", "task memory"),
    ("bootstrap_s", "to build"),
    ("point_query_s", "one record"),
    ("point_query_spark_s", "one record by Spark"),
    *((name, title.removesuffix(" requests")) for name, title in REQUEST_COUNTS.items()),
    ("cost_month", "cost a month"),
)


def about(engine: str) -> str:
    """Which engine the predictions are about: the first line of every answer."""
    hudi = hudi_name(engine)
    if hudi is None:
        return f"Predictions for Keymark's own engine ({NATIVE}), not for Apache Hudi's."
    return f"Predictions for Apache Hudi {hudi.version}, tables of version {hudi.table_version}."


def beside(made: Plan, also: Plan) -> list[str]:
    """What another engine's predictions say, where they differ in what they recommend."""
    first, second = made.choice.recommended, also.choice.recommended
    if first == second:
        return []
    name = also.calibration.engine
    other = f"of {name} the choice would be {second or 'nothing'} ({also.choice.why})"
    return [f"{other}; --engine {name} shows it"]


def worded(found: Estimate, unit: str) -> str:
    """A value with its range: `1.2 s (0.9 to 1.5 s)`; whatever is no base unit is money's."""
    value, low, high = (
        amount(each, unit) if unit in _UNITS else f"{digits(each)} {unit}"
        for each in (found.value, found.low, found.high)
    )
    return value if found.low == found.high else f"{value} ({low} to {high})"


def table(made: Plan) -> tuple[list[str], list[list[str]]]:
    """Heads, and a row for each index: those that were compared first."""
    heads = ["index", *(head for key, head in COLUMNS if made.of(key))]
    found = [of for key, _ in COLUMNS if (of := made.of(key))]
    indexes = dict.fromkeys([*made.candidates, *found[0]])
    rows = []
    for index in indexes:
        best = index == made.choice.recommended
        rows.append([
            f"{index}{' *' if best else ''}",
            *(worded(each.estimate, each.unit) for each in (of[index] for of in found)),
        ])  # fmt: skip
    return heads, rows


def lines(made: Plan) -> list[str]:
    """The answer in sentences, without the table."""
    choice = made.choice
    sentences = tie_lines(made)
    sentences.append(f"recommended: {choice.recommended or 'nothing'} ({choice.why})")
    sentences += [f"  {name}={value}" for name, value in choice.options.items()]
    sentences += over_ranges(made.regrets) if made.regrets else []
    sentences += remarks(made)
    sentences += [crossing(each) for each in made.crossovers]
    return sentences + basis(made)


def basis(made: Plan) -> list[str]:
    """What the predictions are for and rest on, and what is left out of them."""
    at = made.wish.at
    situation = (
        f"for {at.rows:,.0f} rows of {at.row_bytes:,.0f} bytes in {at.files:,.0f} files of "
        f"{at.partitions:,} partitions; batches of {at.batch:,.0f} keys, {at.new_share:.0%} new; "
        f"{made.wish.executors} executors, {at.cores} cores"
    )
    sentences = [situation]
    if made.wish.merge_on_read:
        sentences.append(COPY_ON_WRITE_ONLY)
    sentences.append(f"fitted on {made.calibration.where} (calibration {made.calibration.name})")
    if made.outside:
        far = [f"{name} {factor:,.1f} times" for name, factor in made.outside.items()]
        sentences.append(
            f"EXTRAPOLATED, ranges are widened: beyond the calibration by {', '.join(far)}"
        )
        sentences.append(widening(made.calibration))
    return [*sentences, *costs(made), *not_compared(made)]


def not_compared(made: Plan) -> list[str]:
    """Which indexes are predicted and not compared, a line for each reason."""
    apart: dict[str, list[str]] = {}
    for index in made.of("added_s"):
        if why := why_apart(made.calibration.model.known[index], made.wish):
            apart.setdefault(why, []).append(index)
    return [f"not compared: {', '.join(names)}; {why}" for why, names in apart.items()]


def widening(calibration: Calibration) -> str:
    """What ranges beyond a calibration are widened by."""
    distances = {distance(each.beyond) for each in calibration.errors if each.quantity in PARTS}
    if not distances:
        return (
            "widened by a rule of thumb: no score has told how far off predictions are out there "
            "(--score RUN --save FILE keeps what a run shows)"
        )
    at = " and ".join(f"{10**power:,}" for power in sorted(distances))
    return f"widened by the errors that scores have seen about {at} times beyond the calibration"


def costs(made: Plan) -> list[str]:
    """What a month is reckoned with, each price that ships with its date and source."""
    bill = made.wish.bill
    if bill is None:
        return []
    sentences = [f"cost a month: {bill.prices.writes_per_day:g} writes a day"]
    if bill.machine is not None:
        sentences += _machine(made, bill.machine)
    listed: dict[str, list[str]] = {}
    for quote in quotes(made):
        of = bill.machine.name if bill.machine and quote.of == "executor" else quote.of
        listed_amount = f"{quote.amount:.9f}".rstrip("0").rstrip(".")
        text = (
            f"{listed_amount} {quote.currency} {_UNIT_WORDS[quote.unit]} in {quote.region}, "
            f"price list of {quote.date.isoformat()}: {quote.page}"
        )
        listed.setdefault(text, []).append(of.upper() if of in REQUEST_KINDS else of)
    sentences += [f"  {', '.join(names)}: {text}" for text, names in listed.items()]
    if bill.without_storage:
        sentences.append(
            "storage is not in the cost: no price list with it ships for this cloud; "
            "storage_gb_month in a file for --prices adds it"
        )
    if not any(counted(made, kind) for kind in REQUEST_KINDS):
        sentences.append(
            "requests are not in the cost: this calibration has none; one of tables on a store has "
            f"({measuring_on_store(made.calibration.engine)})"
        )
    elif kinds := unpriced(made):
        sentences.append(
            f"{', '.join(kinds)} requests are not in the cost: no price of them is given"
        )
    return sentences


def _machine(made: Plan, machine: Machine) -> list[str]:
    """Its size, and which indexes need more memory than it has."""
    memory = amount(machine.memory_bytes, Unit.BYTES.value)
    sentences = [f"executor: {machine.name}, {machine.cores} cores, {memory} of memory"]
    for index, each in made.of("memory_bytes").items():
        needed = each.estimate.value * machine.cores
        if needed > machine.memory_bytes:
            sentences.append(
                f"{index} needs more memory than {machine.name} has: "
                f"{amount(needed, Unit.BYTES.value)} for {machine.cores} tasks at a time"
            )
    return sentences


def over_ranges(made: Regrets) -> list[str]:
    """How each index does over the inputs that are ranges, and what changes the best one."""
    named = ", ".join(
        f"{name} {digits(span.low)} to {digits(span.high)}" for name, span in made.ranges.items()
    )
    sentences = [f"over {named} (the table below is of their middle):"]
    for each in made.order:
        place = ", ".join(f"{name} {digits(value)}" for name, value in each.at.items())
        least = (
            f" (at {place}, where {each.better} adds least)" if each.better != each.index else ""
        )
        sentences.append(f"  {each.index}: at most {each.worst:.0%} of a write more{least}")
    if len(made.good) > 1:
        sentences.append(f"  good choices all over the ranges: {', '.join(made.good)}")
    for change in made.changes:
        end = f", and {change.high} at the high end" if change.above != change.high else ""
        sentences.append(
            f"  {change.along} changes it at {digits(change.at)}: below, {change.low} adds least "
            f"(at the low end {change.high} costs {change.low_regret:.0%} of a write more); above, "
            f"{change.above}{end} (at the high end {change.low} costs {change.high_regret:.0%} "
            "more)"
        )
    return sentences


def tied(choice: Choice) -> str:
    """The indexes that may be as good as the best one; empty if it is alone."""
    names = choice.tied
    return f"tie of {', '.join(names[:-1])} and {names[-1]}" if names else ""


def tie_lines(made: Plan) -> list[str]:
    """Which indexes are tied and how much the choice among them matters; nothing without a tie."""
    tie = tied(made.choice)
    return [f"{tie}: their ranges overlap{difference(made)}"] if tie else []


def difference(made: Plan) -> str:
    """How much the choice among tied indexes matters; empty where no write is predicted."""
    share = made.tie_share
    return "" if share is None else f"; as predicted they differ by {share:.0%} of a write"


def remarks(made: Plan) -> list[str]:
    """How little of a write the index is, if so; its shards; what the calibration cannot tell."""
    sentences = [missing.line] if (missing := made.unknown_latency) else []
    index_share = made.index_share
    if index_share is not None and index_share <= _LITTLE:
        share = f"{index_share:.0%}".replace("0%", "less than 1%")
        sentences.append(f"with {made.choice.order[0]} the index is {share} of this write")
    if made.shards is not None:
        groups = made.shards
        sentences.append(f"{groups.index} index: {groups.count:,} file groups ({groups.why})")
    sentences += [
        f"{each.index} rests on what {each.words} costs, which this calibration cannot tell: up to "
        f"{amount(each.seconds, Unit.SECONDS.value)} more; {each.run} would tell"
        for each in made.choice.untold
    ]
    if left := unpredicted(made):
        sentences.append(
            f"not predicted: {', '.join(left)}; this calibration has no cells of "
            f"{'it' if len(left) == 1 else 'them'} ({measuring(made.calibration, left)})"
        )
    return sentences


def crossing(each: Crossover) -> str:
    """One crossover in words."""
    what = {"rows": "rows", "batch": "keys a batch"}[each.along]
    near, low, high = (f"{value:,.0f}" for value in (each.at, each.low, each.high))
    span = "" if low == high else f" ({low} to {high})"
    return f"crossover near {near} {what}{span}: below {each.below}, above {each.above}"


def constants_table(calibration: Calibration) -> tuple[list[str], list[list[str]]]:
    """Heads, and a row for each constant."""
    heads = ["formula", "amount", "is", "costs", "cells", "off by"]
    rows = [
        [
            each.equation,
            each.amount,
            each.words,
            worded(each.estimate, each.unit),
            str(each.cells),
            f"{math.expm1(each.spread):.1%}",
        ]
        for each in constants(calibration)
    ]
    return heads, rows


def score_table(found: Sequence[Off]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of errors, by index or of all indexes."""
    heads = ["quantity", "index", "beyond", "cells", "median error", "worst", "in range", "noise"]
    rows = [
        [
            each.quantity,
            each.index or "all",
            f"{each.beyond:.3g}x" if each.beyond > 1 else "",
            str(each.cells),
            f"{each.error:.1%}",
            f"{each.worst:.0%}",
            f"{each.within:.0%}",
            f"{each.noise:.0%}",
        ]
        for each in found
    ]
    return heads, rows


def score_lines(made: Score) -> list[str]:
    """What a score says in sentences."""
    low, high = made.factors
    cells = f"{made.cells} cells, {made.outside} of them beyond the calibration"
    sentences = [f"{cells} ({low:.1f} to {high:.1f} times), of {', '.join(made.engines)}"]
    for among in AMONG:
        right, count, none = made.hits(among)
        if count + none:
            share = f" ({right / count:.0%})" if count else ""
            sentences.append(
                f"recommendation among {among} indexes: right in {right} of {count}{share}, "
                f"none in {none}"
            )
    return sentences + [
        f"cells of {each} stand in for {made.engine}: tables of version {table_version(each)} "
        f"instead of {table_version(made.engine)}; from 1.1 on Hudi streams metadata writes, in "
        "tables of version 8 and later only"
        for each in made.engines
        if each != made.engine
    ]
