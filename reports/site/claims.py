"""Published figures beside those of a run, as a page of the site has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keymark.reports.model.claims import Beside, Claim, beside, claims
from keymark.reports.model.data_points import by_data, leading, words_of
from keymark.reports.model.measures import BY_KEY
from keymark.reports.model.projection import CellView, Run
from keymark.reports.render.format_values import amount, times
from keymark.reports.render.grids import Entry, Grid, Row, spread
from keymark.reports.render.text import NOTHING, clean
from keymark.reports.site.model import Shown
from keymark.reports.stats.statistics import Summary

_TITLE = "Published figures"


def claims_of(run: Run) -> Shown | None:
    """The figures beside those of a run, a column an engine; None where it has none of them."""
    right = [cell for cell in run.cells if cell.verified]
    groups = by_data(leading(right))
    if not groups:
        return None
    data, cells = next(iter(groups.items()))
    engines: dict[str, dict[str, CellView]] = {}
    for cell in cells:
        engines.setdefault(cell.engine, {}).setdefault(cell.index, cell)
    found = {each: [each.ours(by_index) for by_index in engines.values()] for each in claims()}
    known = {each: ours for each, ours in found.items() if any(ours)}
    pairs = beside(cells)
    if not known and not pairs:
        return None
    where = f" on {words_of(data)}" if words_of(data) else ""
    return Shown(
        title=f"{_TITLE} beside ours",
        sentence=_sentence(known, next(iter(engines)), pairs, where),
        grid=Grid(
            caption=_TITLE,
            heads=("published", *(clean(engine, 40) for engine in engines)),
            rows=(
                *(_row(claim, ours) for claim, ours in known.items()),
                *(_row_of_engines(pair, tuple(engines)) for pair in pairs),
            ),
        ),
    )


def _sentence(
    known: Mapping[Claim, Sequence[Summary | None]],
    first: str,
    pairs: Sequence[Beside],
    where: str,
) -> str:
    """How many figures of an index are reached, then what was found of each of two engines."""
    sentences = []
    if known:
        reached = [
            not ours[0].median or claim.relative(ours[0])[0] <= 1
            for claim, ours in known.items()
            if ours[0]
        ]
        name = clean(first, 40)
        sentences.append(
            f"Of {len(reached)} published figures, {name} reaches {sum(reached)}{where}."
        )
    sentences += [
        f"{pair.claim.what}, as was published; here{where} it is {times(pair.ratio.median)} of "
        f"{pair.base.label}."
        for pair in pairs
    ]
    # Figures of one experiment differ from ours in the same.
    shown = [*known, *(pair.claim for pair in pairs)]
    differing: dict[str, dict[str, None]] = {}
    for claim in shown:
        differing.setdefault(claim.source, {})[claim.differs] = None
    sentences += [
        f"What differs: {'; '.join(differs)} ({source})." for source, differs in differing.items()
    ]
    return " ".join(sentences)


def _row(claim: Claim, ours: Sequence[Summary | None]) -> Row:
    entries = [_published(claim), *(_measured(claim, each) for each in ours)]
    named = f", beside {claim.base}" if claim.base else ""
    return Row(label=f"{claim.what} ({claim.index}{named})", index="", entries=tuple(entries))


def _row_of_engines(pair: Beside, engines: Sequence[str]) -> Row:
    ours = [pair.ratio if engine == pair.cell.engine else None for engine in engines]
    entries = [_published(pair.claim), *(_measured(pair.claim, each) for each in ours)]
    named = f"{pair.claim.index}, beside {pair.base.label}"
    return Row(label=f"{pair.claim.what} ({named})", index="", entries=tuple(entries))


def _published(claim: Claim) -> Entry:
    return Entry(value=claim.words, spread=claim.at)


def _measured(claim: Claim, found: Summary | None) -> Entry:
    if found is None:
        return Entry(value=NOTHING)
    if claim.is_multiple:
        around = f"{times(found.low)} to {times(found.high)}" if found.low < found.high else ""
        return Entry(value=times(found.median), spread=around, n=str(found.n))
    unit = BY_KEY[claim.measure].unit
    return Entry(value=amount(found.median, unit), spread=spread(found, unit), n=str(found.n))
