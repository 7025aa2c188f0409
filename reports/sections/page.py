"""Runs into one self-contained page: the answer first, then what it rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from keymark.harness.store.data_point import DataPoint
from keymark.indexes.spec import UNKNOWN_COLOR
from keymark.reports.model import facts, tables
from keymark.reports.model.data_points import by_data, leading, words_of
from keymark.reports.model.measures import measures_of, time_of
from keymark.reports.model.projection import CellView, Run, cell_order, failed_cells
from keymark.reports.model.report_warnings import run_warnings
from keymark.reports.model.which_index import WhichIndex, which_index
from keymark.reports.render import charts, export, prose
from keymark.reports.render.figures import Chart, chart
from keymark.reports.render.grids import Grid, grid
from keymark.reports.render.text import clean, listed
from keymark.reports.sections.headline import Headline, headline
from keymark.reports.sections.outcomes_part import OutcomesPart, outcomes_part
from keymark.reports.sections.overhead_part import OverheadPart, overhead_part
from keymark.reports.sections.parts import Parts
from keymark.reports.stats.noise import NoisePart, noise_part
from keymark.reports.stats.statistics import Caveat, CaveatKind

TEMPLATES = Path(__file__).parents[1] / "templates"

CHART_TITLES = {
    "write_latency": "Write latency: one upsert batch",
    "build_index": "Building the index of a table that has rows",
    "spread": "One upsert of rows all over the table",
    "null_columns": "Nulling columns of given keys",
    "delete": "Deleting given keys",
    "purge": "Purging given keys from all files",
    "lookup": "Lookup: finding the files of given keys",
    "lookup_again": "The same lookup again, by the same handle",
    "lookup_few": "Lookup of few keys: finding their files",
    "shuffle": "Shuffle of one upsert batch",
    "point_query": "Point query: reading one record",
    "point_query_spark": "Point query by Spark: reading one record",
    "column_query": "Column query: reading the rows of one value",
    "range_query": "Range query: reading the rows of a range",
    "point_query_cold": "Point query, cold: its files are out of the system's cache",
    "range_query_cold": "Range query, cold: its files are out of the system's cache",
    "storage": "Index on disk",
}
WORKING = {
    "write_latency": "one upsert batch",
    "lookup": "the lookup",
    "point_query": "the point query",
    "point_query_spark": "the point query by Spark",
}
"""Measures of the times of steps whose work is shown, with the words for these."""
PHASES_TITLE = "Where the time of an upsert goes"
MOST_BARS = 60
"""The most bars of a chart that can be read: one with more would be longer than ten screens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The headline of the cells on one data point.

    Attributes:
        where: the data in words; empty where the run has one point only.
        table: the headline table.
        words: the same in sentences.
    """

    where: str
    table: Grid
    words: list[prose.Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """Further tables of the cells on one data point.

    Attributes:
        where: the data in words; empty where there is one point only.
        grids: the tables.
        foremost: whether the answer is about these data.
    """

    where: str
    grids: list[Grid]
    foremost: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPart:
    """What a page says about one run.

    Attributes:
        run_id: the run's own id.
        label: its letter, empty when it is the only one.
        name: letter and id, or the id alone.
        headline: the answer in one sentence; None where no cell was right.
        compared: what was compared, in one sentence.
        answers: the headline of each shape of keys, at the largest table and batch.
        scenario: facts.
        environment: facts.
        warnings: what the measuring itself warns of.
        notes: what the harness wants readers to know.
        notices: what was left out or odd.
        command: how to measure the same again.
    """

    run_id: str
    label: str
    name: str
    headline: Headline | None
    compared: str
    answers: list[Answered]
    scenario: list[facts.Fact]
    environment: list[facts.Fact]
    warnings: list[Caveat]
    notes: list[str]
    notices: tuple[str, ...]
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Parts):
    """Everything that a page shows, in words and pictures; the sections of some runs beside.

    Attributes:
        title: heading of the page.
        verified: every planned cell is there, and none is wrong.
        unchecked: no answer was checked: a run of a job without a command that verifies.
        checked: number of cells that are verified.
        failed_cells: number of those that are not.
        failed: the same as (label, reasons); many that failed alike are one line.
        ended: cells that ended at a limit of memory or time, each with the step and the limit.
        beside: the headline of all runs side by side; None for a single run.
        choices: which index for what, of each run that measured enough of them.
        outcomes: which release of Hudi runs which index, where there are several.
        rest: what the time of an upsert beyond its phases is, in sentences.
        charts: pictures with their tables, of the first data that the answer is about.
        charted: these data in words; empty where there is one point only.
        noises: the machine's noise, of each run whose canary saw it.
        overheads: what measuring costs, of each run that measured it.
        details: further tables, by data.
        local: indexes among the cells that find a key within its partition only.
        cautions: what holds for the statistics of the whole page.
        runs: what belongs to one run, answers included.
        colors: by index.
    """

    title: str
    verified: bool
    unchecked: bool
    checked: int
    failed_cells: int
    failed: list[tuple[str, tuple[str, ...]]]
    ended: list[tuple[str, str]]
    beside: Grid | None
    choices: list[WhichIndex]
    outcomes: OutcomesPart | None
    charts: list[Chart]
    charted: str
    rest: list[str]
    noises: list[NoisePart]
    overheads: list[OverheadPart]
    details: list[Details]
    local: str
    cautions: list[str]
    runs: list[RunPart]
    colors: dict[str, str]


def build(runs: Sequence[Run], parts: Parts) -> Report:
    """Make the whole report in memory.

    Leaders and ratios are found within a run only, where cells were measured side by side.

    Args:
        runs: that are reported on.
        parts: their sections whose numbers `summary.json` has.
    """
    together = (cell for run in runs for cell in run.cells)
    every = sorted(together, key=lambda cell: cell_order(cell)[:4])
    right = [cell for cell in every if cell.verified]
    charted = _first_of_each_run(leading(right))
    headline = tables.filled(tables.headline(charted))
    failed = _failed(runs)
    several = len(runs) > 1
    return Report(
        title=_title(runs, every),
        verified=export.verified(runs),
        unchecked=any(map(facts.is_unchecked, runs)),
        checked=len(right),
        failed_cells=len(failed),
        failed=_together(failed),
        ended=[(cell.full_label, cell.ended) for cell in every if cell.ended],
        beside=grid(headline, "The runs side by side", judged=False) if several else None,
        choices=[choice for run in runs if (choice := which_index(run)) is not None],
        formats=parts.formats,
        engines=parts.engines,
        outcomes=outcomes_part(runs),
        releases=parts.releases,
        variants=parts.variants,
        virtuals=parts.virtuals,
        shapes=parts.shapes,
        pairs=parts.pairs,
        compactions=parts.compactions,
        charts=_charts(headline, judged=not several),
        rest=tables.rest_words(charted),
        charted="" if several or not charted else words_of(charted[0].data),
        growths=parts.growths,
        models=parts.models,
        overheads=[found for run in runs if (found := overhead_part(run)) is not None],
        noises=[noise for run in runs if (noise := noise_part(run)) is not None],
        details=_details(right),
        local=listed(list(dict.fromkeys(c.index for c in right if not c.spec.is_global))),
        cautions=_cautions(headline, runs),
        runs=[_part(run) for run in runs],
        colors={cell.index: cell.spec.color for cell in every},
    )


def html(report: Report, bare: Mapping[str, str]) -> str:
    """Render the page; everything foreign in it is escaped.

    Args:
        report: what is on it.
        bare: the pictures of its charts by key, as `write_charts` gives them.
    """

    def picture(chart: Chart) -> str:
        return chart.inline(bare_svg=bare[chart.key])

    return template("page.html.j2").render(**shown(report, picture))


def shown(report: Report, picture: Callable[[Chart], str]) -> dict[str, Any]:
    """What the template of a page asks for.

    Args:
        report: what is on it.
        picture: a chart as it stands in the page.
    """
    return {
        "report": report,
        "css": style(),
        "picture": lambda chart: Markup(picture(chart)),  # noqa: S704 - built by `svg.inline`
        "color": lambda index: report.colors.get(index, UNKNOWN_COLOR),
    }


def owned_charts(report: Report) -> list[tuple[str, list[Chart]]]:
    """The charts of sections that belong to one run each, with its id."""
    owned = [(part.run_id, part.charts) for part in report.growths]
    owned += [(part.run_id, part.charts) for part in report.models]
    owned += [(part.run_id, [chart for chart, _ in part.charts]) for part in report.formats]
    owned += [(part.run_id, [chart for chart, _ in part.charts]) for part in report.engines]
    return [*owned, *((part.run_id, [part.chart]) for part in report.noises)]


def style() -> Markup:
    """The style sheet of all pages."""
    css = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    return Markup(css)  # noqa: S704 - our own file


@cache
def template(name: str) -> Template:
    """A template, which escapes everything foreign."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(name)


def _title(runs: Sequence[Run], cells: Sequence[CellView]) -> str:
    names = listed(list(dict.fromkeys(clean(cell.index, 40) for cell in cells)))
    where = f" in {len(runs)} runs" if len(runs) > 1 else ""
    return f"{names} compared{where}" if names else "Nothing was measured"


def _failed(runs: Sequence[Run]) -> list[tuple[str, tuple[str, ...]]]:
    failed = [(c.full_label, c.reasons) for run in runs for c in run.cells if c.failed]
    for run in runs:
        name = f" · {run.label}" if run.label else ""
        reasons = failed_cells(run.record)
        failed += [
            (f"{clean(cell)}{name}", (reasons.get(cell, "planned, but left no sample"),))
            for cell in facts.missing_cells(run)
        ]
    return failed


def _together(
    failed: Sequence[tuple[str, tuple[str, ...]]],
) -> list[tuple[str, tuple[str, ...]]]:
    """Make one line of many cells that failed for the same reason."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for label, reasons in failed:
        alike.setdefault(reasons, []).append(label)
    made = []
    for reasons, labels in alike.items():
        many = len(labels) > prose.LONGEST_LIST
        shown = [f"{labels[0]} and {len(labels) - 1} other cells"] if many else labels
        made += [(label, reasons) for label in shown]
    return made


def _first_of_each_run(cells: Sequence[CellView]) -> list[CellView]:
    """The cells on each run's first data; their labels tell data apart where they differ."""
    first: dict[str, DataPoint] = {}
    for data, group in by_data(cells).items():
        for cell in group:
            first.setdefault(cell.run_id, data)
    kept = [cell for cell in cells if cell.data == first[cell.run_id]]
    if len(set(first.values())) > 1:
        return [replace(cell, label=cell.full_label) for cell in kept]
    return kept


def _charts(headline: tables.SummaryTable, *, judged: bool) -> list[Chart]:
    made: list[Chart] = []
    cells = headline.cells
    if len(cells) > MOST_BARS:
        return made
    for column in headline.columns:
        title = CHART_TITLES.get(column.measure.key)
        if title:
            single = tables.SummaryTable(cells=headline.cells, columns=(column,))
            drawing = charts.bars(column, cells, title)
            label = prose.chart_label(column, cells)
            numbers = grid(single, title, judged=judged)
            made.append(chart(column.measure.key, title, label, drawing, numbers))
    phases = tables.phases(cells)
    if len(phases.columns) > 1:
        words = grid(phases, PHASES_TITLE, judged=False)
        drawing = charts.stack(phases, PHASES_TITLE)
        made.append(chart("phases", PHASES_TITLE, prose.stack_label(words), drawing, words))
    return made


def _details(cells: Sequence[CellView]) -> list[Details]:
    foremost = {cell.data for cell in leading(cells)}
    own = [time_of(step, "", f"step {clean(step, 40)}") for step in tables.own_steps(cells)]
    made = []
    for data, group in by_data(cells).items():
        measures = measures_of(group)
        working = [(measures[key], words) for key, words in WORKING.items() if key in measures]
        working += [(time, time.what) for time in own]
        found = [
            grid(tables.steps(group), "Wall time of every step", judged=False),
            grid(tables.shuffled(group), "Bytes shuffled by one upsert batch", judged=False),
            *(
                grid(tables.work(group, time), f"Work done by {words}", judged=False)
                for time, words in working
            ),
        ]
        grids = [each for each in found if each.heads]
        made.append(Details(where=words_of(data), grids=grids, foremost=data in foremost))
    return sorted((each for each in made if each.grids), key=lambda each: not each.foremost)


def _cautions(headline: tables.SummaryTable, runs: Sequence[Run]) -> list[str]:
    few = {
        caveat.detail
        for column in headline.columns
        for summary in column.summaries
        if summary is not None
        for caveat in summary.caveats
        if caveat.kind is CaveatKind.FEW_SAMPLES
    }
    cautions = [f"{text[0].upper()}{text[1:]}." for text in sorted(few)]
    if len(headline.cells) > MOST_BARS:
        cautions.append(
            f"{len(headline.cells)} cells are too many for one chart each measure: the tables have "
            "their numbers."
        )
    if len(runs) > 1:
        cautions.append(
            "Times of different runs were not measured side by side: the machine may have been "
            "faster during one of them. Counters (bytes, files, tasks) compare across runs."
        )
    return cautions


def _part(run: Run) -> RunPart:
    right = leading([cell for cell in run.cells if cell.verified])
    return RunPart(
        run_id=clean(run.run_id),
        label=run.label,
        name=run.name,
        headline=headline(run, next(iter(by_data(right).values()))) if right else None,
        compared=facts.compared(run),
        answers=[_answered(data, group) for data, group in by_data(right).items()],
        scenario=facts.scenario(run),
        environment=facts.environment(run),
        warnings=run_warnings(run),
        notes=facts.notes(run),
        notices=run.notices,
        command=facts.command(run),
    )


def _answered(data: DataPoint, cells: Sequence[CellView]) -> Answered:
    whole = tables.headline(cells)
    headline = tables.filled(whole)
    rates = ", of rates higher" if any(c.measure.higher for c in headline.columns) else ""
    among = f": {words_of(data)}" if words_of(data) else ""
    caption = f"The answer: medians, lower is better{rates}{among}"
    return Answered(where=words_of(data), table=grid(headline, caption), words=prose.answers(whole))
