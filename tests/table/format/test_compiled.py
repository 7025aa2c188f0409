from __future__ import annotations

import pickle

import pytest
from numba.core.caching import IndexDataCacheFile

from keymark.table.format import compiled


@pytest.mark.parametrize("name", [b"keymark.table.errors\nGone", b"keymark.table.gone\nStrings"])
def test_kernels_kept_for_classes_that_have_moved_are_compiled_anew(tmp_path, name):
    assert compiled.kernel
    file = IndexDataCacheFile(str(tmp_path), "kernel", "stamp")
    (tmp_path / "kernel.nbi").write_bytes(pickle.dumps(file._version) + b"c" + name + b"\n.")
    assert file._load_index() == {}
