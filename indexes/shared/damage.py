"""What the indexes say that keep runs beside the table, where a run is damaged."""

from __future__ import annotations

import warnings

from keymark.table.errors import CorruptFileError, TableWarning
from keymark.table.index.protocol import IndexContext

WARNED: set[str] = set()
"""Roots of tables of whose damaged runs this process has warned."""


def warn_of_damage(name: str, error: CorruptFileError, context: IndexContext) -> None:
    """Say once for each table that a run of an index cannot be used."""
    root = context.storage.root
    if root not in WARNED:
        WARNED.add(root)
        warnings.warn(
            f"{root}: the {name} index cannot be used, files are searched instead: {error}; "
            f"`keymark table index build {root} {name}` builds it anew",
            TableWarning,
            stacklevel=2,
        )
