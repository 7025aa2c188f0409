"""Predictions for the cells of a scenario, written down before it runs, and judged by afterwards.

`keymark plan --predict SCENARIO --save FILE` makes the file; `--score RUN --predictions FILE` takes
what it says, however the calibration or the formulas have changed since.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from keymark.harness.store.results import wrong_keys
from keymark.harness.store.run_record import CellRecord, RunRecord
from keymark.harness.store.units import REQUEST_COUNTS
from keymark.indexes.workload import MAX_FILE_BYTES, Workload, files_for
from keymark.reports.errors import ReportError
from keymark.reports.plan.calibration import Calibration
from keymark.reports.plan.decide import choose
from keymark.reports.plan.formulas import SHUFFLE_REST
from keymark.reports.plan.observe import asked, engine_in, files_of_load, planned
from keymark.reports.plan.predict import Estimate, farthest
from keymark.reports.plan.score import (
    LOOKUP,
    SCORED,
    choices_in,
    estimate,
    setting_of,
)
from keymark.reports.render.text import clean

_SOMETIMES = (*REQUEST_COUNTS, SHUFFLE_REST)
"""What is predicted where it was calibrated, and else left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellAhead:
    """What is predicted of a cell.

    Attributes:
        cell: its id.
        index: its index.
        at: its workload, as far as the scenario tells it.
        beyond: how many times it is beyond what was calibrated.
        quantities: what is predicted, by name.
    """

    cell: str
    index: str
    at: Workload
    beyond: float
    quantities: Mapping[str, Estimate]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceAhead:
    """What is recommended among some indexes in a setting; None: nothing."""

    setting: str
    among: str
    recommended: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """Predictions of a calibration for a scenario; a `score.Predictor`.

    Attributes:
        schema_version: of the file.
        scenario: its name.
        engine: that the calibration is of.
        runs: that it was fitted to.
        cells: of this engine.
        choices: in every setting.
    """

    schema_version: Literal[1] = 1
    scenario: str
    engine: str
    runs: tuple[str, ...]
    cells: tuple[CellAhead, ...]
    choices: tuple[ChoiceAhead, ...]

    def estimate(self, cell: str, quantity: str, index: str, at: Workload) -> Estimate | None:
        """What was predicted; the workload that was measured is not asked."""
        del index, at
        estimates = (each.quantities.get(quantity) for each in self.cells if each.cell == cell)
        return next(estimates, None)

    def recommended(
        self, setting: str, among: str, at: Workload, indexes: Sequence[str]
    ) -> str | None:
        """What was recommended; None, too, where it is none of the indexes."""
        del at
        for each in self.choices:
            if (each.setting, each.among) == (setting, among):
                return each.recommended if each.recommended in indexes else None
        return None

    def to_json(self) -> str:
        """The file."""
        return json.dumps(asdict(self), indent=1, allow_nan=False) + "\n"


def predict(calibration: Calibration, record: RunRecord) -> Ahead:
    """Predict all cells of a scenario that are of a calibration's engine, or of its release.

    Args:
        calibration: the constants.
        record: of the planned run.

    Raises:
        ReportError: it has no such cell.
    """
    listed = record.cells or []
    engine = engine_in((_engine(each) for each in listed), calibration.engine)
    cells = [
        _cell(calibration, record, each)
        for each in listed
        if _engine(each) == engine and each.index in calibration.indexes
    ]
    name = record.scenario.name or ""
    if not cells:
        raise ReportError(f"the scenario {clean(name)} has no cell of {calibration.engine}")
    return Ahead(
        scenario=name,
        engine=calibration.engine,
        runs=calibration.runs,
        cells=tuple(cells),
        choices=tuple(_choices(calibration, cells)),
    )


def _engine(cell: CellRecord) -> str:
    return cell.cell.partition("/")[0]


def _cell(calibration: Calibration, record: RunRecord, cell: CellRecord) -> CellAhead:
    at = workload(calibration, record, cell)
    quantities = {}
    for name in SCORED:
        here = asked(record, at) if name == LOOKUP else at
        predicted = estimate(calibration, name, cell.index, here)
        if predicted is not None and (name not in _SOMETIMES or predicted.value):
            quantities[name] = predicted
    return CellAhead(
        cell=cell.cell,
        index=cell.index,
        at=at,
        beyond=farthest(calibration, at),
        quantities=quantities,
    )


def workload(calibration: Calibration, record: RunRecord, cell: CellRecord) -> Workload:
    """The workload of a cell that was not loaded: rows as large as the calibration's.

    It has the files of a load, or more where they would be too large.
    """
    at = planned(record, cell, files=1.0, row_bytes=calibration.row_bytes)
    most = float(cell.options.get("hoodie.parquet.max.file.size", MAX_FILE_BYTES))
    files = max(files_of_load(record, at), files_for(at.rows, at.row_bytes, at.partitions, most))
    if calibration.model.known[cell.index].owns_layout:
        files = at.buckets
    return replace(at, files=files)


def _choices(calibration: Calibration, cells: Sequence[CellAhead]) -> list[ChoiceAhead]:
    settings: dict[str, list[CellAhead]] = {}
    for each in cells:
        settings.setdefault(setting_of(each.cell, each.index), []).append(each)
    found = []
    for setting, alike in settings.items():
        places = {each.index: each.at for each in alike}
        for among, at, indexes in choices_in(calibration.model, places):
            made = choose(calibration, at, indexes).recommended
            found.append(ChoiceAhead(setting=setting, among=among, recommended=made))
    return found


def _refused(word: str) -> None:
    raise ValueError(f"{word} is no number")


def load(path: Path, calibration: Calibration) -> Ahead:
    """Read predictions of a calibration.

    Raises:
        ReportError: the file cannot be read, is damaged, or has those of another calibration.
    """
    try:
        text = path.read_text(encoding="utf-8")
        document = json.loads(text, parse_constant=_refused)
    except (OSError, ValueError, RecursionError) as error:
        raise ReportError(f"the predictions {path} cannot be read: {error}") from error
    try:
        found = TypeAdapter(Ahead).validate_python(document)
    except ValidationError as error:
        raise ReportError(f"{path} has no predictions: {clean(wrong_keys(error))}") from error
    if (found.engine, found.runs) != (calibration.engine, calibration.runs):
        raise ReportError(
            f"{path} has predictions for {clean(found.engine)} by the runs "
            f"{clean(', '.join(found.runs))}, not those of the calibration {calibration.name}: "
            "--engine or --calibration says which one"
        )
    return found
