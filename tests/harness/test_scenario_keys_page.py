"""docs/scenario_keys.md has every key of a scenario, with its default."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from keymark.harness.scenario.dataset_section import DatasetSection
from keymark.harness.scenario.scenario import Scenario, default_indexes
from keymark.harness.scenario.table_section import TableSection
from keymark.harness.scenario.workload_section import (
    ScheduleSection,
    SparkSection,
    WorkloadSection,
)

_PAGE = (Path(__file__).parents[2] / "docs" / "scenario_keys.md").read_text(encoding="utf-8")
_SECTIONS: dict[str, type[BaseModel]] = {
    "dataset": DatasetSection,
    "table": TableSection,
    "workload": WorkloadSection,
    "schedule": ScheduleSection,
    "spark": SparkSection,
}


def rows(heading: str) -> dict[str, str]:
    """The keys of a part of the page, each with its default."""
    part = _PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = re.findall(r"^\| `(\w+)` \| ([^|]*)\|", part, re.MULTILINE)
    return {name: text.strip() for name, text in found}


def shown(value: object) -> str:
    """A default as the page has it."""
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    return f'"{value}"' if isinstance(value, str) else str(value)


@pytest.mark.parametrize("name", _SECTIONS)
def test_a_section_has_all_its_keys_and_defaults(name):
    fields = _SECTIONS[name].model_fields
    defaults = {key: field.get_default(call_default_factory=True) for key, field in fields.items()}
    assert rows(f"`{name}`") == {key: shown(value) for key, value in defaults.items()}


def test_the_top_has_all_its_keys():
    found = rows("At the top")
    assert found.keys() == Scenario.model_fields.keys() - _SECTIONS.keys()
    assert found["indexes"] == ", ".join(f"`{index}`" for index in default_indexes())
