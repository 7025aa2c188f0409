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

_GOLDEN = (math.sqrt(5) - 1) / 2


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

    def lot(self, numbers: np.ndarray) -> np.ndarray:
        """The lots of rows (int64)."""
        return numbers % self.lots * self.step % self.lots

    def lot_sql(self, number: str) -> str:
        """The lot of a row as SQL."""
        return f"({number} % {self.lots}L) * {self.step}L % {self.lots}L"

    @property
    def back(self) -> int:
        """The factor that leads from a lot to the place of its row within a stripe."""
        return pow(self.step, -1, self.lots)
