"""How the loops over bytes are compiled.

Numba counts the references to arrays that a loop hands to its helpers, with an atomic instruction
each way; where a loop has more than one way out, it does so at every turn, which takes longer than
the work of most loops here. A kernel that makes no arrays has nothing to count.
"""

from __future__ import annotations

from typing import Any

import numba

kernel: Any = numba.njit(cache=True, nogil=True, _nrt=False)
"""Compiles a function that takes all of its arrays from its caller."""

maker: Any = numba.njit(cache=True, nogil=True)
"""Compiles a function that makes arrays."""

inlined: Any = numba.njit(cache=True, nogil=True, inline="always")
"""Makes a function a part of each kernel that calls it."""
