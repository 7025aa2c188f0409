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

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple, Protocol

from keymark.harness.errors import CellError, raise_interrupt
from keymark.harness.run import cell as cells
from keymark.harness.run.context import RunContext
from keymark.harness.run.step import (
    BUILD_INDEX,
    LOAD,
    WHOLE,
    Step,
    StepResult,
)
from keymark.harness.run.time_left import TimeLeft, TrialKind
from keymark.harness.run.until import Until, percent
from keymark.harness.scenario.matrix import Cell, Schedule, Trial, first_of
from keymark.harness.store.data_point import DataPoint
from keymark.harness.store.results import LOAD_STEPS, Sample
from keymark.harness.store.store import RunFolder

MAX_REPETITIONS = 200
"""Even a generous budget ends here: intervals no longer narrow noticeably."""


class Progress(Protocol):
    """Told what the run does; the command line shows it on standard error."""

    def plan(self, trials: int) -> None:
        """How many trials are to be taken in all; called again when a budget changes it."""

    def begin(self, what: str, left_s: float | None = None, unknown: Sequence[str] = ()) -> None:
        """What is being done now, and the seconds until the last trial ends, where known.

        Args:
            what: is done.
            left_s: seconds, guessed where nothing like it was taken yet.
            unknown: names of what was guessed: engines, or all repetitions.
        """

    def end(self) -> None:
        """A trial was taken or left out."""

    def warn(self, what: str) -> None:
        """What a reader of the numbers must know already now."""


class BetweenTrials(Protocol):
    """Works between the trials, off every clock; `canary.Canary` is one."""

    def beat(self, before: str, /) -> None:
        """Do it; the name is that of the trial that comes next."""


class TrialKey(NamedTuple):
    """What tells trials from each other, by which they are resumed.

    Attributes:
        cell: id of the cell.
        warmup: whether it does not count.
        repetition: its number among its kind.
        is_load: whether it loads or builds the table.
    """

    cell: str
    warmup: bool
    repetition: int
    is_load: bool = False

    @classmethod
    def of(cls, trial: Trial, *, is_load: bool = False) -> TrialKey:
        """The key of a trial."""
        return cls(trial.cell.cell_id, trial.warmup, trial.repetition, is_load)

    @classmethod
    def of_sample(cls, sample: Sample, steps: Collection[str] = ()) -> TrialKey:
        """The key of the trial that a sample is of; `steps` are the names of a repetition's."""
        is_load = sample.step in LOAD_STEPS - set(steps)
        return cls(sample.cell, sample.warmup, sample.repetition, is_load)


@dataclass(slots=True, kw_only=True)
class Runner:
    """Takes the trials of one run.

    Attributes:
        contexts: what to run with, by the data of a cell.
        steps: of a repetition.
        folder: where the samples go; trials that are already there are not taken again.
        run_id: written into every sample.
        progress: receives what is done.
        between: works before each trial.
        earlier: samples of an earlier run of the scenario, for the time left.
        failed: reasons by cell id; such cells are left out from there.
        ended: the same of cells that ended at a limit of memory or time, which is a result.
        notes: what a reader of the report must know.
    """

    contexts: Mapping[DataPoint, RunContext]
    steps: Sequence[Step]
    folder: RunFolder
    run_id: str
    progress: Progress
    between: BetweenTrials
    earlier: Sequence[Sample] = ()
    failed: dict[str, str] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    _taken: set[TrialKey] = field(init=False)
    _time_left: TimeLeft = field(init=False, default_factory=TimeLeft)
    _reached: str = field(init=False, default="")

    def __post_init__(self) -> None:
        """Look up what an earlier process took."""
        names, samples = self._step_names, self.folder.samples()
        self._taken = {TrialKey.of_sample(sample, names) for sample in samples}
        for known in (self.earlier, samples):
            self._time_left.learn(known, LOAD_STEPS - names)
        self.ended |= ended_cells(samples, self.steps)
        self.notes += [f"{cell_id}, {reason}." for cell_id, reason in self.ended.items()]

    @property
    def _step_names(self) -> set[str]:
        return {name for step in self.steps for name in step.measured}

    def measure(
        self, schedule: Schedule, *, deadline: float | None = None, until: Until | None = None
    ) -> int:
        """Load the tables, warm up, and take the repetitions that count; how many there were.

        Args:
            schedule: of the run.
            deadline: see `repeat`.
            until: when there are enough repetitions; None: the schedule or the deadline says it.
        """
        if until is not None:
            schedule = self._up_to_first_look(schedule, until)
        self.load_tables(schedule, grows=deadline is not None or until is not None)
        self.take(schedule.warm_up_trials())
        if until is None:
            return self.repeat(schedule, deadline)
        return self._repeat_until(schedule, until)

    def load_tables(self, schedule: Schedule, *, grows: bool) -> None:
        """Load every table that is needed, on the clock of the first cell that has it.

        Args:
            schedule: of the run.
            grows: whether repetitions may follow that the schedule does not have yet.
        """
        self.progress.plan(schedule.size)
        taken = set() if grows else self._fully_taken(schedule)
        loads = [
            each
            for each in schedule.load_trials()
            if not self._needs_no_load(each, schedule, taken)
        ]
        self._plan(schedule.trials(), loads)
        for cell in schedule.warm if schedule.warmups else ():
            context = self.contexts[cell.data]
            is_loaded = context.source is not None or cells.is_kept(context, cell)
            is_cold = self._goes_on_cold(cell, schedule)
            if cell.cell_id not in taken and (is_cold or not is_loaded):
                what = "a small table" if is_loaded else "first load"
                self._tell(f"{cell.cell_id}: {what}, to warm up")
                with suppress(Exception):  # what is wrong goes wrong again in the measured load
                    loader = schedule.loaders.get(cell.table_id)
                    builds = loader is not None and schedule.builds(cell)
                    cells.warm_load(context, cell, loader, builds=builds, all_steps=is_cold)
        for trial in schedule.load_trials():
            is_left_out = trial.cell.cell_id in self._left_out
            if trial in loads and not is_left_out and not self._ends_untried(trial, LOAD):
                self._tell(f"{trial.cell.cell_id}: load")
                self.between.beat(f"{trial.label}|load")
                self._time_left.begin()
                wrong = self._load(trial, schedule)
                self._time_left.end(TrialKind(trial.cell.cell_id))
                if wrong is not None:
                    # Cells that share the table, or start from it, are wrong with it.
                    for cell in schedule.cells:
                        if schedule.depends(cell, trial.cell) and cell != trial.cell:
                            self._keep(replace(trial, cell=cell), [wrong], append=True)
            self.progress.end()
        self.notes += _shared_notes(schedule)

    def _load(self, trial: Trial, schedule: Schedule) -> StepResult | None:
        """Load or start a table, even if it was measured before: its snapshot is needed.

        The result is given back where it is wrong or was ended, for the cells that share the table.
        """
        context = self.contexts[trial.cell.data]
        loader, is_of_cell = schedule.loaders.get(trial.cell.table_id), trial.cell in schedule.cells
        start = context.clock()
        is_taken = TrialKey.of(trial, is_load=True) in self._taken
        try:
            if context.source is not None:
                note = cells.adopt(context, trial.cell, context.source)
                self.notes += [note] if note else []
                return None
            if trial.repetition > 0 and (is_taken or not is_of_cell):
                return None
            if loader is None:
                result: StepResult | None = cells.load(context, trial)
            else:
                result = cells.start(context, trial, loader, builds=schedule.builds(trial.cell))
        except CellError as error:
            raise_interrupt(error)
            spent = {("total", "wall_s"): context.clock() - start}
            result = StepResult(step=LOAD, values=spent, mistake=str(error), failed=True)
            is_taken = False
        if result is None:
            return None
        if is_of_cell and not (result.mistake is None and result.step.name in self._step_names):
            self._keep(trial, [result], append=not is_taken)
        return result if result.mistake or result.ended else None

    def _goes_on_cold(self, cell: Cell, schedule: Schedule) -> bool:
        """Whether this process takes repetitions of a cell, and none of its warm-ups."""
        warm = [TrialKey.of(trial) for trial in schedule.warm_up_trials() if trial.cell == cell]
        last = TrialKey(cell.cell_id, warmup=False, repetition=schedule.repetitions - 1)
        return last not in self._taken and all(trial in self._taken for trial in warm)

    def _fully_taken(self, schedule: Schedule) -> set[str]:
        """Ids of the cells of which earlier processes took all trials."""
        missing = {
            trial.cell.cell_id
            for trial in schedule.trials()
            if TrialKey.of(trial) not in self._taken and self._steps_of(trial)
        }
        return {cell.cell_id for cell in schedule.cells} - missing

    def _needs_no_load(self, trial: Trial, schedule: Schedule, taken: Collection[str]) -> bool:
        """Whether a load's time was measured, and the table is still there or no longer needed.

        A table that is started without building anything has no time.

        Args:
            trial: the load.
            schedule: of the run.
            taken: ids of the cells of which no trial is missing.
        """
        cell = trial.cell
        is_timed = cell in schedule.cells and (
            cell.table_id not in schedule.loaders
            or (schedule.builds(cell) and BUILD_INDEX not in self._step_names)
        )
        is_measured = not is_timed or TrialKey.of(trial, is_load=True) in self._taken
        if not is_measured:
            return False
        if all(each.cell_id in taken for each in schedule.cells if schedule.depends(each, cell)):
            return True
        return trial.repetition == 0 and cells.is_kept(self.contexts[cell.data], cell)

    def take(self, trials: Iterable[Trial], *, reads_whole: bool = False) -> None:
        """Take trials that were not taken yet, of cells that have neither failed nor ended.

        Args:
            trials: in this order.
            reads_whole: whether they end in a reading of the whole table, however large it is.
        """
        for trial in trials:
            cell_id, steps = trial.cell.cell_id, self._steps_of(trial)
            is_due = cell_id not in self._left_out and TrialKey.of(trial) not in self._taken
            if steps and is_due and not self._ends_untried(trial, steps[0]):
                kind = "warm-up" if trial.warmup else "repetition"
                self._tell(f"{cell_id}: {kind} {trial.repetition + 1}{self._reached}")
                self.between.beat(trial.label)
                self._time_left.begin()
                context = self.contexts[trial.cell.data]
                results = cells.repeat(context, trial, steps, reads_whole=reads_whole)
                self._keep(trial, results, append=True)
                self._time_left.end(self._kind(trial))
            self.progress.end()

    def _ends_untried(self, trial: Trial, step: Step) -> bool:
        """End a trial's cell if a smaller table of its kind came to a limit; whether one did.

        Args:
            trial: that is not begun yet.
            step: the first one that it would take, which is kept as the one that was not tried.
        """
        smaller = next((name for name in trial.cell.smaller if name in self.ended), "")
        if smaller:
            reason = f"not tried, since {smaller} came to a limit"
            untried = StepResult(step=step, values={WHOLE: 0.0}, failed=True, ended=reason)
            self._keep(trial, [untried], append=True)
        return bool(smaller)

    def repeat(self, schedule: Schedule, deadline: float | None) -> int:
        """Take the repetitions that count; how many there were.

        Tables are read whole in the last one: damage to files that repetitions share is there
        then, whichever did it.

        Args:
            schedule: of the run.
            deadline: time on the contexts' clock by which to end: the first repetition that this
                process takes decides how many more fit, at least none. None: as many as the
                schedule says.
        """
        first = 0
        if deadline is not None:
            first, more = self._repeat_and_time(schedule, deadline)
            schedule = replace(schedule, repetitions=first + more)
            self.progress.plan(schedule.size)
            numbers = range(first, schedule.repetitions)
            self._plan(chain.from_iterable(map(schedule.repetition_trials, numbers)))
        for number in range(first, schedule.repetitions):
            is_last = number == schedule.repetitions - 1
            self.take(schedule.repetition_trials(number), reads_whole=is_last)
        return schedule.repetitions

    def _repeat_and_time(self, schedule: Schedule, deadline: float) -> tuple[int, int]:
        """Take repetitions until one is taken in full: how many there are, and how many more fit.

        Of a run that is resumed, those before it are done, or are done in part and say nothing of
        the time that one takes. Each may be the last one, and reads tables whole.
        """
        clock = next(iter(self.contexts.values())).clock
        for number in range(MAX_REPETITIONS):
            trials = list(schedule.repetition_trials(number))
            is_whole = all(TrialKey.of(trial) not in self._taken for trial in trials)
            start = clock()
            self.take(trials, reads_whole=True)
            now = clock()
            if is_whole or now >= deadline:
                more = affordable(deadline - now, each=now - start) if is_whole else 0
                return number + 1, min(more, MAX_REPETITIONS - number - 1)
        return MAX_REPETITIONS, 0

    def _up_to_first_look(self, schedule: Schedule, until: Until) -> Schedule:
        """The schedule until it looks for the first time whether there are enough repetitions."""
        there = 1 + max(
            (each.repetition for each in self._taken if not (each.warmup or each.is_load)),
            default=-1,
        )
        return replace(schedule, repetitions=until.first_look(there))

    def _repeat_until(self, schedule: Schedule, until: Until) -> int:
        """Take repetitions until each interval is narrow; how many there were.

        The intervals are looked at between repetitions, when all cells have as many. From the
        first look on each repetition may be the last, so that tables are read whole in it.

        Args:
            schedule: up to the first look.
            until: when there are enough.
        """
        ids = {cell.cell_id for cell in schedule.cells}
        count = self.repeat(schedule, None)
        while widest := until.unreached(count, self.notes, is_over=self._left_out >= ids):
            self._reached = f"; the widest interval is {percent(widest.half_width)}"
            self.progress.plan(replace(schedule, repetitions=count + 1).size)
            trials = schedule.repetition_trials(count)
            self._plan(trials)
            self.take(trials, reads_whole=True)
            count += 1
        return count

    def _plan(self, trials: Iterable[Trial], loads: Iterable[Trial] = ()) -> None:
        """Note what is ahead: the loads, and those of the trials that no earlier process took."""
        ahead = [TrialKind(trial.cell.cell_id) for trial in loads]
        ahead += [self._kind(trial) for trial in trials if TrialKey.of(trial) not in self._taken]
        self._time_left.plan(ahead)

    @property
    def _left_out(self) -> set[str]:
        """Ids of the cells of which no further trial is taken."""
        return {*self.failed, *self.ended}

    def _tell(self, what: str) -> None:
        left_out = self._left_out
        unknown = self._time_left.unknown(left_out)
        self.progress.begin(what, self._time_left.seconds(left_out), unknown)

    def _steps_of(self, trial: Trial) -> list[Step]:
        """The steps that a trial takes."""
        cell_id, number = trial.cell.cell_id, trial.repetition
        return [
            step
            for step in self.steps
            if step.is_taken(cell_id, repetition=number, warmup=trial.warmup)
        ]

    def _kind(self, trial: Trial) -> TrialKind:
        names = (name for step in self._steps_of(trial) for name in step.measured)
        return TrialKind(trial.cell.cell_id, frozenset(names))

    def _keep(self, trial: Trial, results: Sequence[StepResult], *, append: bool) -> None:
        if append:
            self.folder.append(cells.samples(self.run_id, trial, results))
        for result in results:
            if result.mistake is not None:
                reason = f"{result.step.name}: {result.mistake}"
                self.failed.setdefault(trial.cell.cell_id, reason)
            elif result.ended:
                reason = f"{result.step.name}: {result.ended}"
                self.notes.append(f"{trial.cell.cell_id} {trial.name}, {reason}.")
                if not result.step.is_once:  # it would be ended in each repetition
                    self.ended.setdefault(trial.cell.cell_id, reason)


def _shared_notes(schedule: Schedule) -> list[str]:
    """Notes on cells whose loaded table others use, and on what that means for their load times."""
    found = []
    for loader in first_of(schedule.loaders.values(), lambda cell: cell.table_id):
        names = [
            cell.cell_id
            for cell in first_of(schedule.cells, lambda cell: cell.table_id)
            if schedule.loaders.get(cell.table_id) == loader
        ]
        if loader.table_id in schedule.loaders:
            found.append(
                f"Neither loaded nor indexed: {', '.join(names)}. They started from the table that "
                f"{loader.cell_id} had built, with its index, so they have no build_index."
            )
            continue
        whose = f"the table that {loader.cell_id} loaded"
        if loader not in schedule.cells:
            whose = f"one table that Keymark loaded with the index {loader.index}, off their clocks"
        found.append(
            f"Not loaded: {', '.join(names)}. They started from the base files of {whose}, so "
            "they have no load time; building an index upon the files is the step build_index."
        )
    return found


def affordable(left_s: float, *, each: float) -> int:
    """How many more repetitions of `each` seconds fit into what is left of a budget."""
    if left_s <= 0:
        return 0
    return min(int(left_s / max(each, 1e-3)), MAX_REPETITIONS)


def complete_trials(samples: Iterable[Sample], steps: Iterable[Step]) -> set[TrialKey]:
    """The trials that have a right wall time for each of their steps; others are taken again.

    Trials of a cell that ended at a limit have all the steps that they will ever have.
    """
    samples, every = list(samples), tuple(steps)
    ended = ended_cells(samples, every)
    names = {name for step in every for name in step.measured}
    timed: dict[TrialKey, set[str]] = {}
    for sample in samples:
        if sample.metric == "wall_s" and sample.phase == "total" and sample.verified:
            trial = TrialKey.of_sample(sample, names)
            timed.setdefault(trial, set()).add(sample.step)
    return {
        trial
        for trial, found in timed.items()
        if trial.is_load
        or trial.cell in ended
        or all(
            found.issuperset(step.measured)
            for step in every
            if step.is_taken(trial.cell, repetition=trial.repetition, warmup=trial.warmup)
        )
    }


def ended_cells(samples: Iterable[Sample], steps: Iterable[Step]) -> dict[str, str]:
    """By cell the step and the limit of memory or time at which it ended.

    A step that only one repetition takes ends that repetition and not the cell.
    """
    once = {name for step in steps if step.is_once for name in step.measured}
    found: dict[str, str] = {}
    for sample in samples:
        is_whole = (sample.phase, sample.metric) == WHOLE
        if is_whole and sample.verified and not sample.valid and sample.step not in once:
            found.setdefault(sample.cell, f"{sample.step}: {sample.reason}")
    return found
