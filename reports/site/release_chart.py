"""Releases of Hudi on the same data, each as a multiple of the first one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from keymark.harness.engines import hudi_name, hudi_order
from keymark.harness.store.units import METRICS
from keymark.reports.model import tables
from keymark.reports.model.projection import CellView, Run
from keymark.reports.render.figures import Chart
from keymark.reports.render.format_values import amount, times
from keymark.reports.render.multiples_chart import Multiple, MultiplesRow, multiples_chart
from keymark.reports.render.text import clean, listed
from keymark.reports.stats.statistics import LEAST_CHANGE, Summary, is_shown, paired_ratio


def release_charts(run: Run) -> Iterator[tuple[Chart, str]]:
    """A chart for each index that several releases measured on the same data, and its finding."""
    series: dict[str, list[CellView]] = {}
    for cell in run.cells:
        if cell.verified and hudi_name(cell.engine):
            series.setdefault(cell.cell.removeprefix(f"{cell.engine}/"), []).append(cell)
    for place, (name, cells) in enumerate(series.items(), start=1):
        first, *later = sorted(cells, key=lambda cell: hudi_order(cell.engine))
        rows = [row for row in _rows(first, later) if row.multiples]
        if rows:
            finding = _finding(first, later[-1])
            made = multiples_chart(
                f"releases_{place}",
                f"Releases of Hudi: {clean(name.replace('/', ' · '), 60)}",
                axis=f"as a multiple of {clean(first.engine, 40)}",
                finding=finding,
                rows=rows,
            )
            yield made, finding


def _rows(first: CellView, later: Sequence[CellView]) -> Iterator[MultiplesRow]:
    for measure in tables.headline_measures([first, *later]):
        base, found = measure.values(first), []
        for cell in later:
            values = measure.values(cell)
            ratio = paired_ratio(base, values)[0]
            if ratio is not None and ratio.median > 0:
                found.append(
                    Multiple(
                        name=clean(cell.engine, 40),
                        color=cell.spec.color,
                        ratio=ratio,
                        median=amount(median(values.values()), measure.unit),
                    )
                )
        yield MultiplesRow(label=measure.what, multiples=tuple(found))


def _finding(first: CellView, last: CellView) -> str:
    """What differs in the last release from the first one."""
    more: list[str] = []
    less: list[str] = []
    same = 0
    for measure in tables.headline_measures([first, last]):
        ratio = paired_ratio(measure.values(first), measure.values(last))[0]
        if ratio is None:
            continue
        if not _differs(ratio, measure.metric, last.noise):
            same += 1
        else:
            what = f"{measure.what[0].lower()}{measure.what[1:]} {times(ratio.median)}"
            (more if ratio.median > 1 else less).append(what)
    parts = [f"more: {listed(more)}"] if more else []
    parts += [f"less: {listed(less)}"] if less else []
    parts += [f"no difference shown in {same}"] if same else []
    names = f"{clean(last.engine, 40)} beside {clean(first.engine, 40)}"
    return f"{names}: {'; '.join(parts)}." if parts else ""


def _differs(ratio: Summary, metric: str, noise: float) -> bool:
    """Whether it is shown: times beyond the noise, counters beyond what unchanged code shows."""
    known = METRICS[metric]
    if not known.counter:
        return is_shown(ratio, noise)
    return abs(ratio.median - 1) > max(known.tolerance, LEAST_CHANGE)
