"""Figures that were published of an index, beside what a run measured (`claims.toml`)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from keymark.reports.model.data_points import by_data, leading, words_of
from keymark.reports.model.measures import BY_KEY
from keymark.reports.model.projection import CellView, Run
from keymark.reports.render.format_values import amount, times
from keymark.reports.render.grids import Entry, Grid, Row, spread
from keymark.reports.render.text import NOTHING, clean
from keymark.reports.site.model import Shown
from keymark.reports.stats.statistics import Summary, paired_ratio, summarize

_TITLE = "Published figures"


class Claim(BaseModel):
    """A published figure.

    Attributes:
        what: is claimed.
        at: on what it was measured.
        measure: key of what was measured.
        index: that it is about.
        base: index whose multiple the figure is; empty where it is an amount.
        figure: the multiple, or the amount in base units; less is better.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    what: str
    at: str
    measure: str
    index: str
    figure: float
    base: str = ""

    @property
    def words(self) -> str:
        """The figure as a table has it."""
        return times(self.figure) if self.base else amount(self.figure, BY_KEY[self.measure].unit)

    def ours(self, cells: Mapping[str, CellView]) -> Summary | None:
        """What one engine measured on the same data; None where it did not.

        Args:
            cells: by index.
        """
        measure = BY_KEY[self.measure]
        values = measure.values(cells[self.index]) if self.index in cells else {}
        if not values or (self.base and self.base not in cells):
            return None
        if not self.base:
            return summarize(list(values.values()))
        return paired_ratio(measure.values(cells[self.base]), values)[0]


class _Document(BaseModel):
    claim: tuple[Claim, ...]


@cache
def claims() -> tuple[Claim, ...]:
    """All of them."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return _Document.model_validate(tomllib.loads(text)).claim


def claims_of(run: Run) -> Shown | None:
    """The figures beside those of a run, a column an engine; None where it has none of them."""
    right = [cell for cell in run.cells if cell.verified]
    groups = by_data(leading(right))
    if not groups:
        return None
    data, cells = next(iter(groups.items()))
    engines: dict[str, dict[str, CellView]] = {}
    for cell in cells:
        engines.setdefault(cell.engine, {}).setdefault(cell.index, cell)
    found = {each: [each.ours(by_index) for by_index in engines.values()] for each in claims()}
    known = {each: ours for each, ours in found.items() if any(ours)}
    if not known:
        return None
    first = next(iter(engines))
    reached = [ours[0].median <= claim.figure for claim, ours in known.items() if ours[0]]
    told = f"Of {len(reached)} published figures, {clean(first, 40)} reaches {sum(reached)}"
    told += f" on {words_of(data)}" if words_of(data) else ""
    return Shown(
        title=f"{_TITLE} beside ours",
        sentence=f"{told}. They were measured on larger tables.",
        grid=Grid(
            caption=_TITLE,
            heads=("published", *(clean(engine, 40) for engine in engines)),
            rows=tuple(_row(claim, ours) for claim, ours in known.items()),
        ),
    )


def _row(claim: Claim, ours: list[Summary | None]) -> Row:
    unit = BY_KEY[claim.measure].unit
    entries = [Entry(value=claim.words, spread=claim.at)]
    for each in ours:
        if each is None:
            entries.append(Entry(value=NOTHING))
        elif claim.base:
            around = f"{times(each.low)} to {times(each.high)}" if each.low < each.high else ""
            entries.append(Entry(value=times(each.median), spread=around, n=str(each.n)))
        else:
            around = spread(each, unit)
            entries.append(Entry(value=amount(each.median, unit), spread=around, n=str(each.n)))
    beside = f", beside {claim.base}" if claim.base else ""
    return Row(label=f"{claim.what} ({claim.index}{beside})", index="", entries=tuple(entries))
