"""Tables into texts: each summary as a reader sees it. HTML, Markdown and terminals share these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from keymark.reports.model.projection import CellView
from keymark.reports.model.tables import Column, Standing, SummaryTable
from keymark.reports.render.format_values import amount, interval, times
from keymark.reports.render.text import NOTHING, markdown
from keymark.reports.stats.statistics import Summary

_FINDINGS = {
    Standing.NO_DIFFERENCE: "no difference shown",
    Standing.TOO_FEW: "too few repetitions to tell",
    Standing.ZEROS: "0 for all",
    Standing.SOME_ZEROS: "0 for some",
    Standing.ALONE: "nothing to compare with",
    Standing.EMPTY: "not measured",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One summary in words.

    Attributes:
        value: the median with its unit; a dash when not measured.
        spread: the interval with its unit; empty when all values are equal or there is none,
            ``one value`` where nothing is known of it.
        n: number of values; empty when not measured.
        mark: ``best``, ``joint best`` or empty.
        ratio: how many times the best; empty where nothing leads.
        ratio_spread: the same with its interval.
        index: that the entry names and whose colour it has; empty where it is a number.
    """

    value: str
    spread: str = ""
    n: str = ""
    mark: str = ""
    ratio: str = ""
    ratio_spread: str = ""
    index: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One cell's entries; the index picks the colour, none where it is empty."""

    label: str
    index: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table of texts.

    Attributes:
        caption: what it holds.
        heads: one per entry of a row.
        rows: one per cell.
        findings: per column, what it shows; empty where a column has no verdict.
    """

    caption: str
    heads: tuple[str, ...]
    rows: tuple[Row, ...]
    findings: tuple[str, ...] = ()


def grid(whole: SummaryTable, caption: str, *, judged: bool = True) -> Grid:
    """Put a table in words; unjudged grids mark no leaders."""
    rows = [
        Row(
            label=cell.label,
            index=cell.index,
            entries=tuple(_entry(column, row, judged=judged) for column in whole.columns),
        )
        for row, cell in enumerate(whole.cells)
    ]
    findings = tuple(finding(column, whole.cells) for column in whole.columns) if judged else ()
    heads = tuple(column.measure.title for column in whole.columns)
    return Grid(caption=caption, heads=heads, rows=tuple(rows), findings=findings)


def finding(column: Column, cells: tuple[CellView, ...]) -> str:
    """Say what a column shows, in a few words."""
    if column.standing is Standing.BEST:
        return f"{cells[min(column.leaders)].label} is best"
    if column.standing is Standing.TIED:
        return f"{len(column.leaders)} are joint best"
    return _FINDINGS[column.standing]


def spread(summary: Summary, unit: str) -> str:
    """Print the interval of a summary; empty when it has no width to show."""
    return interval(summary.low, summary.high, unit)


def ratio_entry(ratio: Summary | None) -> Entry:
    """A ratio with its interval; a dash where there is none."""
    if ratio is None:
        return Entry(value=NOTHING)
    low, high = times(ratio.low), times(ratio.high)
    spread = f"{low} to {high}" if low != high else ""
    return Entry(value=times(ratio.median), spread=spread, n=str(ratio.n))


def ratio_words(ratio: Summary) -> str:
    """Print a ratio with its interval: ``2.40x (2.10x to 2.70x)``."""
    low, high = times(ratio.low), times(ratio.high)
    return times(ratio.median) + (f" ({low} to {high})" if low != high else "")


def _entry(column: Column, row: int, *, judged: bool) -> Entry:
    summary = column.summaries[row]
    if summary is None:
        return Entry(value=NOTHING)
    mark, ratio = "", column.ratios[row]
    if not judged:
        ratio = None
    elif row in column.leaders:
        mark, ratio = ("best" if column.standing is Standing.BEST else "joint best"), None
    return Entry(
        value=amount(summary.median, column.unit),
        spread=spread(summary, column.unit) if summary.n > 1 else "one value",
        n=str(summary.n),
        mark=mark,
        ratio=times(ratio.median) if ratio else "",
        ratio_spread=ratio_words(ratio) if ratio else "",
    )


def markdown_table(grid: Grid, head: str = "index") -> list[str]:
    """A table as lines of Markdown.

    Args:
        grid: the table.
        head: above the labels of its rows.
    """
    lines = [
        _line([head, *grid.heads]),
        _line(["---", *["---:"] * len(grid.heads)], raw=True),
    ]
    for row in grid.rows:
        texts = [
            f"{entry.value}{entry.spread and f' ({entry.spread})'}{entry.mark and f' {entry.mark}'}"
            for entry in row.entries
        ]
        lines.append(_line([row.label, *texts]))
    if grid.findings:
        lines.append(_line(["shown by the data", *grid.findings]))
    return lines


def _line(texts: Sequence[str], *, raw: bool = False) -> str:
    return f"| {' | '.join(text if raw else markdown(text) for text in texts)} |"
