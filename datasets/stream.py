"""Which rows a change stream touches: exact counts, no draws, one row at a time at O(rounds).

Row numbers 0..rows-1 are the first load; each round appends new numbers. Deleted rows are taken
from the first load in the order of one keyed permutation, slice after slice, so the rows that are
left are the rest of that order. The live rows of any state therefore have positions 0..live-1 (the
inserted rows first, then the rest of the order), and a round updates the first images of its own
permutation of these positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from datasets.errors import DatasetError
from datasets.hashing import derive
from datasets.permutation import Permutation
from datasets.spec import DatasetSpec

_permutation = lru_cache(maxsize=4096)(Permutation)


@dataclass(frozen=True)
class State:
    """The live rows of a table at one moment of a stream.

    Attributes:
        rows: rows of the first load.
        inserted: rows inserted since.
        deleted: rows deleted since.
    """

    rows: int
    inserted: int
    deleted: int

    @property
    def live(self) -> int:
        """Number of live rows."""
        return self.rows + self.inserted - self.deleted


@dataclass(frozen=True)
class Stream:
    """The rounds of a dataset: batches of updates and inserts, and delete steps.

    Attributes:
        spec: the dataset that the rounds belong to.
    """

    spec: DatasetSpec

    @property
    def updates(self) -> int:
        """Rows updated per round."""
        return self.spec.count(self.spec.updates)

    @property
    def inserts(self) -> int:
        """Rows inserted per round."""
        return self.spec.count(self.spec.inserts)

    @property
    def deletes(self) -> int:
        """Rows removed by one delete step."""
        return self.spec.count(self.spec.deletes)

    @cached_property
    def order(self) -> Permutation:
        """The order in which rows of the first load are deleted."""
        return Permutation(self.spec.rows, derive(self.spec.seed, "delete order"))

    def before(self, round_: int) -> State:
        """State that the batch of a round meets; the first load for round 0 and 1.

        Raises:
            DatasetError: the round does not exist, or earlier rounds used up the rows.
        """
        if round_ < 0:
            raise DatasetError(f"there is no round {round_}; rounds start at 1, the load is 0")
        past = max(round_ - 1, 0)
        every = self.spec.delete_every
        state = State(
            self.spec.rows, past * self.inserts, (past // every) * self.deletes if every else 0
        )
        if state.deleted > state.rows or self.updates > state.live:
            raise DatasetError(
                f"{self.spec.name}: round {round_} updates {self.updates} rows per round, but "
                f"{state.live} are left after {state.deleted} deletes of {state.rows} rows"
            )
        return state

    def after(self, round_: int, *, deleted: bool) -> State:
        """State after the batch of a round, and after its delete step if `deleted`.

        Raises:
            DatasetError: the round does not exist or has no delete step, or deletes too much.
        """
        state = self.before(round_)
        inserted = state.inserted + (self.inserts if round_ else 0)
        removed = state.deleted
        if deleted:
            every = self.spec.delete_every
            if every and (round_ == 0 or round_ % every):
                raise DatasetError(f"{self.spec.name}: round {round_} has no delete step")
            removed += self.deletes
        if removed > state.rows:
            raise DatasetError(
                f"{self.spec.name}: round {round_} deletes up to row {removed} of {state.rows}"
            )
        return State(state.rows, inserted, removed)

    def chosen(self, round_: int) -> Permutation:
        """Permutation of live positions whose first images a round updates."""
        return _permutation(self.before(round_).live, derive(self.spec.seed, "update", round_))

    def numbers(self, positions: np.ndarray, state: State) -> np.ndarray:
        """Row numbers at live positions (int64)."""
        old = np.maximum(positions - state.inserted, 0) + state.deleted
        initial = self.order.apply(np.minimum(old, state.rows - 1))
        return np.where(positions < state.inserted, positions + state.rows, initial)

    def positions(self, numbers: np.ndarray, state: State) -> np.ndarray:
        """Live positions of row numbers; outside 0..live-1 for rows that are not live (int64)."""
        old = self.order.invert(np.minimum(numbers, state.rows - 1)) - state.deleted
        initial = np.where(old < 0, -1, old + state.inserted)
        added = numbers - state.rows
        added = np.where(added < state.inserted, added, -1)
        return np.where(numbers < state.rows, initial, added)

    def updated(self, round_: int, start: int, stop: int) -> np.ndarray:
        """Numbers of the rows that a round updates, for a slice of 0..updates-1 (int64)."""
        places = np.arange(start, stop, dtype=np.int64)
        if len(places) == 0:
            return places
        return self.numbers(self.chosen(round_).apply(places), self.before(round_))

    def inserted(self, round_: int) -> tuple[int, int]:
        """First and end number of the rows that a round adds; round 0 adds the first load."""
        if round_ == 0:
            return 0, self.spec.rows
        first = self.spec.rows + self.before(round_).inserted
        return first, first + self.inserts

    def deleted_slice(self, round_: int) -> tuple[int, int]:
        """First and end place in the delete order that the delete step of a round removes."""
        stop = self.after(round_, deleted=True).deleted
        return stop - self.deletes, stop

    def deleted(self, start: int, stop: int) -> np.ndarray:
        """Numbers of the rows at places of the delete order (int64)."""
        return self.order.apply(np.arange(start, stop, dtype=np.int64))

    def versions(self, numbers: np.ndarray, round_: int) -> np.ndarray:
        """Round of each row's last change, as of the end of a round's batch (int64).

        The rows must exist by then; rows deleted before count with their last change.
        """
        added = (numbers - self.spec.rows) // max(self.inserts, 1) + 1
        versions = np.where(numbers < self.spec.rows, 0, added)
        if self.updates == 0:
            return versions
        open_ = np.arange(len(numbers))
        for past in range(round_, 0, -1):
            positions = self.positions(numbers[open_], self.before(past))
            live = positions >= 0
            hit = np.zeros(len(open_), np.bool_)
            hit[live] = self.chosen(past).invert(positions[live]) < self.updates
            versions[open_[hit]] = past
            open_ = open_[~hit]
        return versions
