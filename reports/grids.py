"""Tables into texts: each summary as a reader sees it. HTML, Markdown and terminals share these."""

from __future__ import annotations

from dataclasses import dataclass

from harness.units import human
from reports.projection import CellView
from reports.stats import Summary
from reports.tables import Column, Standing, Table
from reports.text import NOTHING, listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One summary in words.

    Attributes:
        value: the median with its unit; a dash when not measured.
        spread: the interval with its unit; empty when all values are equal or there is none.
        n: ``n = 3``; empty when not measured.
        mark: ``best``, ``shared lead`` or empty.
        ratio: how many times the best, with interval; empty where nothing leads.
    """

    value: str
    spread: str = ""
    n: str = ""
    mark: str = ""
    ratio: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One cell's entries; the index picks the colour."""

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


def grid(whole: Table, caption: str, *, judged: bool = True) -> Grid:
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
    leaders = listed([cells[row].label for row in sorted(column.leaders)])
    match column.standing:
        case Standing.BEST:
            return f"{leaders} is best"
        case Standing.TIED:
            return f"{leaders} lead; no difference shown between them"
        case Standing.NO_DIFFERENCE:
            return "no difference shown"
        case Standing.ALONE:
            return "nothing to compare with"
        case Standing.EMPTY:
            return "not measured"


def spread(summary: Summary, unit: str) -> str:
    """Print an interval, ``1.10 s to 1.30 s``; nothing when it has no width."""
    if summary.low == summary.high:
        return ""
    low, high = human(summary.low, unit), human(summary.high, unit)
    return f"{low} to {high}" if low != high else ""


def times(ratio: float) -> str:
    """Print a ratio with three significant digits: ``1.25x``."""
    return f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.3g}x"


def ratio_words(ratio: Summary) -> str:
    """Print a ratio with its interval: ``2.4x (2.1x to 2.7x)``."""
    low, high = times(ratio.low), times(ratio.high)
    return times(ratio.median) + (f" ({low} to {high})" if low != high else "")


def _entry(column: Column, row: int, *, judged: bool) -> Entry:
    summary = column.summaries[row]
    if summary is None:
        return Entry(value=NOTHING)
    mark, ratio = "", column.ratios[row]
    if judged and row in column.leaders:
        mark = "best" if column.standing is Standing.BEST else "shared lead"
    return Entry(
        value=human(summary.median, column.unit),
        spread=spread(summary, column.unit),
        n=f"n = {summary.n}",
        mark=mark,
        ratio=ratio_words(ratio) if judged and ratio and row not in column.leaders else "",
    )
