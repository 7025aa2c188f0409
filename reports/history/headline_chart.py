"""The history of a headline as a picture with its numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from keymark.reports.history.chart import drawn_words, history_chart
from keymark.reports.history.headlines import HeadlineHistory, WorkHistory
from keymark.reports.render.charts import Lettering
from keymark.reports.render.figures import Chart, chart
from keymark.reports.render.format_values import amount
from keymark.reports.render.grids import Entry, Grid, Row
from keymark.reports.render.text import NOTHING, clean

_STRANGE = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST_NAME = 80


WorkCharts = tuple[WorkHistory, list[tuple[HeadlineHistory, Chart]]]
"""A work, and of each headline its history and chart."""


def headline_charts(works: Sequence[WorkHistory]) -> Iterator[WorkCharts]:
    """The charts of each work that was repeated; names of their files are unique."""
    for place, work in enumerate(works, start=1):
        if work.headlines:
            charts = [(each, _chart(work, each, place)) for each in work.headlines]
            yield work, charts


def lettering(work: WorkHistory) -> Lettering:
    """What stands around such a chart where it stands alone."""
    runs = f"runs {work.runs[0]} to {work.runs[-1]}"
    return Lettering(
        subtitle=f"{len(work.runs)} runs of {work.scenario}, {work.machine}",
        source=f"Source: Keymark, {runs}",
    )


def _chart(work: WorkHistory, headline: HeadlineHistory, place: int) -> Chart:
    title = f"{headline.title}: {work.scenario}"
    name = _STRANGE.sub("-", f"history_{place}_{work.scenario}_{headline.key}")[:_LONGEST_NAME]
    not_all = drawn_words(headline.history)
    left_out = f" {not_all}; the table has all." if not_all else ""
    label = f"Chart of the history of {title}. {headline.finding}{left_out}"
    drawing = replace(history_chart(headline.history), title=title)
    return chart(name, title, label, drawing, _grid(title, headline))


def _grid(title: str, headline: HeadlineHistory) -> Grid:
    history = headline.history
    rows = []
    for series in history.series:
        known = dict(zip(series.runs, series.values, strict=True))
        entries = tuple(
            Entry(value=amount(known[place], series.unit) if place in known else NOTHING)
            for place in range(len(history.runs))
        )
        rows.append(Row(label=clean(series.key.cell, 80), index="", entries=entries))
    return Grid(caption=title, heads=history.runs, rows=tuple(rows))
