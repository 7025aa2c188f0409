"""Checks of a published `samples.jsonl`: units, names, flags, and what should be there and is not.

A line is looked at alone, then all lines of one step in one repetition, then the repetitions of
each cell beside what `run.json` says was planned and taken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from keymark.harness.engines import is_native, is_without_spark
from keymark.harness.store.results import PHASES, Sample
from keymark.harness.store.run_record import RunRecord
from keymark.harness.store.units import METRICS, Unit
from keymark.indexes import installed
from keymark.reports.published.run import INFO, SAMPLES, Finding, PublishedRun, in_file, in_line

_DELETE, _SPREAD, _UPSERT = "delete", "spread", "upsert"
_POINT_QUERY, _POINT_QUERY_SPARK = "point_query", "point_query_spark"


class Taken(NamedTuple):
    """One taking of a step: in which cell, which step, and in which repetition."""

    cell: str
    step: str
    warmup: bool
    repetition: int

    def __str__(self) -> str:
        """As a finding names it: `native/record r0 upsert_1`."""
        return f"{self.cell} {'w' if self.warmup else 'r'}{self.repetition} {self.step}"


Numbered = tuple[int, Sample]
"""A sample with the number of its line."""


def by_step(samples: Iterable[Numbered]) -> Mapping[Taken, Sequence[Numbered]]:
    """The samples of each taking of a step, in their order."""
    found: dict[Taken, list[Numbered]] = defaultdict(list)
    for number, each in samples:
        taken = Taken(each.cell, each.step, each.warmup, each.repetition)
        found[taken].append((number, each))
    return found


def sample_findings(
    run: PublishedRun, steps: Mapping[Taken, Sequence[Numbered]]
) -> Iterator[Finding]:
    """What is wrong with the lines by themselves, in a step, and in a cell.

    Args:
        run: the run.
        steps: its samples, as `by_step` has them.
    """
    units = {name: metric.unit.value for name, metric in METRICS.items()}
    for spec in installed.kept_specs(run.record.indexes).values():
        units |= {counter.name: Unit.COUNT.value for counter in spec.counters}
    planned = None if run.record.cells is None else {each.cell for each in run.record.cells}
    for number, sample in run.samples:
        for field, mistake in _of_line(sample, units):
            yield in_line(SAMPLES, number, field, mistake)
        if sample.run_id != run.record.run_id:
            yield in_line(SAMPLES, number, "run_id", f"is {sample.run_id}, another run's")
        if planned is not None and sample.cell not in planned:
            yield in_line(SAMPLES, number, "cell", f"run.json plans no cell {sample.cell}")
    for taken, lines in steps.items():
        yield from _of_step(taken, lines)
    yield from _failures(run.record, steps)
    yield from _missing(run.record, steps)


def _of_line(sample: Sample, units: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(field, what is wrong) of one line."""
    if sample.metric not in units:
        yield "metric", f"nothing that is measured is called {sample.metric}"
    elif sample.unit != units[sample.metric]:
        yield "unit", f"is {sample.unit}; {sample.metric} is in {units[sample.metric]}"
    if sample.phase not in PHASES:
        yield "phase", f"{sample.phase} is no phase"
    if not f"{sample.cell}/".startswith(f"{sample.engine}/{sample.index}/"):
        yield "cell", f"{sample.cell} is no cell of {sample.engine} with {sample.index}"
    if sample.value < 0:
        yield "value", "is below zero"
    if sample.repetition < 0 or sample.round < 0:
        yield "repetition, round", "are below zero"
    if sample.verified and sample.valid and sample.reason:
        yield "verified, valid", f"are true, with a reason why not: {sample.reason}"
    elif not (sample.verified and sample.valid) and not sample.reason:
        yield "verified, valid", "are not both true, without a reason"


def _of_step(taken: Taken, lines: Sequence[Numbered]) -> Iterator[Finding]:
    """What the lines of one taking of a step say against each other."""
    first: dict[tuple[str, str], int] = {}
    _, leader = lines[0]
    for number, sample in lines:
        key = (sample.phase, sample.metric)
        if key in first:
            mistake = f"{taken}: {sample.metric} of {sample.phase} is in line {first[key]} already"
            yield in_line(SAMPLES, number, "", mistake)
        first.setdefault(key, number)
        if sample.verified != leader.verified:
            mistake = (
                f"{taken} is verified once and for all of its numbers, as line {lines[0][0]} is"
            )
            yield in_line(SAMPLES, number, "verified", mistake)
        if sample.round != leader.round:
            mistake = f"{taken} ends after as many batches as line {lines[0][0]} says"
            yield in_line(SAMPLES, number, "round", mistake)
    if ("total", "wall_s") not in first:
        yield in_line(SAMPLES, lines[0][0], "", f"{taken} has no time of the whole step")


def _failures(record: RunRecord, steps: Mapping[Taken, Sequence[Numbered]]) -> Iterator[Finding]:
    """Flags of samples against the cells that `run.json` calls failed, or ended at a limit."""
    for taken, lines in steps.items():
        number, sample = lines[0]
        if not sample.verified and taken.cell not in record.failed:
            mistake = f"is false, but run.json does not say that {taken.cell} failed"
            yield in_line(SAMPLES, number, "verified", mistake)
    for cell, reason in record.failed.items():
        step = reason.partition(": ")[0]
        ends = [lines for each, lines in steps.items() if (each.cell, each.step) == (cell, step)]
        if ends and all(each.verified and each.valid for lines in ends for _, each in lines):
            mistake = f"says that {step} failed ({reason}); all of its samples say that it did not"
            yield in_file(INFO, f"failed.{cell}", mistake)
    for cell, outcome in record.ended.items():
        step, _, reason = outcome.partition(": ")
        ends = [lines for each, lines in steps.items() if (each.cell, each.step) == (cell, step)]
        if not any(not each.valid and each.reason == reason for lines in ends for _, each in lines):
            mistake = f"says that {step} ended ({reason}); none of its samples says so"
            yield in_file(INFO, f"ended.{cell}", mistake)


def _missing(record: RunRecord, steps: Mapping[Taken, Sequence[Numbered]]) -> Iterator[Finding]:
    """Repetitions, steps and cells that were planned or taken, and have no samples."""
    cells = [each.cell for each in record.cells or ()]
    skipped = tuple(f"{name}/" for name in record.skipped)
    found = list(dict.fromkeys([*cells, *(taken.cell for taken in steps)]))
    # Before schema 3 Keymark's engines took the point query by Spark alone.
    scans = any(taken.step == _POINT_QUERY and _is_native(taken.cell) for taken in steps)
    # The rest of a cell that failed or ended at a limit was left out.
    stopped = {*record.failed, *record.ended}
    for cell in found:
        if cell in stopped or f"{cell}/".startswith(skipped):
            continue
        counted = [t for t in steps if t.cell == cell and not t.warmup]
        if not counted:
            yield in_file(SAMPLES, "", f"{cell} was planned and has no samples")
            continue
        queries = [_POINT_QUERY] if scans or not _is_native(cell) else []
        by_spark = _is_native(cell) and not is_without_spark(cell.partition("/")[0])
        queries += [_POINT_QUERY_SPARK] if by_spark else []
        yield from _missing_of(cell, record, counted, queries=queries)


def _is_native(cell: str) -> bool:
    """Whether a cell is of an engine that is Keymark."""
    return is_native(cell.partition("/")[0])


def _missing_of(
    cell: str, record: RunRecord, counted: Sequence[Taken], *, queries: Sequence[str]
) -> Iterator[Finding]:
    """What a cell lacks, or has beyond the repetitions; `queries` are its point queries."""
    plan = record.scenario.workload
    once = {_SPREAD, *([_DELETE] if plan.delete == "once" else [])}
    there: dict[str, set[int]] = defaultdict(set)
    for taken in counted:
        there[taken.step].add(taken.repetition)
    planned = [f"{_UPSERT}_{number}" for number in range(1, plan.rounds + 1)]
    planned += ["lookup"] * bool(plan.lookup_keys) + list(queries) * plan.point_query
    planned += [_DELETE] * (plan.delete is True) + ["purge"] * plan.purge
    for step in dict.fromkeys([*planned, *there]):
        wanted: set[int] = set()
        if step in once:
            # It may have been ended, and what comes after it left out.
            wanted = {0} & there.get(step, set())
        elif step in plan.load_steps:
            wanted = set(range(record.scenario.schedule.loads))
        else:
            wanted = set(range(record.repetitions))
        for repetition in sorted(wanted - there.get(step, set())):
            taken = Taken(cell, step, warmup=False, repetition=repetition)
            yield in_file(SAMPLES, "", f"{taken} is missing")
        beyond = sorted(there.get(step, set()) - wanted)
        # A run that was cut off may have planned more repetitions than the one that went on.
        if beyond and record.sessions == 1:
            mistake = f"{record.repetitions}; {cell} has {step} of repetition {beyond[-1]}"
            yield in_file(INFO, "repetitions", mistake)
