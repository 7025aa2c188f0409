"""One cell: its loaded table kept as a snapshot, and one repetition on a copy of it.

A bulk load is a slot of its own: it is measured, verified, and its table is what every later
repetition of the cell starts from. Repetitions link to the snapshot's immutable files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness import hbase_cells, independent, verify, workload
from harness.engines.base import MeasuredTable
from harness.errors import CellError
from harness.kit import Kit
from harness.matrix import Cell, Slot
from harness.results import Sample
from harness.units import METRICS
from harness.workload import LOAD, WHOLE, Step, StepResult


def snapshot_path(kit: Kit, cell: Cell) -> Path:
    """Where the loaded table of a cell, and of those that share it, is kept."""
    return kit.work / cell.table_id / "snapshot"


def _table_path(kit: Kit, cell: Cell, turn: str) -> Path:
    """A path that no other turn of the run has.

    JVMs remember by path what they read (Hudi 1.1: blocks of HFiles by path, offset and size, and
    its log files have the same names in each repetition).
    """
    return kit.work / cell.cell_id / f"table-{turn}"


def warm_load(kit: Kit, cell: Cell) -> None:
    """Load a small throw-away table, so that the measured load does not pay for a cold start."""
    path = _table_path(kit, cell, "warm")
    table = _create(kit, cell, path)
    table.bulk_insert(kit.engines[cell.engine].hold_rows(kit.inputs.batch(1)))
    kit.places.remove(path)


def load(kit: Kit, slot: Slot) -> StepResult:
    """Create a table, load it on the clock, verify it; the first one is kept as the snapshot."""
    keep = slot.repetition == 0
    again = _table_path(kit, slot.cell, f"load{slot.repetition}")
    path = snapshot_path(kit, slot.cell) if keep else again
    try:
        table = _create(kit, slot.cell, path)
        result = workload.take(kit, slot, LOAD, path=path, table=table)
        mistake = result.mistake or verify.index_mistake(table.info(), slot.cell.index)
    except Exception as error:
        raise CellError(f"failed: {workload.first_line(error)}") from error
    finally:
        if not keep:
            kit.places.remove(path)
            hbase_cells.refill(slot.cell, snapshot_path(kit, slot.cell))
    return StepResult(step=LOAD, values=result.values, mistake=mistake, failed=result.failed)


def adopt(kit: Kit, cell: Cell, source: Path) -> str | None:
    """Start the cell from an existing table, off the clock; a note where it had to be re-written.

    A table cannot be given another layout, so for `bucket`, and for `record` where the source
    has no record index, the same rows are bulk-inserted into a new table.

    Raises:
        CellError: the copy does not hold the source's rows or does not use the cell's index.
    """
    path = snapshot_path(kit, cell)
    note = _rewrite_note(cell, source)
    try:
        if note is None:
            kit.places.copy(source, path)
            hbase_cells.refill(cell, path)
            table = kit.engines[cell.engine].adopt(path, index=cell.index, options=cell.options)
        else:
            table = _create(kit, cell, path)
            table.bulk_insert(kit.engines[cell.engine].hold_rows(kit.inputs.load()))
        mistake = verify.index_mistake(table.info(), cell.index)
        mistake = mistake or workload.verify_rows(kit, cell, LOAD, path=path)
    except Exception as error:
        reason = workload.first_line(error)
        raise CellError(f"cannot start from {source.name}: {reason}") from error
    if mistake is not None:
        raise CellError(f"cannot start from {source.name}: {mistake}")
    return note


def _rewrite_note(cell: Cell, source: Path) -> str | None:
    if cell.index == "bucket":
        reason = "a bucket index needs a table laid out by buckets"
    elif cell.index == "record":
        if "record_index" in independent.facts(source).partitions_of_metadata:
            return None
        reason = "the source has no record index"
    else:
        return None
    return (
        f"{cell.cell_id}: {reason}, so the source's rows were first bulk-inserted into a new "
        "table, off the clock"
    )


def repeat(kit: Kit, slot: Slot, steps: Sequence[Step]) -> list[StepResult]:
    """One repetition on a fresh copy of the loaded table; it ends with the first wrong step."""
    cell = slot.cell
    path = _table_path(kit, cell, slot.turn)
    results: list[StepResult] = []
    try:
        kit.places.restore(snapshot_path(kit, cell), path)
        table = kit.engines[cell.engine].open(path, index=cell.index, options=cell.options)
        for step in steps:
            if step.points:
                results += workload.take_points(kit, slot, step, path=path)
            else:
                results.append(workload.take(kit, slot, step, path=path, table=table))
            if results[-1].mistake is not None:
                break
    finally:
        kit.places.remove(path)
        hbase_cells.restore(cell, snapshot_path(kit, cell), kit.inputs, steps)
    return results


def samples(run_id: str, slot: Slot, results: Sequence[StepResult]) -> list[Sample]:
    """The results of a slot as lines of `samples.jsonl`.

    The whole time of a step comes last: a slot that has it for its last step was written whole,
    wherever a kill may have cut.
    """
    return [
        Sample(
            run_id=run_id,
            cell=slot.cell.cell_id,
            engine=slot.cell.engine,
            index=slot.cell.index,
            step=result.step.name,
            round=result.step.round,
            repetition=slot.repetition,
            warmup=slot.warmup,
            phase=phase,
            metric=metric,
            unit=METRICS[metric].unit,
            value=value,
            verified=result.mistake is None,
            valid=not result.failed,
            reason=result.mistake or "",
        )
        for result in results
        for (phase, metric), value in sorted(
            result.values.items(), key=lambda each: each[0] == WHOLE
        )
    ]


def _create(kit: Kit, cell: Cell, path: Path) -> MeasuredTable:
    kit.places.remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    hbase_cells.renew(cell)
    engine = kit.engines[cell.engine]
    return engine.create(path, kit.inputs.layout, index=cell.index, options=cell.options)
