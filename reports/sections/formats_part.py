"""Which format answers which question best: a table for each kind of data, and what differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keymark.harness.store.data_point import DataPoint
from keymark.reports.model.claims import Beside, beside
from keymark.reports.model.data_points import by_data, leading, words_of
from keymark.reports.model.format_answers import (
    REQUESTS,
    Difference,
    FormatAnswer,
    answers,
    has_formats,
)
from keymark.reports.model.limits import Limit, limits
from keymark.reports.model.projection import CellView, Run
from keymark.reports.render.figures import Chart
from keymark.reports.render.format_chart import format_charts
from keymark.reports.render.format_values import amount, times
from keymark.reports.render.grids import Entry, Grid, Row, ratio_words, spread
from keymark.reports.render.prose import BY_ROUNDS, LONGEST_LIST, Answer
from keymark.reports.render.text import NOTHING, clean, listed
from keymark.reports.stats.statistics import REPETITIONS_MIN

_HEADS = ("best", "its median", "the next that is told apart", "as a multiple of the best")
_NO_REQUESTS = "not measured: requests are counted of tables on an object store (table.location)"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatsPart:
    """The section of one run.

    Attributes:
        run_id: the run's own id.
        name: what the run is called on the page, empty when it is the only one.
        charts: how far each format is behind the best one, by question, each with its finding; for
            each kind of data that was verified.
        tables: for each kind of data a row for each question, and the answers in sentences.
        values: the answers, for summary.json.
    """

    run_id: str
    name: str
    charts: list[tuple[Chart, str]]
    tables: list[tuple[Grid, list[Answer]]]
    values: list[dict[str, Any]]


def formats_part(run: Run) -> FormatsPart | None:
    """The section of a run; None unless it measured another format beside something else."""
    right = [cell for cell in run.cells if not cell.failed]
    shown = {data for shape in {each.data.shape for each in right} for data in _shown(right, shape)}
    groups = by_data([cell for cell in right if cell.data in shown])
    found = {
        data: answers([cell for cell in cells if cell.verified])
        for data, cells in groups.items()
        if has_formats(cells)
    }
    if not found:
        return None
    ended = limits(right)
    return FormatsPart(
        run_id=clean(run.run_id),
        name=run.name if run.label else "",
        charts=list(format_charts(run)),
        tables=[
            (
                _grid(words_of(data) or "all questions", of_data),
                [
                    *map(_sentence, of_data),
                    *(_limit(each) for each in ended if _is_on(each, data)),
                    *(
                        _published(each, data.rows or run.record.scenario.dataset.rows)
                        for each in beside([cell for cell in groups[data] if cell.verified])
                    ),
                ],
            )
            for data, of_data in found.items()
        ],
        values=[
            {"shape": clean(data.shape), **_values(each)}
            for data, of_data in found.items()
            for each in of_data
        ],
    )


def _shown(cells: Sequence[CellView], shape: str) -> set[DataPoint]:
    """The data of the largest table, of one shape, with which anything was measured."""
    of_shape = [cell for cell in cells if cell.data.shape == shape]
    measured = [cell for cell in of_shape if cell.verified]
    return {cell.data for cell in leading(measured or of_shape)}


def _grid(caption: str, found: Sequence[FormatAnswer]) -> Grid:
    rows = tuple(Row(label=each.question.words, index="", entries=_entries(each)) for each in found)
    return Grid(caption=caption, heads=_HEADS, rows=rows)


def _entries(answer: FormatAnswer) -> tuple[Entry, ...]:
    if answer.best is None or answer.summary is None:
        return (Entry(value="not measured"), *[Entry(value=NOTHING)] * (len(_HEADS) - 1))
    unit, count = answer.question.unit, answer.summary.n
    best = Entry(value=answer.best.label, index=answer.best.index)
    if answer.rivals:
        best = Entry(value="no difference shown", spread=_names([answer.best, *answer.rivals]))
    value = Entry(
        value=amount(answer.summary.median, unit),
        spread=spread(answer.summary, unit) if count > 1 else "one value",
        n=str(count),
    )
    if answer.following is None or answer.gap is None:
        return best, value, Entry(value=NOTHING), Entry(value=NOTHING)
    gap = Entry(value=ratio_words(answer.gap), n=str(answer.gap.n))
    return best, value, Entry(value=answer.following.label, index=answer.following.index), gap


def _sentence(answer: FormatAnswer) -> Answer:
    words = _words(answer)
    if answer.uncounted:
        words += f"; not counted: {_names(answer.uncounted)}"
    return Answer(topic=answer.question.words, words=f"{words}.")


def _words(answer: FormatAnswer) -> str:
    if answer.best is None or answer.summary is None:
        return _NO_REQUESTS if answer.question.metric == REQUESTS else "not measured"
    unit = answer.question.unit
    value, turns = amount(answer.summary.median, unit), BY_ROUNDS * answer.is_by_rounds
    if answer.rivals:
        near = _names([answer.best, *answer.rivals])
        is_few = answer.summary.n < REPETITIONS_MIN and not answer.question.is_counted
        few = f", fewer than {REPETITIONS_MIN} values" if is_few else ""
        words = f"no difference shown{turns} between {near}{few}; the lowest median is {value}"
    else:
        words = f"{answer.best.label} is best with {value}{turns}"
    if answer.following is None or answer.gap is None:
        return words if answer.rivals else f"{words}; there is nothing to compare it with"
    parts = [words, f"{answer.following.label} needs {ratio_words(answer.gap)} as much"]
    parts.append(
        f"what differs: {listed([_difference(each) for each in answer.differences])}"
        if answer.differences
        else "no phase and no counter that was measured tells why"
    )
    return "; ".join(parts)


def _published(found: Beside, rows: int) -> Answer:
    """A published figure of two formats, and what was measured of both.

    Args:
        found: both.
        rows: of the table that was measured; 0 where they are not known.
    """
    claim, ratio = found.claim, found.ratio
    around = f" ({times(ratio.low)} to {times(ratio.high)})" if ratio.low < ratio.high else ""
    on = f" on {rows:,} rows" if rows else ""
    words = f"{claim.words} ({claim.at}: {claim.source}); here{on} {found.cell.label} takes "
    words += times(ratio.median)
    few = "" if ratio.n >= REPETITIONS_MIN else f", of fewer than {REPETITIONS_MIN} values"
    words += f"{around} of {found.base.label}{few}; what differs: {claim.differs}."
    return Answer(topic=f"Published: {claim.what[0].lower()}{claim.what[1:]}", words=words)


def _is_on(limit: Limit, data: DataPoint) -> bool:
    """Whether a limit was met on such data, with a table of any size."""
    its = limit.cell.data
    return (its.shape, its.batch) == (data.shape, data.batch)


def _limit(found: Limit) -> Answer:
    """Where somebody ended, and the largest table with which it did not."""
    words = found.cell.ended.rstrip(".")
    if found.largest:
        words += f"; the largest size at which it took all steps is {found.largest:,} rows"
    elif found.cell.data.rows:  # they are known where tables of several sizes were measured
        words += "; there is no smaller size at which it took all steps"
    return Answer(topic=found.cell.label, words=f"{words}.")


def _difference(found: Difference) -> str:
    values = f"{amount(found.other, found.unit)} beside {amount(found.best, found.unit)}"
    if found.share is None:
        return f"{found.name} ({values})"
    share = "all" if found.share == 1 else f"{found.share:.0%}"
    return f"{found.name} ({values}, {share} of the difference)"


def _names(cells: Sequence[CellView]) -> str:
    """Labels of candidates; of many the first ones."""
    labels = [cell.label for cell in cells]
    kept = LONGEST_LIST - 1
    if len(labels) > LONGEST_LIST:
        labels = [*labels[:kept], f"{len(labels) - kept} more"]
    return listed(labels)


def _values(answer: FormatAnswer) -> dict[str, Any]:
    summary, gap = answer.summary, answer.gap
    return {
        "question": answer.question.key,
        "unit": answer.question.unit,
        "best": answer.best and clean(answer.best.cell),
        "median": summary and summary.median,
        "low": summary and summary.low,
        "high": summary and summary.high,
        "not_told_apart": [clean(each.cell) for each in answer.rivals],
        "next": answer.following and clean(answer.following.cell),
        "ratio": gap and {"ratio": gap.median, "low": gap.low, "high": gap.high, "n": gap.n},
        "differences": [
            {
                "name": each.name,
                "unit": each.unit,
                "best": each.best,
                "next": each.other,
                "share": each.share,
            }
            for each in answer.differences
        ],
    }
