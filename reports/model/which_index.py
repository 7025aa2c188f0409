"""Which index for what: the comparison of Hudi's announcement of the record index, in numbers.

That table answers with yes and no: performant look-up, boosts writes and reads, easy to enable.
Here each cell is a number of one run, or says that it was not measured. Where a column needs data
of one kind, it is the largest table and batch of the first shape of keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from keymark.harness.store.data_point import DataPoint
from keymark.harness.store.units import Unit
from keymark.indexes import installed
from keymark.indexes.spec import UNKNOWN, IndexSpec
from keymark.reports.model import facts
from keymark.reports.model.data_points import by_data, leading, words_of
from keymark.reports.model.measures import BY_KEY, Measure
from keymark.reports.model.projection import CellView, Run, Trial, cell_order
from keymark.reports.render.format_values import amount, times
from keymark.reports.render.grids import Entry, Grid, Row, spread
from keymark.reports.render.text import clean, listed
from keymark.reports.stats.statistics import Summary, is_shown, paired_ratio, summarize

NOT_MEASURED = "not measured"
FEWEST = 3
"""Indexes that make a choice worth a table."""

_BOOST = 0.9
_RANDOM, _ORDERED, _SKEWED = "random", "time_ordered", "skewed"
_TAG = BY_KEY["tag"]

_COLUMNS = (
    ("Keys looked up", "keys of the lookup step divided by its time"),
    ("Tagging", "finding where each row of an upsert batch lives"),
    (
        "Upsert against {yardstick}",
        "time of a whole upsert as a multiple, paired by repetition",
    ),
    (
        "Point query against {yardstick}",
        "time to read one record by its key as a multiple, paired by repetition",
    ),
    (
        "Boosts",
        "which of the two multiples before is shown to be below 0.9, by three repetitions at least",
    ),
    ("Finds a key", "anywhere in the table, or in the partition that its row names only"),
    (
        "To enable",
        "options to set in Apache Hudi 0.15.0, and steps for a table that has rows already",
    ),
    ("Server", "processes that must run beside the writer"),
    (
        "Index on disk per key",
        "bytes of the index after loading, divided by the keys; base files are not part of it",
    ),
    ("Shuffle of an upsert", "bytes that Spark shuffled"),
    ("Tagging as the table grows", "with the largest table as a multiple of the smallest"),
    ("Skewed against random", "tagging of skewed keys as a multiple of random ones"),
    ("Random against time-ordered", "tagging of random keys as a multiple of time-ordered ones"),
)


def columns(yardstick: str) -> tuple[tuple[str, str], ...]:
    """Head and meaning of each column.

    Writes and reads are compared with the simplest index that finds every key, as the announcement
    does.
    """
    return tuple((head.format(yardstick=yardstick), meaning) for head, meaning in _COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhichIndex:
    """The table of one run.

    Attributes:
        run_id: the run's own id.
        name: what the run is called on the page, empty when it is the only one.
        source: where every number comes from, in one sentence.
        columns: head and meaning of each column.
        grid: a row per index.
        needs: what each index needs by name, as (index, words).
        command: how to measure the same again.
        file: name of its Markdown file.
    """

    run_id: str
    name: str
    source: str
    columns: tuple[tuple[str, str], ...]
    grid: Grid
    needs: list[tuple[str, str]]
    command: str
    file: str


def which_index(run: Run) -> WhichIndex | None:
    """The table of a run; None without a choice of indexes, and with one kind of data only.

    Where tables come in variants an index has several numbers, and the run is about these.
    """
    right = sorted((cell for cell in run.cells if cell.verified), key=cell_order)
    ours = [cell for cell in right if cell.engine == right[0].engine]
    groups = by_data(leading(ours))
    indexes = list(dict.fromkeys(cell.index for cell in ours))
    found = {(cell.index, cell.data): cell for cell in ours}
    if len(indexes) < FEWEST or len(by_data(ours)) < 2 or len(found) < len(ours):
        return None
    at = next((data for data in groups if data.shape == _RANDOM), next(iter(groups)))
    specs = {cell.index: cell.spec for cell in ours}
    simplest = [*installed.finders(), *(s for s in specs.values() if s.needs_base_files_only)]
    yardstick = simplest[0].name if simplest else ""
    rows = tuple(
        Row(
            label=clean(index, 40),
            index=index,
            entries=_entries(index, at, found, spec=specs[index], yardstick=yardstick),
        )
        for index in indexes
    )
    heads = columns(clean(yardstick, 40))
    return WhichIndex(
        run_id=clean(run.run_id),
        name=run.name if run.label else "",
        source=_source(run, ours[0].engine, at),
        columns=heads,
        grid=Grid(
            caption=f"Which index: {words_of(at)}",
            heads=tuple(head for head, _ in heads),
            rows=rows,
        ),
        needs=[(clean(n, 40), _needed(spec)) for n, spec in specs.items() if spec is not UNKNOWN],
        command=facts.command(run),
        file=f"which_index{run.file_suffix}.md",
    )


def _source(run: Run, engine: str, at: DataPoint) -> str:
    name = run.record.scenario.name or ""
    return (
        f"Run {clean(run.run_id)} of scenario {clean(name, 80)}, engine {clean(engine, 40)}; "
        f"where a column does not compare data: {words_of(at)}"
    )


def _entries(
    index: str,
    at: DataPoint,
    found: Mapping[tuple[str, DataPoint], CellView],
    *,
    spec: IndexSpec,
    yardstick: str,
) -> tuple[Entry, ...]:
    cell, base = found.get((index, at)), found.get((yardstick, at))
    writes = _ratio(BY_KEY["write_latency"], base, cell)
    reads = _ratio(BY_KEY["point_query_spark"], base, cell)
    sizes = sorted(
        (
            each
            for name, each in found
            if name == index and (each.shape, each.batch) == (at.shape, at.batch)
        ),
        key=lambda each: each.rows,
    )
    grows = _ratio(_TAG, found.get((index, sizes[0])), cell) if len(sizes) > 1 else None
    shapes = {
        name: found.get((index, DataPoint(shape=name, rows=at.rows, batch=at.batch)))
        for name in (_RANDOM, _ORDERED, _SKEWED)
    }
    # Batches of several sizes may share a table that is loaded once.
    loaded = [
        found[name, each]
        for name, each in found
        if name == index and (each.shape, each.rows) == (at.shape, at.rows)
    ]
    mine = index == yardstick
    noise = cell.noise if cell else 0.0
    needs, effort, servers = spec.requirements, "unknown", "unknown"
    if spec is not UNKNOWN:
        effort = f"{_count(len(needs.options), 'option')}, {_count(len(needs.steps), 'step')}"
        servers = listed(list(needs.servers)) or "none"
    return (
        _rate(cell),
        _measured(_TAG, cell),
        Entry(value="1") if mine else _times(writes),
        Entry(value="1") if mine else _times(reads),
        Entry(value="the yardstick") if mine else _boosts(writes, reads, noise),
        Entry(value="anywhere" if spec.is_global else "in its partition"),
        Entry(value=effort),
        Entry(value=servers),
        _per_key(spec, loaded),
        _measured(BY_KEY["shuffle"], cell),
        _times(grows),
        _times(_ratio(_TAG, shapes[_RANDOM], shapes[_SKEWED])),
        _times(_ratio(_TAG, shapes[_ORDERED], shapes[_RANDOM])),
    )


def _ratio(measure: Measure, base: CellView | None, other: CellView | None) -> Summary | None:
    if base is None or other is None:
        return None
    return paired_ratio(measure.values(base), measure.values(other))[0]


def _measured(measure: Measure, cell: CellView | None) -> Entry:
    return _entry(measure.values(cell) if cell else {}, measure.unit)


def _entry(values: Mapping[Trial, float], unit: str) -> Entry:
    if not values:
        return Entry(value=NOT_MEASURED)
    found = summarize(list(values.values()))
    return Entry(value=amount(found.median, unit), spread=spread(found, unit))


def _rate(cell: CellView | None) -> Entry:
    if cell is None:
        return Entry(value=NOT_MEASURED)
    keys = cell.values("lookup", "total", "keys")
    walls = BY_KEY["lookup"].values(cell)
    rates = {trial: keys[trial] / wall for trial, wall in walls.items() if keys.get(trial) and wall}
    return _entry(BY_KEY["lookup_rate"].values(cell) or rates, Unit.RATE.value)


def _per_key(spec: IndexSpec, cells: Sequence[CellView]) -> Entry:
    """Bytes per key of the first of the cells that was loaded."""
    each: Mapping[Trial, float] = {}
    for cell in cells:
        stored = cell.values("bulk_insert", "total", "index_bytes")
        keys = cell.values("bulk_insert", "total", "keys")
        shares = {trial: size / keys[trial] for trial, size in stored.items() if keys.get(trial)}
        each = each or BY_KEY["key_bytes"].values(cell) or shares
    servers = spec.requirements.servers
    if servers and not any(each.values()):
        return Entry(value=NOT_MEASURED, spread=f"it is in {servers[0]}")
    return _entry(each, Unit.BYTES.value)


def _times(ratio: Summary | None) -> Entry:
    if ratio is None:
        return Entry(value=NOT_MEASURED)
    low, high = times(ratio.low), times(ratio.high)
    return Entry(value=times(ratio.median), spread=f"{low} to {high}" if low != high else "")


def _boosts(writes: Summary | None, reads: Summary | None, noise: float) -> Entry:
    if writes is None or reads is None:
        return Entry(value=NOT_MEASURED)
    helped = [
        name
        for name, ratio in (("writes", writes), ("reads", reads))
        if ratio.high < _BOOST and is_shown(ratio, noise)
    ]
    return Entry(value=" and ".join(helped) or "neither shown")


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}" + ("" if number == 1 else "s")


def _needed(spec: IndexSpec) -> str:
    needs = spec.requirements
    name = "option" if len(needs.options) == 1 else "options"
    parts = [f"{name} {listed(list(needs.options))}" if needs.options else "no option"]
    parts += [f"to a table with rows: {', '.join(needs.steps)}"] if needs.steps else []
    parts += [f"running: {listed(list(needs.servers))}"] if needs.servers else []
    return "; ".join(parts)
