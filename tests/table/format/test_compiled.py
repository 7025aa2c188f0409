"""Compiled loops."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numba.core.caching import IndexDataCacheFile
from numba.core.errors import NumbaError

from keymark.table.format import compiled
from keymark.table.format.compiled import kernel, maker


def made(count):
    return np.zeros(count, np.uint8)


def refused(count):
    return np.zeros(count, np.uint8)


def test_a_kernel_has_no_memory_of_its_own_and_nothing_to_count():
    assert maker(made)(3).tolist() == [0, 0, 0]
    with pytest.raises(NumbaError):
        kernel(refused)(3)


@pytest.mark.parametrize("name", [b"keymark.table.errors\nGone", b"keymark.table.gone\nStrings"])
def test_kernels_kept_for_classes_that_have_moved_are_compiled_anew(tmp_path, name):
    assert compiled.kernel
    file = IndexDataCacheFile(str(tmp_path), "kernel", "stamp")
    (tmp_path / "kernel.nbi").write_bytes(pickle.dumps(file._version) + b"c" + name + b"\n.")
    assert file._load_index() == {}
