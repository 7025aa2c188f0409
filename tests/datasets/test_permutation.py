from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from keymark.datasets.changes.permutation import Permutation


@settings(max_examples=60, deadline=None)
@given(size=st.integers(1, 3000), key=st.integers(0, 2**62))
def test_every_element_comes_once_and_the_inverse_returns_it(size, key):
    permutation = Permutation(size, key)
    elements = np.arange(size, dtype=np.int64)
    images = permutation.apply(elements)
    assert sorted(images.tolist()) == elements.tolist()
    assert permutation.invert(images).tolist() == elements.tolist()


@pytest.mark.parametrize("size", [10**9 + 7, 10**12 + 39, 2**40])
def test_large_sizes_have_few_landings_and_invert(size):
    permutation = Permutation(size, 5)
    assert len(permutation.landings) < 1000
    ends = np.array([0, 1, size // 2, size - 2, size - 1])
    images = permutation.apply(ends)
    assert images.min() >= 0
    assert images.max() < size
    assert permutation.invert(images).tolist() == ends.tolist()


def test_landings_are_where_the_walk_from_each_spare_cell_ends():
    permutation = Permutation(2999, 8)
    rows, columns = permutation.grid
    assert len(permutation.landings) == rows * columns - 2999 > 0
    assert all(0 <= landing < 2999 for landing in permutation.landings)


def test_the_first_images_spread_evenly_and_depend_on_the_key():
    size, drawn = 100_000, 10_000
    one, other = (Permutation(size, key).apply(np.arange(drawn)) for key in (1, 2))
    for images in (one, other):
        counts = np.histogram(images, bins=50, range=(0, size))[0]
        assert stats.chisquare(counts).pvalue > 1e-4
        low_bits = np.bincount(images % 16, minlength=16)
        assert stats.chisquare(low_bits).pvalue > 1e-4
    common = len(np.intersect1d(one, other))
    assert 800 < common < 1200
