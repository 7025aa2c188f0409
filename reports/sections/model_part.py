"""What a page says about the lookup model: the fits, the points, and where the model fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keymark.harness.store.units import Unit
from keymark.reports.model.projection import Run
from keymark.reports.render.figures import Chart, chart
from keymark.reports.render.format_values import amount, digits, interval, times
from keymark.reports.render.grids import Entry, Grid, Row
from keymark.reports.render.model_chart import model_chart
from keymark.reports.render.prose import Answer
from keymark.reports.render.text import NOTHING, clean, listed
from keymark.reports.stats.lookup_model import (
    CACHES,
    KINDS,
    STATE_NAMES,
    STATES,
    Fit,
    FittedConstant,
    LookupModel,
    Saturation,
    block_cost,
    lookup_model,
    saturations,
)

PREFIX = "lookup_model_"
"""How the names of its chart files begin."""

_SECONDS = Unit.SECONDS.value


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPart:
    """The section of one run.

    Attributes:
        run_id: the run's own id.
        name: what the run is called on the page, empty when it is the only one.
        fits: K and c by state of index and cache.
        alone: the same for each number of shards.
        findings: what the fits say, and where they fail.
        charts: measured points against the fit, one per state of the index.
        values: the fits in base units, for summary.json.
    """

    run_id: str
    name: str
    fits: Grid
    alone: Grid
    findings: list[Answer]
    charts: list[Chart]
    values: list[dict[str, Any]]


def model_part(run: Run) -> ModelPart | None:
    """The section of a run, None if it measured no model."""
    model = lookup_model(cell for cell in run.cells if cell.verified)
    if model is None:
        return None
    return ModelPart(
        run_id=clean(run.run_id),
        name=run.name if run.label else "",
        fits=_fits(
            [fit for fit in model.fits if fit.shards is None],
            model.spec.name,
            "K and c of the lookup model, with 95% intervals",
        ),
        alone=_fits(
            [fit for fit in model.fits if fit.shards is not None],
            model.spec.name,
            "K and c for each number of shards N alone",
        ),
        findings=_findings(model),
        charts=[
            _chart(model, state, run.file_suffix)
            for state in STATES
            if any(spot.state == state for spot in model.spots)
        ],
        values=[_values(fit) for fit in model.fits],
    )


def _fits(fits: Sequence[Fit], index: str, caption: str) -> Grid:
    rows = [
        Row(
            label=f"{STATE_NAMES[fit.state]}, {fit.cache}"
            + (f", N = {fit.shards}" if fit.shards else ""),
            index=index,
            entries=(
                _estimate(fit.k),
                _estimate(fit.c),
                Entry(value=times(fit.off), spread=f"at most {times(fit.worst)}"),
            ),
        )
        for fit in fits
    ]
    heads = ("K, any lookup", "c, each key of a shard", "measured off the model by")
    return Grid(caption=caption, heads=heads, rows=tuple(rows))


def _estimate(estimate: FittedConstant) -> Entry:
    spread = interval(estimate.low, estimate.high, _SECONDS)
    return Entry(value=amount(estimate.value, _SECONDS), spread=spread)


def _chart(model: LookupModel, state: str, suffix: str) -> Chart:
    title = f"Lookup model, {STATE_NAMES[state]}"
    fitted = " ".join(
        f"{fit.cache}: K {amount(fit.k.value, _SECONDS)}, c {amount(fit.c.value, _SECONDS)}."
        for cache in CACHES
        if (fit := model.of(state, cache))
    )
    label = (
        f"Chart with logarithmic axes: time of a record index lookup over keys per shard. {fitted}"
    )
    drawing = model_chart(model, state, title)
    return chart(f"{PREFIX}{state}{suffix}", title, label, drawing, _points(model, state))


def _points(model: LookupModel, state: str) -> Grid:
    """A row per N and M, with what was measured, what the model says, and the blocks decoded."""
    columns = [(cache, kind) for cache in CACHES for kind in KINDS]
    found = {
        (spot.shards, spot.keys, spot.cache, spot.kind): spot
        for spot in model.spots
        if spot.state == state
    }
    rows = []
    for shards, keys in sorted({key[:2] for key in found}):
        entries = []
        for cache, kind in columns:
            spot, fit = found.get((shards, keys, cache, kind)), model.of(state, cache)
            if spot is None:
                entries.append(Entry(value=NOTHING))
                continue
            predicted = f"model {amount(fit.at(spot.load), _SECONDS)}; " if fit else ""
            blocks = f"{predicted}{digits(spot.blocks)} blocks"
            entries.append(Entry(value=amount(spot.wall, _SECONDS), spread=blocks))
        label = f"N = {shards}, M = {keys:,}"
        rows.append(Row(label=label, index=model.spec.name, entries=tuple(entries)))
    heads = tuple(f"{cache}, {kind}" for cache, kind in columns)
    return Grid(
        caption=f"Points of the lookup model, {STATE_NAMES[state]}", heads=heads, rows=tuple(rows)
    )


def _findings(model: LookupModel) -> list[Answer]:
    found = []
    for state in STATES:
        fits = [fit for cache in CACHES if (fit := model.of(state, cache))]
        if fits:
            words = "; ".join(
                f"{fit.cache} K = {_ranged(fit.k)} and c = {_ranged(fit.c)}" for fit in fits
            )
            found.append(Answer(topic=_topic(state), words=f"{words}."))
        found += _parallel(model, state)
        full = [each for each in saturations(model) if each.state == state]
        found += _saturated(full, block_cost(model, state))
    return found


def _topic(state: str) -> str:
    return STATE_NAMES[state].capitalize()


def _ranged(estimate: FittedConstant) -> str:
    spread = interval(estimate.low, estimate.high, _SECONDS)
    return amount(estimate.value, _SECONDS) + (f" ({spread})" if spread else "")


def _parallel(model: LookupModel, state: str) -> list[Answer]:
    """Whether shards are read at a time: then c does not grow with their number."""
    fits = [model.of(state, "cold", shards) for shards in model.shard_counts]
    known = [fit for fit in fits if fit is not None and fit.c.low > 0]
    if len(known) < 2:
        return []
    first = known[0]
    grown = [f"{times(fit.c.value / first.c.value)} with {fit.shards} shards" for fit in known[1:]]
    words = (
        f"a key of a shard takes {listed(grown)}, as a multiple of that with {first.shards}; "
        "the model says 1x, which takes a core for each shard."
    )
    return [Answer(topic=f"{_topic(state)}, cold: shards at a time", words=words)]


def _saturated(found: Sequence[Saturation], block: float | None) -> list[Answer]:
    """Say of one state where lookups touch all blocks, for each number of shards."""
    if not found:
        return []
    topic = f"{_topic(found[0].state)}, cold: where the model fails"
    answers = [
        Answer(
            topic=f"{topic}, N = {each.shards}",
            words=f"{each.keys:,} keys decode all {each.blocks} blocks, in "
            f"{amount(each.wall, _SECONDS)}; {each.more:,} keys take {times(each.growth)} that, "
            f"where the model says {times(each.model_growth)}.",
        )
        for each in found
    ]
    cost = "" if block is None else f", {amount(block, _SECONDS)} a block (cold less warm)"
    words = f"a lookup costs the inflating of whole shards{cost}, and little for a key."
    return [*answers, Answer(topic=f"{topic}, from there on", words=words)]


def _values(fit: Fit) -> dict[str, Any]:
    named = {
        f"{name}{end}": getattr(estimate, part)
        for name, estimate in (("k_s", fit.k), ("c_s", fit.c))
        for end, part in (("", "value"), ("_low", "low"), ("_high", "high"))
    }
    where = {"state": fit.state, "cache": fit.cache, "shards": fit.shards}
    return {**where, **named, "off": fit.off, "worst": fit.worst}
