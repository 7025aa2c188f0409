"""Sentences about results. Every number and every name in them comes out of the tables."""

from __future__ import annotations

from collections.abc import Sequence

from harness.units import human
from reports.grids import Grid, ratio_words, spread
from reports.projection import CellView
from reports.stats import Summary
from reports.tables import Column, Standing, Table
from reports.text import NOTHING, listed


def answers(whole: Table) -> list[str]:
    """One sentence per measured column: who leads, by how much, or that nothing is shown."""
    return [
        _answer(column, whole.cells)
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


def _answer(column: Column, cells: tuple[CellView, ...]) -> str:
    what = column.measure.what[0].upper() + column.measure.what[1:]
    if column.standing is Standing.NO_DIFFERENCE:
        return f"{what}: no difference shown; {_range(column)}."
    leaders = sorted(column.leaders)
    lead = [
        f"{cells[row].label} ({_measured(column.summaries[row], column.unit)})" for row in leaders
    ]
    if column.standing is Standing.BEST:
        opening = f"{what}: {lead[0]} is best"
    else:
        opening = f"{what}: {listed(lead)} lead, no difference shown between them"
    behind = sorted(
        (ratio.median, cells[row].label, ratio_words(ratio))
        for row, ratio in enumerate(column.ratios)
        if ratio is not None and row not in column.leaders
    )
    if not behind:
        return f"{opening}."
    return f"{opening}; {listed([f'{label} needs {words}' for _, label, words in behind])} of it."


def _measured(summary: Summary | None, unit: str) -> str:
    if summary is None:
        return NOTHING
    interval = spread(summary, unit)
    return human(summary.median, unit) + (f", {interval}" if interval else "")


def _range(column: Column) -> str:
    medians = [summary.median for summary in column.summaries if summary is not None]
    low, high = human(min(medians), column.unit), human(max(medians), column.unit)
    return f"all are at {low}" if low == high else f"medians are {low} to {high}"
