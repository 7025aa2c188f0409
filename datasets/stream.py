"""Which rows a change stream touches: exact counts, no draws, one row at a time at O(rounds).

Row numbers 0..rows-1 are the first load; each round appends new numbers. Deleted rows are taken
from the first load in the order of one keyed permutation, slice after slice, so the rows that are
left are the rest of that order. The live rows of any state therefore have ranks 0..live-1, and a
round updates, in each piece of its choice (`datasets.choice`), the first images of a permutation.

    uniform     inserted rows in their order | rows of the load, those to be deleted next first
    recent      inserted rows, newest first  | rows of the load, those to be deleted next last
    zipf, hot   rows of the load, those to be deleted next last | inserted rows in their order
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from datasets.choice import Piece, pieces
from datasets.errors import DatasetError
from datasets.hashing import derive
from datasets.permutation import Permutation
from datasets.spec import DatasetSpec

_permutation = lru_cache(maxsize=1 << 16)(Permutation)
_pieces = lru_cache(maxsize=4096)(pieces)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A piece of the ranks, and the order in which its first rows are updated."""

    piece: Piece
    order: Permutation


@dataclass(frozen=True, slots=True)
class Layout:
    """How the ranks of the live rows lie.

    Attributes:
        first_added: rank of the first of the inserted rows.
        first_old: rank of the first row of the load.
        newest_first: whether inserted rows count from the newest on.
        next_last: whether rows of the load that are deleted next come last.
    """

    first_added: int
    first_old: int
    newest_first: bool = field(kw_only=True)
    next_last: bool = field(kw_only=True)


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

    def chosen(self, round_: int) -> tuple[Chosen, ...]:
        """What a round updates: of each piece of ranks the first images of a permutation."""
        choice, seed = self.spec.update_choice, self.spec.seed
        found = _pieces(choice, self.before(round_).live, self.updates if round_ else 0)
        if choice.kind == "uniform":
            return tuple(
                Chosen(p, _permutation(p.size, derive(seed, "update", round_))) for p in found
            )
        return tuple(
            Chosen(piece, _permutation(piece.size, derive(seed, "update", round_, number)))
            for number, piece in enumerate(found)
        )

    def numbers(self, ranks: np.ndarray, state: State) -> np.ndarray:
        """Row numbers of live ranks (int64)."""
        layout = self.layout(state)
        added = ranks - layout.first_added
        is_added = (added >= 0) & (added < state.inserted)
        if layout.newest_first:
            added = state.inserted - 1 - added
        old = ranks - layout.first_old
        place = state.rows - 1 - old if layout.next_last else old + state.deleted
        initial = self.order.apply(np.clip(place, 0, state.rows - 1))
        return np.where(is_added, added + state.rows, initial)

    def ranks(self, numbers: np.ndarray, state: State) -> np.ndarray:
        """Live ranks of row numbers; -1 for rows that are not live (int64)."""
        layout = self.layout(state)
        place = self.order.invert(np.minimum(numbers, state.rows - 1))
        old = state.rows - 1 - place if layout.next_last else place - state.deleted
        initial = np.where(place < state.deleted, -1, old + layout.first_old)
        added = numbers - state.rows
        place = state.inserted - 1 - added if layout.newest_first else added
        later = np.where(added < state.inserted, place + layout.first_added, -1)
        return np.where(numbers < state.rows, initial, later)

    def layout(self, state: State) -> Layout:
        """Where the ranks of a state lie."""
        match self.spec.update_choice.kind:
            case "uniform":
                return Layout(0, state.inserted, newest_first=False, next_last=False)
            case "recent":
                return Layout(0, state.inserted, newest_first=True, next_last=True)
            case _:
                return Layout(state.rows - state.deleted, 0, newest_first=False, next_last=True)

    def updated(self, round_: int, start: int, stop: int) -> np.ndarray:
        """Numbers of the rows that a round updates, for a slice of 0..updates-1 (int64)."""
        parts = [np.empty(0, np.int64)]
        before = 0
        for each in self.chosen(round_):
            places = np.arange(max(start - before, 0), min(stop - before, each.piece.quota))
            before += each.piece.quota
            if len(places):
                parts.append(each.order.apply(places) + each.piece.first)
        return self.numbers(np.concatenate(parts), self.before(round_))

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
        versions = self._born(numbers)
        if self.updates == 0:
            return versions
        open_ = np.arange(len(numbers))
        for past in range(round_, 0, -1):
            hit = self._hit(self.ranks(numbers[open_], self.before(past)), past)
            versions[open_[hit]] = past
            open_ = open_[~hit]
        return versions

    def changes(self, numbers: np.ndarray, round_: int) -> list[list[int]]:
        """Of each row the rounds up to one that brought or changed it, ascending.

        A row that a delete step removed has none afterwards.
        """
        found = [[first] for first in self._born(numbers).tolist()]
        for past in range(1, round_ + 1):
            hit = self._hit(self.ranks(numbers, self.before(past)), past)
            for row in np.flatnonzero(hit).tolist():
                found[row].append(past)
        return found

    def _born(self, numbers: np.ndarray) -> np.ndarray:
        """The rounds that inserted rows (int64); the load is round 0."""
        added = (numbers - self.spec.rows) // max(self.inserts, 1) + 1
        return np.where(numbers < self.spec.rows, 0, added)

    def _hit(self, ranks: np.ndarray, round_: int) -> np.ndarray:
        """Whether a round updates the rows of these ranks (bool); -1 is none."""
        hit = np.zeros(len(ranks), np.bool_)
        for each in self.chosen(round_):
            inner = ranks - each.piece.first
            within = np.flatnonzero((inner >= 0) & (inner < each.piece.size))
            if each.piece.quota == each.piece.size:
                hit[within] = True
            elif len(within):
                hit[within] = each.order.invert(inner[within]) < each.piece.quota
        return hit
