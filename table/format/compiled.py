"""How the loops over bytes are compiled.

Numba counts the references to arrays that a loop hands to its helpers, with an atomic instruction
each way; where a loop has more than one way out, it does so at every turn, which takes longer than
the work of most loops here. A kernel that makes no arrays has nothing to count.

Numba keeps compiled kernels in files, whose index names the classes of their arguments. Where a
class has moved since, numba raises before it sees that the index is out of date: such an index is
taken for an empty one, and the kernels are compiled anew.
"""

from __future__ import annotations

from typing import Any

import numba
from numba.core.caching import IndexDataCacheFile

_load_index: Any = IndexDataCacheFile._load_index  # noqa: SLF001 - there is no other way


def _load_known(file: IndexDataCacheFile) -> Any:
    try:
        return _load_index(file)
    except (AttributeError, ImportError):
        return {}


IndexDataCacheFile._load_index = _load_known  # noqa: SLF001

kernel: Any = numba.njit(cache=True, nogil=True, _nrt=False)
"""Compiles a function that takes all of its arrays from its caller."""

maker: Any = numba.njit(cache=True, nogil=True)
"""Compiles a function that makes arrays."""

inlined: Any = numba.njit(cache=True, nogil=True, inline="always")
"""Makes a function a part of each kernel that calls it."""
