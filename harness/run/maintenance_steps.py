"""Steps that neither write rows nor ask for them: building, compacting and purging.

What a build starts from is made off the clock: the index that a table was loaded with is dropped.
A purge is believed when the table has proven it and no base file on storage holds a key.
"""

from __future__ import annotations

from keymark.harness.engines.base import compactable
from keymark.harness.run.step import StepRun, Values
from keymark.harness.tables import independent, verify
from keymark.harness.tables.probes import written


def build_index(run: StepRun) -> Values:
    """Build the record index of the loaded rows on the clock; what that took."""
    if run.listing().index_bytes:
        run.table.drop_index()
    with run.timed() as values:
        run.table.build_index()
    rows, _ = run.inputs.truth(0, deleted=False)
    size = run.listing().index_bytes
    values["total", "keys"] = rows
    values["total", "keys_per_s"] = rows / values["total", "wall_s"]
    values["total", "index_bytes"] = size
    values["total", "bytes_per_key"] = size / rows
    return values


def compact(run: StepRun) -> tuple[Values, str | None]:
    """Merge the index's log blocks on the clock; is the index still right?"""
    with run.timed() as values:
        instant = run.table.compact()
    values["total", "index_bytes"] = run.listing().index_bytes
    if instant is None:
        return values, "there was nothing to compact"
    return values, verify.check_mistake(run.table.check())


def compact_rows(run: StepRun) -> tuple[Values, str | None]:
    """Put the files of rows together on the clock; is one left that should not be?"""
    table, before = compactable(run.table), run.listing()
    with run.timed() as values:
        table.compact_rows()
    values["total", "bytes_written"] = written(before, run.listing()).total_bytes
    left = sum(bool(part.logs) for part in independent.slices(run.files()))
    if table.leaves_deletes or not left:
        return values, None
    return values, f"{left} file groups still have log files"


def purge(run: StepRun) -> tuple[Values, str | None]:
    """Erase the keys of the delete step from all that the table keeps; is one left?"""
    rows = run.engine.hold_rows(run.inputs.deletes())
    with run.timed() as values:
        report = run.table.purge(rows)
    values["total", "keys"] = report.keys
    values["total", "files_written"] = report.files_rewritten
    if not report.proven:
        return values, f"table {run.path.name}: {report.files_left} files still hold a purged key"
    held = independent.holding(run.files(), run.inputs.deleted_keys())
    if not held:
        return values, None
    kept = f"{len(held)} base files hold a purged key, first {held[0]}"
    return values, f"table {run.path.name}: {kept}"
