"""Rows that move: of the rows loaded, those that go from partition to partition.

Every tenth round it is a mover's turn: its row is updated, and moves on to the next partition. No
other update and no delete step takes movers, so how often one has moved is known from its round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from keymark.datasets.changes.stripes import StripedOrder

TURNS = 10
"""Rounds from one move of a row to the next."""

_Numbers = npt.NDArray[np.int64]
_Flags = npt.NDArray[np.bool_]
Rounds = TypeVar("Rounds", int, _Numbers)


@dataclass(frozen=True, slots=True)
class Movers:
    """The rows at the last places of the order in which rows are deleted.

    Attributes:
        column: the partition column that changes.
        order: of the rows loaded.
        first: place of the first mover.
        each: rows that move in a round.
    """

    column: str
    order: StripedOrder
    first: int
    each: int

    def turn(self, round_: int) -> tuple[int, int]:
        """First and end place of the rows that move in a round, from 1 on."""
        first = self.first + (round_ - 1) % TURNS * self.each
        return first, first + self.each

    @staticmethod
    def moves(rounds: Rounds) -> Rounds:
        """How often rows have moved after their moves in rounds; 0 before any."""
        return (rounds - 1) // TURNS + 1

    def count(self, numbers: _Numbers, versions: _Numbers) -> _Numbers:
        """How often rows have moved that were changed last in these rounds."""
        loaded = numbers < self.order.size
        places = self.order.invert(np.where(loaded, numbers, 0))
        return np.where(loaded & self.hold(places), self.moves(versions), 0)

    def hold(self, places: _Numbers) -> _Flags:
        """Whether movers have these places."""
        return (places >= self.first) & (places < self.order.size)

    def last(self, places: _Numbers, round_: int) -> _Numbers:
        """The round of the last move of movers up to a round; 0 for none."""
        turn = (places - self.first) // self.each + 1
        return np.where(turn > round_, 0, turn + (round_ - turn) // TURNS * TURNS)
