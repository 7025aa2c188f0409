"""The lookup model t = K + (M/N)*c of RFC-8, fitted to what a run measured, and where it fails.

A run of the scenario `lookup_model` has a step per point: `lookup_<state>_<cache>_<kind>_<M>`, with
time, shards and decoded blocks. The fit is the one of least absolute deviations relative to the
measured time: times span four powers of ten, and one slow lookup must not move it. Its intervals
are 95 % percentiles of a bootstrap over the measured values, with a fixed seed, so that equal
samples give equal reports.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import numpy.typing as npt

from keymark.indexes.spec import UNKNOWN, IndexSpec
from keymark.reports.model.projection import CellView

STATES = ("logs", "compacted")
STATE_NAMES = {"logs": "log blocks", "compacted": "compacted"}
CACHES = ("cold", "warm")
KINDS = ("present", "absent")

_POINT = re.compile(r"lookup_(logs|compacted)_(cold|warm)_(present|absent)_(\d{1,9})")
_DRAWS = 1000
_SEED = 1
_ROUNDS = 60
_TINY = 1e-7
_ALL = 0.99

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """What was measured for M keys in one state of index and cache.

    Attributes:
        state: one of STATES.
        cache: one of CACHES.
        kind: one of KINDS.
        shards: N, the shards of the index.
        keys: M.
        walls: seconds, one per repetition.
        blocks: data blocks decoded, the median.
    """

    state: str
    cache: str
    kind: str
    shards: int
    keys: int
    walls: tuple[float, ...]
    blocks: float

    @property
    def load(self) -> float:
        """M/N, the keys of a shard."""
        return self.keys / self.shards

    @property
    def wall(self) -> float:
        """Seconds, the median."""
        return median(self.walls)


@dataclass(frozen=True, slots=True)
class FittedConstant:
    """A fitted value and the ends of its 95 % interval, in seconds."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The model of some spots.

    Attributes:
        state: one of STATES.
        cache: one of CACHES.
        shards: N, None for all numbers of shards together, as the model means it.
        k: what any lookup takes.
        c: what each key of a shard takes.
        off: how far a measured time is off, as the median over all of max(t/fit, fit/t).
        worst: the same of the spot that is off most.
    """

    state: str
    cache: str
    shards: int | None
    k: FittedConstant
    c: FittedConstant
    off: float
    worst: float

    def at(self, load: float) -> float:
        """Seconds that the model predicts for a number of keys of a shard."""
        return self.k.value + load * self.c.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Saturation:
    """Where a shard count's lookups touch all blocks, in one state of the index, cold.

    Attributes:
        state: one of STATES.
        shards: N.
        blocks: all blocks that lookups decode.
        keys: the smallest M that decodes them all.
        wall: the seconds that it takes.
        more: the largest M.
        growth: how many times `wall` that takes, as measured.
        model_growth: the same, as the model has it.
    """

    state: str
    shards: int
    blocks: int
    keys: int
    wall: float
    more: int
    growth: float
    model_growth: float


@dataclass(frozen=True, slots=True)
class LookupModel:
    """All that a run says about the lookup model."""

    spots: tuple[Spot, ...]
    fits: tuple[Fit, ...]
    spec: IndexSpec = UNKNOWN

    def of(self, state: str, cache: str, shards: int | None = None) -> Fit | None:
        """The fit of a state, if it was measured."""
        wanted = (state, cache, shards)
        return next((f for f in self.fits if (f.state, f.cache, f.shards) == wanted), None)

    @property
    def shard_counts(self) -> tuple[int, ...]:
        """The numbers of shards, ascending."""
        return tuple(sorted({spot.shards for spot in self.spots}))


def is_point(step: str) -> bool:
    """Whether a step is a point of the model."""
    return _POINT.fullmatch(step) is not None


def lookup_model(cells: Iterable[CellView]) -> LookupModel | None:
    """The model of verified cells; None where nothing was measured for it."""
    listed = list(cells)
    spots = tuple(spot for cell in listed for spot in _spots(cell))
    if not spots:
        return None
    counts = sorted({spot.shards for spot in spots})
    fits = []
    for state in STATES:
        for cache in CACHES:
            for shards in (None, *counts):
                chosen = [s for s in spots if (s.state, s.cache) == (state, cache)]
                chosen = [s for s in chosen if shards in (None, s.shards)]
                if len({s.load for s in chosen}) > 1:
                    fits.append(_fit(state, cache, shards, spots=chosen))
    spec = next(cell.spec for cell in listed if any(_spots(cell)))
    return LookupModel(spots, tuple(fits), spec)


def _spots(cell: CellView) -> Iterator[Spot]:
    found = [(step, match) for step in cell.steps() if (match := _POINT.fullmatch(step))]
    read = [value for step, _ in found for value in _numbers(cell, step, "shards_read")]
    for step, match in found:
        walls = tuple(wall for wall in _numbers(cell, step, "wall_s") if wall > 0)
        if walls and read and int(match[4]):
            yield Spot(
                state=match[1],
                cache=match[2],
                kind=match[3],
                # A single key asks one shard: the largest lookup tells how many there are.
                shards=max(1, round(max(read))),
                keys=int(match[4]),
                walls=walls,
                blocks=median(_numbers(cell, step, "blocks_decoded") or [0.0]),
            )


def _numbers(cell: CellView, step: str, metric: str) -> list[float]:
    return list(cell.values(step, "total", metric).values())


def _fit(state: str, cache: str, shards: int | None, *, spots: Sequence[Spot]) -> Fit:
    loads = np.array([spot.load for spot in spots for _ in spot.walls])
    walls = np.array([wall for spot in spots for wall in spot.walls])
    draws = np.random.default_rng(_SEED).multinomial(
        len(walls), np.full(len(walls), 1 / len(walls)), size=_DRAWS
    )
    k, c = least_deviations(loads, walls, np.vstack([np.ones(len(walls)), draws]))
    predicted = np.array([k[0] + spot.load * c[0] for spot in spots])
    ratios = np.array([spot.wall for spot in spots]) / np.maximum(predicted, 1e-12)
    off = np.maximum(ratios, 1 / ratios)
    return Fit(
        state=state,
        cache=cache,
        shards=shards,
        k=_estimate(k),
        c=_estimate(c),
        off=float(np.median(off)),
        worst=float(off.max()),
    )


def _estimate(values: _Floats) -> FittedConstant:
    """The value fitted to all samples stands first, those of the bootstrap follow."""
    low, high = np.percentile(values[1:], [2.5, 97.5])
    return FittedConstant(float(values[0]), min(float(low), values[0]), max(float(high), values[0]))


def least_deviations(loads: _Floats, walls: _Floats, counts: _Floats) -> tuple[_Floats, _Floats]:
    """Fit walls = k + loads * c, both not negative, by least relative absolute deviations.

    Least squares with weights that are taken anew from the deviations, round after round, until the
    squares are as good as absolute values.

    Args:
        loads: of each value.
        walls: positive.
        counts: a row per fit, how often it counts each value.

    Returns:
        k and c, a value per fit.
    """
    weights = counts / walls**2
    for _ in range(_ROUNDS):
        k, c = _weighted(loads, walls, weights)
        off = np.abs(k[:, None] + loads * c[:, None] - walls) / walls
        weights = counts / walls**2 / np.maximum(off, _TINY)
    return k, c


def _weighted(loads: _Floats, walls: _Floats, weights: _Floats) -> tuple[_Floats, _Floats]:
    """Least squares per row of weights; a line that would leave the quadrant ends at its border."""
    one, x, xx = weights.sum(1), weights @ loads, weights @ loads**2
    y, xy = weights @ walls, weights @ (loads * walls)
    spread = one * xx - x**2
    flat = spread <= 1e-12 * one * xx
    c = np.where(flat, 0.0, (one * xy - x * y) / np.where(flat, 1.0, spread))
    c = np.maximum(c, 0.0)
    k = (y - c * x) / one
    c = np.where(k < 0, xy / xx, c)
    return np.maximum(k, 0.0), c


def saturations(model: LookupModel) -> list[Saturation]:
    """Where cold lookups of present keys touch all blocks, and what the model makes of it."""
    found = []
    for state in STATES:
        for shards in model.shard_counts:
            fit = model.of(state, "cold", shards)
            spots = sorted(
                (s for s in model.spots
                 if (s.state, s.cache, s.kind, s.shards) == (state, "cold", "present", shards)),
                key=lambda spot: spot.keys,
            )  # fmt: skip
            if fit is None or not spots or not spots[-1].blocks:
                continue
            last = spots[-1]
            first = next(spot for spot in spots if spot.blocks >= _ALL * last.blocks)
            if first.keys < last.keys:
                found.append(
                    Saturation(
                        state=state,
                        shards=shards,
                        blocks=round(last.blocks),
                        keys=first.keys,
                        wall=first.wall,
                        more=last.keys,
                        growth=last.wall / first.wall,
                        model_growth=fit.at(last.load) / fit.at(first.load),
                    )
                )
    return found


def block_cost(model: LookupModel, state: str) -> float | None:
    """Seconds that decoding a block takes: cold less warm, by the blocks that warm spares.

    The median over the spots of present keys with as many blocks as shards at least; None where
    there is no such pair.
    """
    spots = {
        (spot.shards, spot.keys, spot.cache): spot
        for spot in model.spots
        if (spot.state, spot.kind) == (state, "present")
    }
    costs = []
    for (shards, keys, cache), cold in spots.items():
        warm = spots.get((shards, keys, "warm"))
        if cache == "cold" and warm is not None and cold.blocks - warm.blocks >= shards:
            costs.append((cold.wall - warm.wall) / (cold.blocks - warm.blocks))
    return max(median(costs), 0.0) if costs else None
