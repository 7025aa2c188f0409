"""The report as Markdown: what fits into a pull request or a terminal pager."""

from __future__ import annotations

from collections.abc import Sequence

from keymark.reports.model.which_index import WhichIndex
from keymark.reports.render.grids import Grid, markdown_table
from keymark.reports.render.prose import Answer
from keymark.reports.render.text import markdown
from keymark.reports.sections.compaction_part import CompactionPart
from keymark.reports.sections.growth_part import GrowthPart
from keymark.reports.sections.outcomes_part import OutcomesPart
from keymark.reports.sections.page import Answered, Report, RunPart
from keymark.reports.sections.pair_part import PairPart
from keymark.reports.sections.releases_part import ReleasesPart
from keymark.reports.sections.variants_part import VariantsPart

_LONGEST_SENTENCE = 2000
_ENDED = "Ended at a limit of memory or time, which is a result; what was measured before counts"


def summary_markdown(report: Report) -> str:
    """Print the answer, the details and the warnings; everything foreign is escaped."""
    lines = [f"# {markdown(report.title)}", ""]
    for run in report.runs:
        before = f"{run.name}: " if run.label else ""
        if run.headline:
            sentence = markdown(f"{before}{run.headline.sentence}", _LONGEST_SENTENCE)
            more = [markdown(each, _LONGEST_SENTENCE) for each in run.headline.more]
            lines += [" ".join([f"**{sentence}**", *more, run.headline.noise]), ""]
        lines += [markdown(f"{before}{run.compared}", _LONGEST_SENTENCE), ""]
    lines += _verdict(report)
    for run in report.runs:
        for answer in run.answers:
            lines += _answer(run, answer)
    if report.beside:
        lines += ["## Side by side", "", *markdown_table(report.beside), ""]
    for chart in report.charts:
        if chart.key == "phases":
            lines += [f"## {chart.title}", "", *markdown_table(chart.grid), "", *report.rest, ""]
    lines += _parts(report)
    lines += _details(report)
    lines += _notes(report)
    lines += ["## Reproduce", ""]
    for run in report.runs:
        lines += [f"    make install && {run.command}", ""]
    return "\n".join(lines)


def _parts(report: Report) -> list[str]:
    """The parts that only runs with more to compare have."""
    return [*_of_engines(report), *_of_hudi(report), *_of_data(report), *_of_measuring(report)]


def _of_engines(report: Report) -> list[str]:
    """What runs have to say about several formats and engines."""
    lines = []
    for formats in report.formats:
        lines += [_heading("Which format answers which question best", formats.name), ""]
        lines += [line for _, finding in formats.charts for line in (markdown(finding), "")]
        lines += _with_findings(formats.tables, "question")
    for part in report.engines:
        lines += [_heading("Engines side by side", part.name), ""]
        for chart, verdicts in part.charts:
            lines += [f"### {markdown(chart.title)}", "", *_sentences(verdicts), ""]
    return lines


def _of_hudi(report: Report) -> list[str]:
    """What runs have to say about releases of Hudi and of its options."""
    lines = []
    if report.outcomes:
        found = report.outcomes
        lines += [_heading("Which release runs which index", ""), "", found.finding, ""]
        lines += [*markdown_table(found.grid, "engine"), ""]
    for changed in report.releases:
        lines += [_heading("What changed between releases", changed.name), ""]
        lines += _with_findings(changed.tables, "measure")
    for part in report.variants:
        lines += [_heading("Variants of a table", part.name), ""]
        lines += _with_findings(part.tables, "measure")
    return lines


def _of_data(report: Report) -> list[str]:
    """What runs have to say about several kinds of data and of tables."""
    lines = []
    for compared in report.virtuals:
        lines += [_heading("Virtual keys", compared.name), "", *_with_findings(compared.shapes)]
    for found in report.shapes:
        lines += [
            _heading("Shapes of data", found.name),
            "",
            *markdown_table(found.grid, "shape"),
            "",
        ]
        lines += [*_sentences(found.findings), ""]
    for pair in report.pairs:
        lines += [_heading(f"Two indexes side by side: {pair.title}", pair.name), ""]
        lines += _with_findings(pair.tables, "data")
    for bill in report.compactions:
        lines += [_heading("What compaction costs", bill.name), "", *_with_findings(bill.tables)]
    return [*lines, *(line for growth in report.growths for line in _growth(growth))]


def _of_measuring(report: Report) -> list[str]:
    """The model that runs were fitted to, and how far they can be trusted."""
    lines = []
    for model in report.models:
        fits = markdown_table(model.fits, "index and cache")
        lines += [_heading("Lookup model", model.name), "", *fits, ""]
        lines += [*_sentences(model.findings), ""]
    for overhead in report.overheads:
        lines += [
            _heading("What measuring costs", overhead.name),
            "",
            *markdown_table(overhead.grid),
        ]
        lines += ["", overhead.verdict, ""]
    for noise in report.noises:
        lines += [
            _heading("The machine's noise", noise.name),
            "",
            *markdown_table(noise.grid, "load"),
        ]
        lines += ["", *_sentences(noise.findings), ""]
    return lines


def _with_findings(
    tables: Sequence[tuple[Grid, Sequence[Answer]]], head: str = "index"
) -> list[str]:
    lines = []
    for grid, findings in tables:
        lines += [f"### {markdown(grid.caption)}", "", *markdown_table(grid, head), ""]
        lines += [*_sentences(findings), ""]
    return lines


def outcomes_markdown(part: OutcomesPart) -> str:
    """Print which release runs which index as a document of its own."""
    lines = ["# Which release of Hudi runs which index", "", part.finding, ""]
    lines += [*markdown_table(part.grid, "engine"), ""]
    if part.reasons:
        lines += ["Why not:", ""]
        for each in part.reasons:
            names = ", ".join(map(markdown, each.names))
            lines.append(f"- {names}: {markdown(each.words, _LONGEST_SENTENCE)}")
            alone = "These alone, for the first" if len(each.names) > 1 else "These alone"
            lines += [f"  {alone}: `{each.command}`"] if each.command else []
        lines.append("")
    return "\n".join(lines)


def releases_markdown(part: ReleasesPart, run: RunPart) -> str:
    """Print what changed between releases as a document of its own, the whole span first."""
    lines = ["# What changed between releases of Hudi", "", *_sentences(part.overall), ""]
    lines += [markdown(run.compared, _LONGEST_SENTENCE), ""]
    lines += _with_findings(part.tables, "measure")
    lines += ["Measured by", "", f"    make install && {run.command}", ""]
    return "\n".join(lines)


def pair_markdown(part: PairPart, run: RunPart) -> str:
    """Print two indexes side by side as a document of its own."""
    return _document(part.title, part.tables, run, "data")


def variants_markdown(part: VariantsPart, run: RunPart) -> str:
    """Print what variants of a table change as a document of its own."""
    return _document("What options of a table change", part.tables, run, "measure")


def compaction_markdown(part: CompactionPart, run: RunPart) -> str:
    """Print the bill of upserts and compaction as a document of its own."""
    return _document("What compaction costs", part.tables, run, "index")


def _document(
    title: str, tables: Sequence[tuple[Grid, Sequence[Answer]]], run: RunPart, head: str
) -> str:
    """Tables of one run as a document: what they show first, then the tables, then the command."""
    lines = [f"# {markdown(title)}", ""]
    for grid, findings in tables:
        lines += [f"{markdown(grid.caption)}:", "", *_sentences(findings), ""]
    lines += [markdown(run.compared, _LONGEST_SENTENCE), ""]
    for grid, _ in tables:
        lines += [f"## {markdown(grid.caption)}", "", *markdown_table(grid, head), ""]
    lines += ["Measured by", "", f"    make install && {run.command}", ""]
    return "\n".join(lines)


def which_index_markdown(choice: WhichIndex) -> str:
    """Print which index for what as a document of its own."""
    lines = [
        "# Which index",
        "",
        f"{markdown(choice.source)}.",
        "",
        *markdown_table(choice.grid),
        "",
    ]
    lines += ["Columns:", ""]
    lines += [f"- {markdown(head)}: {markdown(meaning)}." for head, meaning in choice.columns]
    lines += ["", "What each index needs:", ""]
    lines += [f"- {markdown(index)}: {markdown(words)}." for index, words in choice.needs]
    lines += ["", "Measured by", "", f"    make install && {choice.command}", ""]
    return "\n".join(lines)


def _heading(title: str, run: str) -> str:
    """The heading of a part, with the run where there are several."""
    return f"## {title} of {markdown(run)}" if run else f"## {title}"


def _details(report: Report) -> list[str]:
    """The tables of the settings that the answer is about; the page has the others too."""
    lines = []
    for each in (each for each in report.details if each.foremost):
        where = f": {markdown(each.where)}" if each.where else ""
        for grid in each.grids:
            lines += [f"## {markdown(grid.caption)}{where}", "", *markdown_table(grid), ""]
    return lines


def _growth(growth: GrowthPart) -> list[str]:
    lines = [_heading(growth.heading, growth.name), "", *_sentences(growth.findings), ""]
    lines += [*_sentences(growth.projections), ""] if growth.projections else []
    for each in growth.maps:
        lines += [f"### {markdown(each.caption)}", "", *markdown_table(each, "data"), ""]
    for chart in growth.charts if not growth.maps else ():
        lines += [f"### {markdown(chart.title)}", "", *markdown_table(chart.grid), ""]
    return lines


def _answer(run: RunPart, answer: Answered) -> list[str]:
    of = f" of run {run.label}" if run.label else ""
    where = f": {markdown(answer.where)}" if answer.where else ""
    return [
        f"## The answer{of}{where}",
        "",
        *markdown_table(answer.table),
        "",
        *_sentences(answer.words),
        "",
    ]


def _sentences(answers: Sequence[Answer]) -> list[str]:
    return [
        f"- {markdown(each.topic)}: {markdown(each.words, _LONGEST_SENTENCE)}" for each in answers
    ]


def _verdict(report: Report) -> list[str]:
    ended = [f"- {markdown(label)}: {markdown(limit)}" for label, limit in report.ended]
    if ended:
        ended = [f"{_ENDED}:", "", *ended, ""]
    if report.verified and report.unchecked:
        return [f"All {report.checked} cells ran to their end; no answer was checked.", ""]
    if report.verified:
        right = f"Verified: all {report.checked} cells gave the right answer in every step."
        return [right, "", *ended]
    of = report.failed_cells + report.checked
    lines = [f"**Not verified**: {report.failed_cells} of {of} cells failed and are left out.", ""]
    lines += [
        f"- {markdown(label)}: {markdown('; '.join(reasons))}" for label, reasons in report.failed
    ]
    return [*lines, "", *ended]


def _notes(report: Report) -> list[str]:
    notes = list(report.cautions)
    for run in report.runs:
        before = f"{run.label}: " if run.label else ""
        warnings = [f"{each.detail[0].upper()}{each.detail[1:]}." for each in run.warnings]
        notes += [f"{before}{words}" for words in (*warnings, *run.notes, *run.notices)]
    if not notes:
        return []
    return ["## Warnings and notes", "", *[f"- {markdown(note)}" for note in notes], ""]
