"""Keymark: which index should a lakehouse table have, and what will it cost?

`from keymark import Table` opens, reads and writes Apache Hudi tables; the command `keymark` runs
comparisons, reports and plans. Names are loaded when they are first asked for.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keymark.table.errors import TableError, TableWarning
    from keymark.table.index.protocol import LookupStats
    from keymark.table.layout.model import CommitResult
    from keymark.table.read.skipping import ReadStats
    from keymark.table.services.purge.purge import key_digest
    from keymark.table.table import Table

__all__ = [
    "CommitResult",
    "LookupStats",
    "ReadStats",
    "Table",
    "TableError",
    "TableWarning",
    "key_digest",
]

_MODULES = {
    "CommitResult": "keymark.table.layout.model",
    "LookupStats": "keymark.table.index.protocol",
    "ReadStats": "keymark.table.read.skipping",
    "Table": "keymark.table.table",
    "TableError": "keymark.table.errors",
    "TableWarning": "keymark.table.errors",
    "key_digest": "keymark.table.services.purge.purge",
}

if not Path(__file__).parents[1].joinpath("pyproject.toml").exists():
    # Installed, not a clone: compiled kernels lie in the user's cache, so that removing the package
    # leaves nothing. Numba and Spark's workers read the variable.
    _CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - no HOME is no error
    os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(_CACHE, "keymark", "numba")))


def __getattr__(name: str) -> object:
    """A public name, imported when it is asked for: `import keymark` alone loads nothing."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
