"""How far each table format is behind the best one, question by question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from keymark.reports.model.data_points import by_data, leading, words_of
from keymark.reports.model.format_answers import FormatAnswer, answers, has_formats
from keymark.reports.model.projection import CellView, Run
from keymark.reports.render.figures import Chart
from keymark.reports.render.format_values import amount
from keymark.reports.render.multiples_chart import Multiple, MultiplesRow, multiples_chart
from keymark.reports.render.text import clean, listed
from keymark.reports.stats.statistics import paired_ratio

PREFIX = "formats_"
"""How the keys of these charts begin."""


def format_charts(run: Run) -> Iterator[tuple[Chart, str]]:
    """A chart for each kind of data with its finding; none of a run without several formats."""
    right = leading([cell for cell in run.cells if cell.verified])
    for place, (data, cells) in enumerate(by_data(right).items(), start=1):
        found = answers(cells) if has_formats(cells) else []
        found = [each for each in found if each.best is not None]
        rows = [row for row in _rows(found, cells) if row.multiples]
        if rows:
            where = f": {words_of(data)}" if words_of(data) else ""
            finding = _finding(found)
            made = multiples_chart(
                f"{PREFIX}{place}{run.file_suffix}",
                f"Table formats by question{where}",
                axis="as a multiple of the best one,\nlower is better",
                finding=finding,
                rows=rows,
            )
            yield made, finding


def _finding(found: Sequence[FormatAnswer]) -> str:
    """Who answers how many of the questions best; one that answers alone is no better."""
    clear = [each for each in found if not each.rivals]
    won = Counter(each.best.label for each in clear if each.best and each.following)
    parts = [f"{name} answers {count} best" for name, count in won.most_common()]
    unclear = len(found) - len(clear)
    parts += [f"{unclear} {'has' if unclear == 1 else 'have'} no clear best"] if unclear else []
    alone = len(clear) - won.total()
    parts += [f"{alone} {'has' if alone == 1 else 'have'} one answer only"] if alone else []
    return f"Of {len(found)} question{'' if len(found) == 1 else 's'}, {listed(parts)}."


def _rows(found: Sequence[FormatAnswer], cells: Sequence[CellView]) -> Iterator[MultiplesRow]:
    """Each question with what every mode of an engine needs as a multiple of the best."""
    modes: dict[tuple[str, str], list[CellView]] = {}
    for cell in cells:
        modes.setdefault((cell.engine, cell.index), []).append(cell)
    # By itself, a mode is represented by the variant that stands for it among the others.
    alone = [
        ({each.question.key: each.best for each in answers(own)}, own) for own in modes.values()
    ]
    for each in found:
        chosen = [best.get(each.question.key) or _lowest(each, own) for best, own in alone]
        yield MultiplesRow(
            label=each.question.words,
            multiples=tuple(_multiples(each, [cell for cell in chosen if cell is not None])),
        )


def _lowest(answer: FormatAnswer, cells: Sequence[CellView]) -> CellView | None:
    """The variant with the lowest median of a mode that is not compacted; None without answers."""
    known = [cell for cell in cells if answer.question.values(cell)]
    return min(known, key=lambda cell: median(answer.question.values(cell).values()), default=None)


def _multiples(answer: FormatAnswer, cells: Sequence[CellView]) -> Iterator[Multiple]:
    assert answer.best is not None
    best = answer.question.values(answer.best)
    for cell in cells:
        values = answer.question.values(cell)
        ratio = paired_ratio(best, values)[0]
        if ratio is not None and ratio.median > 0:
            yield Multiple(
                name=f"{clean(cell.engine, 40)} {clean(cell.index, 40)}",
                color=cell.spec.color,
                ratio=ratio,
                median=amount(median(values.values()), answer.question.unit),
            )
