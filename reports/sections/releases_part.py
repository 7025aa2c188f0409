"""Releases of Hudi on the same data: what changed from each to the next one.

Counters come first, since they repeat whatever the machine does. Times are ratios within each
repetition, where both releases ran side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

from keymark.harness.engines import hudi_name, hudi_order
from keymark.reports.model.measures import BY_KEY, LAST, Measure
from keymark.reports.model.projection import UPSERT, CellView, Run
from keymark.reports.render.format_values import amount, times
from keymark.reports.render.grids import Entry, Grid, Row, ratio_words, spread
from keymark.reports.render.prose import Answer
from keymark.reports.render.text import NOTHING, clean, listed
from keymark.reports.stats.statistics import Summary, is_shown, paired_ratio, summarize

FROM = 0.01
"""Share from which a counter has changed: instants and file ids alter sizes by less."""


def _counter(key: str, title: str, metric: str, step: str = UPSERT) -> Measure:
    return Measure(key=key, title=title, what=title, step=step, phase="total", metric=metric)


COUNTERS = (
    _counter("shuffle", "Shuffle of an upsert", "shuffle_write_bytes"),
    _counter("tasks", "Tasks of an upsert", "tasks"),
    _counter("bytes_written", "Bytes written by an upsert", "bytes_written"),
    _counter("files_written", "Base files written by an upsert", "files_written"),
    *(
        _counter(f"{kind}_requests", f"{kind.upper()} requests of an upsert", f"{kind}_requests")
        for kind in ("get", "head", "list", "put")
    ),
    _counter("storage", "Index on disk", "index_bytes", LAST),
)
TIMES = tuple(
    BY_KEY[key] for key in ("build_index", "write_latency", "delete", "lookup", "point_query")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One measure of a cell in a release, beside the release before.

    Attributes:
        measure: what is compared.
        before: of the earlier release.
        after: of the later one.
        ratio: later / earlier, paired by repetition; None where the earlier one is 0.
        is_shown: whether there is a difference beyond chance and noise.
    """

    measure: Measure
    before: Summary
    after: Summary
    ratio: Summary | None
    is_shown: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasesPart:
    """The section of one run.

    Attributes:
        run_id: the run's own id.
        name: what the run is called on the page, empty when it is the only one.
        tables: for each index on the same data its measures by release, and what changed.
        overall: for each of these what changed from the first release to the last one.
        values: the changes, for summary.json.
    """

    run_id: str
    name: str
    tables: list[tuple[Grid, list[Answer]]]
    overall: list[Answer]
    values: list[dict[str, Any]]


def releases_part(run: Run) -> ReleasesPart | None:
    """The section of a run; None unless two engines of Hudi measured the same index."""
    series = [cells for cells in _series(run.cells) if len(cells) > 1]
    if not series:
        return None
    return ReleasesPart(
        run_id=clean(run.run_id),
        name=run.name if run.label else "",
        tables=[
            (
                _grid(cells),
                [
                    Answer(topic=clean(after.engine, 40), words=_sentence(before, after))
                    for before, after in pairwise(cells)
                ],
            )
            for cells in series
        ],
        overall=[
            Answer(
                topic=f"{_label(cells[0])}, {clean(cells[-1].engine, 40)}",
                words=_sentence(cells[0], cells[-1]),
            )
            for cells in series
        ],
        values=[
            _values(before, after, change)
            for cells in series
            for before, after in pairwise(cells)
            for change in changes(before, after)
        ],
    )


def changes(before: CellView, after: CellView) -> list[Change]:
    """What both releases measured; counters first."""
    found = []
    for measure in (*COUNTERS, *TIMES):
        old, new = measure.values(before), measure.values(after)
        if not old or not new:
            continue
        ratio = paired_ratio(old, new)[0]
        one, other = summarize(list(old.values())), summarize(list(new.values()))
        if measure.is_time:
            differs = ratio is not None and is_shown(ratio, after.noise)
        else:
            differs = abs(other.median - one.median) > FROM * max(one.median, other.median)
        found.append(
            Change(measure=measure, before=one, after=other, ratio=ratio, is_shown=differs)
        )
    return found


def _series(cells: Iterable[CellView]) -> list[list[CellView]]:
    """Verified cells of Hudi's that differ in the engine alone, releases ascending."""
    of_hudi = [cell for cell in cells if cell.verified and hudi_name(cell.engine)]
    ordered = sorted(of_hudi, key=lambda cell: (_rest(cell), hudi_order(cell.engine)))
    return [list(group) for _, group in groupby(ordered, key=_rest)]


def _rest(cell: CellView) -> str:
    return cell.cell.removeprefix(cell.engine)


def _grid(cells: Sequence[CellView]) -> Grid:
    measures = [each for each in (*COUNTERS, *TIMES) if any(map(each.values, cells))]
    rows = tuple(
        Row(
            label=clean(cell.engine, 40),
            index=cell.index,
            entries=tuple(_entry(measure, cell) for measure in measures),
        )
        for cell in cells
    )
    heads = tuple(measure.title for measure in measures)
    return Grid(caption=_label(cells[0]), heads=heads, rows=rows)


def _entry(measure: Measure, cell: CellView) -> Entry:
    values = measure.values(cell)
    if not values:
        return Entry(value=NOTHING)
    summary = summarize(list(values.values()))
    return Entry(
        value=amount(summary.median, measure.unit),
        spread=spread(summary, measure.unit) if summary.n > 1 else "one value",
        n=str(summary.n),
    )


def _label(cell: CellView) -> str:
    return clean(_rest(cell).removeprefix("/").replace("/", " · "), 80)


def _sentence(before: CellView, after: CellView) -> str:
    found = changes(before, after)
    counted = [_counter_words(each) for each in found if each.is_shown and not each.measure.is_time]
    timed = [_time_words(each) for each in found if each.is_shown and each.measure.is_time]
    same = [each.measure.title.lower() for each in found if not each.is_shown]
    told = [f"beside {clean(before.engine, 40)}"]
    told.append(f"changed: {listed([*counted, *timed])}" if counted or timed else "nothing changed")
    if same:
        told.append(f"no difference shown: {listed(same)}")
    return f"{'; '.join(told)}."


def _counter_words(change: Change) -> str:
    unit = change.measure.unit
    values = f"{amount(change.before.median, unit)} to {amount(change.after.median, unit)}"
    factor = f" ({times(change.ratio.median)})" if change.ratio else ""
    return f"{change.measure.title.lower()} {values}{factor}"


def _time_words(change: Change) -> str:
    assert change.ratio is not None
    return f"{change.measure.title.lower()} {ratio_words(change.ratio)}"


def _values(before: CellView, after: CellView, change: Change) -> dict[str, Any]:
    ratio = change.ratio
    return {
        "index": clean(after.index),
        "before": clean(before.cell),
        "after": clean(after.cell),
        "measure": change.measure.key,
        "unit": change.measure.unit,
        "values": [change.before.median, change.after.median],
        "ratio": ratio and {"ratio": ratio.median, "low": ratio.low, "high": ratio.high},
        "is_shown": change.is_shown,
    }
