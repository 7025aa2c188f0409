"""Two indexes side by side as the data change: the second as a multiple of the first.

It is made of runs that measure exactly two indexes on several shapes of data. Both sides of a ratio
ran in the same repetition, on the same data, in the same engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keymark.harness.store.units import REQUEST_COUNTS
from keymark.reports.model.data_points import leading
from keymark.reports.model.measures import BY_KEY, Measure
from keymark.reports.model.projection import UPSERT, CellView, Run, Trial
from keymark.reports.model.tables import paired_ratios
from keymark.reports.render import export
from keymark.reports.render.grids import Grid, Row, ratio_entry, ratio_words
from keymark.reports.render.prose import Answer
from keymark.reports.render.text import clean, listed
from keymark.reports.stats.statistics import LEAST_CHANGE, Summary, is_shown


class Requests(Measure):
    """The requests of all kinds that a step asked of an object store."""

    @classmethod
    def of(cls, step: str, words: str) -> Requests:
        """The requests of one step."""
        title = f"Requests of {words}"
        return cls(
            key=f"{step}_requests",
            title=title,
            what=title,
            step=step,
            phase="total",
            metric=next(iter(REQUEST_COUNTS)),
        )

    def values(self, cell: CellView) -> dict[Trial, float]:
        """By trial; none of tables on a disk."""
        found: dict[Trial, float] = {}
        for kind in REQUEST_COUNTS:
            for trial, count in cell.values(self.step, self.phase, kind).items():
                found[trial] = found.get(trial, 0.0) + count
        return found


_KEYS = (
    *("write_latency", "tag", "delete", "lookup", "point_query", "point_query_spark"),
    *("shuffle", "storage"),
)
COMPARED = {
    measure.key: measure
    for measure in (
        *(BY_KEY[key] for key in _KEYS),
        Requests.of(UPSERT, "an upsert"),
        Requests.of("lookup", "a lookup"),
        Requests.of("point_query", "a point query"),
    )
}
"""The measures that are compared, by key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The second index beside the first, in one engine on one shape of data.

    Attributes:
        first: the cell of the first index.
        second: that of the second one.
        ratios: what the second takes as a multiple of the first, by the key of the measure.
    """

    first: CellView
    second: CellView
    ratios: Mapping[str, Summary]

    @property
    def shape(self) -> str:
        """Name of the data's shape."""
        return clean(self.first.data.shape, 40)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairPart:
    """The section of one run.

    Attributes:
        run_id: the run's own id.
        name: what the run is called on the page, empty when it is the only one.
        title: the two indexes, in words.
        tables: for each engine the ratios, a row for each shape of data, and what they show.
        values: the ratios, for summary.json.
    """

    run_id: str
    name: str
    title: str
    tables: list[tuple[Grid, list[Answer]]]
    values: list[dict[str, Any]]


def pair_part(run: Run) -> PairPart | None:
    """The section of a run; None unless it has two indexes and several shapes of data."""
    right = leading([cell for cell in run.cells if cell.verified and cell.data.shape])
    ordered = sorted(right, key=lambda cell: (cell.spec.order, cell.index))
    indexes = list(dict.fromkeys(cell.index for cell in ordered))
    if len(indexes) != 2 or len({cell.data.shape for cell in right}) < 2:
        return None
    by_side = {(_side(cell), cell.index): cell for cell in right}
    sides = sorted({_side(cell) for cell in right}, key=lambda side: (side[0], side[2]))
    found: dict[str, list[Pair]] = {}
    for side in sides:
        first, second = (by_side.get((side, index)) for index in indexes)
        if first is not None and second is not None:
            ratios = paired_ratios(first, second, COMPARED.values())
            pair = Pair(first=first, second=second, ratios=ratios)
            found.setdefault(" · ".join(filter(None, side[:2])), []).append(pair)
    if not found:
        return None
    names = [clean(index, 40) for index in indexes]
    return PairPart(
        run_id=clean(run.run_id),
        name=run.name if run.label else "",
        title=f"{names[1]} beside {names[0]}",
        tables=[
            (_grid(clean(where, 80), pairs, names), _findings(pairs))
            for where, pairs in found.items()
        ],
        values=[_values(pair) for pairs in found.values() for pair in pairs],
    )


def _side(cell: CellView) -> tuple[str, str, int]:
    """What the cells of a pair share: engine, variant and the place of their shape."""
    return cell.engine, cell.variant, cell.data.place


def _grid(where: str, pairs: Sequence[Pair], names: Sequence[str]) -> Grid:
    keys = [key for key in COMPARED if any(key in pair.ratios for pair in pairs)]
    rows = tuple(
        Row(
            label=pair.shape,
            index="",
            entries=tuple(ratio_entry(pair.ratios.get(key)) for key in keys),
        )
        for pair in pairs
    )
    caption = f"{where}: {names[1]} as a multiple of {names[0]}"
    return Grid(caption=caption, heads=tuple(COMPARED[key].title for key in keys), rows=rows)


def _findings(pairs: Sequence[Pair]) -> list[Answer]:
    """For each measure: with which data the second index takes less, and with which more."""
    made = []
    for key, measure in COMPARED.items():
        less: list[str] = []
        more: list[str] = []
        same: list[str] = []
        for pair in pairs:
            ratio = pair.ratios.get(key)
            if ratio is None:
                continue
            if not _differs(key, pair):
                same.append(pair.shape)
            else:
                side = less if ratio.median < 1 else more
                side.append(f"{pair.shape} {ratio_words(ratio)}")
        parts = [f"less with {listed(less)}"] if less else []
        parts += [f"more with {listed(more)}"] if more else []
        parts += [f"no difference shown with {listed(same)}"] if same else []
        made += [Answer(topic=measure.title, words=f"{'; '.join(parts)}.")] if parts else []
    return made


def _differs(key: str, pair: Pair) -> bool:
    """Whether a ratio shows a difference; counters repeat and need no interval."""
    ratio = pair.ratios[key]
    if COMPARED[key].is_time:
        return is_shown(ratio, pair.second.noise)
    return abs(ratio.median - 1) > LEAST_CHANGE


def _values(pair: Pair) -> dict[str, Any]:
    return {
        "cell": clean(pair.second.cell),
        "beside": clean(pair.first.cell),
        "shape": pair.shape,
        "ratios": export.ratios(pair.ratios),
    }
