"""Shapes of data beside the first one: what the same work takes as a multiple of it.

The cells compared differ in the shape alone. The others are measured by the first shape of the
scenario. Ratios are taken within each repetition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from keymark.reports.model.data_points import leading
from keymark.reports.model.measures import BY_KEY
from keymark.reports.model.projection import CellView, Run
from keymark.reports.model.tables import paired_ratios
from keymark.reports.render import export
from keymark.reports.render.grids import Grid, Row, ratio_entry, ratio_words
from keymark.reports.render.prose import Answer
from keymark.reports.render.text import clean
from keymark.reports.stats.statistics import REPETITIONS_MIN, Summary, is_shown

COMPARED = {"write_latency": "Upsert", "tag": "Tagging", "lookup": "Lookup"}
"""Keys of the times that are compared, with the words for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeRatios:
    """One shape beside the first one.

    Attributes:
        label: of the index, with what tells it from others on the same data.
        cell: of the shape.
        first: the same of the first shape.
        ratios: what the shape takes as a multiple of the first one, by measure.
    """

    label: str
    cell: CellView
    first: CellView
    ratios: Mapping[str, Summary]

    @property
    def shape(self) -> str:
        """Its name."""
        return clean(self.cell.data.shape, 40)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapesPart:
    """The section of one run.

    Attributes:
        run_id: the run's own id.
        name: what the run is called on the page, empty when it is the only one.
        grid: the ratios, a row for each index and shape.
        findings: for each measure the shape that takes longest with each index.
        values: the ratios, for summary.json.
    """

    run_id: str
    name: str
    grid: Grid
    findings: list[Answer]
    values: list[dict[str, Any]]


def shapes_part(run: Run) -> ShapesPart | None:
    """The section of a run; None unless it has cells that differ in the shape alone."""
    found = shape_ratios(run.cells)
    if not found:
        return None
    first = clean(found[0].first.data.shape, 40)
    return ShapesPart(
        run_id=clean(run.run_id),
        name=run.name if run.label else "",
        grid=_grid(found, first),
        findings=_findings(found, first),
        values=[_values(each) for each in found],
    )


def shape_ratios(cells: Sequence[CellView]) -> list[ShapeRatios]:
    """The verified cells on the largest data, each beside the same one of the first shape."""
    alike: dict[tuple[str, str, str], list[CellView]] = {}
    for cell in leading([cell for cell in cells if cell.verified and cell.data.shape]):
        alike.setdefault((cell.engine, cell.index, cell.variant), []).append(cell)
    found = []
    for group in alike.values():
        first, *others = sorted(group, key=lambda cell: cell.data.place)
        # Without the first shape of the scenario there is nothing to measure by.
        found += [_beside(first, cell) for cell in others if first.data.place == 0]
    return found


def _beside(first: CellView, cell: CellView) -> ShapeRatios:
    ratios = paired_ratios(first, cell, [BY_KEY[key] for key in COMPARED])
    return ShapeRatios(label=cell.label, cell=cell, first=first, ratios=ratios)


def _grid(found: Sequence[ShapeRatios], first: str) -> Grid:
    rows = tuple(
        Row(
            label=f"{each.label} · {each.shape}",
            index=each.cell.index,
            entries=tuple(ratio_entry(each.ratios.get(key)) for key in COMPARED),
        )
        for each in found
    )
    caption = f"Times as multiples of those of the shape {first}"
    return Grid(caption=caption, heads=tuple(COMPARED.values()), rows=rows)


def _findings(found: Sequence[ShapeRatios], first: str) -> list[Answer]:
    made = []
    for key, topic in COMPARED.items():
        known = [each for each in found if key in each.ratios]
        slowest = [
            max(group, key=lambda each: each.ratios[key].median)
            for _, group in groupby(known, key=lambda each: each.label)
        ]
        parts = [_longest(each, first, each.ratios[key]) for each in slowest]
        made += [Answer(topic=topic, words=f"{'; '.join(parts)}.")] if parts else []
    return made


def _longest(slowest: ShapeRatios, first: str, ratio: Summary) -> str:
    """Which shape takes longest: that of the others which does, or the first one."""
    times = ratio_words(ratio)
    if ratio.median < 1:
        words = f"{first}, then with {slowest.shape}, {times} of it"
    else:
        words = f"{slowest.shape}, {times} of {first}"
    doubt = _doubt(ratio, slowest.cell.noise)
    return f"{slowest.label} takes longest with {words}{doubt}"


def _doubt(ratio: Summary, noise: float) -> str:
    if ratio.n < REPETITIONS_MIN:
        return f" (fewer than {REPETITIONS_MIN} pairs, nothing shown)"
    return "" if is_shown(ratio, noise) else " (no difference shown)"


def _values(each: ShapeRatios) -> dict[str, Any]:
    return {
        "cell": clean(each.cell.cell),
        "beside": clean(each.first.cell),
        "shape": each.shape,
        "ratios": export.ratios(each.ratios),
    }
