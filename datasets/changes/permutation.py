"""A keyed permutation of 0..n-1 that can be evaluated at one point, in either direction.

It is a Feistel network over a grid of a x b >= n cells (a close to the root of n), where each of
six rounds shifts one coordinate by a hash of the other. The few cells beyond n are walked through
until a cell below n is reached (cycle walking); their landing places are listed, so that Spark,
which has no loops, looks them up. Picking the first k images of such a permutation draws k rows
without replacement, in an order of its own, at O(1) memory; "was this row drawn" is one inverse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit

from keymark.datasets.generate.hashing import SPARK_SEED, Word, derive, hash_long

_ROUNDS = 6
# This many widths are tried for the fewest cells beyond the end: a few hundred of 10^12.
_CANDIDATES = 4_096


@dataclass(frozen=True)
class Permutation:
    """The permutation of ``range(size)`` that belongs to ``key``.

    Attributes:
        size: number of elements, at least 1.
        key: any integer; other keys give other permutations.
    """

    size: int
    key: int

    @cached_property
    def grid(self) -> tuple[int, int]:
        """Number of rows and columns of the grid, with few cells beyond ``size``."""
        root = math.isqrt(self.size)
        rows = np.arange(max(1, root // 2, root - _CANDIDATES), root + 1, dtype=np.int64)
        waste = -(-self.size // rows) * rows - self.size
        best = int(rows[len(rows) - 1 - int(np.argmin(waste[::-1]))])
        return best, -(-self.size // best)

    @cached_property
    def round_keys(self) -> tuple[int, ...]:
        """One hash key per round."""
        return tuple(derive(self.key, "feistel", index) for index in range(_ROUNDS))

    @cached_property
    def landings(self) -> tuple[int, ...]:
        """For each cell beyond ``size``, the element that the walk from it reaches."""
        rows, columns = self.grid
        beyond = np.arange(self.size, rows * columns, dtype=np.int64)
        return tuple(int(cell) for cell in self.apply(beyond))

    def apply(self, elements: np.ndarray) -> np.ndarray:
        """Return the images of the elements (int64)."""
        return np.asarray(_walk(elements, self._parameters, self._seeds, forward=True))

    def invert(self, images: np.ndarray) -> np.ndarray:
        """Return the elements whose images are given (int64)."""
        return np.asarray(_walk(images, self._parameters, self._seeds, forward=False))

    @property
    def _parameters(self) -> np.ndarray:
        return np.array([*self.grid, self.size], np.int64)

    @cached_property
    def _seeds(self) -> np.ndarray:
        seeds = [hash_long(np.uint64(key), SPARK_SEED) for key in self.round_keys]
        return np.array(seeds, np.uint64)


@njit(cache=True, nogil=True)
def _shift(seed: Word, coordinate: int, modulus: int) -> Any:
    """Spark's pmod(xxhash64(key, coordinate), modulus): the remainder of the signed hash."""
    remainder = np.int64(hash_long(np.uint64(coordinate), seed)) % np.int64(modulus)
    return remainder + modulus if remainder < 0 else remainder


@njit(cache=True, nogil=True)
def _once(cell: int, grid: np.ndarray, seeds: np.ndarray, forward: bool) -> Any:  # noqa: FBT001
    rows, columns = grid[0], grid[1]
    row, column = cell // columns, cell % columns
    for step in range(len(seeds)):
        index = step if forward else len(seeds) - 1 - step
        if index % 2 == 0:
            by = _shift(seeds[index], column, rows)
            row = (row + by) % rows if forward else (row - by + rows) % rows
        else:
            by = _shift(seeds[index], row, columns)
            column = (column + by) % columns if forward else (column - by + columns) % columns
    return row * columns + column


@njit(cache=True, nogil=True)
def _walk(cells: np.ndarray, grid: np.ndarray, seeds: np.ndarray, forward: bool) -> np.ndarray:  # noqa: FBT001
    out = np.empty(len(cells), np.int64)
    for index in range(len(cells)):
        cell = _once(cells[index], grid, seeds, forward)
        while cell >= grid[2]:
            cell = _once(cell, grid, seeds, forward)
        out[index] = cell
    return out
