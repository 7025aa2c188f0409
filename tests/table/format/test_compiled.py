"""Compiled loops."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core.errors import NumbaError

from keymark.table.format.kernels.compiled import kernel, maker


def made(count):
    return np.zeros(count, np.uint8)


def refused(count):
    return np.zeros(count, np.uint8)


def test_a_kernel_has_no_memory_of_its_own_and_nothing_to_count():
    assert maker(made)(3).tolist() == [0, 0, 0]
    with pytest.raises(NumbaError):
        kernel(refused)(3)
