"""What a scenario can measure: one module per engine, found by name.

Engine names are `native`, which is Keymark; `native@COMMIT` and `native@worktree`, which are
revisions of it in processes of their own; `native@MASTER`, as in `native@local[1]`, which is
Keymark with a Spark session of its own on this master; `native@bare`, which is Keymark without what
measuring adds; and `hudi@VERSION`, a release of Apache Hudi.
"""

from __future__ import annotations

import re

from keymark.indexes.installed import specs

NATIVE = "native"
REVISION = "native@"
WORKTREE = "worktree"
BARE = f"{REVISION}bare"

HUDI_FIRST = (0, 15, 0)
"""The first release of Hudi with a bundle for Spark 3.5."""

_NUMBER = r"[1-9][0-9]*"
_MASTER_FORM = rf"local\[{_NUMBER}\]|local-cluster\[{_NUMBER},{_NUMBER},{_NUMBER}\]"
NATIVE_FORM = rf"{REVISION}([0-9a-f]{{7,64}}|{WORKTREE}|bare|{_MASTER_FORM})"
HUDI_FORM = r"hudi@([0-9]+)\.([0-9]+)\.([0-9]+)"
"""Regular expressions of the names, in the words that JSON Schema has as well."""

_NATIVE = re.compile(NATIVE_FORM)
_HUDI = re.compile(HUDI_FORM)
_LIKE_HUDI = re.compile(r"(?i)hudi\W*v?(\d+\.\d+\.\d+)")


def hudi_version(name: str) -> str | None:
    """The version of an engine `hudi@VERSION`; None for other engines."""
    match = _HUDI.fullmatch(name)
    return ".".join(match.groups()) if match else None


def own_master(name: str) -> str | None:
    """The Spark master of an engine `native@MASTER`; None for other engines."""
    said = name.removeprefix(REVISION)
    return said if said != name and re.fullmatch(_MASTER_FORM, said) else None


def is_native(name: str) -> bool:
    """Tell whether an engine is Keymark, of whatever revision and master."""
    return name == NATIVE or name.startswith(REVISION)


def engine_indexes(name: str) -> tuple[str, ...]:
    """Names of the indexes that are measured with an engine."""
    version = hudi_version(name)
    if version is None:
        return tuple(specs())
    release = tuple(int(part) for part in version.split("."))
    return tuple(
        spec.name
        for spec in specs().values()
        if spec.in_hudi and (spec.hudi_before is None or release < spec.hudi_before)
    )


def engine_mistake(name: str) -> str | None:
    """What is wrong with an engine's name; None if there is such an engine."""
    if name == NATIVE or _NATIVE.fullmatch(name):
        return None
    match = _HUDI.fullmatch(name)
    if match is None:
        return _malformed(name)
    if tuple(int(part) for part in match.groups()) < HUDI_FIRST:
        first = ".".join(str(part) for part in HUDI_FIRST)
        return f"engine {name!r}: Hudi's bundles for Spark 3.5 begin with {first}"
    return None


def _malformed(name: str) -> str:
    like = _LIKE_HUDI.fullmatch(name.strip())
    if like is not None:
        return f"unknown engine {name!r} (did you mean 'hudi@{like.group(1)}'?)"
    if name.startswith(REVISION):
        return (
            f"engine {name!r} needs a commit in hexadecimal digits, native@{WORKTREE}, or a master "
            "as in 'native@local[2]'"
        )
    if name.lower().startswith("hudi"):
        return f"engine {name!r} needs a release of three numbers, as in 'hudi@0.15.0'"
    return f"unknown engine {name!r} (known are 'native' and 'hudi@VERSION', as in 'hudi@0.15.0')"
