"""The JSON Schema of scenario files, for editors: made from the models that check scenarios.

Descriptions come from the models' docstrings, option names from `table.options`. Draft 7 with
`definitions` is what TOML editors know best.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

from keymark.harness.engines import (
    FORMAT_FORM,
    HUDI_FORM,
    LIBRARY_FORM,
    NATIVE,
    NATIVE_FORM,
)
from keymark.harness.run.own_data import SourceSection
from keymark.harness.scenario.documents import builtin_names
from keymark.harness.scenario.fields import Section
from keymark.harness.scenario.includes import INCLUDE
from keymark.harness.scenario.scenario import (
    DatasetSection,
    Scenario,
    ScheduleSection,
    SparkSection,
    WorkloadSection,
)
from keymark.harness.scenario.table_section import TableSection
from keymark.indexes.installed import measured_specs
from keymark.table.properties.options import ALIASES, defaults

DRAFT = "http://json-schema.org/draft-07/schema#"
_SECTIONS = (
    *(Scenario, DatasetSection, SourceSection, TableSection),
    *(WorkloadSection, ScheduleSection, SparkSection),
)
_PLAIN = {"type": ["string", "number", "boolean"]}
"""What an option may be."""

_ENTRY = re.compile(r"^    (\w+): (.+(?:\n        .+)*)", re.MULTILINE)


def scenario_schema() -> dict[str, Any]:
    """The schema: JSON types only."""
    made = Scenario.model_json_schema(ref_template="#/definitions/{model}")
    definitions = made.pop("$defs")
    top = {name: made[name] for name in ("properties", "additionalProperties")}
    top["properties"][INCLUDE] = {
        "type": "array",
        "description": "Built-in scenarios, and files by path relative to this one, that this one "
        "is laid over.",
        "items": {"anyOf": [{"enum": list(builtin_names())}, {"type": "string", "minLength": 1}]},
    }
    for model in _SECTIONS:
        owner = top if model is Scenario else definitions[model.__name__]
        _describe(model, owner["properties"])
        owner.pop("title", None)
        owner.pop("description", None)
    _name_values(top["properties"], definitions)
    return {
        "$schema": DRAFT,
        "title": "A scenario of Keymark",
        "type": "object",
        **top,
        "definitions": definitions,
    }


def _describe(model: type[Section], properties: dict[str, Any]) -> None:
    """Give each property the words of its attribute in the docstring, in place of a title."""
    _, _, listed = inspect.cleandoc(model.__doc__ or "").partition("Attributes:\n")
    for name, text in _ENTRY.findall(listed):
        if name in properties:
            words = " ".join(text.split())
            properties[name].pop("title", None)
            properties[name]["description"] = f"{words[0].upper()}{words[1:]}"


def _name_values(top: dict[str, Any], definitions: dict[str, Any]) -> None:
    """Say what names and options there are."""
    top["indexes"] |= {
        "items": {"enum": list(measured_specs())},
        "minItems": 1,
        "uniqueItems": True,
    }
    forms = f"^({NATIVE}|{NATIVE_FORM}|{HUDI_FORM}|{FORMAT_FORM}|{LIBRARY_FORM})$"
    named = {"type": "string", "pattern": forms}
    top["engines"] |= {"items": named, "minItems": 1, "uniqueItems": True}
    definitions["SourceSection"]["properties"]["record_key"]["minItems"] = 1
    table = definitions["TableSection"]["properties"]
    known = {"type": "object", "additionalProperties": False, "properties": _options()}
    table["options"] = {**known, "description": table["options"]["description"]}
    names = {"enum": list(measured_specs())}
    table["index_options"] |= {"additionalProperties": known, "propertyNames": names}
    # A variant that only Hudi's engines take may have any option of Hudi's.
    table["variants"] |= {"additionalProperties": {**known, "additionalProperties": _PLAIN}}


def _options() -> dict[str, Any]:
    """The options of a table, each with its default."""
    own = {
        name: _PLAIN if default is None else {**_PLAIN, "default": default}
        for name, default in defaults().items()
    }
    return own | dict.fromkeys(ALIASES, _PLAIN)
