"""Cells into tables of summaries: rows x columns x unit, and who leads each column. No rendering.

A leader is named only when the data shows one: with three repetitions at least, and beyond the
machine's noise. Of counters, which repeat, one repetition is enough. The cells whose interval
touches that of the best median, the lowest but for rates, cannot be called worse: two or more
of them share the lead, and when none is left outside, the column shows no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from keymark.harness.engines import format_name, hudi_name, is_native
from keymark.harness.store.units import METRICS, Better
from keymark.indexes.spec import UNKNOWN
from keymark.reports.model.measures import (
    BY_KEY,
    PHASES,
    REST,
    Measure,
    beyond_phases,
    measures_of,
    time_of,
)
from keymark.reports.model.projection import UPSERT, CellView, step_order
from keymark.reports.render.text import clean
from keymark.reports.stats.lookup_model import is_point
from keymark.reports.stats.statistics import (
    REPETITIONS_MIN,
    Summary,
    paired_ratio,
    repetitions_to_decide,
    summarize,
)

_LEAST_REST = 0.01

# More repetitions than this are not advised to settle a difference.
_REPETITIONS_MAX = 100


class Standing(StrEnum):
    """What a column shows about its cells."""

    BEST = "best"
    TIED = "tied"
    NO_DIFFERENCE = "no_difference"
    TOO_FEW = "too_few"
    ZEROS = "zeros"
    SOME_ZEROS = "some_zeros"
    ALONE = "alone"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One measure over all rows of a table.

    Attributes:
        measure: what is shown.
        summaries: one per row, None where a cell has no value.
        standing: what the column shows.
        leaders: rows that share the lead; empty unless the standing is BEST or TIED.
        ratios: per row, value / leader's value paired by trial; None for the leader itself, where
            nothing leads, and where there is no pair.
        deciding: about how many repetitions would show a difference, where none is shown and more
            of them would help.
        by_rounds: whether its values are the rounds of one repetition.
    """

    measure: Measure
    summaries: tuple[Summary | None, ...]
    standing: Standing
    leaders: frozenset[int]
    ratios: tuple[Summary | None, ...]
    deciding: int | None = None
    by_rounds: bool = False

    @property
    def unit(self) -> str:
        """Base unit of the summaries."""
        return self.measure.unit


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryTable:
    """Cells as rows, measures as columns."""

    cells: tuple[CellView, ...]
    columns: tuple[Column, ...]


def table(cells: Sequence[CellView], measures: Sequence[Measure]) -> SummaryTable:
    """Summarize measures over cells; cells that are not verified must be left out before."""
    assert all(cell.verified for cell in cells)
    return SummaryTable(
        cells=tuple(cells), columns=tuple(_column(cells, measure) for measure in measures)
    )


def filled(whole: SummaryTable) -> SummaryTable:
    """Leave out the columns that hold nothing to see: no value, or zeros only."""
    unseen = (Standing.EMPTY, Standing.ZEROS)
    kept = tuple(column for column in whole.columns if column.standing not in unseen)
    return SummaryTable(cells=whole.cells, columns=kept)


def headline(cells: Sequence[CellView]) -> SummaryTable:
    """The answer: what an index costs to write, to look up and to keep; of a job, its steps."""
    return table(cells, headline_measures(cells))


def headline_measures(cells: Sequence[CellView]) -> list[Measure]:
    """What the answer shows; of a job, the times of its steps and its memory."""
    own = own_steps(cells)
    if not own:
        return list(measures_of(cells).values())
    times = [time_of(step, clean(step, 40), f"Step {clean(step, 40)}") for step in own]
    return [*times, BY_KEY["memory"]]


def own_steps(cells: Sequence[CellView]) -> list[str]:
    """The steps of jobs of the user's own; none where a cell is of an index."""
    if any(cell.spec is not UNKNOWN for cell in cells):
        return []
    return sorted({step for cell in cells for step in cell.steps()}, key=step_order)


def paired_ratios(
    base: CellView, other: CellView, measures: Iterable[Measure]
) -> dict[str, Summary]:
    """What a cell takes as a multiple of another one, by the key of each measure that both have.

    Ratios are taken within each repetition.
    """
    known = measures_of([base, other])
    standing = [
        known.get(each.key, each)
        for each in measures
        if each.key in known or each.key not in BY_KEY
    ]
    ratios = {each.key: paired_ratio(each.values(base), each.values(other))[0] for each in standing}
    return {key: ratio for key, ratio in ratios.items() if ratio is not None}


def steps(cells: Sequence[CellView]) -> SummaryTable:
    """Wall time of every step; the points of the lookup model have tables of their own."""
    found = {step for cell in cells for step in cell.steps() if not is_point(step)}
    query = measures_of(cells)["point_query"]
    if query.of_keymark:
        found = {step.replace(query.of_keymark, query.step) for step in found}
    measures = [
        Measure(
            key=name,
            title=clean(name, 40).replace("_", " "),
            what=clean(name, 40).replace("_", " "),
            step=name,
            of_keymark=name.replace(query.step, query.of_keymark) if query.of_keymark else "",
            phase="total",
            metric="wall_s",
        )
        for name in sorted(found, key=step_order)
    ]
    return filled(table(cells, measures))


def phases(cells: Sequence[CellView]) -> SummaryTable:
    """Wall time of each phase of an upsert batch, what is beyond them, and of the whole."""
    found = _by_phase(cells, "wall_s", key="{}", what="Phase {} of an upsert batch")
    if not found.columns or found.columns[-1].measure.phase != "total":
        return found
    *parts, total = found.columns
    measure = Measure(
        key=REST,
        title="between phases" if all(map(_tells_phases, cells)) else "not told apart",
        what="Time of an upsert batch that is in no phase",
        step=UPSERT,
        phase=REST,
        metric="wall_s",
    )
    rest = _column(cells, measure)
    shares = [
        left.median / whole.median
        for left, whole in zip(rest.summaries, total.summaries, strict=True)
        if left and whole
    ]
    shown = [rest] * (max(shares, default=0.0) > _LEAST_REST)
    return SummaryTable(cells=found.cells, columns=(*parts, *shown, total))


def rest_words(cells: Sequence[CellView]) -> list[str]:
    """What the time of an upsert beyond its phases is, a sentence for each kind of cells."""
    sentences = []
    cells = [cell for cell in cells if beyond_phases(cell, UPSERT, "wall_s")]
    if any(map(_tells_phases, cells)):
        sentences.append(
            "Between phases, Keymark asks for the schema of the rows, puts the changes of the "
            "index together, counts, and gives the lease back."
        )
    if any(is_native(cell.engine) and not _tells_phases(cell) for cell in cells):
        sentences.append(
            "Not told apart, of a revision that timed four phases only: opening the table, "
            "preparing and placing rows, services after the commit."
        )
    if any(hudi_name(cell.engine) for cell in cells):
        sentences.append(
            "Hudi reports no phases: they are read off its Spark stages. What it does between "
            "them (opening the table, planning, placing rows, committing) cannot be told apart."
        )
    others = dict.fromkeys(other.release for c in cells if (other := format_name(c.engine)))
    return [*sentences, *(f"{release.title}: {release.untold}" for release in others)]


def shuffled(cells: Sequence[CellView]) -> SummaryTable:
    """Bytes that each phase of an upsert batch shuffles."""
    what = "Shuffle of phase {} of an upsert batch"
    return _by_phase(cells, "shuffle_write_bytes", key="{}_shuffle", what=what)


def _by_phase(cells: Sequence[CellView], metric: str, *, key: str, what: str) -> SummaryTable:
    """A metric of each phase of an upsert batch, and of the whole; texts name the phase by {}."""
    measures = [
        Measure(
            key=key.format(phase),
            title=phase,
            what=what.format(phase),
            step=UPSERT,
            phase=phase,
            metric=metric,
        )
        for phase in (*PHASES, "total")
    ]
    return filled(table(cells, measures))


def work(cells: Sequence[CellView], time: Measure) -> SummaryTable:
    """What a step whose time is measured makes Spark, the storage and the processor do."""
    stored = ("index_bytes", "table_bytes")
    names = [name for name, metric in METRICS.items() if metric.counter and name not in stored]
    names += ["cpu_s", "python_worker_s", "sync_s"]
    measures = [
        replace(
            time,
            key=name,
            title=METRICS[name].title,
            what=METRICS[name].title,
            metric=name,
        )
        for name in names
    ]
    return filled(table(cells, measures))


def _tells_phases(cell: CellView) -> bool:
    """Whether the engine timed all phases."""
    return bool(cell.values(UPSERT, PHASES[0], "wall_s"))


def _column(cells: Sequence[CellView], measure: Measure) -> Column:
    values = [measure.values(cell) for cell in cells]
    summaries = tuple(summarize(list(each.values())) if each else None for each in values)
    judged = _judged(cells, summaries)
    several = any(summary is not None and summary.n > 1 for summary in summaries)
    by_rounds = several and measure.step == UPSERT and any(cell.by_rounds for cell in cells)
    standing, leaders = _lead(cells, judged, measure)
    ratios: list[Summary | None] = [None] * len(values)
    first = _foremost(judged, measure)
    if first is not None and standing in (Standing.BEST, Standing.TIED):
        ratios = [
            None if row == first or not each else paired_ratio(values[first], each)[0]
            for row, each in enumerate(values)
        ]
    return Column(
        measure=measure,
        summaries=summaries,
        standing=standing,
        leaders=leaders,
        ratios=tuple(ratios),
        deciding=_deciding(judged, measure, standing, by_rounds=by_rounds),
        by_rounds=by_rounds,
    )


def _judged(
    cells: Sequence[CellView], summaries: Sequence[Summary | None]
) -> Sequence[Summary | None]:
    """The summaries by which a column is judged.

    A cell that ended at a limit before it had enough values is shown, and is not compared.
    """
    kept = [
        None if cell.ended and summary and summary.n < REPETITIONS_MIN else summary
        for cell, summary in zip(cells, summaries, strict=True)
    ]
    return kept if any(kept) else summaries


def _lead(
    cells: Sequence[CellView], summaries: Sequence[Summary | None], measure: Measure
) -> tuple[Standing, frozenset[int]]:
    measured = {row: summary for row, summary in enumerate(summaries) if summary}
    first = _foremost(summaries, measure)
    if first is None:
        return Standing.EMPTY, frozenset()
    metric, plain = METRICS[measure.metric], None
    zeros = [summary.high == 0 for summary in measured.values()]
    if all(zeros):
        plain = Standing.ZEROS
    elif len(measured) == 1 or metric.better is Better.NEITHER:
        plain = Standing.ALONE
    elif any(zeros) and not measure.is_time:
        # To have no index on disk, or nothing to shuffle, is how an index works and no victory.
        plain = Standing.SOME_ZEROS
    elif not metric.counter and min(each.n for each in measured.values()) < REPETITIONS_MIN:
        plain = Standing.TOO_FEW
    if plain is not None:
        return plain, frozenset()
    noise = max(cell.noise for cell in cells) if measure.is_time else 0.0
    best = _widened(measured[first], metric.tolerance)
    leaders = frozenset(
        row
        for row, summary in measured.items()
        if best.overlaps(_widened(summary, metric.tolerance))
        or max(summary.median, best.median) < (1 + noise) * min(summary.median, best.median)
    )
    if len(leaders) == len(measured):
        return Standing.NO_DIFFERENCE, frozenset()
    return (Standing.BEST if len(leaders) == 1 else Standing.TIED), leaders


def _deciding(
    summaries: Sequence[Summary | None], measure: Measure, standing: Standing, *, by_rounds: bool
) -> int | None:
    """Repetitions that would tell the best median from the next one.

    Of counters more would say the same, and rounds do not tell how much repetitions differ.
    """
    if standing is Standing.TOO_FEW:
        return REPETITIONS_MIN
    is_repeatable = not by_rounds and not METRICS[measure.metric].counter
    if standing is not Standing.NO_DIFFERENCE or not is_repeatable:
        return None
    sign = -1 if measure.higher else 1
    best, second = sorted((s for s in summaries if s), key=lambda s: sign * s.median)[:2]
    number = repetitions_to_decide(best, second)
    return number if number and max(best.n, second.n) < number <= _REPETITIONS_MAX else None


def _foremost(summaries: Sequence[Summary | None], measure: Measure) -> int | None:
    """The row with the best median, the first of equal ones."""
    sign = -1 if measure.higher else 1
    medians = [(sign * summary.median, row) for row, summary in enumerate(summaries) if summary]
    return min(medians)[1] if medians else None


def _widened(summary: Summary, tolerance: float) -> Summary:
    """Let counters that unchanged code may not repeat exactly count as equal within half each."""
    return Summary(
        median=summary.median,
        low=summary.low * (1 - tolerance / 2),
        high=summary.high * (1 + tolerance / 2),
        n=summary.n,
        coverage=summary.coverage,
    )
