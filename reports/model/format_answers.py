"""Which table format answers which question best, on one kind of data.

The candidates are the modes of the engines: `merge_dv` of Delta, `record` of Hudi. A mode that is
measured in several variants is represented by the one with the lowest median. The best candidate
has the lowest median; another one is worse where the ratio within each repetition shows it, beyond
the machine's noise or the metric's own tolerance.

The best one is compared with the nearest that is worse, in what both measured for the question: the
phases of a write, the parts of what is stored, the kinds of requests. A part that makes up half of
the difference is named, and so is the first counter that is larger by a fourth. Both were measured
beside the difference; no report can prove that they are its cause.

In a run of one repetition an answer over rounds is the median round (`CellView.over_rounds`): what
is done after every tenth batch is not in it. What is counted needs no spread: one pair tells two
candidates apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from keymark.harness.engines import format_name, is_native, library_name
from keymark.harness.store.units import METRICS, REQUEST_COUNTS, Unit
from keymark.reports.model.measures import LAST, PHASES, Measure, measures_of
from keymark.reports.model.projection import UPSERT, CellView, Trial
from keymark.reports.stats.statistics import (
    REPETITIONS_MIN,
    Summary,
    is_shown,
    paired_ratio,
    summarize,
)

COMPACTION = "compact_rows"
"""Kind of the steps between batches in which a format does what its writes postpone."""

REQUESTS = "requests"
"""Stands for the sum of a step's requests to an object store, of all kinds."""

_COUNTERS = (
    *("rows_written", "bytes_written", "files_written", "files_read", "input_bytes"),
    *("shuffle_write_bytes", *REQUEST_COUNTS, "tasks"),
)
"""What is written and read comes first: tasks and shuffles follow from it."""

_MAIN_PART = 0.5
"""Share of a difference from which a part is named."""

_MORE = 1.25
"""Multiple from which a counter is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question that is put to every candidate; a lower answer is better.

    Attributes:
        key: short name, for summary.json.
        words: the question, to stand before a colon.
        step: whose numbers answer it; `LAST` for those of the last step that has them.
        metric: a name of `keymark.harness.store.units.METRICS`, or `REQUESTS`.
        of_keymark: the step of Keymark's cells, where it is another one.
        over_rounds: whether the answer is over the steps `<step>_<round>` of a repetition.
        compacted: whether each batch bears its share of the compaction between batches. Of a mode
            that has variants with compaction only these count.
    """

    key: str
    words: str
    step: str
    metric: str
    of_keymark: str = ""
    over_rounds: bool = False
    compacted: bool = False

    @property
    def unit(self) -> str:
        """Base unit of the answers."""
        if self.metric == REQUESTS:
            return Unit.COUNT.value
        return METRICS[self.metric].unit.value

    @property
    def is_counted(self) -> bool:
        """Whether unchanged code gives the same answer again, within a tolerance."""
        return self.metric == REQUESTS or METRICS[self.metric].counter

    def tolerance(self, noise: float) -> float:
        """Relative difference that shows nothing; `noise` is the machine's, which is in times."""
        if self.metric == REQUESTS:
            return 0.0
        return METRICS[self.metric].tolerance if self.is_counted else noise

    def values(self, cell: CellView) -> Mapping[Trial, float]:
        """The answers of a candidate by trial; empty where it has none."""
        if self.compacted:
            writes, shares = self.counted(cell, self.metric), _compaction_shares(cell, self.metric)
            return {
                trial: seconds + shares.get(trial[0], 0.0)
                for trial, seconds in writes.items()
                if not shares or trial[0] in shares
            }
        if self.metric != REQUESTS:
            return self.counted(cell, self.metric)
        kinds = [values for name in REQUEST_COUNTS if (values := self.counted(cell, name))]
        complete = set.intersection(*map(set, kinds)) if kinds else set()
        return {trial: sum(each[trial] for each in kinds) for trial in sorted(complete)}

    def counted(
        self, cell: CellView, metric: str, *, phase: str = "total"
    ) -> Mapping[Trial, float]:
        """A metric of the step, by trial; empty where the candidate does not have it."""
        step = self.of_keymark if self.of_keymark and is_native(cell.engine) else self.step
        if not self.over_rounds:
            return _measure(step, metric).values(cell)
        return cell.over_rounds(step, phase, metric)

    def parts(self, cell: CellView) -> dict[str, float]:
        """Medians of what an answer is made of, by name; what was removed is below 0."""
        if self.metric == REQUESTS:
            return _medians(
                {what: self.counted(cell, name) for name, what in REQUEST_COUNTS.items()}
            )
        if self.step == LAST:
            return _stored_parts(cell)
        if self.step == UPSERT:
            by_phase = {name: self.counted(cell, self.metric, phase=name) for name in PHASES}
            return _medians(by_phase) | (
                {"compaction": _compaction(cell)} if self.compacted else {}
            )
        return {}


QUESTIONS = (
    Question(key="write", words="Writing a batch", step=UPSERT, metric="wall_s", over_rounds=True),
    Question(
        key="write_compacted",
        words="Writing a batch, its share of compaction included",
        step=UPSERT,
        metric="wall_s",
        over_rounds=True,
        compacted=True,
    ),
    Question(
        key="key_read",
        words="Reading one key between batches",
        step="point_query",
        metric="wall_s",
        over_rounds=True,
    ),
    Question(
        key="range_read",
        words="Reading a range between batches",
        step="range_query",
        metric="wall_s",
        over_rounds=True,
    ),
    Question(
        key="key_read_after",
        words="Reading one key after all batches and deletes",
        step="point_query",
        metric="wall_s",
    ),
    Question(
        key="range_read_after",
        words="Reading a range after all batches and deletes",
        step="range_query",
        metric="wall_s",
    ),
    Question(
        key="key_read_cold",
        words="Reading one key with a cold system cache",
        step="point_query_cold",
        metric="wall_s",
    ),
    Question(
        key="range_read_cold",
        words="Reading a range with a cold system cache",
        step="range_query_cold",
        metric="wall_s",
    ),
    Question(
        key="storage",
        words="Bytes on storage after all batches and deletes",
        step=LAST,
        metric="table_bytes",
    ),
    Question(
        key="write_requests",
        words="Requests of writing a batch",
        step=UPSERT,
        metric=REQUESTS,
        over_rounds=True,
    ),
    Question(
        key="key_read_requests",
        words="Requests of reading one key after all batches and deletes",
        step="point_query",
        metric=REQUESTS,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Something in which the best candidate and the next one differ.

    Attributes:
        name: what it is.
        unit: base unit of the values.
        best: median of the best candidate.
        other: median of the next one.
        share: of the whole difference, where it is a part of the answer; None for a counter.
    """

    name: str
    unit: str
    best: float
    other: float
    share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatAnswer:
    """Who answers a question best.

    Attributes:
        question: the question.
        best: the candidate with the lowest median; None where none has an answer.
        summary: of its answers.
        rivals: candidates that may be as good, nearest first.
        following: the nearest candidate that is worse; None where there is none.
        gap: the following one as a multiple of the best, paired within each repetition or round.
        differences: between these two.
        uncounted: candidates of which requests are not known, where they are known of others.
    """

    question: Question
    best: CellView | None = None
    summary: Summary | None = None
    rivals: tuple[CellView, ...] = ()
    following: CellView | None = None
    gap: Summary | None = None
    differences: tuple[Difference, ...] = ()
    uncounted: tuple[CellView, ...] = ()

    @property
    def is_by_rounds(self) -> bool:
        """Whether its values are those of several rounds of one repetition."""
        several = self.summary is not None and self.summary.n > 1
        one = self.best is not None and self.best.by_rounds
        return several and one and self.question.over_rounds


def has_formats(cells: Sequence[CellView]) -> bool:
    """Whether there are several candidates, one of them of another format than Hudi's."""
    modes = {(cell.engine, cell.index) for cell in cells}
    others = [name for name, _ in modes if format_name(name) or library_name(name)]
    return len(modes) > 1 and bool(others)


def answers(cells: Sequence[CellView]) -> list[FormatAnswer]:
    """Who answers each question best; verified cells on the same data.

    A run without cold reads answers nothing about them.
    """
    query = measures_of(cells)["point_query"]
    asked = [
        replace(each, of_keymark=query.of_keymark) if each.step == query.step else each
        for each in QUESTIONS
        if not each.step.endswith("_cold") or any(map(each.values, cells))
    ]
    return [_answer(each, cells) for each in asked]


def _answer(question: Question, cells: Sequence[CellView]) -> FormatAnswer:
    medians: dict[tuple[str, str], tuple[float, CellView]] = {}
    for cell in _compacted(cells) if question.compacted else cells:
        if values := question.values(cell):
            found, mode = median(values.values()), (cell.engine, cell.index)
            if mode not in medians or found < medians[mode][0]:
                medians[mode] = found, cell
    ranked = [cell for _, cell in sorted(medians.values(), key=lambda each: each[0])]
    # The few values of a cell that ended at a limit would hide what all the others show.
    enough = [
        cell for cell in ranked if not cell.ended or len(question.values(cell)) >= REPETITIONS_MIN
    ]
    ranked = enough or ranked
    if not ranked:
        return FormatAnswer(question=question)
    best, *others = ranked
    tolerance, is_counted = question.tolerance(max(c.noise for c in ranked)), question.is_counted
    mine = question.values(best)
    ratios = {each.cell: paired_ratio(mine, question.values(each))[0] for each in others}
    apart = [
        each
        for each in others
        if (ratio := ratios[each.cell])
        and ratio.low > 1
        and is_shown(ratio, tolerance, is_counted=is_counted)
    ]
    following = apart[0] if apart else None
    return FormatAnswer(
        question=question,
        best=best,
        summary=summarize(list(mine.values())),
        rivals=tuple(each for each in others if each not in apart),
        following=following,
        gap=ratios[following.cell] if following else None,
        differences=_differences(question, best, following) if following else (),
        uncounted=tuple(_uncounted(question, cells)) if question.metric == REQUESTS else (),
    )


def _uncounted(question: Question, cells: Sequence[CellView]) -> Iterator[CellView]:
    """Candidates that took the steps of a question about requests, and do not tell these."""
    times = replace(question, metric="wall_s")
    for cell in cells:
        if times.values(cell) and not question.values(cell):
            yield cell


def _compacted(cells: Sequence[CellView]) -> list[CellView]:
    """The compacted variants of each mode; all of a mode without any; none if no mode has one."""
    found = [cell for cell in cells if cell.rounds(COMPACTION, "total", "wall_s")]
    modes = {(cell.engine, cell.index) for cell in found}
    others = [cell for cell in cells if (cell.engine, cell.index) not in modes]
    return [*found, *others] if found else []


def _differences(question: Question, best: CellView, other: CellView) -> tuple[Difference, ...]:
    """The main part of the difference, and the first counter that is larger."""
    part = _main_part(question, best, other)
    counter = _counter(question, best, other) if question.metric == "wall_s" else None
    return tuple(each for each in (part, counter) if each is not None)


def _main_part(question: Question, best: CellView, other: CellView) -> Difference | None:
    """The part that makes up most of the difference, if it is half of it."""
    whole, its = (median(question.values(cell).values()) for cell in (best, other))
    mine, theirs = question.parts(best), question.parts(other)
    pairs = {name: (mine[name], theirs[name]) for name in mine if name in theirs}
    if not pairs.keys().isdisjoint(PHASES):
        # Engines tell different phases: what is in none that both tell is a part of its own.
        in_common, its_common = (sum(pair[side] for pair in pairs.values()) for side in (0, 1))
        pairs["time in none of the phases that both tell"] = whole - in_common, its - its_common
    if not pairs or its <= whole:
        return None
    name = max(pairs, key=lambda each: pairs[each][1] - pairs[each][0])
    first, second = pairs[name]
    share = (second - first) / (its - whole)
    if share < _MAIN_PART:
        return None
    return Difference(
        name=name, unit=question.unit, best=abs(first), other=abs(second), share=min(share, 1.0)
    )


def _counter(question: Question, best: CellView, other: CellView) -> Difference | None:
    """The first counter that the other one has more of, by a fourth at least."""
    for metric in _COUNTERS:
        if metric == "input_bytes" and (is_native(best.engine) or is_native(other.engine)):
            continue  # what Keymark's own readers read is no input of Spark's
        mine, its = question.counted(best, metric), question.counted(other, metric)
        first, second = (median(each.values()) if each else 0.0 for each in (mine, its))
        if first and second >= _MORE * first:
            found = METRICS[metric]
            return Difference(name=found.title, unit=found.unit.value, best=first, other=second)
    return None


def _stored_parts(cell: CellView) -> dict[str, float]:
    """What was written to storage by kind of step, and what services removed, below 0."""
    written: dict[str, Mapping[Trial, float]] = {
        "bytes that the batches wrote": _added(cell, UPSERT, "bytes_written"),
        "bytes that deleting wrote": cell.values("delete", "total", "bytes_written"),
        "bytes that compaction wrote": _added(cell, COMPACTION, "bytes_written"),
    }
    found = dict.fromkeys(written, 0.0) | _medians(written)
    loaded = cell.values("bulk_insert", "total", "bytes_written")
    stored = _measure(LAST, "table_bytes").values(cell)
    if not loaded or not stored:
        return found  # a table that starts from another one's files has no load of its own
    found["bytes of the load"] = median(loaded.values())
    removed = median(stored.values()) - sum(found.values())
    return found | {"bytes removed by services": min(removed, 0.0)}


def _compaction(cell: CellView) -> float:
    """Seconds of compaction for each batch, the median over the repetitions."""
    shares = _compaction_shares(cell, "wall_s")
    return median(shares.values()) if shares else 0.0


def _compaction_shares(cell: CellView, metric: str) -> dict[int, float]:
    """What the compaction between batches adds to each batch, by repetition; often nothing."""
    batches = len(cell.rounds(UPSERT, "total", metric))
    added = _added(cell, COMPACTION, metric)
    return {repetition: value / batches for (repetition, _), value in added.items() if batches}


def _added(cell: CellView, kind: str, metric: str) -> dict[Trial, float]:
    """The sum of a metric over the steps `<kind>_<round>` of each repetition."""
    rounds = cell.rounds(kind, "total", metric).values()
    complete = set.intersection(*map(set, rounds)) if rounds else set()
    return {(repetition, 0): sum(each[repetition] for each in rounds) for repetition in complete}


def _medians(values: Mapping[str, Mapping[Trial, float]]) -> dict[str, float]:
    return {name: median(each.values()) for name, each in values.items() if each}


def _measure(step: str, metric: str) -> Measure:
    return Measure(key=metric, title="", what="", step=step, phase="total", metric=metric)
