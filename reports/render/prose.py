"""Sentences about results. Every number and every name in them comes out of the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from keymark.reports.model.projection import CellView
from keymark.reports.model.tables import Column, Standing, SummaryTable
from keymark.reports.render.format_values import amount
from keymark.reports.render.grids import Grid, ratio_words, spread
from keymark.reports.render.text import NOTHING, listed
from keymark.reports.stats.statistics import Summary

LONGEST_LIST = 6
"""Cells that one sentence names."""

BY_ROUNDS = " by rounds of one trial"
"""Added to what is said about a run of one repetition, whose rounds are its values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One finding.

    Attributes:
        topic: the quantity it is about.
        words: what is shown, to be read after the topic and a colon.
    """

    topic: str
    words: str


def answers(whole: SummaryTable) -> list[Answer]:
    """One finding per measured column: who leads, by how much, or that nothing is shown.

    Columns of zeros have no place in tables, so their sentence comes from here.
    """
    return [
        Answer(
            topic=f"{column.measure.what}{BY_ROUNDS * column.by_rounds}",
            words=_words(column, whole.cells),
        )
        for column in whole.columns
        if column.standing not in (Standing.EMPTY, Standing.ALONE)
    ]


def chart_label(column: Column, cells: Sequence[CellView]) -> str:
    """Tell a chart to those who do not see it."""
    parts = [
        f"{cell.label} {_measured(summary, column.unit)}"
        for cell, summary in zip(cells, column.summaries, strict=True)
        if summary is not None
    ]
    return f"Bar chart of {column.measure.what}, medians: {'; '.join(parts)}."


def stack_label(phases: Grid) -> str:
    """Tell the chart of phases to those who do not see it."""
    parts = []
    for row in phases.rows:
        pairs = zip(phases.heads, row.entries, strict=True)
        words = [f"{head} {entry.value}" for head, entry in pairs if entry.value != NOTHING]
        parts.append(f"{row.label}: {', '.join(words)}")
    return f"Stacked bar chart of the phases of an upsert batch, medians. {'; '.join(parts)}."


def _words(column: Column, cells: tuple[CellView, ...]) -> str:
    if column.standing is Standing.ZEROS:
        return f"{amount(0, column.unit)} for all: there is nothing to compare."
    if column.standing is Standing.SOME_ZEROS:
        return f"{by_zero(column, [cell.label for cell in cells])}."
    if column.standing is Standing.TOO_FEW:
        return f"too few repetitions to name a best; {_range(column)}{_deciding(column)}."
    if column.standing is Standing.NO_DIFFERENCE:
        return f"no difference shown; {_range(column)}{_deciding(column)}."
    leaders = [
        f"{cells[row].label} ({_measured(column.summaries[row], column.unit)})"
        for row in sorted(column.leaders)
    ]
    if column.standing is Standing.BEST:
        opening = f"{leaders[0]} is best"
    else:
        opening = f"{listed(_first(leaders))} are joint best, no difference shown between them"
    return f"{opening}; {_behind(column, cells)}."


def by_zero(column: Column, labels: Sequence[str]) -> str:
    """Where there is something, least first, and where nothing: ``4.00 KiB with record, 0 B``..."""
    medians = [(each.median, labels[row]) for row, each in enumerate(column.summaries) if each]
    some = [
        f"{amount(value, column.unit)} with {label}" for value, label in sorted(medians) if value
    ]
    none = [label for value, label in medians if not value]
    return f"{listed(_first(some))}; {amount(0, column.unit)} with {listed(_first(none))}"


def _deciding(column: Column) -> str:
    if column.deciding is None:
        return ""
    least = "at least" if column.standing is Standing.TOO_FEW else "about"
    return f"; {least} {column.deciding} repetitions would decide"


def _behind(column: Column, cells: tuple[CellView, ...]) -> str:
    """Name the cells outside the lead, nearest first, by ratio or else by value."""
    rows = [
        (summary.median, cells[row].label, amount(summary.median, column.unit), column.ratios[row])
        for row, summary in enumerate(column.summaries)
        if summary is not None and row not in column.leaders
    ]
    rows.sort(key=lambda row: row[:2])
    ratios = [f"{label} {ratio_words(ratio)}" for _, label, _, ratio in rows if ratio is not None]
    if len(ratios) == len(rows):
        end = "highest" if column.measure.higher else "lowest"
        return f"as a multiple of the {end}: {_shortened(ratios)}"
    return f"the others: {_shortened([f'{label} {value}' for _, label, value, _ in rows])}"


def _first(words: list[str]) -> list[str]:
    """The first few of many."""
    kept = LONGEST_LIST - 2
    return words if len(words) <= LONGEST_LIST else [*words[:kept], f"{len(words) - kept} more"]


def _shortened(words: list[str]) -> str:
    """Keep a sentence readable where many cells are compared; the table has them all."""
    if len(words) <= LONGEST_LIST:
        return listed(words)
    left_out = len(words) - LONGEST_LIST + 1
    return f"{', '.join(words[: LONGEST_LIST - 2])}, {left_out} more, and at the end {words[-1]}"


def _measured(summary: Summary | None, unit: str) -> str:
    if summary is None:
        return NOTHING
    interval = spread(summary, unit)
    return amount(summary.median, unit) + (f", {interval}" if interval else "")


def _range(column: Column) -> str:
    medians = [summary.median for summary in column.summaries if summary is not None]
    low, high = amount(min(medians), column.unit), amount(max(medians), column.unit)
    return f"all are at {low}" if low == high else f"medians are {low} to {high}"
