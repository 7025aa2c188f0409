"""Scenario files and the dotted keys that are laid over them.

Keys are dotted (`dataset.rows`); under `table.options`, `table.index_options.<index>`,
`table.variants.<name>`, `spark.conf`, `dataset.settings`, `dataset.shapes.<name>` and
`dataset.source.options` the rest of the key, dots and all, is the option's own name.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness.errors import ScenarioError

_BUILT_IN = Path(__file__).parent / "scenarios"
_OPEN_SECTIONS = ("table.options.", "spark.conf.", "dataset.settings.", "dataset.source.options.")
_NAMED_SECTIONS = ("table.index_options.", "table.variants.", "dataset.shapes.")
_ENGINE_OPTION = re.compile(r"table\.engine_options\.(hudi@\d+\.\d+\.\d+|[^.]+)\.(.+)")


def builtin_names() -> tuple[str, ...]:
    """The built-in scenarios, sorted."""
    return tuple(sorted(path.stem for path in _BUILT_IN.glob("*.toml")))


def nearest(name: str, known: Iterable[str]) -> str:
    """` (did you mean X?)` with the nearest known name, or the known names if none is near."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else f" (known are {', '.join(names)})"


def read(name: str) -> dict[str, Any]:
    """The document of a built-in scenario or of a TOML file.

    Raises:
        ScenarioError: there is none, or it is no TOML.
    """
    if name in builtin_names():
        return tomllib.loads((_BUILT_IN / f"{name}.toml").read_text(encoding="utf-8"))
    path = Path(name)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        known = nearest(name, builtin_names())
        raise ScenarioError(name, [f"no scenario file: {error.strerror}{known}"]) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ScenarioError(name, [f"not TOML: {error}"]) from error
    document.setdefault("name", path.stem)
    _resolve(document, path.parent)
    return document


def _resolve(document: dict[str, Any], folder: Path) -> None:
    """Make paths in a file relative to it."""
    table, dataset = document.get("table"), document.get("dataset")
    own = dataset.get("source") if isinstance(dataset, dict) else None
    for section, key in ((table, "source"), (own, "path"), (dataset, "name")):
        if not isinstance(section, dict):
            continue
        given = section.get(key)
        if isinstance(given, str) and (key != "name" or given.endswith(".toml")):
            section[key] = str(folder / given)


def toml_value(text: str) -> object:
    """A value as TOML reads it; what TOML cannot read is text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _path(key: str) -> list[str]:
    for prefix in _OPEN_SECTIONS:
        if key.startswith(prefix):
            return [*prefix[:-1].split("."), key[len(prefix) :]]
    engine = _ENGINE_OPTION.fullmatch(key)
    if engine is not None:
        return ["table", "engine_options", *engine.groups()]
    if key.startswith(_NAMED_SECTIONS):
        return key.split(".", 3)
    return key.split(".")


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
