"""Which rows a change stream touches: exact counts, no draws, one row at a time at O(rounds).

Row numbers 0..rows-1 are the first load; each round appends new numbers. The rows of the load have
places: the order of one keyed permutation. Deleted rows are taken from its start, slice after
slice, movers (`movers`) are its end, and inserted rows have their number as place. So the
rows that a round may update always have one stretch of places:

    | deleted | rows of the load | movers |  inserted  |
              first          ...            stop

They are ranked (`keymark.datasets.changes.ranks`), and a round updates, in each piece of its choice
(`keymark.datasets.changes.choice`), the first images of a permutation.

    uniform     inserted rows in their order | rows of the load, those to be deleted next first
    recent      inserted rows, newest first  | rows of the load, those to be deleted next last
    zipf, hot   rows of the load, those to be deleted next last | inserted rows in their order
    partitions  partition by partition, the newest last; the order keeps rows in their partitions

A batch also brings rows that must change nothing: late ones, older than what the table has, and
further rows, older ones, of keys that the batch has already: a second one of many keys, or any
number of one key.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from keymark.datasets.changes.choice import Piece, group_pieces, pieces
from keymark.datasets.changes.movers import TURNS
from keymark.datasets.changes.permutation import Permutation
from keymark.datasets.changes.ranks import Grouped, Ranking, RankRange, Straight, Strip
from keymark.datasets.changes.stripes import Stripes
from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.hashing import derive
from keymark.datasets.specs.spec import DatasetSpec

NEVER_INSERTED = 1 << 60
"""Row numbers from here on are in no table."""
LATE = -1
"""The version of late rows: their ordering value is less than that of any row in time.

Rows that repeat one key count down from it.
"""

_permutation = lru_cache(maxsize=1 << 16)(Permutation)
_pieces = lru_cache(maxsize=4096)(pieces)

_Numbers = npt.NDArray[np.int64]
_Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ChosenPiece:
    """A piece of the ranks, and the order in which its first rows are updated."""

    piece: Piece
    order: Permutation


@dataclass(frozen=True)
class State:
    """The live rows of a table at one moment of a stream.

    Attributes:
        rows: rows of the first load.
        inserted: rows inserted since.
        deleted: rows deleted since.
        movers: rows of the load that only move.
    """

    rows: int
    inserted: int
    deleted: int
    movers: int = 0

    @property
    def live(self) -> int:
        """Number of live rows."""
        return self.rows + self.inserted - self.deleted

    @property
    def ranked(self) -> int:
        """Number of rows that a round may update."""
        return self.live - self.movers

    def straight(self, kind: str) -> Straight:
        """The ranking of a choice that knows no partitions."""
        load, added = self.rows - self.movers, self.inserted
        old = load - self.deleted
        match kind:
            case "uniform":
                first = RankRange(0, added, self.rows, 1)
                second = RankRange(added, old, self.deleted, 1)
            case "recent":
                first = RankRange(0, added, self.rows + added - 1, -1)
                second = RankRange(added, old, load - 1, -1)
            case _:
                first = RankRange(0, old, load - 1, -1)
                second = RankRange(old, added, self.rows, 1)
        return Straight((first, second))


@dataclass(frozen=True)
class Stream:
    """The rounds of a dataset: batches of updates and inserts, and delete steps.

    Attributes:
        spec: the dataset that the rounds belong to.
    """

    spec: DatasetSpec

    @property
    def updates(self) -> int:
        """Rows updated per round, without those that move."""
        return self.spec.count(self.spec.updates)

    @property
    def moves(self) -> int:
        """Rows per round that go to another partition."""
        return self.spec.count(self.spec.moves)

    @property
    def inserts(self) -> int:
        """Rows inserted per round."""
        return self.spec.count(self.spec.inserts)

    @property
    def late(self) -> int:
        """Rows per round that come too late to change anything."""
        return self.spec.count(self.spec.late)

    @property
    def duplicates(self) -> int:
        """Keys of a round's batch that come twice."""
        return self.spec.count(self.spec.duplicates)

    @property
    def repeats(self) -> int:
        """Further rows of a round's first key."""
        return self.spec.count(self.spec.repeats)

    @property
    def deletes(self) -> int:
        """Rows removed by one delete step."""
        return self.spec.count(self.spec.deletes)

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
            self.spec.rows,
            past * self.inserts,
            (past // every) * self.deletes if every else 0,
            self.spec.rows - self.spec.movers.first if self.spec.movers else 0,
        )
        most = max(self.updates, self.late)
        if state.deleted > state.rows - state.movers or most > state.ranked:
            others = f", and {state.movers} of them only move" if state.movers else ""
            raise DatasetError(
                f"{self.spec.name}: round {round_} updates {most} rows per round, but "
                f"{state.live} are left after {state.deleted} deletes of {state.rows} rows{others}"
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
        if removed > state.rows - state.movers:
            raise DatasetError(
                f"{self.spec.name}: round {round_} deletes up to row {removed} of "
                f"{state.rows - state.movers}"
            )
        return State(state.rows, inserted, removed, state.movers)

    def chosen(self, round_: int) -> tuple[ChosenPiece, ...]:
        """What a round updates: of each piece of ranks the first images of a permutation."""
        state = self.before(round_)
        return self._chosen(round_, state, self.ranking(state))

    def _chosen(self, round_: int, state: State, ranking: Ranking) -> tuple[ChosenPiece, ...]:
        choice, updates = self.spec.update_choice, self.updates if round_ else 0
        if isinstance(ranking, Grouped):
            found = group_pieces(choice, np.diff(ranking.starts).tolist(), updates)
        else:
            found = _pieces(choice, state.ranked, updates)
        chosen = []
        for number, piece in enumerate(found):
            names = ("update", round_) if choice.kind == "uniform" else ("update", round_, number)
            key = derive(self.spec.seed, *names)
            chosen.append(ChosenPiece(piece, _permutation(piece.size, key)))
        return tuple(chosen)

    def ranking(self, state: State) -> Ranking:
        """The ranks of the rows that a round may update in this state."""
        kind = self.spec.update_choice.kind
        if kind != "partitions":
            return state.straight(kind)
        load, inserted = self.spec.partition_lots
        rows, stop = state.rows, state.rows - state.movers
        return Grouped(
            (
                self._strip(0, state.deleted, stop, load),
                self._strip(rows, rows, rows + state.inserted, inserted),
            )
        )

    def _strip(self, origin: int, first: int, stop: int, lots: _Numbers) -> Strip:
        """Lots ascend by partition: those with a share are the last ones."""
        named = len(self.spec.update_choice.shares)
        partitions = np.arange(self.spec.date_partitions - named, self.spec.date_partitions)
        starts = np.searchsorted(lots, partitions).tolist()
        return Strip(origin, first, stop, Stripes(len(lots)), (0, *starts, len(lots)))

    def numbers(self, places: _Numbers) -> _Numbers:
        """Row numbers at places."""
        old = self.spec.order.apply(np.minimum(places, self.spec.rows - 1))
        return np.where(places < self.spec.rows, old, places)

    def places(self, numbers: _Numbers) -> _Numbers:
        """Places of row numbers."""
        old = self.spec.order.invert(np.minimum(numbers, self.spec.rows - 1))
        return np.where(numbers < self.spec.rows, old, numbers)

    def updated(self, round_: int, start: int, stop: int) -> _Numbers:
        """Numbers of the rows that a round updates, for a slice of 0..updates-1."""
        parts = [np.empty(0, np.int64)]
        before = 0
        state = self.before(round_)
        ranking = self.ranking(state)
        for each in self._chosen(round_, state, ranking):
            ranks = np.arange(max(start - before, 0), min(stop - before, each.piece.quota))
            before += each.piece.quota
            if len(ranks):
                parts.append(each.order.apply(ranks) + each.piece.first)
        return self.numbers(ranking.places(np.concatenate(parts)))

    def moved(self, round_: int, start: int, stop: int) -> _Numbers:
        """Numbers of the rows that move in a round, for a slice of 0..moves-1."""
        if self.spec.movers is None or not round_:
            return np.empty(0, np.int64)
        first, end = self.spec.movers.turn(round_)
        return self.spec.order.apply(
            np.arange(first + start, min(first + stop, end), dtype=np.int64)
        )

    def moved_last(self, round_: int, count: int) -> _Numbers:
        """Numbers of rows that have moved, those of the latest rounds first."""
        parts = [np.empty(0, np.int64)]
        for past in range(round_, max(0, round_ - TURNS), -1):
            parts.append(self.moved(past, 0, count - sum(map(len, parts))))
        return np.concatenate(parts)

    def late_ranks(self, round_: int) -> Permutation:
        """The order of ranks of which the first are those of a round's late rows."""
        return Permutation(self.before(round_).ranked, derive(self.spec.seed, "late", round_))

    def late_rows(self, round_: int, start: int, stop: int) -> _Numbers:
        """Numbers of a round's late rows, for a slice of 0..late-1."""
        ranks = self.late_ranks(round_).apply(np.arange(start, stop, dtype=np.int64))
        return self.numbers(self.ranking(self.before(round_)).places(ranks))

    def added(self, round_: int, start: int, stop: int) -> _Numbers:
        """Numbers of the rows that a round adds, for a slice of 0..inserts-1."""
        first, _ = self.inserted(round_)
        return np.arange(first + start, first + stop, dtype=np.int64)

    def doubled(self, round_: int, start: int, stop: int) -> _Numbers:
        """Numbers of the rows that come twice: the first of the updates, then of the inserts."""
        split = max(start, min(stop, self.updates))
        again = self.added(round_, split - self.updates, stop - self.updates)
        return np.concatenate([self.updated(round_, start, split), again])

    def repeated(self, round_: int, start: int, stop: int) -> _Numbers:
        """The number of the row whose key is repeated, for a slice of 0..repeats-1."""
        return np.repeat(self.doubled(round_, 0, 1), stop - start)

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

    def deleted(self, start: int, stop: int) -> _Numbers:
        """Numbers of the rows at places from `start` to `stop`."""
        return self.spec.order.apply(np.arange(start, stop, dtype=np.int64))

    def deleted_in(self, numbers: _Numbers, round_: int) -> list[int | None]:
        """The round whose delete step removed each row; None where no round up to this one did.

        Only delete steps that later rounds go on from count.
        """
        every = self.spec.delete_every
        if not every or not self.deletes:
            return [None] * len(numbers)
        rounds = (self.places(numbers) // self.deletes + 1) * every
        gone = (numbers < self.spec.rows) & (rounds <= round_)
        return [
            taken if is_gone else None
            for taken, is_gone in zip(rounds.tolist(), gone.tolist(), strict=True)
        ]

    def versions(self, numbers: _Numbers, round_: int) -> _Numbers:
        """Round of each row's last change, as of the end of a round's batch.

        The rows must exist by then; rows deleted before count with their last change.
        """
        versions, places = self._born(numbers), self.places(numbers)
        if self.spec.movers is not None:
            moved = self.spec.movers.last(places, round_)
            versions = np.where(self.spec.movers.hold(places), moved, versions)
        if self.updates == 0:
            return versions
        open_ = np.arange(len(numbers))
        for past in range(round_, 0, -1):
            hit = self._hit(places[open_], past)
            versions[open_[hit]] = past
            open_ = open_[~hit]
        return versions

    def changes(self, numbers: _Numbers, round_: int) -> list[list[int]]:
        """For each row, the rounds that inserted or changed it, up to this round, ascending.

        A row that a delete step removed has none afterwards.
        """
        places = self.places(numbers)
        found = [[first] for first in self._born(numbers).tolist()]
        for past in range(1, round_ + 1):
            first, end = self.spec.movers.turn(past) if self.spec.movers else (0, 0)
            hit = self._hit(places, past) | ((places >= first) & (places < end))
            for row in np.flatnonzero(hit).tolist():
                found[row].append(past)
        return found

    def _born(self, numbers: _Numbers) -> _Numbers:
        """The rounds that inserted rows; the load is round 0."""
        added = (numbers - self.spec.rows) // max(self.inserts, 1) + 1
        return np.where(numbers < self.spec.rows, 0, added)

    def _hit(self, places: _Numbers, round_: int) -> _Flags:
        """Whether a round updates the rows at places."""
        state = self.before(round_)
        ranking = self.ranking(state)
        ranks = ranking.ranks(places)
        hit = np.zeros(len(ranks), np.bool_)
        chosen = self._chosen(round_, state, ranking)
        piece = np.searchsorted([each.piece.first for each in chosen], ranks, "right") - 1
        # Few of the pieces have any of the rows.
        for number in np.unique(piece[piece >= 0]).tolist():
            each = chosen[number]
            inner = ranks - each.piece.first
            within = np.flatnonzero((piece == number) & (inner < each.piece.size))
            if each.piece.quota == each.piece.size:
                hit[within] = True
            else:
                hit[within] = each.order.invert(inner[within]) < each.piece.quota
        return hit
