"""Types of the fields of a scenario, as TOML gives them to strict models, and their mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from keymark.counts import as_count
from keymark.harness.redaction import redact_text
from keymark.harness.scenario.documents import nearest

NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""What a variant or a shape may be called: it becomes part of a path."""


_NO_CORES = re.compile(r"local\[0+[],]")


def as_tuple(value: object) -> object:
    """A TOML array where a strict model wants a tuple."""
    return tuple(value) if isinstance(value, list) else value


def as_texts(value: object) -> object:
    """Hudi and Spark options are texts; numbers and booleans are written as those write them."""
    if isinstance(value, dict):
        return {key: as_texts(inner) for key, inner in value.items()}
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def checked_master(url: str) -> str:
    """The URL of a Spark master. It has no user part, and Spark's log would print one."""
    if redact_text(url) != url:
        raise ValueError("the URL of a Spark master has no user or password in it")
    if _NO_CORES.match(url):
        raise ValueError("a master on this machine has one core at least: local[1]")
    return url


Positive = Annotated[
    int,
    Field(ge=1),
    BeforeValidator(as_count, json_schema_input_type=Annotated[int, Field(ge=1)]),
]
"""A whole number; 2e9 and the texts 2B, 5M and 400k are such."""
Natural = Annotated[
    int,
    Field(ge=0),
    BeforeValidator(as_count, json_schema_input_type=Annotated[int, Field(ge=0)]),
]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Names = Annotated[tuple[str, ...], BeforeValidator(as_tuple, json_schema_input_type=list[str])]
Numbers = Annotated[
    tuple[Positive, ...], BeforeValidator(as_tuple, json_schema_input_type=list[Positive])
]
Master = Annotated[str, AfterValidator(checked_master)]
Given = dict[str, str | int | float | bool]
"""What a file may say where texts are meant."""

Texts = Annotated[dict[str, str], BeforeValidator(as_texts, json_schema_input_type=Given)]
TextGroups = Annotated[
    dict[str, dict[str, str]], BeforeValidator(as_texts, json_schema_input_type=dict[str, Given])
]


class Section(BaseModel):
    """A section of a scenario: frozen, and nothing unknown in it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def name_mistake(kind: str, name: str, known: Iterable[str]) -> str | None:
    """What is wrong with a name, None if it is known."""
    names = tuple(known)
    return None if name in names else f"unknown {kind} {name!r}{nearest(name, names)}"


def refuse(mistakes: Iterable[str | None]) -> None:
    """Raise a ValueError of all mistakes that are there."""
    found = [mistake for mistake in mistakes if mistake]
    if found:
        raise ValueError("; ".join(found))
