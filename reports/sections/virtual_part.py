"""Virtual keys beside stored ones: what storage they save, and what making them costs or gains.

Two cells are a pair if run.json gives them the same options except `hoodie.populate.meta.fields`,
and they have the same engine, index and data. Ratios are taken within each repetition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from keymark.harness.store.units import Unit
from keymark.reports.model.data_points import order_of, words_of
from keymark.reports.model.measures import measures_of
from keymark.reports.model.projection import CellView, Run
from keymark.reports.model.tables import paired_ratios
from keymark.reports.render import export
from keymark.reports.render.format_values import amount, digits
from keymark.reports.render.grids import Entry, Grid, Row, ratio_words
from keymark.reports.render.prose import Answer
from keymark.reports.render.text import NOTHING, clean, listed
from keymark.reports.stats.statistics import REPETITIONS_MIN, Summary, is_shown

# Says of a table whether its meta columns, the record key among them, are filled.
_META_FIELDS = "hoodie.populate.meta.fields"
COMPARED = {
    "write_latency": "Upsert",
    "tag": "Tagging",
    "lookup": "Lookup",
    "point_query": "Point query",
    "point_query_spark": "Point query by Spark",
}
"""Keys of the times that are compared, with the words for them."""

HEADS = ("Base files, stored keys", "Base files, virtual keys", "Saved")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One index on the same data, once with stored and once with virtual keys.

    Attributes:
        label: the index, with the engine where the run has several.
        stored: the cell that stores its keys.
        virtual: the one that does not.
        sizes: bytes of the base files after loading and rows in them, of both; None where they
            were not measured.
        ratios: what the virtual one takes as a multiple of the stored one, by measure.
    """

    label: str
    stored: CellView
    virtual: CellView
    sizes: tuple[float, float, float] | None
    ratios: Mapping[str, Summary]

    @property
    def saved(self) -> float | None:
        """Share of the bytes that are not stored; negative where there are more."""
        return 1 - self.sizes[1] / self.sizes[0] if self.sizes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualPart:
    """The section of one run.

    Attributes:
        run_id: the run's own id.
        name: what the run is called on the page, empty when it is the only one.
        shapes: for each kind of data a table with a row per index, and what it shows.
        values: the sizes and ratios, for summary.json.
    """

    run_id: str
    name: str
    shapes: list[tuple[Grid, list[Answer]]]
    values: list[dict[str, Any]]


def virtual_part(run: Run) -> VirtualPart | None:
    """The section of a run; None unless it has cells that differ in where their keys are."""
    found = sorted(pairs(run), key=lambda pair: order_of(pair.stored.data))
    if not found:
        return None
    alike = [list(group) for _, group in groupby(found, key=lambda pair: pair.stored.data)]
    return VirtualPart(
        run_id=clean(run.run_id),
        name=run.name if run.label else "",
        shapes=[(_grid(group), _findings(group)) for group in alike],
        values=[_values(pair) for pair in found],
    )


def pairs(run: Run) -> list[Pair]:
    """The verified cells with stored keys, each with the one that is the same with virtual keys."""
    options = {
        each.cell: each.options for each in run.record.cells or () if "options" in each.document
    }
    sides: dict[bool, dict[object, CellView]] = {True: {}, False: {}}
    for cell in run.cells:
        if cell.verified and cell.cell in options:
            given = dict(options[cell.cell])
            is_stored = str(given.pop(_META_FIELDS, "true")).lower() == "true"
            key = (cell.engine, cell.index, cell.data, tuple(sorted(given.items())))
            sides[is_stored].setdefault(key, cell)
    several = len({cell.engine for cell in run.cells}) > 1
    return [
        _pair(cell, sides[False][key], several=several)
        for key, cell in sides[True].items()
        if key in sides[False]
    ]


def _pair(stored: CellView, virtual: CellView, *, several: bool) -> Pair:
    label = clean(stored.index, 40) + (f" · {clean(stored.engine, 40)}" if several else "")
    ratios = paired_ratios(stored, virtual, COMPARED)
    before, after = (
        cell.values("bulk_insert", "write", "bytes_written") for cell in (stored, virtual)
    )
    rows = stored.values("bulk_insert", "total", "keys")
    at = next((trial for trial in before if after.get(trial) and rows.get(trial)), None)
    sizes = None if at is None or not before[at] else (before[at], after[at], rows[at])
    return Pair(label=label, stored=stored, virtual=virtual, sizes=sizes, ratios=ratios)


def _grid(group: Sequence[Pair]) -> Grid:
    where = words_of(group[0].stored.data)
    measures = measures_of([pair.stored for pair in group])
    keys = [key for key in COMPARED if key in measures]
    rows = tuple(
        Row(label=pair.label, index=pair.stored.index, entries=_entries(pair, keys))
        for pair in group
    )
    heads = (*HEADS, *(f"{COMPARED[key]}, virtual as a multiple" for key in keys))
    return Grid(caption=where or "Stored keys beside virtual ones", heads=heads, rows=rows)


def _entries(pair: Pair, keys: Sequence[str]) -> tuple[Entry, ...]:
    saved, unit = pair.saved, Unit.BYTES.value
    stored = [Entry(value=NOTHING)] * 3
    if pair.sizes and saved is not None:
        before, after, rows = pair.sizes
        each = digits((before - after) / rows)
        stored = [Entry(value=amount(size, unit)) for size in (before, after)]
        stored.append(Entry(value=f"{100 * saved:.1f} %", spread=f"{each} bytes a row"))
    ratios = (pair.ratios.get(key) for key in keys)
    return (*stored, *(Entry(value=ratio_words(each) if each else NOTHING) for each in ratios))


def _findings(group: Sequence[Pair]) -> list[Answer]:
    """One sentence on storage, and one on each measure."""
    made = []
    sized = [(pair.sizes, pair.saved) for pair in group if pair.sizes and pair.saved is not None]
    if sized:
        saved = [f"{100 * share:.1f}" for share in sorted(share for _, share in sized)]
        each = sorted((before - after) / rows for (before, after, rows), _ in sized)
        made.append(
            Answer(
                topic="Storage",
                words=f"not storing the keys saves {_span(saved)} % of the base files, "
                f"{_span([digits(size) for size in each])} bytes a row.",
            )
        )
    for key, words in COMPARED.items():
        known = [(pair.label, pair.ratios[key]) for pair in group if key in pair.ratios]
        if known:
            made.append(Answer(topic=words, words=f"{_shown(known, group[0].stored.noise)}."))
    return made


def _span(ascending: Sequence[str]) -> str:
    first, last = ascending[0], ascending[-1]
    return first if first == last else f"{first} to {last}"


def _shown(known: Sequence[tuple[str, Summary]], noise: float) -> str:
    """Say of which indexes the ratios show a difference, and which."""
    kinds: dict[str, list[str]] = {}
    for label, ratio in known:
        kinds.setdefault(verdict(ratio, noise), []).append(f"{label} {ratio_words(ratio)}")
    return "; ".join(f"{kind}: {listed(kinds[kind])}" for kind in _KINDS if kind in kinds)


_KINDS = (
    "faster with virtual keys",
    "slower with virtual keys",
    "no difference shown",
    "fewer than 3 pairs, nothing shown",
)


def verdict(ratio: Summary, noise: float) -> str:
    """What the interval of a ratio shows beyond the machine's noise."""
    faster, slower, neither, few = _KINDS
    if ratio.n < REPETITIONS_MIN:
        return few
    if not is_shown(ratio, noise):
        return neither
    return faster if ratio.median < 1 else slower


def _values(pair: Pair) -> dict[str, Any]:
    before, after, rows = pair.sizes or (None, None, None)
    data = pair.stored.data
    return {
        "engine": clean(pair.stored.engine),
        "index": clean(pair.stored.index),
        "shape": clean(data.shape),
        "rows": data.rows or None,
        "batch": data.batch or None,
        "stored": clean(pair.stored.cell),
        "virtual": clean(pair.virtual.cell),
        "loaded_rows": rows,
        "stored_bytes": before,
        "virtual_bytes": after,
        "saved": pair.saved,
        "ratios": export.ratios(pair.ratios),
    }
