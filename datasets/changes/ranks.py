"""How the rows that a round may update are ranked; `stream` beside it says what places are.

The rows have one stretch of places. A ranking orders them so that the pieces of an update choice
are stretches of ranks. All of it is arithmetic, in numpy and as SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from keymark.datasets.changes.stripes import Stripes
from keymark.datasets.columns.kind import element

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RankRange:
    """`size` ranks from `rank` on, which have the places from `place` on, up or down."""

    rank: int
    size: int
    place: int
    step: int


@dataclass(frozen=True, slots=True)
class Straight:
    """Stretches one behind the other; there are two at most."""

    stretches: tuple[RankRange, ...]

    def places(self, ranks: _Numbers) -> _Numbers:
        """Places of ranks."""
        found = np.full_like(ranks, -1)
        for each in self.stretches:
            inner = ranks - each.rank
            within = (inner >= 0) & (inner < each.size)
            found = np.where(within, each.place + each.step * inner, found)
        return found

    def ranks(self, places: _Numbers) -> _Numbers:
        """Ranks of places; -1 for those of no rank."""
        found = np.full_like(places, -1)
        for each in self.stretches:
            inner = (places - each.place) * each.step
            within = (inner >= 0) & (inner < each.size)
            found = np.where(within, each.rank + inner, found)
        return found

    def named(self, rank: str) -> tuple[tuple[str, str], ...]:  # noqa: ARG002
        """Columns that `sql` refers to, each made of those before: names with their SQL."""
        return ()

    def sql(self, rank: str) -> str:
        """The place of a rank as SQL."""
        cases = " ".join(
            f"when {rank} < {each.rank + each.size}L "
            f"then {each.place}L + ({each.step}L) * ({rank} - {each.rank}L)"
            for each in self.stretches
        )
        return f"case {cases} end"


@dataclass(frozen=True)
class Strip:
    """The places `first` to `stop`, exclusive, by groups of lots, those of a group in a row.

    Within a group, whole stripes come first, row by row; then, ascending, the places of the
    stripes that begin before the first place or end behind the last one.

    Attributes:
        origin: a place at which a stripe begins.
        first: the first place.
        stop: behind the last place.
        stripes: how places fall into lots.
        bounds: the lot at which each group begins, and behind all the number of lots.
    """

    origin: int
    first: int
    stop: int
    stripes: Stripes
    bounds: tuple[int, ...]

    @property
    def whole(self) -> tuple[int, int]:
        """The first whole stripe, and the stripe behind the last whole one."""
        lots = self.stripes.lots
        start = -(-(self.first - self.origin) // lots)
        return start, max(start, (self.stop - self.origin) // lots)

    @cached_property
    def widths(self) -> _Numbers:
        """Lots of each group."""
        return np.diff(self._bounds)

    @cached_property
    def sizes(self) -> _Numbers:
        """Places of each group."""
        start, end = self.whole
        return np.asarray((end - start) * self.widths + np.diff(self.loose_starts))

    @cached_property
    def loose(self) -> _Numbers:
        """Places outside of whole stripes, by group and place."""
        start, end = (self.origin + stripe * self.stripes.lots for stripe in self.whole)
        head = np.arange(self.first, min(start, self.stop), dtype=np.int64)
        tail = np.arange(max(end, self.first + len(head)), self.stop, dtype=np.int64)
        places = np.concatenate([head, tail])
        return np.asarray(places[np.argsort(self.group(places), kind="stable")])

    @cached_property
    def loose_starts(self) -> _Numbers:
        """Where in `loose` each group starts, and the end."""
        counts = np.bincount(self.group(self.loose), minlength=len(self.widths))
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def group(self, places: _Numbers) -> _Numbers:
        """The groups of places."""
        lots = self.stripes.lot(places - self.origin)
        return np.asarray(np.searchsorted(self._bounds, lots, "right") - 1)

    @cached_property
    def _bounds(self) -> _Numbers:
        return np.array(self.bounds, np.int64)

    def places(self, groups: _Numbers, inner: _Numbers) -> _Numbers:
        """The places at positions within groups."""
        start, end = self.whole
        widths = np.maximum(self.widths[groups], 1)
        lots = self._bounds[groups] + inner % widths
        within = lots * self.stripes.back % self.stripes.lots
        whole = self.origin + (start + inner // widths) * self.stripes.lots + within
        beyond = inner - (end - start) * self.widths[groups]
        if not len(self.loose):
            return np.asarray(whole)
        at = np.clip(self.loose_starts[groups] + beyond, 0, len(self.loose) - 1)
        return np.asarray(np.where(beyond < 0, whole, self.loose[at]))

    def inner(self, places: _Numbers) -> _Numbers:
        """The positions of this strip's places within their groups."""
        start, end = self.whole
        groups = self.group(places)
        stripe = (places - self.origin) // self.stripes.lots
        lots = self.stripes.lot(places - self.origin)
        whole = (stripe - start) * self.widths[groups] + lots - self._bounds[groups]
        span = max(self.stop, int(places.max(initial=0)) + 1)
        order = self.group(self.loose) * span + self.loose
        at = np.searchsorted(order, groups * span + places)
        loose = (end - start) * self.widths[groups] + at - self.loose_starts[groups]
        return np.asarray(np.where((stripe >= start) & (stripe < end), whole, loose))

    def sql(self, group: str, inner: str) -> str:
        """The place at a position within a group as SQL."""
        start, end = self.whole
        width = _listed(np.maximum(self.widths, 1), group)
        bound = _listed(self.bounds[:-1], group)
        within = f"({bound} + {inner} % {width}) * {self.stripes.back}L % {self.stripes.lots}L"
        whole = (
            f"{self.origin}L + ({start}L + {inner} div {width}) * {self.stripes.lots}L + {within}"
        )
        if not len(self.loose):
            return whole
        beyond = f"({inner} - {end - start}L * {_listed(self.widths, group)})"
        at = f"{_listed(self.loose_starts[:-1], group)} + {beyond}"
        loose = element([str(place) for place in self.loose.tolist()], at)
        return f"if({beyond} < 0L, {whole}, cast({loose} as bigint))"


@dataclass(frozen=True)
class Grouped:
    """Ranks group by group; within a group, the places of each strip in turn."""

    strips: tuple[Strip, Strip]

    @cached_property
    def starts(self) -> np.ndarray:
        """The rank at which each group starts, and the number of ranks (int64)."""
        sizes = self.strips[0].sizes + self.strips[1].sizes
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def places(self, ranks: _Numbers) -> _Numbers:
        """Places of ranks."""
        groups = np.searchsorted(self.starts, ranks, "right") - 1
        inner = ranks - self.starts[groups]
        one, two = self.strips
        first = one.sizes[groups]
        return np.where(inner < first, one.places(groups, inner), two.places(groups, inner - first))

    def ranks(self, places: _Numbers) -> _Numbers:
        """Ranks of places; -1 for those of no rank."""
        found = np.full_like(places, -1)
        for strip, before in zip(self.strips, (0, self.strips[0].sizes), strict=True):
            mine = np.flatnonzero((places >= strip.first) & (places < strip.stop))
            groups = strip.group(places[mine])
            starts = (self.starts[:-1] + before)[groups]
            found[mine] = starts + strip.inner(places[mine])
        return found

    def named(self, rank: str) -> tuple[tuple[str, str], ...]:
        """The group of a rank, its position there, and how many are in the first strip."""
        ends = self.starts[1:].tolist()
        cases = " ".join(f"when {rank} < {end}L then {group}" for group, end in enumerate(ends))
        return (
            ("__group", f"case {cases} end"),
            ("__inner", f"{rank} - {_listed(self.starts[:-1], '__group')}"),
            ("__first", _listed(self.strips[0].sizes, "__group")),
        )

    def sql(self, rank: str) -> str:  # noqa: ARG002
        """The place of a rank as SQL."""
        one = self.strips[0].sql("__group", "__inner")
        two = self.strips[1].sql("__group", "(__inner - __first)")
        return f"if(__inner < __first, {one}, {two})"


Ranking: TypeAlias = Straight | Grouped
"""Ranks 0..n-1 of rows and their places, as numbers and as SQL."""


def _listed(values: Sequence[int] | _Numbers, index: str) -> str:
    return f"array({', '.join(f'{value}L' for value in values)})[{index}]"
