"""The page of one run with its files, and what the run says to the other pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from keymark.reports.model import facts
from keymark.reports.model.measures import BY_KEY
from keymark.reports.model.projection import Run
from keymark.reports.model.which_index import FEWEST
from keymark.reports.model.winners import MAPPED, Winner, winners
from keymark.reports.published.check import Checked, Examined
from keymark.reports.published.provenance import Provenance
from keymark.reports.render import export
from keymark.reports.render.figures import Chart, write_charts
from keymark.reports.render.files import make_folder, write
from keymark.reports.render.format_values import digits, times
from keymark.reports.render.prose import BY_ROUNDS, Answer
from keymark.reports.render.text import clean, listed
from keymark.reports.sections import page
from keymark.reports.sections.page import Report
from keymark.reports.site.comparisons import Comparison
from keymark.reports.site.model import MOST_BYTES, PAGES, QUESTIONS, RunEntry, Shown, Spot
from keymark.reports.site.question_charts import question_charts

Examine = Callable[[Path, Provenance], Examined]
"""Checks one run folder: `check.examined`."""

_UP = "../../"
_LOOKUP = "lookup"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSource:
    """A run that gets a page.

    Attributes:
        path: the run folder.
        provenance: whose run it is.
        place: of the run among those of the site.
        compared: the run beside each one that repeats it, or that it repeats; None where that
            is not known yet, and the run gets no page.
    """

    path: Path
    provenance: Provenance
    place: int
    compared: Sequence[Comparison] | None = ()


def publish_run(out: Path, examine: Examine, source: RunSource) -> tuple[Checked, RunEntry | None]:
    """Check a run and, if it is right, write its page and its files into the site.

    Args:
        out: the folder of the site.
        examine: how a run is checked.
        source: the run.

    Returns:
        What was found, and what the run says to the other pages.

    Raises:
        ReportError: the run cannot be read.
        OSError: a file cannot be written.
    """
    found = examine(source.path, source.provenance)
    if found.right is None or source.compared is None:
        return found.checked, None
    run, sections = found.right
    report = page.build([run], sections)
    drawn = _DrawnRun(run=run, report=report, own=tuple(question_charts(run)))
    folder = out / "runs" / run.run_id
    make_folder(folder / "charts", out)
    lettering = facts.lettering([run])
    lettering = replace(lettering, source=f"{lettering.source}; {source.provenance.label}")
    bare = write_charts(folder / "charts", drawn.charts, lettering)
    entry = _entry(drawn, source, bare)
    samples = export.samples_csv([run])
    write(folder / "samples.csv", samples)
    write(folder / "index.html", _page(drawn, entry, bare, samples))
    return found.checked, entry


@dataclass(frozen=True, slots=True, kw_only=True)
class _DrawnRun:
    """A run with all that is drawn of it.

    Attributes:
        run: the run.
        report: its report.
        own: charts of the site's own: key of the question, chart, what it shows.
    """

    run: Run
    report: Report
    own: Sequence[tuple[str, Chart, str]]

    @property
    def charts(self) -> list[Chart]:
        """All charts that have files."""
        owned = [each for _, found in page.owned_charts(self.report) for each in found]
        return [*self.report.charts, *owned, *(chart for _, chart, _ in self.own)]


def _entry(drawn: _DrawnRun, source: RunSource, bare: Mapping[str, str]) -> RunEntry:
    """What a run says; its charts are named by its place, since a page has those of several.

    Args:
        drawn: the run.
        source: where it is from.
        bare: its pictures by the key of a chart, as `write_charts` gives them.
    """
    run, report = drawn.run, drawn.report
    (part,) = report.runs
    return RunEntry(
        run_id=run.run_id,
        started=clean(run.record.started[:10]),
        scenario=clean(run.record.scenario.name or "", 80),
        machine=facts.lettering([run]).subtitle,
        label=source.provenance.label,
        is_ours=source.provenance.origin == "maintainers",
        verified=report.verified,
        ended=len(report.ended),
        sentence=part.headline.sentence if part.headline else "No cell gave a verified result.",
        noise=part.headline.noise if part.headline else "",
        shown=_shown(drawn, source.place, bare),
        spots=_spots(run),
        compared=source.compared or (),
    )


def _page(drawn: _DrawnRun, entry: RunEntry, bare: Mapping[str, str], samples: str) -> str:
    """The page, with as much on it as it may hold.

    Samples, then pictures are left to files. In a run of very many cells the table of every step
    and that of releases are left out, too.
    """
    run = drawn.run
    pictures = {each.file: each.inline for found in entry.shown.values() for each in found}

    def picture(chart: Chart) -> str:
        file = _file(run, chart)
        if file not in pictures:
            pictures[file] = chart.inline(bare_svg=bare[chart.key])
        return pictures[file]

    def link(chart: Chart) -> str:
        return f'<p><a href="charts/{chart.key}.svg">The chart as a picture</a></p>'

    made = page.template("site_run.html.j2")
    values: dict[str, Any] = {
        "up": _UP,
        "here": "",
        "pages": PAGES,
        "entry": entry,
        "revision": clean(run.record.versions.get("revision", ""), 40),
        "files": [(chart.key, chart.title) for chart in drawn.charts],
        "digest": [(clean(file), clean(digest)) for file, digest in run.record.digest.items()],
    }
    text, report = "", drawn.report
    short = replace(report, details=[], releases=[])
    for some_samples, shown, some_report in (
        (samples, picture, report),
        ("", picture, report),
        ("", link, report),
        ("", link, short),
    ):
        text = made.render(
            **page.shown(some_report, shown),
            **values,
            samples=some_samples,
            whole=some_report is report,
        )
        if len(text.encode()) <= MOST_BYTES:
            break
    return text


def _file(run: Run, chart: Chart) -> str:
    return f"runs/{run.run_id}/charts/{chart.key}"


def _shown(drawn: _DrawnRun, place: int, bare: Mapping[str, str]) -> dict[str, list[Shown]]:
    """What a run has to say, by the key of the question."""
    found: dict[str, list[Shown]] = {}
    for question, chart, sentence in (*_charts_of_questions(drawn.report), *drawn.own):
        one = Shown(
            title=chart.title,
            sentence=sentence,
            grid=chart.grid,
            inline=chart.inline(f"run{place}-{chart.key}", bare[chart.key]),
            file=_file(drawn.run, chart),
        )
        found.setdefault(question, []).append(one)
    return found


def _charts_of_questions(report: Report) -> Iterator[tuple[str, Chart, str]]:
    """(key of the question, chart, what it shows), in the order of a page."""
    (part,) = report.runs
    words: dict[str, str] = {}
    for each in part.answers[0].words if part.answers else ():
        what = each.topic.removesuffix(BY_ROUNDS)
        by_rounds = f"{BY_ROUNDS.strip().capitalize()}: " if what != each.topic else ""
        words[what] = f"{by_rounds}{each.words}"
    for question in QUESTIONS:
        for chart in report.charts:
            if chart.key in question.charts:
                measure = BY_KEY.get(chart.key)
                yield question.key, chart, words.get(measure.what, "") if measure else ""
    for growth in report.growths:
        yield from (("growth", chart, _first(growth.findings)) for chart in growth.charts)
    for formats in report.formats:
        yield from (("formats", chart, finding) for chart, finding in formats.charts)
    for engines in report.engines:
        yield from (("hudi", chart, _first(verdicts)) for chart, verdicts in engines.charts)
    for model in report.models:
        yield from (("model", chart, _first(model.findings)) for chart in model.charts)


def _first(answers: Sequence[Answer]) -> str:
    return f"{answers[0].topic}: {answers[0].words}" if answers else ""


def _spots(run: Run) -> list[Spot]:
    """Who is fastest where; of runs with a choice of indexes, each on one table of a kind."""
    right = [cell for cell in run.cells if cell.verified]
    ours = [cell for cell in right if cell.engine == right[0].engine]
    kinds = {(cell.index, cell.data) for cell in ours}
    if len({cell.index for cell in ours}) < FEWEST or len(kinds) < len(ours):
        return []
    wide = [cell for cell in ours if cell.spec.is_global]
    among = {True: wide} | ({False: ours} if len(wide) < len(ours) else {})
    sizes = facts.sizes_of(run.record)
    colors = {cell.index: cell.spec.color for cell in ours}
    made = [
        Spot(
            measure=measure.key,
            is_anywhere=is_anywhere,
            shape=clean(won.data.shape, 40),
            rows=won.data.rows or sizes.rows,
            batch=(sizes.lookup_keys if measure.key == _LOOKUP else won.data.batch)
            or sizes.batch_rows,
            first=clean(won.first, 20),
            color="" if won.rivals else colors[won.first],
            words=_ahead(won),
        )
        for measure in MAPPED
        for is_anywhere, cells in among.items()
        for won in winners(cells, measure)
    ]
    return [each for each in made if each.rows > 0 and each.batch > 0]


def _ahead(won: Winner) -> str:
    if won.rivals:
        return f"not told apart from {listed([clean(each, 20) for each in won.rivals])}"
    if won.margin is None:
        return "alone"
    around = f"{digits(won.margin.low)} to {digits(won.margin.high)}"
    return f"{clean(won.second, 20)} takes {times(won.margin.median)} ({around})"
