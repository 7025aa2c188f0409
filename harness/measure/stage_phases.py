"""Which phase a stage belongs to, of engines that do not know our phases.

Each engine has its rules: Hudi's in `engines/hudi_phases.py`, Delta's and Iceberg's in their
folders. The label of a step begins with the cell, and so with the engine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from keymark.harness.engines import hudi_phases
from keymark.harness.engines.delta import phases as delta_phases
from keymark.harness.engines.iceberg import phases as iceberg_phases
from keymark.harness.measure.stages import operators

HUDI, _DELTA, _ICEBERG = "hudi@", "delta@", "iceberg@"
_ENGINES = (HUDI, _DELTA, _ICEBERG)
_NUMBERS = re.compile(r"\b\d+\b")


def engine_of(label: str) -> str:
    """How the names of the engine of a step begin; empty for one that knows our phases."""
    return next((engine for engine in _ENGINES if label.startswith(engine)), "")


def phase_of(engine: str, info: Mapping[str, Any], description: str) -> str | None:
    """The phase of a stage; None where it is none's or nothing tells.

    Args:
        engine: as `engine_of` has it.
        info: `Stage Info` of the event log.
        description: the job's.
    """
    if engine == HUDI:
        details = info.get("Details") or ""
        run = set(operators(info))
        return hudi_phases.phase_of(details=details, description=description, operators=run)
    if engine == _DELTA:
        return delta_phases.phase_of(description)
    name = str(info.get("Stage Name") or "")
    return iceberg_phases.phase_of(name, set(operators(info)), description)


def first_phase_of(engine: str, info: Mapping[str, Any]) -> str | None:
    """The phase whose time a stage is where it is the first of its write that has one.

    Args:
        engine: as `engine_of` has it.
        info: `Stage Info` of the event log.
    """
    return hudi_phases.first_phase_of(info.get("Details") or "") if engine == HUDI else None


def stable_description(engine: str, description: str) -> str:
    """What a job says about itself that is the same in each repetition.

    Delta leaves the harness's label in it, and says how many files there are. Iceberg says nothing
    else of a write.
    """
    if engine == HUDI:
        return description
    if engine == _ICEBERG:
        return ""
    return _NUMBERS.sub("N", " - ".join(delta_phases.description_parts(description)))
