"""Steps that are no writing and no asking: building a table's record index, and purging keys.

What a build starts from is made off the clock: the index that the table was loaded with is
dropped. A purge is believed when the table has proven it and no base file on storage holds a key.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from harness import independent
from harness.engines.base import MeasuredTable
from harness.kit import RunContext
from harness.probes import Listing

if TYPE_CHECKING:
    from harness.workload import Answer, Values

    class Timed(Protocol):
        """The clock of a step."""

        def __call__(self, call: Callable[[], Answer], /) -> tuple[Answer, Values]:
            """Call an engine; the answer, and what it took."""


def build_index(context: RunContext, *, path: Path, table: MeasuredTable, timed: Timed) -> Values:
    """Build the record index of the loaded rows on the clock; what that took."""
    table.drop_index()
    _, values = timed(table.build_index)
    rows, _ = context.inputs.truth(0, deleted=False)
    size = Listing.of(context.tables.seen(path)).index_bytes
    values["total", "keys"] = rows
    values["total", "keys_per_s"] = rows / values["total", "wall_s"]
    values["total", "index_bytes"] = size
    values["total", "bytes_per_key"] = size / rows
    return values


def purge(
    context: RunContext, engine: str, *, path: Path, table: MeasuredTable, timed: Timed
) -> tuple[Values, str | None]:
    """Erase the keys of the delete step from all that the table keeps; is one left?"""
    rows = context.engines[engine].hold_rows(context.inputs.deletes())
    report, values = timed(lambda: table.purge(rows))
    values["total", "keys"] = report.keys
    values["total", "files_written"] = report.files_rewritten
    if not report.proven:
        return values, f"{report.files_left} files still hold a purged key"
    held = independent.holding(context.tables.seen(path), context.inputs.deleted_keys())
    return values, f"{len(held)} base files hold a purged key, first {held[0]}" if held else None
