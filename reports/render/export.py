"""Runs into files for programs: summary.json and samples.csv, in base units."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter
from typing import Any, Protocol

from keymark.harness.store.results import SCHEMA_VERSION, Sample
from keymark.reports.model.facts import missing_cells, versions, work
from keymark.reports.model.projection import CellView, Run, step_order
from keymark.reports.model.report_warnings import run_warnings
from keymark.reports.render.text import clean, clean_name, spreadsheet
from keymark.reports.sections.growth_part import GrowthPart
from keymark.reports.sections.overhead_part import overhead_part
from keymark.reports.stats.bootstrap import median_interval
from keymark.reports.stats.noise import noise_values
from keymark.reports.stats.statistics import Summary, shape_caveats, summarize


class SectionValues(Protocol):
    """The part of a run in a section of the report, whose values a program may want."""

    @property
    def run_id(self) -> str:
        """The id of the run."""

    @property
    def values(self) -> object:
        """In JSON types."""


def verified(runs: Sequence[Run]) -> bool:
    """Tell whether every planned cell is there and no answer was wrong."""
    return all(
        run.cells and not any(cell.failed for cell in run.cells) and not missing_cells(run)
        for run in runs
    )


def summary(
    runs: Sequence[Run],
    *,
    growths: Sequence[GrowthPart],
    others: Mapping[str, Sequence[SectionValues]],
) -> dict[str, Any]:
    """Build the content of summary.json; who is wrong, or ended in the load, has no metrics.

    Args:
        runs: of the report.
        growths: the section on growth.
        others: further sections, by the name under which their values stand.

    Over several runs, `run_id` joins their ids with `+`; every cell names its own run.
    """
    grown = {part.run_id: part.values for part in growths}
    carried = {part.run_id: part.projection_values for part in growths if part.projection_values}
    mapped = {part.run_id: part.map_values for part in growths if part.map_values}
    found = [part for run in runs if (part := overhead_part(run)) is not None]
    overhead = {part.run_id: part.values for part in found}
    noise = {clean(run.run_id): noise_values(run.beats) for run in runs}
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": "+".join(clean(run.run_id) for run in runs),
        "verified": verified(runs),
        **({"work": work(runs[0].record), "versions": versions(runs[0])} if len(runs) == 1 else {}),
        "seeded_ids": sorted({clean(name) for run in runs for name in run.record.seeded_ids}),
        "cells": [_cell(cell) for run in runs for cell in run.cells],
        "missing": [clean(name) for run in runs for name in missing_cells(run)],
        "warnings": [notice for run in runs for notice in run.notices],
        "cautions": [
            {"run_id": clean(run.run_id), "kind": each.kind.value, "detail": each.detail}
            for run in runs
            for each in run_warnings(run)
        ],
        **({"overhead": overhead} if overhead else {}),
        **({"noise": noise} if any(noise.values()) else {}),
        **({"growth": grown} if grown else {}),
        **({"projections": carried} if carried else {}),
        **({"fastest": mapped} if mapped else {}),
        **{
            name: {part.run_id: part.values for part in parts}
            for name, parts in others.items()
            if parts
        },
    }


def ratios(found: Mapping[str, Summary]) -> dict[str, Any]:
    """Ratios by measure, each with its interval and the pairs that it is of."""
    return {
        key: {"ratio": each.median, "low": each.low, "high": each.high, "n": each.n}
        for key, each in found.items()
    }


def samples_csv(runs: Sequence[Run]) -> str:
    """Print all samples, warm-ups and invalid ones included, one a line under a header."""
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    names = [field.name for field in fields(Sample)]
    writer.writerow(names)
    values_of = attrgetter(*names)
    for run in runs:
        for sample in run.samples:
            writer.writerow(map(_csv_value, values_of(sample)))
    return target.getvalue()


def _cell(cell: CellView) -> dict[str, Any]:
    return {
        "run_id": clean(cell.run_id),
        "cell": clean(cell.cell),
        "engine": clean(cell.engine),
        "index": clean(cell.index),
        **({"shape": clean(cell.data.shape)} if cell.data.shape else {}),
        **({"rows": cell.data.rows} if cell.data.rows else {}),
        **({"batch": cell.data.batch} if cell.data.batch else {}),
        "verified": not cell.failed,
        "reasons": list(cell.reasons),
        **({"ended": cell.ended} if cell.ended else {}),
        "metrics": _metrics(cell) if cell.verified else [],
    }


def _metrics(cell: CellView) -> list[dict[str, Any]]:
    metrics = []
    for series in sorted(cell.series.values(), key=lambda s: step_order(s.step)):
        found = summarize(list(series.values.values()))
        low, high = median_interval(list(series.values.values()))
        odd = shape_caveats(series.values) if series.metric == "wall_s" else ()
        metrics.append(
            {
                "step": clean_name(series.step),
                "phase": clean_name(series.phase),
                "metric": clean_name(series.metric),
                "unit": clean_name(series.unit),
                "median": found.median,
                "low": found.low,
                "high": found.high,
                "bootstrap_low": low,
                "bootstrap_high": high,
                "least": min(series.values.values()),
                "most": max(series.values.values()),
                "n": found.n,
                "caveats": [caveat.kind.value for caveat in (*found.caveats, *odd)],
            }
        )
    return metrics


def _csv_value(value: object) -> object:
    """A value as it stands in CSV."""
    if isinstance(value, str):
        return _csv_text(value)
    return str(value).lower() if isinstance(value, bool) else value


@lru_cache(maxsize=10_000)
def _csv_text(text: str) -> str:
    """A run has few texts, each in many samples."""
    return spreadsheet(clean(text, 2000))
