"""Names of scenarios, and the dotted keys that are laid over their files.

Keys are dotted (`dataset.rows`); under `engine_indexes`, `table.options`,
`table.index_options.<index>`, `table.variants.<name>`, `spark.conf`, `dataset.settings`,
`dataset.shapes.<name>` and `dataset.source.options` the rest of the key, dots and all, is the
option's own name. Parts may be quoted as in TOML.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keymark.datasets import errors

BUILT_IN = Path(__file__).parents[1] / "scenarios"
"""Folder of the built-in scenarios."""

_OPEN_SECTIONS = (
    *("engine_indexes.", "table.options.", "spark.conf."),
    *("dataset.settings.", "dataset.source.options."),
)
_NAMED_SECTIONS = ("table.index_options.", "table.variants.", "dataset.shapes.")
_ENGINE_OPTION = re.compile(r"table\.engine_options\.(hudi@\d+\.\d+\.\d+(?:-v\d+)?|[^.]+)\.(.+)")


def builtin_names() -> tuple[str, ...]:
    """The built-in scenarios, sorted."""
    return tuple(sorted(path.stem for path in BUILT_IN.glob("*.toml")))


def nearest(name: str, known: Iterable[str]) -> str:
    """` (did you mean X?)` with the nearest known name, or the known names if none is near."""
    names = sorted(known)
    return errors.nearest(name, names) or f" (known are {', '.join(names)})"


def toml_value(text: str) -> object:
    """A value as TOML reads it; what TOML cannot read is text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # a number of thousands of digits is no error of TOML
        return text


def _path(key: str) -> list[str]:
    if '"' in key or "'" in key:
        return _quoted_path(key)
    for prefix in _OPEN_SECTIONS:
        if key.startswith(prefix):
            return [*prefix[:-1].split("."), key[len(prefix) :]]
    engine = _ENGINE_OPTION.fullmatch(key)
    if engine is not None:
        return ["table", "engine_options", *engine.groups()]
    if key.startswith(_NAMED_SECTIONS):
        return key.split(".", 3)
    return key.split(".")


def _quoted_path(key: str) -> list[str]:
    """The parts of a key as TOML reads them; the key itself if TOML cannot."""
    try:
        at: object = tomllib.loads(f"{key} = 0")
    except (tomllib.TOMLDecodeError, RecursionError):
        return [key]
    parts = []
    while isinstance(at, dict):
        [(part, at)] = at.items()
        parts.append(part)
    return parts


def put(document: dict[str, Any], key: str, value: object) -> list[str]:
    """Set a dotted key; the mistakes if the key leads through something that is no section."""
    *sections, last = _path(key)
    at = document
    for section in sections:
        at = at.setdefault(section, {})
        if not isinstance(at, dict):
            return [f"{key}: {section} is not a section"]
    at[last] = value
    return []
