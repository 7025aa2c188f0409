"""Run folders in, report files out. The only module of this package that writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from keymark.reports.errors import ReportError
from keymark.reports.model import facts, projection
from keymark.reports.model.projection import Run
from keymark.reports.render import export
from keymark.reports.render.engines_chart import PREFIX as ENGINES_PREFIX
from keymark.reports.render.figures import write_charts
from keymark.reports.render.files import make_folder, write
from keymark.reports.render.format_chart import PREFIX as FORMATS_PREFIX
from keymark.reports.render.text import clean
from keymark.reports.sections import page, parts
from keymark.reports.sections.growth_part import PREFIX as GROWTH_PREFIX
from keymark.reports.sections.model_part import PREFIX as MODEL_PREFIX
from keymark.reports.sections.page import Report
from keymark.reports.sections.parts import Parts
from keymark.reports.sections.summary_page import (
    compaction_markdown,
    outcomes_markdown,
    pair_markdown,
    releases_markdown,
    summary_markdown,
    variants_markdown,
    which_index_markdown,
)
from keymark.reports.stats.noise import PREFIX as NOISE_PREFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A report on disk.

    Attributes:
        index: path of the page.
        report: what is on it.
        summary: content of summary.json.
    """

    index: Path
    report: Report
    summary: Mapping[str, Any]


def publish(
    paths: Sequence[Path], out: Path | None = None, larger: Path | None = None
) -> Published:
    """Report on run folders.

    Writes `report/index.html`, `report/charts/*.svg` and `*.png`, `summary.md`, `summary.json`,
    `samples.csv`, and where a run has what they tell `report/which_index.md`, `outcomes.md`,
    `releases.md`, `variants.md`, `two_indexes.md` and `compaction.md` beside it. All are derived:
    writing them again replaces them, and nothing reads them back.

    Args:
        paths: run folders, at least one.
        out: where to write; by default into the run folder itself, or for several runs into the
            folder `comparison` of the first.
        larger: a run folder whose table is the largest size of runs with tables of several sizes.

    Raises:
        ReportError: a path is no run folder or is damaged, or the report cannot be written.
    """
    runs = projection.load(paths)
    further = [] if larger is None else projection.load([larger])
    sections = Parts.of(runs, *further)
    report, summary = page.build(runs, sections), parts.summary(runs, sections)
    target = out or (paths[0] if len(paths) == 1 else paths[0] / "comparison")
    root = next((path for path in paths if target.is_relative_to(path)), target)
    try:
        make_folder(target, root)
        index = _write(target, runs, further, report)
        write(target / "summary.md", summary_markdown(report))
        write(target / "summary.json", json.dumps(summary, indent=2, allow_nan=False) + "\n")
        write(target / "samples.csv", export.samples_csv(runs))
    except OSError as error:
        where = clean(error.filename or target)
        raise ReportError(f"{where} cannot be written: {error.strerror}") from error
    return Published(index=index, report=report, summary=summary)


def _write(target: Path, runs: Sequence[Run], further: Sequence[Run], report: Report) -> Path:
    charts = target / "report" / "charts"
    make_folder(charts, target)
    prefixes = (FORMATS_PREFIX, MODEL_PREFIX, GROWTH_PREFIX, ENGINES_PREFIX, NOISE_PREFIX)
    names = [*page.CHART_TITLES, "phases", *(f"{prefix}*" for prefix in prefixes)]
    stale = [
        each for name in names for end in ("svg", "png") for each in charts.glob(f"{name}.{end}")
    ]
    pages = ("which_index*", "outcomes", "releases*", "variants*", "two_indexes*", "compaction*")
    for each in (*stale, *(old for name in pages for old in charts.parent.glob(f"{name}.md"))):
        each.unlink()
    bare = write_charts(charts, report.charts, facts.lettering(runs))
    by_id = {clean(run.run_id): run for run in runs}
    for run_id, found in page.owned_charts(report):
        sources = [by_id[run_id]]
        if any(each.key.startswith(GROWTH_PREFIX) for each in found):
            sources += further
        bare |= write_charts(charts, found, facts.lettering(sources))
    for choice in report.choices:
        write(target / "report" / choice.file, which_index_markdown(choice))
    if report.outcomes:
        write(target / "report" / "outcomes.md", outcomes_markdown(report.outcomes))
    parts_of = {
        clean(run.run_id): (part, run.file_suffix)
        for run, part in zip(runs, report.runs, strict=True)
    }
    documents = [
        *((each.run_id, "releases", partial(releases_markdown, each)) for each in report.releases),
        *((each.run_id, "variants", partial(variants_markdown, each)) for each in report.variants),
        *((each.run_id, "two_indexes", partial(pair_markdown, each)) for each in report.pairs),
        *(
            (each.run_id, "compaction", partial(compaction_markdown, each))
            for each in report.compactions
        ),
    ]
    for run_id, name, printed in documents:
        part, suffix = parts_of[run_id]
        write(target / "report" / f"{name}{suffix}.md", printed(part))
    index = target / "report" / "index.html"
    write(index, page.html(report, bare))
    return index
