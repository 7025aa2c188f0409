"""Two engines on the same data: what each index takes in ours beside what it takes in Hudi.

Both sides of a ratio ran in the same repetition, so that a slow spell of the machine hits both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keymark.harness.engines import NATIVE
from keymark.reports.model.measures import BY_KEY, Measure, measures_of
from keymark.reports.model.projection import CellView, Run
from keymark.reports.render.engines_chart import PREFIX, engines_chart
from keymark.reports.render.figures import Chart, chart
from keymark.reports.render.format_values import amount, digits
from keymark.reports.render.grids import Entry, Grid, Row, ratio_words, spread
from keymark.reports.render.prose import Answer
from keymark.reports.render.text import clean, listed
from keymark.reports.stats.statistics import (
    REPETITIONS_MIN,
    Summary,
    is_shown,
    paired_ratio,
    summarize,
)

_QUERIES = {"point_query": "Point query", "point_query_spark": "Point query by Spark"}
COMPARED = {
    "build_index": "Index built",
    "tag": "Tagging",
    "lookup": "Lookup",
    "write_latency": "Upsert",
    "lookup_few": "Lookup of few keys",
    **_QUERIES,
}
"""Keys of what is compared, with the words for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Duel:
    """One index of ours against the same of another engine, on the same data.

    Attributes:
        label: the index with what tells its data from that of other duels.
        index: index name.
        color: of the index.
        ours: what ours takes.
        theirs: what the other engine takes.
        ratio: ours as a multiple of theirs, paired by repetition.
        noise: of the machine, as a share of times.
    """

    label: str
    index: str
    color: str
    ours: Summary
    theirs: Summary
    ratio: Summary
    noise: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """A measure of ours beside that of another engine.

    Attributes:
        measure: what is compared.
        engine: the other one.
        duels: one per index that both have, and per setting.
    """

    measure: Measure
    engine: str
    duels: tuple[Duel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginesPart:
    """The section of one run.

    Attributes:
        run_id: the run's own id.
        name: what the run is called on the page, empty when it is the only one.
        charts: the ratios with their intervals, one chart per measure, and a verdict for each
            ratio on it.
        values: the ratios, for summary.json.
    """

    run_id: str
    name: str
    charts: list[tuple[Chart, list[Answer]]]
    values: list[dict[str, Any]]


def engines_part(run: Run) -> EnginesPart | None:
    """The section of a run; None unless ours and another engine measured the same."""
    right = [cell for cell in run.cells if cell.verified]
    others = dict.fromkeys(cell.engine for cell in right if cell.engine != NATIVE)
    # Where Keymark's cells have no scan the run is of before schema 3, and compared no queries.
    has_scans = _QUERIES.keys() <= measures_of(right).keys()
    found = [
        Beside(measure=BY_KEY[key], engine=engine, duels=tuple(duels(right, BY_KEY[key], engine)))
        for engine in others
        for key in COMPARED
        if has_scans or key not in _QUERIES
    ]
    found = [beside for beside in found if beside.duels]
    if not found:
        return None
    return EnginesPart(
        run_id=clean(run.run_id),
        name=run.name if run.label else "",
        charts=[
            _chart_with_verdicts(
                [beside for beside in found if beside.measure == measure], place, run.file_suffix
            )
            for place, measure in enumerate(dict.fromkeys(beside.measure for beside in found))
        ],
        values=[_values(beside, duel) for beside in found for duel in beside.duels],
    )


def duels(cells: Sequence[CellView], measure: Measure, engine: str) -> list[Duel]:
    """Each of our cells against the other engine's with the same index, variant and setting."""
    theirs = {_place(cell): cell for cell in cells if cell.engine == engine}
    made = []
    for cell in cells:
        other = theirs.get(_place(cell)) if cell.engine == NATIVE else None
        if other is None:
            continue
        mine, its = measure.values(cell), measure.values(other)
        ratio = paired_ratio(its, mine)[0]
        if ratio is not None:
            made.append(
                Duel(
                    label=cell.full_label.replace(f" · {NATIVE}", "", 1),
                    index=cell.index,
                    color=cell.spec.color,
                    ours=summarize(list(mine.values())),
                    theirs=summarize(list(its.values())),
                    ratio=ratio,
                    noise=cell.noise,
                )
            )
    return made


def _place(cell: CellView) -> str:
    """A cell's id without its engine."""
    return cell.cell.removeprefix(f"{cell.engine}/")


def verdict(duel: Duel, engine: str, unit: str) -> str:
    """Say in one sentence what the ratio of ours to theirs shows."""
    ratio = duel.ratio
    low, high = digits(ratio.low), digits(ratio.high)
    around = f" ({low} to {high})" if low != high else ""
    both = f"{amount(duel.ours.median, unit)} beside {amount(duel.theirs.median, unit)}"
    words = f"{digits(ratio.median)}{around} of the time of {clean(engine, 40)}, {both}"
    if ratio.n < REPETITIONS_MIN:
        return f"fewer than {REPETITIONS_MIN} pairs, nothing shown: {words}"
    if is_shown(ratio, duel.noise):
        return f"{'faster' if ratio.median < 1 else 'slower'}: {words}"
    return f"no difference shown: {words}"


def _chart_with_verdicts(
    found: Sequence[Beside], place: int, suffix: str
) -> tuple[Chart, list[Answer]]:
    """The chart of one measure beside all other engines, and what each ratio on it shows."""
    measure = found[0].measure
    unit = measure.unit
    engines = [clean(beside.engine, 40) for beside in found]
    title = f"{COMPARED[measure.key]}: Keymark beside {listed(engines)}"
    bars, rows, verdicts = [], [], []
    for beside, engine in zip(found, engines, strict=True):
        for duel in beside.duels:
            name = f"{duel.label} · {engine}" if len(engines) > 1 else duel.label
            bars.append((name, duel.color, duel.ratio))
            entries = (
                Entry(value=amount(duel.ours.median, unit), spread=spread(duel.ours, unit)),
                Entry(value=amount(duel.theirs.median, unit), spread=spread(duel.theirs, unit)),
                Entry(value=ratio_words(duel.ratio)),
            )
            rows.append(Row(label=name, index=duel.index, entries=entries))
            words = verdict(duel, beside.engine, unit)
            verdicts.append(Answer(topic=name, words=f"{words}."))
    other = engines[0] if len(engines) == 1 else "the other engine"
    heads = ("Keymark", other, "Keymark as a multiple")
    words = "; ".join(f"{row.label} {row.entries[2].value}" for row in rows)
    label = f"Chart of the time of Keymark as a multiple, {title}: {words}."
    drawing = engines_chart(bars, engine=other, title=title)
    numbers = Grid(caption=title, heads=heads, rows=tuple(rows))
    key = f"{PREFIX}{place + 1}_{measure.key}{suffix}"
    return chart(key, title, label, drawing, numbers), verdicts


def _values(beside: Beside, duel: Duel) -> dict[str, Any]:
    return {
        "measure": beside.measure.key,
        "engine": clean(beside.engine),
        "index": clean(duel.index),
        "label": duel.label,
        "ours": duel.ours.median,
        "theirs": duel.theirs.median,
        "ratio": duel.ratio.median,
        "low": duel.ratio.low,
        "high": duel.ratio.high,
        "n": duel.ratio.n,
    }
