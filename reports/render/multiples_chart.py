"""Charts of multiples: what each of several candidates takes of each of several measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from keymark.reports.render.dots_chart import Dot, DotRow, dots_chart
from keymark.reports.render.figures import Chart, chart
from keymark.reports.render.grids import Entry, Grid, Row, ratio_words
from keymark.reports.render.text import NOTHING
from keymark.reports.stats.statistics import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Multiple:
    """What one candidate takes.

    Attributes:
        name: of the candidate, safe to show.
        color: of its index.
        ratio: as a multiple of what it is compared with, in pairs.
        median: what it takes, in words.
    """

    name: str
    color: str
    ratio: Summary
    median: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiplesRow:
    """One measure of all candidates that have it."""

    label: str
    multiples: tuple[Multiple, ...]


def multiples_chart(
    key: str, title: str, *, axis: str, finding: str, rows: Sequence[MultiplesRow]
) -> Chart:
    """Make the chart with its table.

    Args:
        key: name of its files.
        title: heading.
        axis: of what the values are multiples.
        finding: what the chart shows, in a sentence.
        rows: at least one, with a ratio above 0.
    """
    dots = [
        DotRow(
            label=row.label,
            dots=tuple(
                Dot(
                    name=each.name,
                    color=each.color,
                    value=each.ratio.median,
                    low=each.ratio.low,
                    high=each.ratio.high,
                )
                for each in row.multiples
            ),
        )
        for row in rows
    ]
    names = list(dict.fromkeys(each.name for row in rows for each in row.multiples))
    grid = Grid(caption=title, heads=tuple(names), rows=tuple(_row(row, names) for row in rows))
    label = f"Chart of {title[0].lower()}{title[1:]}. {finding}"
    return chart(key, title, label, dots_chart(dots, title=title, axis=axis), grid)


def _row(row: MultiplesRow, names: Sequence[str]) -> Row:
    known = {
        each.name: Entry(value=ratio_words(each.ratio), spread=each.median, n=str(each.ratio.n))
        for each in row.multiples
    }
    entries = tuple(known.get(name, Entry(value=NOTHING)) for name in names)
    return Row(label=row.label, index="", entries=entries)
