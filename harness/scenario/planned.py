"""What a scenario will measure, in the words of `run.json`, before anything is measured."""

from __future__ import annotations

from typing import Any

from keymark.harness.redaction import redact, redact_document
from keymark.harness.scenario.matrix import expand
from keymark.harness.scenario.scenario import Scenario, load
from keymark.harness.store.run_record import CellRecord, RunRecord, ScenarioRecord


def describe(scenario: Scenario) -> dict[str, Any]:
    """The scenario as run.json holds it: JSON types only, secrets left out."""
    return dict(redact_document(scenario.model_dump(mode="json")))


def cell_records(scenario: Scenario) -> list[CellRecord]:
    """The cells of a scenario as run.json lists them."""
    return [
        CellRecord(
            cell=cell.cell_id,
            index=cell.index,
            options=redact(cell.options),
            rows=cell.data.rows,
            shape=cell.data.shape,
            batch=cell.data.batch,
        )
        for cell in expand(scenario)
    ]


def planned(name: str) -> RunRecord:
    """The record of a run that has not begun.

    Args:
        name: of a built-in scenario, or a TOML file.

    Raises:
        ScenarioError: there is no such scenario, or it has mistakes.
    """
    scenario = load(name)
    return RunRecord(
        scenario=ScenarioRecord.model_validate(describe(scenario)),
        cells=cell_records(scenario),
        spark_conf=dict(scenario.spark.conf),
    )
