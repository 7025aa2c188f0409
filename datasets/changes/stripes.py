"""Lots that rows fall into by their numbers, so that the rows of a lot can be counted off.

Each run of `lots` row numbers, a stripe, has one row in every lot. Neighbours are far apart: the
lots of the first few rows lie evenly over all of them (a Weyl sequence), so that small tables have
rows everywhere, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from keymark.datasets.changes.permutation import Permutation
from keymark.datasets.generate.hashing import derive, draw

_GOLDEN = (math.sqrt(5) - 1) / 2

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Stripes:
    """Row numbers in stripes of `lots`."""

    lots: int

    @cached_property
    def step(self) -> int:
        """From a row's lot to that of the next: about 0.62 of all, without a common divisor."""
        step = max(1, round(_GOLDEN * self.lots))
        while math.gcd(step, self.lots) > 1:
            step += 1
        return step

    @cached_property
    def back(self) -> int:
        """The factor that leads from a lot to the place of its row within a stripe."""
        return pow(self.step, -1, self.lots)

    def lot(self, numbers: _Numbers) -> _Numbers:
        """The lots of rows."""
        return numbers % self.lots * self.step % self.lots

    def lot_sql(self, number: str) -> str:
        """The lot of a row as SQL."""
        return f"({number} % {self.lots}L) * {self.step}L % {self.lots}L"


@dataclass(frozen=True)
class StripedOrder:
    """A keyed permutation of 0..size-1 that leaves every row in its lot.

    Whole stripes are permuted, and each place of the stripes is shifted by a hash of its own, so
    that the rows of a stripe part. Rows of the last stripe stay if it is not a whole one. With one
    lot it is a permutation of all rows.

    Attributes:
        size: number of rows, at least 1.
        lots: rows of a stripe.
        key: other keys give other orders.
    """

    size: int
    lots: int
    key: int

    @property
    def stripes(self) -> int:
        """Whole stripes."""
        return self.size // self.lots

    @cached_property
    def permutation(self) -> Permutation:
        """The order of the whole stripes."""
        return Permutation(max(1, self.stripes), self.key)

    @property
    def shift_key(self) -> int:
        """The key of the hash that shifts places."""
        return derive(self.key, "shift")

    def apply(self, places: _Numbers) -> _Numbers:
        """Row numbers at places of the order."""
        stripe, within = np.divmod(places, self.lots)
        last = max(0, self.stripes - 1)
        moved = self.permutation.apply(np.minimum(stripe, last)) + self._shift(within)
        moved = moved % max(1, self.stripes)
        return np.where(stripe < self.stripes, moved * self.lots + within, places)

    def invert(self, numbers: _Numbers) -> _Numbers:
        """Places of row numbers."""
        stripe, within = np.divmod(numbers, self.lots)
        unmoved = (stripe - self._shift(within)) % max(1, self.stripes)
        return np.where(
            stripe < self.stripes, self.permutation.invert(unmoved) * self.lots + within, numbers
        )

    def _shift(self, within: _Numbers) -> _Numbers:
        return np.mod(draw(self.shift_key, within).view(np.int64), max(1, self.stripes))
