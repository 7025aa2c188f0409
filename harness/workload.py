"""The steps of a repetition and the clock around each of them.

On the clock is only the engine's own call: input data frames are made before it, listings and
verification come after it. `total` is the harness's own measurement; the other phases are what
the engine reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import independent, verify
from harness.engines.base import MeasuredTable, WriteOutcome
from harness.kit import Kit
from harness.matrix import Cell, Slot
from harness.probes import Listing, Written, written
from harness.scenario import WorkloadSection

BULK_INSERT = "bulk_insert"
DELETE = "delete"
LOOKUP = "lookup"
POINT_QUERY = "point_query"

Values = dict[tuple[str, str], float]
"""Numbers of a step by (phase, metric), in base units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a repetition; `round` is the number of change batches applied when it ends."""

    name: str
    round: int
    deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What came of a step.

    Attributes:
        step: the step.
        values: its numbers; of a failed step only the time until it failed.
        mistake: why the result is wrong; None if it was verified.
        failed: the step raised instead of ending.
    """

    step: Step
    values: Values
    mistake: str | None = None
    failed: bool = False


LOAD = Step(name=BULK_INSERT, round=0)


def steps(workload: WorkloadSection) -> tuple[Step, ...]:
    """The steps that every repetition takes, in order."""
    upserts = [Step(name=f"upsert_{n}", round=n) for n in range(1, workload.rounds + 1)]
    last = workload.rounds
    ends = [
        Step(name=name, round=last, deleted=workload.delete)
        for name, wanted in (
            (DELETE, workload.delete),
            (LOOKUP, workload.lookup_present + workload.lookup_absent > 0),
            (POINT_QUERY, workload.point_query),
        )
        if wanted
    ]
    return (*upserts, *ends)


def label(slot: Slot, step: Step) -> str:
    """Name of a step in Spark's event log."""
    return f"{slot.label}|{step.name}"


def take(kit: Kit, slot: Slot, step: Step, *, path: Path, table: MeasuredTable) -> StepResult:
    """Do one step, measure it, verify it; an engine's failure becomes the step's result."""
    start = kit.clock()
    try:
        match step.name:
            case "lookup":
                values, mistake = _lookup(kit, slot, step, path=path, table=table)
            case "point_query":
                values, mistake = _point_query(kit, slot, step, path=path, table=table)
            case _:
                values = _write(kit, slot, step, path=path, table=table)
                mistake = verify_rows(kit, slot.cell, step, path=path)
    except Exception as error:  # noqa: BLE001 - whatever an engine raises fails its cell only
        return StepResult(
            step=step,
            values={("total", "wall_s"): kit.clock() - start},
            mistake=f"failed: {first_line(error)}",
            failed=True,
        )
    return StepResult(step=step, values=values, mistake=mistake)


def verify_rows(kit: Kit, cell: Cell, step: Step, *, path: Path) -> str | None:
    """Compare the rows of the table, opened anew, with the truth, and the index with its data."""
    table = kit.engines[cell.engine].open(path, index=cell.index, options=cell.options)
    expected = kit.inputs.truth(step.round, deleted=step.deleted)
    mistake = verify.rows_mistake(kit.inputs.digest(table.read()), expected)
    if mistake is None and cell.index == "record":
        mistake = verify.check_mistake(table.check())
    return mistake


def _write(kit: Kit, slot: Slot, step: Step, *, path: Path, table: MeasuredTable) -> Values:
    call, rows = _call(kit, step, table)
    before = Listing.of(path)
    with kit.runtime.step(label(slot, step)):
        start = kit.clock()
        outcome = call(rows)
        wall = kit.clock() - start
    after = Listing.of(path)
    values = _write_values(outcome, written(before, after))
    values["total", "wall_s"] = wall
    values["total", "index_bytes"] = after.index_bytes
    values["total", "keys"] = kit.inputs.size(step.name)
    return values


def _call(kit: Kit, step: Step, table: MeasuredTable) -> tuple[Callable[[Any], WriteOutcome], Any]:
    if step.name == BULK_INSERT:
        return table.bulk_insert, kit.inputs.load()
    if step.name == DELETE:
        return table.delete, kit.inputs.deletes()
    return table.upsert, kit.inputs.batch(step.round)


def _write_values(outcome: WriteOutcome, added: Written) -> Values:
    phases: Mapping[str, float] = outcome.phases
    values: Values = {(phase, "wall_s"): seconds for phase, seconds in phases.items()}
    values["total", "files_written"] = outcome.files_written
    values["write", "bytes_written"] = added.data_bytes
    values["index", "bytes_written"] = added.index_bytes
    values["commit", "bytes_written"] = added.commit_bytes
    values["total", "bytes_written"] = added.total_bytes
    return values


def _lookup(
    kit: Kit, slot: Slot, step: Step, *, path: Path, table: MeasuredTable
) -> tuple[Values, str | None]:
    asked = kit.inputs.lookup_keys()
    keys = asked.column("record_key").combine_chunks()
    with kit.runtime.step(label(slot, step)):
        start = kit.clock()
        answer = table.lookup(keys)
        wall = kit.clock() - start
    mistake = verify.lookup_mistake(answer, asked=asked, located=independent.locations(path))
    return {("total", "wall_s"): wall, ("total", "keys"): len(keys)}, mistake


def _point_query(
    kit: Kit, slot: Slot, step: Step, *, path: Path, table: MeasuredTable
) -> tuple[Values, str | None]:
    key = kit.inputs.point_key(slot.repetition)
    with kit.runtime.step(label(slot, step)):
        start = kit.clock()
        frame = table.read(keys=[key])
        rows = [row.asDict() for row in frame.collect()]
        wall = kit.clock() - start
    values: Values = {
        ("total", "wall_s"): wall,
        ("total", "files_read"): len(frame.inputFiles()),
        ("total", "keys"): 1,
    }
    layout = kit.inputs.layout
    columns = [*layout.record_key, *([layout.ordering] if layout.ordering else [])]
    expected = independent.find(path, key, columns)
    return values, verify.point_mistake(rows, expected)


def first_line(error: BaseException) -> str:
    """Kind and first line of an error; those of Spark carry pages of Java stack."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
