"""What a page says about tables of several sizes: lines, ratios, and where the lines meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reports.amounts import amount
from reports.figures import Chart, chart
from reports.grids import Entry, Grid, Row, ratio_words, spread
from reports.growth import Contest, Line, contests, lines
from reports.growth_chart import growth_chart
from reports.projection import Run
from reports.prose import Answer
from reports.stats import Summary
from reports.tables import HEADLINE, Measure
from reports.text import NOTHING, clean

PREFIX = "growth_"
"""Of the names of its charts' files."""

_GROWING = ("build", "write_latency", "lookup", "shuffle")
MEASURES = tuple(each for each in HEADLINE if each.key in _GROWING)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthPart:
    """The section of one run.

    Attributes:
        run_id: the run's own id.
        name: what the run is called on the page, empty when it is the only one.
        findings: for each measure and engine, ratios at each size and where the lines meet.
        charts: a line per index over the rows, one chart per measure.
        values: the ratios and meeting points, for summary.json.
    """

    run_id: str
    name: str
    findings: list[Answer]
    charts: list[Chart]
    values: list[dict[str, Any]]


def growth_part(run: Run) -> GrowthPart | None:
    """The section of a run, None if its tables have one size."""
    right = [cell for cell in run.cells if cell.verified]
    found = {measure: each for measure in MEASURES if (each := lines(right, measure))}
    if not found:
        return None
    held = {measure: contests(each) for measure, each in found.items()}
    return GrowthPart(
        run_id=clean(run.run_id),
        name=run.name if run.label else "",
        findings=[_finding(m, contest) for m, each in held.items() for contest in each],
        charts=[_chart(measure, each, run.file_suffix) for measure, each in found.items()],
        values=[_values(m, contest) for m, each in held.items() for contest in each],
    )


def _finding(measure: Measure, contest: Contest) -> Answer:
    mine, other = clean(contest.line.index, 40), clean(contest.other.index, 40)
    sizes = "; ".join(
        f"{_ratio(ratio, contest, rows, measure.unit)} at {rows:,} rows"
        for rows, ratio in contest.ratios.items()
    )
    words = f"{mine} against {other}: {sizes}; {verdict(contest)}."
    return Answer(topic=f"{measure.what}, {clean(contest.line.engine, 40)}", words=words)


def _ratio(ratio: Summary | None, contest: Contest, rows: int, unit: str) -> str:
    if ratio is not None and ratio.median:
        return ratio_words(ratio)
    mine, other = (side.summaries()[rows].median for side in (contest.line, contest.other))
    return f"{amount(mine, unit)} and {amount(other, unit)}"


def verdict(contest: Contest) -> str:
    """Say which is lower at the sizes measured, and where the lines meet."""
    mine, other = clean(contest.line.index, 40), clean(contest.other.index, 40)
    known = [ratio for ratio in contest.ratios.values() if ratio is not None]
    if not known:
        return "nothing to divide by"
    if all(ratio.high < 1 for ratio in known):
        shown = f"{mine} is lower at every size"
    elif all(ratio.low > 1 for ratio in known):
        shown = f"{mine} is higher at every size"
    elif all(ratio.low == ratio.high == 1 for ratio in known):
        return "equal at every size"
    else:
        shown = f"{mine} is not lower at every size"
    return f"{shown}; {_meeting(contest, mine, other)}"


def _meeting(contest: Contest, mine: str, other: str) -> str:
    if contest.meeting is None:
        return f"the lines of {mine} and {other} do not meet at any size"
    at = contest.meeting
    sizes = list(contest.ratios)
    inside = sizes[0] <= at.median <= sizes[-1]
    low, high = _about(at.low), _about(at.high)
    around = f" ({low} to {high})" if low != high else ""
    often = "" if contest.met == contest.trials else f", in {contest.met} of {contest.trials} turns"
    beyond = "" if inside else ", extrapolated"
    return f"the lines meet at about {_about(at.median)} rows{around}{often}{beyond}"


def _about(rows: float) -> str:
    """Three digits of a number of rows."""
    return f"{float(f'{rows:.3g}'):,.0f}"


def _chart(measure: Measure, found: Sequence[Line], suffix: str) -> Chart:
    title = f"As the table grows: {measure.what[0].lower()}{measure.what[1:]}"
    numbers = _numbers(measure, found, title)
    words = "; ".join(
        f"{row.label}: "
        + ", ".join(
            f"{entry.value} at {head}"
            for head, entry in zip(numbers.heads, row.entries, strict=True)
        )
        for row in numbers.rows
    )
    label = f"Line chart of {measure.what} over the rows of the table, medians. {words}."
    drawing = growth_chart(measure, found, title)
    return chart(f"{PREFIX}{measure.key}{suffix}", title, label, drawing, numbers)


def _numbers(measure: Measure, found: Sequence[Line], title: str) -> Grid:
    sizes = sorted({rows for line in found for rows in line.values})
    rows = []
    for line in found:
        known = line.summaries()
        entries = [
            Entry(value=amount(s.median, measure.unit), spread=spread(s, measure.unit))
            if (s := known.get(size))
            else Entry(value=NOTHING)
            for size in sizes
        ]
        label = f"{clean(line.index, 40)} · {clean(line.engine, 40)}"
        rows.append(Row(label=label, index=line.index, entries=tuple(entries)))
    heads = tuple(f"{size:,} rows" for size in sizes)
    return Grid(caption=title, heads=heads, rows=tuple(rows))


def _values(measure: Measure, contest: Contest) -> dict[str, Any]:
    meeting = contest.meeting
    return {
        "measure": measure.key,
        "engine": clean(contest.line.engine),
        "index": clean(contest.line.index),
        "against": clean(contest.other.index),
        "ratios": [
            {"rows": rows, "ratio": ratio.median, "low": ratio.low, "high": ratio.high}
            for rows, ratio in contest.ratios.items()
            if ratio is not None
        ],
        "meet_at_rows": None if meeting is None else meeting.median,
        "meet_low": None if meeting is None else meeting.low,
        "meet_high": None if meeting is None else meeting.high,
        "met": contest.met,
        "trials": contest.trials,
    }
