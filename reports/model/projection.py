"""Run folders into cells and their samples, ready to be summarized.

A sample counts when it is valid and no warm-up. A cell counts when every one of its samples,
warm-ups included, was verified: one wrong answer casts doubt on the other answers, so it takes
the whole cell off tables and charts. A cell that ended at a limit of memory or time has not failed:
what it measured before counts. What is left out is never silent: it becomes a reason or a notice.

What is done in rounds is one value a repetition, the mean of its rounds. In a run of one repetition
each round is a value of its own, and rounds of the same number are pairs: a median is then that of
the rounds, and its interval is about rounds within one trial and not about trials.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from string import ascii_uppercase

from keymark.harness.engines import NATIVE
from keymark.harness.errors import RunFolderError
from keymark.harness.store.beats import noise_share
from keymark.harness.store.contents import content
from keymark.harness.store.data_point import DataPoint
from keymark.harness.store.results import Beat, Sample
from keymark.harness.store.run_record import RunRecord
from keymark.harness.store.store import RunFolder
from keymark.indexes import installed
from keymark.indexes.spec import UNKNOWN, IndexSpec
from keymark.reports.errors import ReportError
from keymark.reports.model.data_points import data_points_of, order_of, words_of
from keymark.reports.render.text import clean, without_folders

# No more digits than fit into any number: names come from files.
_NUMBER = re.compile(r"(\d{1,18})")

# The step `spread` ends one repetition only: what a table is at its end is said by other steps.
STEP_ORDER = (
    *("build", "bulk_insert", "build_index", "spread"),
    *("upsert", "insert", "null_columns", "delete", "purge"),
    *("lookup", "lookup_again", "point_query", "point_query_spark"),
    *("column_query", "range_query", "point_query_cold", "range_query_cold", "lookup_few"),
)
UPSERT = "upsert"
"""Name of the step that stands for all ``upsert_<n>``; see ``CellView.over_rounds``."""

Trial = tuple[int, int]
"""(repetition, round): what is measured side by side in all cells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The values of one metric of one phase of one step, by trial, in its base unit."""

    step: str
    phase: str
    metric: str
    unit: str
    values: Mapping[Trial, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellView:
    """One cell as reports see it.

    Attributes:
        run_id: the run that it was measured in.
        cell: the cell's id in that run.
        engine: engine name.
        index: index name.
        label: short name, unique among the cells on its data.
        run_label: the run's letter, empty when the report is on one run.
        verified: it has numbers, and every answer was checked and right.
        reasons: why not, one line each.
        ended: the step and the limit of memory or time at which it ended; empty where it did not.
        series: everything measured, by (step, phase, metric).
        data: that it works on; says only what varies within the run.
        spec: of its index, as the run folder keeps it, or as it is installed here.
        noise: of the machine during its run, as a share of times.
        by_rounds: each round is a value of its own, because its run has one repetition.
    """

    run_id: str
    cell: str
    engine: str
    index: str
    label: str
    run_label: str = ""
    verified: bool
    reasons: tuple[str, ...] = ()
    ended: str = ""
    series: Mapping[tuple[str, str, str], Series] = field(default_factory=dict)
    data: DataPoint = field(default_factory=DataPoint)
    spec: IndexSpec = UNKNOWN
    noise: float = 0.0
    by_rounds: bool = False
    _rounds: Mapping[tuple[str, str, str], Mapping[int, Mapping[int, float]]] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Group the rounds, which every table and chart of the cell asks for."""
        object.__setattr__(self, "_rounds", _rounds_of(self.series.values()))

    @property
    def failed(self) -> bool:
        """Whether it is wrong, or missing; a cell that ended at a limit is neither."""
        return not self.verified and not self.ended

    @property
    def full_label(self) -> str:
        """The label with the data, unique on the page."""
        return " · ".join(part for part in (self.label, words_of(self.data)) if part)

    @property
    def variant(self) -> str:
        """What the cell's id says beyond engine, index and data."""
        at = self.data
        of_data = {f"shape-{at.shape}", f"rows-{at.rows}", f"batch-{at.batch}"}
        parts = self.cell.removeprefix(f"{self.engine}/{self.index}").split("/")
        return "/".join(part for part in parts if part and part not in of_data)

    def steps(self) -> list[str]:
        """Steps of this cell in the order in which a run takes them."""
        return sorted({step for step, _, _ in self.series}, key=step_order)

    def values(self, step: str, phase: str, metric: str) -> Mapping[Trial, float]:
        """Values by trial, empty when not measured; ``UPSERT`` is over the upsert rounds."""
        if step != UPSERT:
            series = self.series.get((step, phase, metric))
            return series.values if series else {}
        return self.over_rounds(UPSERT, phase, metric)

    def over_rounds(self, kind: str, phase: str, metric: str) -> Mapping[Trial, float]:
        """The values of the steps ``<kind>_<round>``, by trial.

        A repetition is one independent value, the mean of its rounds; one that misses a round is
        left out. In a run of one repetition each round is a value.
        """
        rounds = self.rounds(kind, phase, metric)
        if self.by_rounds:
            return {
                (repetition, number): value
                for number, values in sorted(rounds.items())
                for repetition, value in values.items()
            }
        complete = set.intersection(*map(set, rounds.values())) if rounds else set()
        return {(rep, 0): fmean(each[rep] for each in rounds.values()) for rep in sorted(complete)}

    def rounds(self, kind: str, phase: str, metric: str) -> Mapping[int, Mapping[int, float]]:
        """Values of the steps ``<kind>_<round>``, by round, then by repetition."""
        return self._rounds.get((kind, phase, metric), {})


def _rounds_of(
    found: Iterable[Series],
) -> Mapping[tuple[str, str, str], Mapping[int, Mapping[int, float]]]:
    """Values of all steps ``<kind>_<round>`` by (kind, phase, metric), round and repetition."""
    rounds: dict[tuple[str, str, str], dict[int, Mapping[int, float]]] = {}
    for series in found:
        kind, _, number = series.step.rpartition("_")
        if kind and number.isdecimal():
            values = {repetition: value for (repetition, _), value in series.values.items()}
            rounds.setdefault((kind, series.phase, series.metric), {})[int(number)] = values
    return rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run folder, read.

    Attributes:
        run_id: as run.json says.
        label: letter that tells it from the other runs of a report; empty when it is the only one.
        folder: where it was read from.
        record: what run.json says.
        samples: all lines of samples.jsonl.
        cells: views in the order of tables and charts.
        notices: what was left out or odd while reading, one line each.
        beats: what the canary saw of the machine, in the order of time.
    """

    run_id: str
    label: str
    folder: Path
    record: RunRecord
    samples: tuple[Sample, ...]
    cells: tuple[CellView, ...]
    notices: tuple[str, ...]
    beats: tuple[Beat, ...] = ()

    @property
    def name(self) -> str:
        """What the run is called on a page."""
        run_id = clean(self.run_id)
        return f"Run {self.label}: {run_id}" if self.label else run_id

    @property
    def file_suffix(self) -> str:
        """Tells its files from those of the other runs of a report."""
        return f"_{self.label.lower()}" if self.label else ""


def load(paths: Sequence[Path]) -> tuple[Run, ...]:
    """Read run folders for one report.

    Args:
        paths: at least one run folder.

    Raises:
        ReportError: a path is no run folder, or a finished line of it is damaged.
    """
    runs = [_load_one(path) for path in paths]
    if len(runs) == 1:
        return (_alone(runs[0]),)
    engines = {cell.engine for run in runs for cell in run.cells}
    return tuple(
        _labelled(
            run,
            ascii_uppercase[place] if place < len(ascii_uppercase) else f"R{place + 1}",
            engines,
        )
        for place, run in enumerate(runs)
    )


def of_lines(
    path: Path, record: RunRecord, samples: Sequence[Sample], beats: Iterable[Beat]
) -> Run:
    """Make a run of the lines of its files, which the caller has read and found whole.

    Raises:
        ReportError: a sample is of another run.
    """
    return _alone(_run(path, record, samples, beats, []))


def load_ended(path: Path) -> Run:
    """Load the run of a folder.

    Raises:
        ReportError: it is no run folder, or its run has not ended.
    """
    (run,) = load([path])
    _refuse_running(path, run.record)
    return run


def ended_record(path: Path) -> RunRecord:
    """What `run.json` says in the folder of a run.

    Raises:
        ReportError: it is no run folder, or its run has not ended.
    """
    try:
        record = RunFolder.open(path).read_record()
    except RunFolderError as error:
        raise ReportError(clean(error)) from error
    _refuse_running(path, record)
    return record


def _refuse_running(path: Path, record: RunRecord) -> None:
    if record.is_running:
        raise ReportError(f"{clean(path)} is not complete; `--resume` continues it")


def failed_cells(record: RunRecord) -> dict[str, str]:
    """Cells that run.json calls failed, with the reason, safe to show."""
    return {cell: clean(without_folders(reason)) for cell, reason in record.failed.items()}


def cell_order(
    cell: CellView,
) -> tuple[int, str, bool, str, tuple[int, str, int, int], list[int | str]]:
    """Sort key of a cell: by index, engine, ours first, and data; runs keep their order.

    Variants go by the numbers in their names: shards-4 stands before shards-16.
    """
    foreign = cell.engine != NATIVE
    numbers = [int(part) if part.isdecimal() else part for part in _NUMBER.split(cell.cell)]
    return cell.spec.order, cell.index, foreign, cell.engine, order_of(cell.data), numbers


def place_in(word: str, order: Sequence[str]) -> int:
    """Where a word stands in an order; unknown ones stand behind it."""
    return order.index(word) if word in order else len(order)


def step_order(step: str) -> tuple[int, int, str]:
    """Sort key of a step: as a run takes them, unknown ones last, by name."""
    stem, _, number = step.rpartition("_")
    if stem and number.isdecimal():
        return place_in(stem, STEP_ORDER), int(number), step
    return place_in(step, STEP_ORDER), 0, step


def _load_one(path: Path) -> Run:
    try:
        folder = RunFolder.open(path)
        record, samples, beats = folder.read_record(), folder.samples(), folder.beats()
    except RunFolderError as error:
        raise ReportError(clean(error)) from error
    notices = []
    written = content(folder.samples_file)
    if written and not written.endswith(b"\n"):
        number = written.count(b"\n") + 1
        notices.append(
            f"line {number} of samples.jsonl is unfinished (the run was cut off) and left out"
        )
    return _run(path, record, samples, beats, notices)


def _run(
    path: Path,
    record: RunRecord,
    samples: Sequence[Sample],
    beats: Iterable[Beat],
    notices: list[str],
) -> Run:
    """The run of what its files hold; notices of its cells are added to those of its files."""
    run_id = record.run_id or path.resolve().name
    if any(sample.run_id != run_id for sample in samples):
        raise ReportError(f"{clean(RunFolder(path).samples_file)} holds samples of another run")
    beats = sorted(beats, key=lambda beat: beat.at)
    grouped: dict[str, list[Sample]] = {}
    for sample in samples:
        grouped.setdefault(sample.cell, []).append(sample)
    noise, by_rounds = noise_share(beats), _has_one_repetition(samples, record)
    points, failed = data_points_of(record.cells or ()), failed_cells(record)
    specs = {**installed.measured_specs(), **installed.kept_specs(record.indexes)}
    views = []
    for cell, lines in grouped.items():
        view = _cell(run_id, lines, notices, ended=record.ended.get(cell, ""))
        if not view.failed and cell in failed:
            # The run's own word for a failure that left no sample behind.
            view = replace(view, verified=False, reasons=(failed[cell],), ended="")
        data, spec = points.get(cell, DataPoint()), specs.get(view.index, UNKNOWN)
        views.append(replace(view, data=data, spec=spec, noise=noise, by_rounds=by_rounds))
    return Run(
        run_id=run_id,
        label="",
        folder=path,
        record=record,
        samples=tuple(samples),
        cells=tuple(sorted(views, key=cell_order)),
        notices=tuple(notices),
        beats=tuple(beats),
    )


def _has_one_repetition(samples: Iterable[Sample], record: RunRecord) -> bool:
    """Whether all values are of one repetition; loads have numbers of their own."""
    loads = record.scenario.workload.load_steps
    taken = {each.repetition for each in samples if not each.warmup and each.step not in loads}
    return len(taken) == 1


def _cell(run_id: str, samples: list[Sample], notices: list[str], *, ended: str) -> CellView:
    """A cell of its samples; `ended` is what run.json says about the limit at which it ended."""
    first = samples[0]
    reasons = Counter(
        f"{clean(s.step)}: {clean(without_folders(s.reason)) or 'the answer was not verified'}"
        for s in samples
        if not s.verified
    )
    dropped = Counter(
        f"{clean(s.step)}: {clean(without_folders(s.reason)) or 'no reason given'}"
        for s in samples
        if s.verified and not s.valid and not s.warmup and f"{s.step}: {s.reason}" != ended
    )
    notices += [
        f"{clean(first.cell)}, {what} ({count} values marked invalid are left out)"
        for what, count in dropped.items()
    ]
    series = _series(samples, notices)
    return CellView(
        run_id=run_id,
        cell=first.cell,
        engine=first.engine,
        index=first.index,
        label=clean(first.index, 40),
        verified=not reasons and bool(series),
        reasons=tuple(reasons) or (() if series or ended else ("nothing valid was measured",)),
        ended="" if reasons else clean(without_folders(ended)),
        series=series,
    )


def _series(samples: Iterable[Sample], notices: list[str]) -> dict[tuple[str, str, str], Series]:
    values: dict[tuple[str, str, str], dict[Trial, float]] = {}
    units: dict[tuple[str, str, str], str] = {}
    for sample in samples:
        if sample.warmup or not (sample.valid and sample.verified):
            continue
        key = (sample.step, sample.phase, sample.metric)
        trials = values.setdefault(key, {})
        trial = (sample.repetition, sample.round)
        if trial in trials:
            notices.append(
                f"{clean(sample.cell)}, {clean(sample.step)}: {clean(sample.metric)} of "
                f"repetition {sample.repetition} is there twice; the later value counts"
            )
        trials[trial] = sample.value
        units[key] = sample.unit
    return {
        key: Series(step=key[0], phase=key[1], metric=key[2], unit=units[key], values=trials)
        for key, trials in values.items()
    }


def _alone(run: Run) -> Run:
    """A run that stands alone: its cells need no run id in their names."""
    return _labelled(run, "", {cell.engine for cell in run.cells})


def _labelled(run: Run, label: str, engines: set[str]) -> Run:
    """Name cells by index, adding engine, variant and run only where they tell cells apart."""
    twins = Counter((cell.engine, cell.index, cell.data) for cell in run.cells)
    cells = []
    for cell in run.cells:
        parts = [cell.label]
        parts += [clean(cell.engine, 40)] * (len(engines) > 1)
        alike = twins[cell.engine, cell.index, cell.data] > 1
        parts += [clean(cell.variant, 40)] * alike
        parts += [label] * bool(label)
        cells.append(replace(cell, label=" · ".join(parts), run_label=label))
    return replace(run, label=label, cells=tuple(cells))
