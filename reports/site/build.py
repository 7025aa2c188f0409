"""Published runs in, a static site out."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup

from keymark.indexes import installed
from keymark.reports.cores import on_each_core
from keymark.reports.errors import ReportError
from keymark.reports.history.chart import drawn_words
from keymark.reports.history.headline_chart import headline_charts, lettering
from keymark.reports.history.headlines import HeadlineHistory, WorkHistory, read_all
from keymark.reports.published import provenance
from keymark.reports.published.check import Checked, examined, folders, root_of, with_labels
from keymark.reports.published.provenance import Provenance
from keymark.reports.render.charts import Lettering
from keymark.reports.render.figures import Chart, write_charts
from keymark.reports.render.files import make_folder, write
from keymark.reports.render.text import clean
from keymark.reports.sections import page
from keymark.reports.site.comparisons import comparisons
from keymark.reports.site.feeds import CSV, PARQUET, write_feeds
from keymark.reports.site.model import MOST_BYTES, PAGES, QUESTIONS, Question, RunEntry, Shown
from keymark.reports.site.overview import index_maps
from keymark.reports.site.runs import Examine, RunSource, publish_run

_MARK = ".keymark-site"
# The most bytes of a page's pictures, and of what stands around one.
_MOST_PICTURES, _FRAME = 600_000, 100
_NO_PICTURE = Markup("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What one run says to a question, with its picture if the page may hold it."""

    entry: RunEntry
    shown: Shown
    picture: Markup = _NO_PICTURE


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A site on disk.

    Attributes:
        index: its first page.
        runs: that are on it.
        left_out: folders whose run is refused, with the first reason.
    """

    index: Path
    runs: tuple[str, ...]
    left_out: tuple[tuple[Path, str], ...]


def build(results: Path, out: Path, examine: Examine = examined) -> Site:
    """Make the site of all published runs that are right.

    Args:
        results: the folder of published runs.
        out: the folder of the site; what another site left there is replaced.
        examine: how each run is checked.

    Raises:
        ReportError: there are no published runs, or one of them twice; `out` holds other files, or
            it cannot be written.
    """
    names = [path.resolve().name for path in folders(results)]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ReportError(f"{clean(results)} holds {clean(', '.join(sorted(twice)))} twice")
    labels = provenance.read(root_of(results))
    try:
        _empty(out)
        made, entries = _write_runs(out, results, labels, examine)
        _write_pages(out, entries, read_all([each.path for each in made if not each.findings]))
    except OSError as error:
        where = clean(error.filename or out)
        raise ReportError(f"{where} cannot be written: {error.strerror}") from error
    return Site(
        index=out / "index.html",
        runs=tuple(each.run_id for each in entries),
        left_out=tuple((each.path, str(each.findings[0])) for each in made if each.findings),
    )


def _empty(out: Path) -> None:
    """An empty folder that says what it is for, so that it may be emptied again."""
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise ReportError(f"{clean(out)} is no folder")
    if out.exists() and any(out.iterdir()):
        if not (out / _MARK).is_file():
            raise ReportError(f"{clean(out)} holds other files than a site; choose another --out")
        shutil.rmtree(out)
    make_folder(out, out)
    write(out / _MARK, "")


def _write_runs(
    out: Path, results: Path, labels: Mapping[str, Provenance], examine: Examine
) -> tuple[list[Checked], list[RunEntry]]:
    """Check all runs, write the pages of those that are right, and the feeds.

    Each core takes a run at a time, which it reads once: to check it and to draw it. The page of a
    run that was repeated, or that repeats one, says whether both agree. Such a run is read again
    when all are checked, and drawn then.

    Returns:
        What was found in each folder; what the right ones say, the maintainers' first, then new.
    """
    again = {name: label.repeated for name, label in labels.items() if label.repeated}
    waiting = {*again, *again.values()}
    work = []
    for place, path in enumerate(folders(results)):
        name = path.resolve().name
        run = RunSource(path=path, provenance=labels.get(name, Provenance()), place=place)
        work.append(replace(run, compared=None) if name in waiting else run)
    # The largest first, so that no core is left alone with it at the end.
    work.sort(key=lambda run: -sum(file.stat().st_size for file in run.path.iterdir()))
    published = on_each_core(partial(publish_run, out, examine), work)
    found = sorted((checked for checked, _ in published), key=lambda each: each.path)
    made = with_labels(found, results, labels)
    right = {each.path for each in made if not each.findings}
    compared = comparisons([each for each in made if each.path in right])
    for run in work:
        if run.compared is None and run.path in right:
            beside = compared.get(run.path.resolve().name, ())
            published.append(publish_run(out, examine, replace(run, compared=beside)))
    entries = sorted((entry for _, entry in published if entry), key=lambda entry: entry.run_id)
    write_feeds(out, [out / "runs" / each.run_id for each in entries])
    newest = sorted(entries, key=lambda entry: entry.started, reverse=True)
    return made, sorted(newest, key=lambda entry: not entry.is_ours)


def _write_pages(out: Path, entries: Sequence[RunEntry], works: Sequence[WorkHistory]) -> None:
    maps = index_maps(entries)
    make_folder(out / "charts", out)
    picture: dict[str, Markup] = {}
    for each in maps:
        runs = ", ".join(clean(name, 80) for name in each.runs)
        source = Lettering(source=f"Source: Keymark, runs {runs}")
        key = each.chart.key
        bare = write_charts(out / "charts", [each.chart], source)[key]
        picture[key] = Markup(each.chart.inline(bare_svg=bare))  # noqa: S704 - our own
    shared: dict[str, Any] = {"pages": PAGES, "up": "", "css": page.style()}
    shared |= {"color": installed.color_of, "entries": entries, "feeds": (CSV, PARQUET)}
    answers = [(question, _answers(question, entries)) for question in QUESTIONS]
    known = {entry.run_id: entry for entry in entries}
    overview = page.template("site_overview.html.j2")
    write(
        out / "index.html",
        overview.render(**shared, here="index.html", maps=maps, known=known, picture=picture,
                        answers=answers),
    )  # fmt: skip
    for question, found in answers:
        write(out / f"{question.key}.html", _question_page(question, found, shared))
    history = page.template("site_history.html.j2")
    drawn, alone = _drawn(out, works), [each for each in works if not each.headlines]
    words = {"here": "history.html", "works": drawn, "alone": alone, "not_all": drawn_words}
    text = history.render(**shared, **words)
    write(out / "history.html", text)
    method = page.template("site_method.html.j2").render(**shared, here="method.html")
    write(out / "method.html", method)


def _drawn(
    out: Path, works: Sequence[WorkHistory]
) -> list[tuple[WorkHistory, list[tuple[HeadlineHistory, Chart, Markup]]]]:
    """The charts of each work that was repeated; pictures as long as the page may hold them."""
    made, size = [], 0
    for work, charts in headline_charts(works):
        shown = []
        for headline, chart in charts:
            bare = write_charts(out / "charts", [chart], lettering(work))
            inline = chart.inline(bare_svg=bare[chart.key]) if size <= _MOST_PICTURES else ""
            size += len(inline.encode())
            picture = Markup(inline if size <= _MOST_PICTURES else "")  # noqa: S704 - our own
            shown.append((headline, chart, picture))
        made.append((work, shown))
    return made


def _answers(question: Question, entries: Sequence[RunEntry]) -> list[Answered]:
    """What the runs say to a question, without pictures."""
    return [
        Answered(entry=entry, shown=shown)
        for entry in entries
        for shown in entry.shown.get(question.key, ())
    ]


def _question_page(
    question: Question, answers: Sequence[Answered], shared: Mapping[str, Any]
) -> str:
    """The page of a question; pictures as long as it may hold them."""
    made = page.template("site_question.html.j2")
    words = {**shared, "here": f"{question.key}.html", "question": question}
    left = MOST_BYTES - len(made.render(**words, answers=answers).encode())
    shown, left = [], min(left, _MOST_PICTURES)
    for answer in answers:
        inline = answer.shown.inline
        left -= len(inline.encode()) + _FRAME
        picture = Markup(inline if left >= 0 else "")  # noqa: S704 - built by `svg.inline`
        shown.append(replace(answer, picture=picture))
    return made.render(**words, answers=shown)
