"""Which live rows a round updates: how many of each stretch of ranks, exactly.

Live rows have ranks 0..live-1. A choice cuts the ranks into pieces and says how many rows of each
piece are updated; a keyed permutation of the piece says which. So counts are exact, no row is
drawn twice, and whether a row was chosen is known from its rank alone.

    uniform   one piece, all rows alike
    zipf      the row of rank r counts (r + 1)^-shape, and ranks stay: the same rows are hot
    recent    the same over age: rank 0 is the row that was inserted last
    hot       a share of the rows gets a share of the updates, and ranks stay
    partitions    the newest partitions get a share each, all others together what is left

Where a piece is to have more updates than rows, all its rows are updated and the next pieces take
the rest: as if rows were drawn until there are enough different ones. All pieces but that of
`uniform` and `partitions` have powers of two as sizes, which need no cycle walking.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

# What floating point may add to shares that make up the whole.
_SLACK = 1e-9

ChoiceName = Literal["uniform", "zipf", "recent", "hot", "partitions"]


def _at_most_one(shares: tuple[float, ...]) -> tuple[float, ...]:
    if math.fsum(shares) > 1 + _SLACK:
        raise ValueError(f"shares add up to {math.fsum(shares):g}, more than 1")
    return shares


Share = Annotated[float, Field(ge=0, le=1)]
Shares = Annotated[
    tuple[Share, ...], Field(min_length=1, max_length=100), AfterValidator(_at_most_one)
]


class UpdateChoice(BaseModel):
    """How a dataset's rounds choose the rows that they update.

    Attributes:
        kind: see the module.
        shape: exponent of `zipf` and `recent`.
        hot_rows: share of the rows that are hot.
        hot_updates: share of the updates that they get.
        shares: of `partitions`, the shares of the updates that the newest partition gets, the
            second newest, and so on.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: ChoiceName = "uniform"
    shape: float = Field(default=2.93, gt=0, le=20)
    hot_rows: float = Field(default=0.01, gt=0, lt=1)
    hot_updates: float = Field(default=0.9, gt=0, le=1)
    shares: Shares = (0.8, 0.1)


@dataclass(frozen=True, slots=True)
class Piece:
    """Ranks `first` to `first + size`, exclusive, of which `quota` are updated."""

    first: int
    size: int
    quota: int


def pieces(choice: UpdateChoice, live: int, updates: int) -> tuple[Piece, ...]:
    """The pieces with updates, ascending, for `live` live rows, of which `updates` are chosen."""
    if choice.kind == "uniform":
        return (Piece(0, live, updates),) if updates else ()
    spans = list(_powers(live, _bounds(choice, live)))
    weights = [_weight(choice, first, size, live) for first, size in spans]
    quotas = shared_out(updates, weights, [size for _, size in spans])
    return tuple(
        Piece(first, size, quota)
        for (first, size), quota in zip(spans, quotas, strict=True)
        if quota
    )


def group_pieces(choice: UpdateChoice, sizes: Sequence[int], updates: int) -> tuple[Piece, ...]:
    """The pieces with updates where partitions get their shares.

    Args:
        choice: of kind `partitions`.
        sizes: rows of the other partitions together, and of those with a share, the newest last.
        updates: how many rows are chosen of all.
    """
    weights = [max(0.0, 1 - math.fsum(choice.shares)), *reversed(choice.shares)]
    quotas = shared_out(updates, weights, sizes)
    starts = itertools.accumulate(sizes, initial=0)
    return tuple(
        Piece(first, size, quota)
        for first, size, quota in zip(starts, sizes, quotas, strict=False)
        if quota
    )


def shared_out(amount: int, weights: Sequence[float], sizes: Sequence[int]) -> list[int]:
    """Whole shares of an amount by weight, none above its size; they add up to the amount.

    The sizes must add up to the amount at least.
    """
    shares = []
    left, rest = amount, math.fsum(weights)
    for weight, size in zip(weights, sizes, strict=True):
        share = round(left * min(1.0, weight / rest)) if rest > 0 else left
        share = min(share, size, left)
        shares.append(share)
        left -= share
        rest -= weight
    for place, size in enumerate(sizes):
        more = min(left, size - shares[place])
        shares[place] += more
        left -= more
    return shares


def _bounds(choice: UpdateChoice, live: int) -> list[int]:
    """Ranks at which another weight begins."""
    if choice.kind == "hot":
        return [min(live, max(1, round(choice.hot_rows * live)))]
    return [1 << power for power in range(live.bit_length())]


def _powers(live: int, bounds: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First rank and size of pieces between the bounds, each a power of two, the largest first."""
    for start, end in itertools.pairwise((0, *(bound for bound in bounds if bound < live), live)):
        at = start
        while at < end:
            size = 1 << ((end - at).bit_length() - 1)
            yield at, size
            at += size


def _weight(choice: UpdateChoice, first: int, size: int, live: int) -> float:
    if choice.kind == "hot":
        hot = _bounds(choice, live)[0]
        if first < hot:
            return choice.hot_updates * size / hot
        return (1 - choice.hot_updates) * size / (live - hot)
    # For the ranks from a to b the integral of (r + 1)^-s, half a rank to either side.
    low, high, power = first + 0.5, first + size + 0.5, 1 - choice.shape
    if abs(power) < 1e-9:
        return math.log(high / low)
    return float((high**power - low**power) / power)
