"""What a page says about tables and batches of several sizes: who is fastest, where lines meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from keymark.harness.store.data_point import DataPoint
from keymark.reports.errors import ReportError
from keymark.reports.model.data_points import words_of
from keymark.reports.model.measures import HEADLINE, Measure
from keymark.reports.model.projection import CellView, Run
from keymark.reports.model.winners import MAPPED, map_values, winner_map
from keymark.reports.render.figures import Chart, chart
from keymark.reports.render.format_values import amount
from keymark.reports.render.grids import Entry, Grid, Row, ratio_words, spread
from keymark.reports.render.growth_chart import Beyond, growth_chart, panel_names
from keymark.reports.render.prose import Answer
from keymark.reports.render.text import NOTHING, clean
from keymark.reports.stats.growth import (
    PUBLISHED_ROWS,
    Axis,
    Contest,
    Line,
    at_largest,
    carried_on,
    contests,
    lines,
)
from keymark.reports.stats.statistics import REPETITIONS_MIN, is_shown

PREFIX = "growth_"
"""How the names of its chart files begin."""

# A lookup asks for the same keys whatever the batch.
_GROWING = {
    Axis.ROWS: ("build", "build_index", "write_latency", "tag", "lookup", "shuffle"),
    Axis.BATCH: ("write_latency", "tag"),
}
_OPENING = {Axis.ROWS: "As the table grows", Axis.BATCH: "As batches grow"}
_OF = {Axis.ROWS: "rows of the table", Axis.BATCH: "rows of a batch"}

_SHUFFLE = "shuffle"
_MANY = 12
_FAR = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthPart:
    """The section of one run.

    Attributes:
        run_id: the run's own id.
        name: what the run is called on the page, empty when it is the only one.
        heading: of the section: what grows.
        maps: the fastest index by data, one map per measure.
        findings: for each measure, engine and shape, ratios at each size and where lines meet; of
            many only those whose lines meet.
        left_out: number of pairs that are no finding because their lines do not meet.
        charts: a line per index over the sizes, one chart per measure and axis.
        values: the ratios and meeting points, for summary.json.
        map_values: the maps, for summary.json.
        projections: the lines carried on to a size that was published, in sentences.
        projection_values: the same, for summary.json.
    """

    run_id: str
    name: str
    heading: str
    maps: list[Grid]
    findings: list[Answer]
    left_out: int
    charts: list[Chart]
    values: list[dict[str, Any]]
    map_values: list[dict[str, Any]]
    projections: list[Answer]
    projection_values: list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Growing:
    """A measure along an axis."""

    measure: Measure
    axis: Axis
    lines: list[Line]
    contests: list[Contest]
    held: str
    noise: float
    beyond: list[Beyond]

    @property
    def title(self) -> str:
        what = self.measure.what
        return f"{_OPENING[self.axis]}: {what[0].lower()}{what[1:]}"


def growth_part(run: Run, larger: Run | None = None) -> GrowthPart | None:
    """The section of a run, None if its tables have one size and its batches too.

    Args:
        run: with tables of several sizes.
        larger: another one, with a larger table. Its cells of the same engines and indexes are the
            last points of the lines, and the lines are carried on to the published size.
    """
    right = [cell for cell in run.cells if cell.verified]
    right += _larger_cells(run, larger) if larger is not None else []
    every = _growing(right, is_carried=larger is not None)
    if not every:
        return None
    pairs = [(each, contest) for each in every for contest in each.contests]
    chosen = [(each, contest) for each, contest in pairs if len(pairs) <= _MANY or _meet(contest)]
    # Maps are of the first engine, where more than the size of the table varies. Of tables in
    # variants there are none: an index has several numbers on the same data.
    ours = [cell for cell in right if cell.engine == right[0].engine]
    several = len({(cell.data.shape, cell.data.batch) for cell in ours}) > 1
    if not several or len({(cell.index, cell.data) for cell in ours}) < len(ours):
        ours = []
    return GrowthPart(
        run_id=clean(run.run_id),
        name=run.name if run.label else "",
        heading="As table and batches grow"
        if len({each.axis for each in every}) > 1
        else _OPENING[every[0].axis],
        maps=[found for each in MAPPED if (found := winner_map(ours, each))] if ours else [],
        findings=[_finding(each, contest) for each, contest in chosen],
        left_out=len(pairs) - len(chosen),
        charts=[_chart(each, run.file_suffix) for each in every],
        values=[_values(each, contest) for each, contest in pairs],
        map_values=[each for measure in MAPPED for each in map_values(ours, measure)],
        projections=[_projection(each, beyond) for each in every for beyond in each.beyond],
        projection_values=[
            _projection_values(each, beyond) for each in every for beyond in each.beyond
        ],
    )


def _larger_cells(run: Run, larger: Run) -> list[CellView]:
    """The verified cells of a run with a larger table, each at that size.

    Raises:
        ReportError: its table is not larger, or its batches have another size.
    """
    mine, other = run.record.measured, larger.record.measured
    if mine is None or other is None or other.rows <= mine.rows:
        raise ReportError(f"{clean(larger.run_id)} has no larger table than {clean(run.run_id)}")
    batches = [each.batch_updates + each.batch_inserts for each in (mine, other)]
    if batches[0] != batches[1]:
        raise ReportError(
            f"{clean(larger.run_id)} has batches of {batches[1]:,} rows, {clean(run.run_id)} of "
            f"{batches[0]:,}: they are not points of one line"
        )
    known = {(cell.engine, cell.index) for cell in run.cells}
    return [
        replace(cell, data=replace(cell.data, rows=other.rows))
        for cell in larger.cells
        if cell.verified and (cell.engine, cell.index) in known
    ]


def _growing(cells: Sequence[CellView], *, is_carried: bool) -> list[_Growing]:
    made = []
    for axis, keys in _GROWING.items():
        held = _held(cells, axis)
        for measure in HEADLINE:
            found = lines(cells, measure, axis) if measure.key in keys else []
            if found:
                made.append(
                    _Growing(
                        measure=measure,
                        axis=axis,
                        lines=found,
                        contests=contests(found),
                        held=held,
                        noise=max(cell.noise for cell in cells) if measure.is_time else 0.0,
                        beyond=_beyond(measure, found) if is_carried and axis is Axis.ROWS else [],
                    )
                )
    return made


def _beyond(measure: Measure, found: Sequence[Line]) -> list[Beyond]:
    """The lines carried on to the published size, with the bytes that a batch shuffled there."""
    rows = PUBLISHED_ROWS if measure.key == _SHUFFLE else 0
    return [
        Beyond(line=line, projection=at, published=line.spec.published_shuffle * rows)
        for line in found
        if (at := carried_on(line, PUBLISHED_ROWS)) is not None
    ]


def _projection(growing: _Growing, beyond: Beyond) -> Answer:
    """What a fitted line says about the published size, and what was published."""
    measure, line, at = growing.measure, beyond.line, beyond.projection
    rows = f"{PUBLISHED_ROWS:,} rows"
    interval = f"{amount(at.low, measure.unit)} to {amount(at.high, measure.unit)}"
    words = f"{clean(line.name, 40)} at {rows}, projected: {amount(at.median, measure.unit)}"
    words += f" ({interval} in {at.n} turns)"
    if beyond.published:
        size, last = list(line.summaries().items())[-1]
        words += (
            f"; published: {amount(beyond.published, measure.unit)}, that is "
            f"{line.spec.published_shuffle:.3g} bytes a row; measured at {size:,} rows: "
            f"{last.median / size:.3g} bytes a row"
        )
    names = panel_names(line, growing.lines)
    return Answer(
        topic=", ".join([f"Projection of {measure.what.lower()}", *names]), words=f"{words}."
    )


def _projection_values(growing: _Growing, beyond: Beyond) -> dict[str, Any]:
    line, at = beyond.line, beyond.projection
    return {
        "measure": growing.measure.key,
        "engine": clean(line.engine),
        "index": clean(line.name),
        "rows": PUBLISHED_ROWS,
        "median": at.median,
        "low": at.low,
        "high": at.high,
        "published": beyond.published or None,
    }


def _held(cells: Sequence[CellView], axis: Axis) -> str:
    """What stays the same while the axis grows."""
    at = next((cell.data for cell in at_largest(cells, but=axis)), DataPoint())
    rows = at.rows if axis is Axis.BATCH else 0
    batch = at.batch if axis is Axis.ROWS else 0
    words = words_of(DataPoint(rows=rows, batch=batch))
    return f", tables of {words}" if rows else f", {words}" if batch else ""


def _meet(contest: Contest) -> bool:
    """Whether the lines meet at the sizes measured, or in every turn not far beyond them."""
    sizes, at = list(contest.ratios), contest.meeting
    if at is None or at.median < sizes[0]:
        return False
    near = at.median <= _FAR * sizes[-1] and contest.met == contest.trials
    return at.median <= sizes[-1] or near


def _finding(growing: _Growing, contest: Contest) -> Answer:
    mine, other = clean(contest.line.name, 40), clean(contest.other.name, 40)
    measure = growing.measure
    parts = []
    for size, ratio in contest.ratios.items():
        if ratio is not None and ratio.median:
            text = ratio_words(ratio)
        else:
            medians = (side.summaries()[size].median for side in (contest.line, contest.other))
            text = " and ".join(amount(each, measure.unit) for each in medians)
        parts.append(f"{text} at {_at(growing.axis, size)}")
    sizes = "; ".join(parts)
    words = f"{mine} against {other}: {sizes}; {verdict(contest, growing.axis, growing.noise)}."
    names = panel_names(contest.line, growing.lines)
    return Answer(topic=", ".join([measure.what, *names]), words=words)


def _at(axis: Axis, size: int | str) -> str:
    size = f"{size:,}" if isinstance(size, int) else size
    return f"{size} rows" if axis is Axis.ROWS else f"batches of {size}"


def verdict(contest: Contest, axis: Axis = Axis.ROWS, noise: float = 0.0) -> str:
    """Say which is lower at the sizes measured, and where the lines meet."""
    mine = clean(contest.line.name, 40)
    known = [ratio for ratio in contest.ratios.values() if ratio is not None]
    if not known:
        return "nothing to divide by"
    if min(ratio.n for ratio in known) < REPETITIONS_MIN:
        shown = f"fewer than {REPETITIONS_MIN} repetitions show nothing"
    elif all(ratio.high < 1 and is_shown(ratio, noise) for ratio in known):
        shown = f"{mine} is lower at every size"
    elif all(ratio.low > 1 and is_shown(ratio, noise) for ratio in known):
        shown = f"{mine} is higher at every size"
    elif all(ratio.low == ratio.high == 1 for ratio in known):
        return "equal at every size"
    else:
        shown = f"{mine} is not lower at every size"
    return f"{shown}; {_meeting(contest, axis)}"


def _meeting(contest: Contest, axis: Axis) -> str:
    if contest.meeting is None:
        mine, other = clean(contest.line.name, 40), clean(contest.other.name, 40)
        return f"the lines of {mine} and {other} do not meet at any size"
    at = contest.meeting
    sizes = list(contest.ratios)
    if not sizes[0] <= at.median <= _FAR * sizes[-1]:
        return f"the lines do not meet at {_at(axis, f'{sizes[0]:,} to {sizes[-1]:,}')}"
    low, high = _about(at.low), _about(at.high)
    around = f" ({low} to {high})" if low != high else ""
    often = "" if contest.met == contest.trials else f", in {contest.met} of {contest.trials} turns"
    beyond = "" if at.median <= sizes[-1] else ", extrapolated"
    where = _at(axis, f"about {_about(at.median)}")
    return f"the lines meet at {where}{around}{often}{beyond}"


def _about(size: float) -> str:
    """Three digits of a number of rows."""
    return f"{float(f'{size:.3g}'):,.0f}"


def _chart(growing: _Growing, suffix: str) -> Chart:
    measure, found = growing.measure, growing.lines
    numbers = _numbers(growing)
    words = "; ".join(
        f"{row.label}: "
        + ", ".join(
            f"{entry.value} at {head}"
            for head, entry in zip(numbers.heads, row.entries, strict=True)
        )
        for row in numbers.rows
    )
    along = f"{_OF[growing.axis]}{growing.held}"
    label = f"Line chart of {measure.what} over the {along}, medians. {words}."
    drawing = growth_chart(measure, found, title=growing.title, along=along, beyond=growing.beyond)
    kind = "" if growing.axis is Axis.ROWS else f"{growing.axis}_"
    return chart(f"{PREFIX}{kind}{measure.key}{suffix}", growing.title, label, drawing, numbers)


def _numbers(growing: _Growing) -> Grid:
    unit = growing.measure.unit
    sizes = sorted({size for line in growing.lines for size in line.values})
    rows = []
    for line in growing.lines:
        known = line.summaries()
        entries = [
            Entry(value=amount(s.median, unit), spread=spread(s, unit))
            if (s := known.get(size))
            else Entry(value=NOTHING)
            for size in sizes
        ]
        names = [clean(line.name, 40), *panel_names(line, growing.lines)]
        rows.append(Row(label=" · ".join(names), index=line.index, entries=tuple(entries)))
    heads = tuple(_at(growing.axis, size) for size in sizes)
    return Grid(caption=growing.title, heads=heads, rows=tuple(rows))


def _values(growing: _Growing, contest: Contest) -> dict[str, Any]:
    meeting, axis = contest.meeting, growing.axis
    return {
        "measure": growing.measure.key,
        "axis": axis.value,
        "engine": clean(contest.line.engine),
        "shape": clean(contest.line.shape),
        "index": clean(contest.line.name),
        "against": clean(contest.other.name),
        "ratios": [
            {axis.value: size, "ratio": ratio.median, "low": ratio.low, "high": ratio.high}
            for size, ratio in contest.ratios.items()
            if ratio is not None
        ],
        f"meet_at_{axis}": None if meeting is None else meeting.median,
        "meet_low": None if meeting is None else meeting.low,
        "meet_high": None if meeting is None else meeting.high,
        "met": contest.met,
        "trials": contest.trials,
    }
