"""A kept `summary.json`, as far as a gate reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from keymark.harness.store.results import (
    SCHEMA_VERSION,
    Number,
    step_now,
    with_table_versions,
    wrong_keys,
)
from keymark.reports.errors import ReportError
from keymark.reports.render.text import clean


class _SummaryPart(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)


class SummaryMetric(_SummaryPart):
    """What a summary says about one number.

    Attributes:
        low: lower end of the median's interval, as `high` is its upper end.
        least: the smallest value, as `most` is the largest; summaries of old do not tell.
    """

    step: str
    phase: str
    metric: str
    unit: str
    median: Number
    low: Number
    high: Number
    n: int
    least: Number | None = None
    most: Number | None = None

    @model_validator(mode="after")
    def _has_its_median_within(self) -> SummaryMetric:
        least = self.low if self.least is None else self.least
        most = self.high if self.most is None else self.most
        if not least <= self.median <= most or self.n < 1:
            raise ValueError("the median is not between the ends of its values")
        return self


class SummaryCell(_SummaryPart):
    """What a summary says about one cell."""

    engine: str
    index: str
    verified: bool
    cell: str = ""
    ended: str = ""
    reasons: Sequence[object] = ()
    metrics: Sequence[SummaryMetric] = ()


class KeptSummary(_SummaryPart):
    """A summary."""

    schema_version: int
    cells: Sequence[SummaryCell]
    run_id: str = ""
    missing: Sequence[str] = ()
    seeded_ids: Sequence[str] = ()
    work: Mapping[str, object] = {}
    versions: Mapping[str, object] = {}


def read(path: Path) -> KeptSummary:
    """Read a summary.

    Raises:
        ReportError: it cannot be read, is damaged, or of a newer schema.
    """
    try:
        text = path.read_text(encoding="utf-8")
        document = json.loads(text)
        if isinstance(document, dict):
            document = json.loads(with_table_versions(text, document.get("schema_version")))
            rename_steps(document)
    except OSError as error:
        raise ReportError(f"{clean(path)} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{clean(path)} is no summary: {clean(error)}") from error
    try:
        found = KeptSummary.model_validate(document)
    except ValidationError as error:
        raise ReportError(f"{clean(path)} is no summary: {clean(wrong_keys(error))}") from error
    if found.schema_version > SCHEMA_VERSION:
        raise ReportError(
            f"{clean(path)} has schema version {found.schema_version}, "
            f"not one up to {SCHEMA_VERSION}"
        )
    return found


def rename_steps(document: dict[str, Any]) -> None:
    """Name the steps of a summary as they are now; it is then of the present schema.

    Args:
        document: of any schema. What is not as a summary has it is left alone.
    """
    version = document.get("schema_version")
    if not isinstance(version, int) or version >= SCHEMA_VERSION:
        return
    cells = document.get("cells")
    for cell in cells if isinstance(cells, list) else ():
        metrics = cell.get("metrics") if isinstance(cell, dict) else None
        for each in metrics if isinstance(metrics, list) else ():
            if isinstance(each, dict) and isinstance(each.get("step"), str):
                each["step"] = step_now(each["step"], str(cell.get("engine")), version)
    document["schema_version"] = SCHEMA_VERSION
