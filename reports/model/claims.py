"""Figures that others published of an index or a format (`claims.toml`), beside a run's own."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

from pydantic import BaseModel, ConfigDict, Field

from keymark.reports.model.measures import BY_KEY, Measure
from keymark.reports.model.projection import CellView
from keymark.reports.render.format_values import amount, times
from keymark.reports.stats.statistics import Summary, paired_ratio, summarize


class Claim(BaseModel):
    """A published figure.

    Attributes:
        what: is claimed.
        at: on what it was measured.
        measure: key of what was measured.
        index: that it is about.
        base: index whose multiple the figure is; empty where it is an amount.
        engine: that it is about, as the word before its version; empty: any engine.
        base_engine: engine whose multiple the figure is, in its fastest mode; empty where it is of
            one engine.
        source: URL of the page that states it.
        differs: what differs between their setting and ours.
        figure: the multiple, or the amount in base units. Less is better, except of a rate.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    what: str
    at: str
    measure: str
    index: str
    figure: float
    base: str = ""
    engine: str = ""
    base_engine: str = ""
    source: str = Field(pattern="^https://")
    differs: str

    @property
    def is_multiple(self) -> bool:
        """Whether the figure is a multiple and no amount."""
        return bool(self.base or self.base_engine)

    @property
    def words(self) -> str:
        """The figure as a table has it."""
        if self.is_multiple:
            return times(self.figure)
        return amount(self.figure, BY_KEY[self.measure].unit)

    def ours(self, cells: Mapping[str, CellView]) -> Summary | None:
        """What one engine measured on the same data; None where it did not.

        Args:
            cells: by index.
        """
        measure = BY_KEY[self.measure]
        values = measure.values(cells[self.index]) if self.index in cells else {}
        if self.base_engine or not values or (self.base and self.base not in cells):
            return None
        if not self.base:
            return summarize(list(values.values()))
        return paired_ratio(measure.values(cells[self.base]), values)[0]

    def relative(self, ours: Summary) -> tuple[float, float, float]:
        """Median and interval of ours as a multiple of the figure; at most 1 reaches it.

        Args:
            ours: above 0.
        """
        if not self.is_multiple and BY_KEY[self.measure].higher:
            return self.figure / ours.median, self.figure / ours.high, self.figure / ours.low
        return ours.median / self.figure, ours.low / self.figure, ours.high / self.figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """A figure of two engines, and what a run measured of both.

    Attributes:
        claim: the published figure.
        cell: of the engine that it is about.
        base: of the engine whose multiple it is.
        ratio: of the first to the second, within each repetition, or each round of the only one.
    """

    claim: Claim
    cell: CellView
    base: CellView
    ratio: Summary


class _Document(BaseModel):
    claim: tuple[Claim, ...]


@cache
def claims() -> tuple[Claim, ...]:
    """All of them."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return _Document.model_validate(tomllib.loads(text)).claim


def beside(cells: Sequence[CellView]) -> list[Beside]:
    """The figures of two engines that verified cells on the same data can be put beside."""
    found: list[Beside] = []
    for claim in claims():
        if not claim.base_engine:
            continue
        measure = BY_KEY[claim.measure]
        own = [cell for cell in _of(cells, claim.engine) if cell.index == claim.index]
        cell = _fastest(own, measure)
        base = _fastest(_of(cells, claim.base_engine), measure)
        if cell is None or base is None:
            continue
        ratio, _ = paired_ratio(measure.values(base), measure.values(cell))
        if ratio is not None:
            found.append(Beside(claim=claim, cell=cell, base=base, ratio=ratio))
    return found


def _of(cells: Sequence[CellView], engine: str) -> list[CellView]:
    """The cells of an engine of any version."""
    return [cell for cell in cells if cell.engine.partition("@")[0] == engine]


def _fastest(cells: Sequence[CellView], measure: Measure) -> CellView | None:
    """The cell with the lowest median; None where none was measured."""
    known = [cell for cell in cells if measure.values(cell)]
    return min(known, key=lambda cell: median(measure.values(cell).values()), default=None)
