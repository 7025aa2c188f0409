"""Scenario files that build upon others: `include = ["base.toml", "ci"]`.

A name is that of a built-in scenario, or a path relative to the file that names it. What is
included comes first, in order, and what the file says itself is laid over it: tables are merged
key by key, all else is replaced. Each value remembers the file that said it, so that mistakes can
name it.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keymark.harness.errors import ScenarioError
from keymark.harness.scenario.documents import BUILT_IN, builtin_names, nearest

INCLUDE = "include"
_OWN = ("name", "description")
_MOST_BYTES = 1 << 20
_MOST_FILES = 50


@dataclass(frozen=True, slots=True)
class Document:
    """A scenario before it is checked.

    Attributes:
        values: what all its files say together.
        origins: the included file that said a value, by the value's dotted key; empty text for
            what the scenario's own file or the command line says.
        mistakes: includes that could not be read.
    """

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    mistakes: list[str] = field(default_factory=list)

    def lay(self, over: Mapping[str, object], origin: str) -> None:
        """Lay what a file says over the values."""
        _merge(self.values, over)
        self.origins.update(dict.fromkeys(_leaves(over), origin))

    def placed(self, mistake: str) -> str:
        """A mistake `key: what is wrong`, preceded by the included file where the key stands."""
        key = mistake.partition(": ")[0]
        above = [leaf for leaf in self.origins if f"{key}.".startswith(f"{leaf}.")]
        below = [
            leaf
            for leaf in self.origins
            if leaf.startswith(f"{key}.") and leaf.removeprefix(f"{key}.") in mistake
        ]
        found = max(above or below, key=len, default="")
        origin = self.origins.get(found)
        return f"{origin}: {mistake}" if origin else mistake


def read(name: str) -> Document:
    """The document of a built-in scenario or of a TOML file, with all that it includes.

    Raises:
        ScenarioError: there is no such file, or it is no TOML.
    """
    path = BUILT_IN / f"{name}.toml" if name in builtin_names() else Path(name)
    try:
        own = _parse(path)
    except OSError as error:
        known = nearest(name, builtin_names())
        raise ScenarioError(name, [f"no scenario file: {error.strerror}{known}"]) from error
    except ValueError as error:
        raise ScenarioError(name, [str(error)]) from error
    own.setdefault("name", path.stem)
    reader = _Reader()
    reader.lay(own, path, chain=(), shown="")
    return reader.document


class _Reader:
    """Reads files and lays them over each other."""

    def __init__(self) -> None:
        self.document = Document()
        self._files = 0

    def lay(self, own: dict[str, Any], path: Path, *, chain: tuple[str, ...], shown: str) -> None:
        """Lay what a file includes, then what it says; `chain` are the files that include it."""
        chain = (*chain, os.path.realpath(path))
        for each in self._named(own.pop(INCLUDE, []), shown):
            self._include(each, path.parent, chain=chain, shown=shown)
        _resolve(own, path.parent)
        if shown:
            own = {key: value for key, value in own.items() if key not in _OWN}
        self.document.lay(own, shown)

    def _named(self, value: object, shown: str) -> list[str]:
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return value
        self._add_mistake("must be a list of files and built-in names", shown)
        return []

    def _include(self, name: str, folder: Path, *, chain: tuple[str, ...], shown: str) -> None:
        wrong = f"{name!r}: "
        if "\0" in name or not name:
            return self._add_mistake(f"{wrong}no file can have this name", shown)
        built_in = name in builtin_names()
        path = BUILT_IN / f"{name}.toml" if built_in else folder / name
        if os.path.realpath(path) in chain:
            return self._add_mistake(f"{wrong}it includes itself: {_circle(chain, path)}", shown)
        self._files += 1
        if self._files > _MOST_FILES:
            return self._add_mistake(f"{wrong}more than {_MOST_FILES} files are included", shown)
        try:
            own = _parse_plain(path)
        except OSError as error:
            near = nearest(name, _candidates(path.parent))
            return self._add_mistake(f"{wrong}{error.strerror}{near}", shown)
        except ValueError as error:
            return self._add_mistake(f"{wrong}{error}", shown)
        return self.lay(own, path, chain=chain, shown=name if built_in else str(path))

    def _add_mistake(self, mistake: str, shown: str) -> None:
        where = f"{shown}: " if shown else ""
        line = f"{where}{INCLUDE}: {mistake}"
        if line not in self.document.mistakes:
            self.document.mistakes.append(line)


def _circle(chain: tuple[str, ...], path: Path) -> str:
    again = os.path.realpath(path)
    names = [*chain[chain.index(again) :], again]
    return " > ".join(Path(each).name for each in names)


def _candidates(folder: Path) -> Iterable[str]:
    """Names that an include beside this file could have."""
    beside = [path.name for path in folder.glob("*.toml")] if folder.is_dir() else []
    return (*builtin_names(), *beside)


def _parse_plain(path: Path) -> dict[str, Any]:
    """`_parse` of a plain file only: pipes and devices are not waited for."""
    if path.exists() and not path.is_file():
        raise ValueError("not a file")
    return _parse(path)


def _parse(path: Path) -> dict[str, Any]:
    """The tables of a file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no TOML, or too large for a scenario.
    """
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError(f"not TOML: larger than {_MOST_BYTES:,} bytes")
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"not TOML: {error}") from error
    except RecursionError as error:
        raise ValueError("not TOML: nested too deeply") from error


def _merge(values: dict[str, Any], over: Mapping[str, object]) -> None:
    for key, value in over.items():
        there = values.get(key)
        if isinstance(there, dict) and isinstance(value, dict):
            _merge(there, value)
        else:
            values[key] = value


def _leaves(values: Mapping[str, object], prefix: str = "") -> Iterator[str]:
    """Dotted keys of all values that are not tables, and of empty tables."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def _resolve(document: dict[str, object], folder: Path) -> None:
    """Make paths in a file relative to it; a URL is what it is."""
    table, dataset = document.get("table"), document.get("dataset")
    own = dataset.get("source") if isinstance(dataset, dict) else None
    for section, key in ((table, "source"), (own, "path"), (dataset, "name")):
        if not isinstance(section, dict):
            continue
        given = section.get(key)
        if not isinstance(given, str) or "://" in given:
            continue
        if key != "name" or given.endswith(".toml"):
            section[key] = str(folder / given)
