"""Charts that the site makes of runs for questions which a report answers by a table."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from keymark.indexes import installed
from keymark.reports.errors import ReportError
from keymark.reports.model.claims import beside, claims
from keymark.reports.model.data_points import by_data, leading
from keymark.reports.model.projection import CellView, Run
from keymark.reports.plan import calibration, score
from keymark.reports.plan import render as plan_render
from keymark.reports.plan.score import Score
from keymark.reports.render.dots_chart import Dot, DotRow, dots_chart
from keymark.reports.render.figures import Chart, chart
from keymark.reports.render.format_values import times
from keymark.reports.render.grids import Entry, Grid, Row
from keymark.reports.render.text import NOTHING, clean
from keymark.reports.site.claims import claims_of
from keymark.reports.site.release_chart import release_charts


def question_charts(run: Run) -> Iterator[tuple[str, Chart, str]]:
    """Key of the question, chart and finding of all that a run has to say."""
    yield from (("releases", *made) for made in release_charts(run))
    yield from (("published", *made) for made in _published(run))
    yield from (("planner", *made) for made in _planner(run))


def _published(run: Run) -> Iterator[tuple[Chart, str]]:
    """Published figures beside those of the run."""
    shown, rows = claims_of(run), _claim_rows(run)
    if shown is None or not rows:
        return
    axis = "as a multiple of the published figure\non the line or left of it: reached"
    drawing = dots_chart(rows, title=shown.title, axis=axis)
    label = f"Chart of published figures beside those of the run. {shown.sentence}"
    yield chart("published", shown.title, label, drawing, shown.grid), shown.sentence


def _claim_rows(run: Run) -> list[DotRow]:
    """Each figure with what every engine measured, as a multiple of it; zeros are left out."""
    right = leading([cell for cell in run.cells if cell.verified])
    cells = next(iter(by_data(right).values()), [])
    engines: dict[str, dict[str, CellView]] = {}
    for cell in cells:
        engines.setdefault(cell.engine, {}).setdefault(cell.index, cell)
    found = [
        (claim, engine, claim.ours(by_index))
        for claim in claims()
        for engine, by_index in engines.items()
    ]
    found += [(pair.claim, pair.cell.engine, pair.ratio) for pair in beside(cells)]
    rows: dict[str, list[Dot]] = {}
    for claim, engine, ours in found:
        if ours is not None and ours.median > 0:
            value, low, high = claim.relative(ours)
            dot = Dot(
                name=clean(engine, 40),
                color=installed.color_of(claim.index),
                value=value,
                low=low,
                high=high,
            )
            rows.setdefault(claim.what, []).append(dot)
    return [DotRow(label=label, dots=tuple(dots)) for label, dots in rows.items()]


def _planner(run: Run) -> Iterator[tuple[Chart, str]]:
    """The errors of the planner's predictions for the run; nothing where it predicts nothing."""
    try:
        made = score.score(calibration.load(), [run])
    except ReportError:
        return
    rows = _error_rows(made)
    if not rows:
        return
    finding = _score_finding(made)
    title = "Errors of the planner's predictions"
    axis = "error in %: median, line to the worst"
    drawing = dots_chart(rows, title=title, axis=axis, line=None)
    label = f"Chart of errors of the planner's predictions. {finding}"
    yield chart("planner", title, label, drawing, _score_grid(made)), finding


def _error_rows(made: Score) -> list[DotRow]:
    """The errors of each quantity by index, at each distance beyond what was calibrated."""
    found: dict[str, list[Dot]] = {}
    for each in made.off:
        far = f" ({times(each.beyond)} beyond)" if each.beyond > 1 else ""
        percent = 100 * each.error
        dot = Dot(
            name=clean(each.index, 40),
            color=installed.color_of(each.index),
            value=percent,
            low=percent,
            high=100 * each.worst,
        )
        found.setdefault(f"{each.quantity}{far}", []).append(dot)
    rows = [DotRow(label=label, dots=tuple(dots)) for label, dots in found.items()]
    return rows if any(dot.high > 0 for row in rows for dot in row.dots) else []


def _score_finding(made: Score) -> str:
    typical = median(each.error for each in made.off)
    worst = max(each.worst for each in made.off)
    sentence = f"Half of {len(made.off)} kinds of prediction are off by at most {typical:.0%}"
    more = [line[0].upper() + line[1:] for line in plan_render.score_lines(made)[1:]]
    return ". ".join([f"{sentence}, the worst by {worst:.0%}", *more]) + "."


def _score_grid(made: Score) -> Grid:
    (_, _, *heads), rows = plan_render.score_table(made.off)
    entries = [
        Row(
            label=f"{name}, {index}",
            index=index,
            entries=tuple(Entry(value=text or NOTHING) for text in texts),
        )
        for name, index, *texts in rows
    ]
    return Grid(caption="Errors of predictions", heads=tuple(heads), rows=tuple(entries))
