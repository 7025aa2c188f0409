"""The report as Markdown: what fits into a pull request or a terminal pager."""

from __future__ import annotations

from collections.abc import Sequence

from keymark.reports.model.which_index import WhichIndex
from keymark.reports.render.grids import Entry, Grid
from keymark.reports.render.prose import Answer
from keymark.reports.render.text import markdown
from keymark.reports.sections.engines_part import EnginesPart
from keymark.reports.sections.growth_part import GrowthPart
from keymark.reports.sections.model_part import ModelPart
from keymark.reports.sections.overhead_part import OverheadPart
from keymark.reports.sections.page import Answered, Report, RunPart
from keymark.reports.sections.virtual_part import VirtualPart
from keymark.reports.stats.noise import NoisePart

_LONGEST_SENTENCE = 2000


def summary_markdown(report: Report) -> str:
    """Print the answer, the details and the warnings; everything foreign is escaped."""
    lines = [f"# {markdown(report.title)}", ""]
    for run in report.runs:
        said = f"{run.name}: {run.compared}" if run.label else run.compared
        lines += [markdown(said, _LONGEST_SENTENCE), ""]
    lines += _verdict(report)
    for run in report.runs:
        for answer in run.answers:
            lines += _answer(run, answer)
    if report.beside:
        lines += ["## Side by side", "", *_table(report.beside), ""]
    for chart in report.charts:
        if chart.key == "phases":
            lines += [f"## {chart.title}", "", *_table(chart.grid), ""]
    lines += [line for part in report.engines for line in _engines(part)]
    lines += [line for part in report.virtuals for line in _virtual(part)]
    lines += [line for growth in report.growths for line in _growth(growth)]
    lines += [line for model in report.models for line in _model(model)]
    lines += [line for overhead in report.overheads for line in _overhead(overhead)]
    lines += [line for noise in report.noises for line in _noise(noise)]
    lines += _details(report)
    lines += _notes(report)
    lines += ["## Reproduce", ""]
    for run in report.runs:
        lines += [f"    make install && {run.command}", ""]
    return "\n".join(lines)


def which_index_markdown(choice: WhichIndex) -> str:
    """Print which index for what as a document of its own."""
    lines = ["# Which index", "", f"{markdown(choice.source)}.", "", *_table(choice.grid), ""]
    lines += ["Columns:", ""]
    lines += [f"- {markdown(head)}: {markdown(meaning)}." for head, meaning in choice.columns]
    lines += ["", "What each index needs:", ""]
    lines += [f"- {markdown(index)}: {markdown(words)}." for index, words in choice.needs]
    lines += ["", "Measured by", "", f"    make install && {choice.command}", ""]
    return "\n".join(lines)


def _engines(part: EnginesPart) -> list[str]:
    of = f" of {markdown(part.name)}" if part.name else ""
    lines = [f"## Engines side by side{of}", ""]
    for chart, verdicts in part.charts:
        lines += [f"### {markdown(chart.title)}", "", *_sentences(verdicts), ""]
    return lines


def _virtual(part: VirtualPart) -> list[str]:
    of = f" of {markdown(part.name)}" if part.name else ""
    lines = [f"## Virtual keys{of}", ""]
    for grid, findings in part.shapes:
        lines += [f"### {markdown(grid.caption)}", "", *_table(grid), "", *_sentences(findings), ""]
    return lines


def _details(report: Report) -> list[str]:
    """The tables of the settings that the answer is about; the page has the others too."""
    lines = []
    for each in (each for each in report.details if each.foremost):
        where = f": {markdown(each.where)}" if each.where else ""
        for grid in each.grids:
            lines += [f"## {markdown(grid.caption)}{where}", "", *_table(grid), ""]
    return lines


def _growth(growth: GrowthPart) -> list[str]:
    of = f" of {markdown(growth.name)}" if growth.name else ""
    lines = [f"## {growth.heading}{of}", "", *_sentences(growth.findings), ""]
    for each in growth.maps:
        lines += [f"### {markdown(each.caption)}", "", *_table(each, "data"), ""]
    for chart in growth.charts if not growth.maps else ():
        lines += [f"### {markdown(chart.title)}", "", *_table(chart.grid), ""]
    return lines


def _model(model: ModelPart) -> list[str]:
    of = f" of {markdown(model.name)}" if model.name else ""
    table = _table(model.fits, "index and cache")
    return [f"## Lookup model{of}", "", *table, "", *_sentences(model.findings), ""]


def _overhead(overhead: OverheadPart) -> list[str]:
    of = f" of {markdown(overhead.name)}" if overhead.name else ""
    return [f"## What measuring costs{of}", "", *_table(overhead.grid), "", overhead.verdict, ""]


def _noise(noise: NoisePart) -> list[str]:
    of = f" of {markdown(noise.name)}" if noise.name else ""
    table = _table(noise.grid, "load")
    return [f"## The machine's noise{of}", "", *table, "", *_sentences(noise.findings), ""]


def _answer(run: RunPart, answer: Answered) -> list[str]:
    of = f" of run {run.label}" if run.label else ""
    where = f": {markdown(answer.where)}" if answer.where else ""
    return [
        f"## The answer{of}{where}",
        "",
        *_table(answer.table),
        "",
        *_sentences(answer.words),
        "",
    ]


def _sentences(answers: Sequence[Answer]) -> list[str]:
    return [
        f"- {markdown(each.topic)}: {markdown(each.words, _LONGEST_SENTENCE)}" for each in answers
    ]


def _verdict(report: Report) -> list[str]:
    if report.verified:
        return [f"Verified: all {report.checked} cells gave the right answer in every step.", ""]
    of = report.failed_cells + report.checked
    lines = [f"**Not verified**: {report.failed_cells} of {of} cells failed and are left out.", ""]
    lines += [
        f"- {markdown(label)}: {markdown('; '.join(reasons))}" for label, reasons in report.failed
    ]
    return [*lines, ""]


def _table(grid: Grid, head: str = "index") -> list[str]:
    lines = [
        _line([head, *grid.heads]),
        _line(["---", *["---:"] * len(grid.heads)], raw=True),
    ]
    lines += [_line([row.label, *map(_words, row.entries)]) for row in grid.rows]
    if grid.findings:
        lines.append(_line(["shown by the data", *grid.findings]))
    return lines


def _line(texts: Sequence[str], *, raw: bool = False) -> str:
    return f"| {' | '.join(text if raw else markdown(text) for text in texts)} |"


def _words(entry: Entry) -> str:
    spread = f" ({entry.spread})" if entry.spread else ""
    return entry.value + spread + (f" {entry.mark}" if entry.mark else "")


def _said(run: RunPart) -> list[str]:
    warnings = [f"{each.detail[0].upper()}{each.detail[1:]}." for each in run.warnings]
    return [*warnings, *run.notes, *run.notices]


def _notes(report: Report) -> list[str]:
    notes = list(report.cautions)
    for run in report.runs:
        before = f"{run.label}: " if run.label else ""
        notes += [f"{before}{words}" for words in _said(run)]
    if not notes:
        return []
    return ["## Warnings and notes", "", *[f"- {markdown(note)}" for note in notes], ""]
