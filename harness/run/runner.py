"""Take every repetition of every cell, interleaved, and keep each one as soon as it is verified.

Decision: all cells of an engine share one Spark session and Python process. A process for each
(cell, repetition) would start every sample equally cold, but costs 10 s of JVM and worker start
against 10 s of measured work, most of the time that a quickstart has, and would measure class
loading more than indexes. What sharing costs is met thus: cells are interleaved with alternating
direction, so that a JVM that grows warmer favours none; warm-up repetitions are taken of every
cell, or of every index, and kept apart; every repetition starts from a copy of the same loaded
table, so nothing that one leaves behind on storage reaches the next. Engines that bring their own
jars have processes of their own (`engines/hudi.py`), as warm as the run's; only one of them works.

A repetition is appended as one block after its verification, so a killed run resumes with the
first repetition that is not complete and no sample is doubled. Between the trials, off every clock,
the canary takes its beats (`canary.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from keymark.harness.errors import CellError
from keymark.harness.run import cell as cells
from keymark.harness.run import workload
from keymark.harness.run.kit import RunContext
from keymark.harness.scenario.dataset_section import DataPoint
from keymark.harness.scenario.matrix import Cell, Trial, first_of, schedule
from keymark.harness.scenario.scenario import Scenario
from keymark.harness.step import BUILD, BULK_INSERT, LOAD, StepResult
from keymark.harness.store.results import Sample
from keymark.harness.store.store import RunFolder

MAX_REPETITIONS = 200
"""Even a generous budget ends here: intervals no longer narrow noticeably."""


class Progress(Protocol):
    """Told what the run does; the command line shows it on standard error."""

    def plan(self, trials: int) -> None:
        """How many trials are to be taken in all; told again when a budget changes it."""

    def begin(self, what: str) -> None:
        """What is being done now."""

    def end(self) -> None:
        """A trial was taken or left out."""


@dataclass(slots=True)
class Outcome:
    """What came of a run: reasons of failed cells by cell id, notes for the report."""

    failed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    repetitions: int = 0


class Runner:
    """Takes the trials of one run.

    Args:
        scenario: what to run.
        contexts: what to run it with, by the data of a cell.
        folder: where the samples go; trials that are already there are not taken again.
        run_id: written into every sample.
        progress: who is told.

    Attributes:
        between: called with the name of each trial before it is taken.
    """

    def __init__(
        self,
        scenario: Scenario,
        contexts: Mapping[DataPoint, RunContext],
        folder: RunFolder,
        *,
        run_id: str,
        progress: Progress,
    ) -> None:
        self.between: Callable[[str], None] = nothing
        self._scenario = scenario
        self._kits = contexts
        first = next(iter(contexts.values()))
        self._clock, self._source = first.clock, first.source
        self._folder = folder
        self._run_id = run_id
        self._progress = progress
        self._steps = workload.steps(scenario.workload)
        self._taken = {trial_key(sample) for sample in folder.samples()}
        self._outcome = Outcome()

    def run(self, matrix: Sequence[Cell], *, budget_s: float | None = None) -> Outcome:
        """Load every table, then take the repetitions; cells that fail are left out from there.

        Args:
            matrix: the cells.
            budget_s: time for the run from now; the first measured repetition decides how many
                more fit, at least none. None: the scenario's number.
        """
        times = self._scenario.schedule
        start = self._clock()
        tables = first_of(matrix, lambda cell: cell.table_id)
        warm = matrix
        if times.warm == "index":
            warm = first_of(matrix, lambda cell: (cell.engine, cell.index))
        loads = 1 if self._source else times.loads
        ahead = len(tables) * loads + len(warm) * times.warmups
        self._progress.plan(ahead + len(matrix) * times.repetitions)
        if self._source is None and times.warmups > 0:
            self._warm_loads(warm)
        self._load_all(matrix, tables, loads)
        turns = schedule(matrix, warmups=times.warmups, repetitions=1, warm=warm)
        cut = len(warm) * times.warmups
        self._take(turns[:cut])
        first = self._clock()
        self._take(turns[cut:])
        repetitions = times.repetitions
        if budget_s is not None:
            now = self._clock()
            repetitions = 1 + affordable(budget_s - (now - start), each=now - first)
            self._progress.plan(ahead + len(matrix) * repetitions)
        later = schedule(matrix, warmups=times.warmups, repetitions=repetitions, warm=warm)
        self._take(later[len(turns) :])
        self._outcome.repetitions = repetitions
        return self._outcome

    def _warm_loads(self, warm: Iterable[Cell]) -> None:
        for cell in warm:
            self._progress.begin(f"{cell.cell_id}: first load, to warm up")
            with suppress(Exception):  # what is wrong goes wrong again in the measured load
                cells.warm_load(self._kits[cell.data], cell)

    def _load_all(self, matrix: Sequence[Cell], tables: Sequence[Cell], loads: int) -> None:
        """Load every table, on the clock of the first cell that has it."""
        for trial in schedule(tables, warmups=0, repetitions=loads):
            if trial.cell.cell_id not in self._outcome.failed:
                self._progress.begin(f"{trial.cell.cell_id}: load")
                self.between(f"{trial.label}|load")
                wrong = self._load(trial)
                if wrong is not None:
                    self._spread(wrong, trial, matrix)
            self._progress.end()

    def _spread(self, wrong: StepResult, trial: Trial, matrix: Iterable[Cell]) -> None:
        """Cells that share a table are wrong with it."""
        for cell in matrix:
            if cell.table_id == trial.cell.table_id and cell.cell_id != trial.cell.cell_id:
                self._keep(replace(trial, cell=cell), [wrong], append=True)

    def _load(self, trial: Trial) -> StepResult | None:
        """Load a table, even if it was measured before: the snapshot is needed.

        The result is given back where it is wrong, for the cells that share the table.
        """
        start = self._clock()
        context = self._kits[trial.cell.data]
        try:
            if self._source is not None:
                note = cells.adopt(context, trial.cell, self._source)
                self._outcome.notes += [note] if note else []
                return None
            taken = (trial.cell.cell_id, False, trial.repetition, True) in self._taken
            if taken and trial.repetition > 0:
                return None
            result = cells.load(context, trial)
        except CellError as error:
            spent = {("total", "wall_s"): self._clock() - start}
            result = StepResult(step=LOAD, values=spent, mistake=str(error), failed=True)
            taken = False
        self._keep(trial, [result], append=not taken)
        return result if result.mistake else None

    def _take(self, trials: Iterable[Trial]) -> None:
        for trial in trials:
            cell_id = trial.cell.cell_id
            taken = (cell_id, trial.warmup, trial.repetition, False) in self._taken
            if cell_id not in self._outcome.failed and not taken:
                kind = "warm-up" if trial.warmup else "repetition"
                self._progress.begin(f"{cell_id}: {kind} {trial.repetition + 1}")
                self.between(trial.label)
                context = self._kits[trial.cell.data]
                self._keep(trial, cells.repeat(context, trial, self._steps), append=True)
            self._progress.end()

    def _keep(self, trial: Trial, results: Sequence[StepResult], *, append: bool) -> None:
        if append:
            self._folder.append(cells.samples(self._run_id, trial, results))
        for result in results:
            if result.mistake is not None:
                reason = f"{result.step.name}: {result.mistake}"
                self._outcome.failed.setdefault(trial.cell.cell_id, reason)


def nothing(_slot: str) -> None:
    """Between trials where nobody asked for anything."""


def affordable(left_s: float, *, each: float) -> int:
    """How many more repetitions of `each` seconds fit into what is left of a budget."""
    if left_s <= 0:
        return 0
    return min(int(left_s / max(each, 1e-3)), MAX_REPETITIONS)


def trial_key(sample: Sample) -> tuple[str, bool, int, bool]:
    """Cell, warm-up, repetition, and whether it is a load: what is taken or resumed."""
    return sample.cell, sample.warmup, sample.repetition, sample.step in (BULK_INSERT, BUILD)


def complete_trials(
    samples: Iterable[Sample], step_names: Iterable[str]
) -> set[tuple[str, bool, int, bool]]:
    """The trials that have a right wall time for each of their steps; others are taken again."""
    timed: dict[tuple[str, bool, int, bool], set[str]] = {}
    for sample in samples:
        if sample.metric == "wall_s" and sample.phase == "total" and sample.verified:
            timed.setdefault(trial_key(sample), set()).add(sample.step)
    names = set(step_names)
    return {trial for trial, found in timed.items() if trial[3] or found >= names}
