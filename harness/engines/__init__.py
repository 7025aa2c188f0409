"""What a scenario can measure: one module per engine, found by name.

Engine names are `native`, which is Keymark; `native@COMMIT` and `native@worktree`, which are
revisions of it in processes of their own; `native@MASTER`, as in `native@local[1]`, which is
Keymark with a Spark session of its own on this master; `native@bare`, which is Keymark without what
measuring adds; `native@without-spark`, which is Keymark with rows in pyarrow, in a process without
Spark; `hudi@VERSION`, a release of Apache Hudi with tables of the version that it makes by
default; `hudi@VERSION-vN`, the same release with tables of version N (`hudi_releases`);
`delta@VERSION` and `iceberg@VERSION`, which have tables of other formats (`formats`); and
`deltalake@VERSION` and `pyiceberg@VERSION`, which have such tables without Spark (`libraries`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from keymark.harness.engines import hudi_releases
from keymark.harness.engines.format_release import number
from keymark.harness.engines.formats import (
    FORMAT_FORM,
    FORMATS,
    FormatName,
    format_mistake,
    format_name,
)
from keymark.harness.engines.libraries.names import (
    LIBRARIES,
    LIBRARY_FORM,
    library_mistake,
    library_name,
    pinned,
)
from keymark.indexes.installed import measured_specs, specs

NATIVE = "native"
REVISION = "native@"
WORKTREE = "worktree"
BARE = f"{REVISION}bare"
WITHOUT_SPARK = f"{REVISION}without-spark"

_NUMBER = r"[1-9][0-9]*"
_MASTER_FORM = rf"local\[{_NUMBER}\]|local-cluster\[{_NUMBER},{_NUMBER},{_NUMBER}\]"
NATIVE_FORM = rf"{REVISION}([0-9a-f]{{7,64}}|{WORKTREE}|bare|without-spark|{_MASTER_FORM})"
HUDI_FORM = r"hudi@([0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4})(-v[0-9]{1,4})?"
"""Regular expressions of the names, in the words that JSON Schema has as well."""

_NATIVE = re.compile(NATIVE_FORM)
_HUDI = re.compile(HUDI_FORM)
_LIKE_HUDI = re.compile(r"(?i)hudi\W*v?(\d+\.\d+\.\d+)")


class HudiName(NamedTuple):
    """What the name of an engine of Hudi says.

    Attributes:
        version: the release.
        table_version: of the tables that it makes.
    """

    version: str
    table_version: int

    @property
    def is_own(self) -> bool:
        """Whether the release makes such tables by default."""
        return self.table_version == hudi_releases.release(self.version).own_version


def hudi_name(name: str) -> HudiName | None:
    """What the name `hudi@VERSION` or `hudi@VERSION-vN` says; None for what is no such engine."""
    match = _HUDI.fullmatch(name)
    if match is None or hudi_releases.number(match.group(1)) < hudi_releases.FIRST:
        return None
    version, suffix = match.groups()
    own = hudi_releases.release(version).own_version
    return HudiName(version, int(suffix.removeprefix("-v")) if suffix else own)


def hudi_order(name: str) -> tuple[tuple[int, int, int], int]:
    """By which engines of Hudi ascend: by release, then by the version of their tables.

    Raises:
        LookupError: it is no engine of Hudi.
    """
    hudi = hudi_name(name)
    if hudi is None:
        raise LookupError(f"{name} is no engine of Hudi")
    return hudi_releases.number(hudi.version), hudi.table_version


def hudi_version(name: str) -> str | None:
    """The release of an engine of Hudi; None for other engines."""
    match = _HUDI.fullmatch(name)
    return match.group(1) if match else None


def table_version(name: str) -> int:
    """The version of the tables that an engine makes; 0 of tables of another format."""
    hudi = hudi_name(name)
    if format_name(name) is not None or library_name(name) is not None:
        return 0
    return hudi.table_version if hudi else hudi_releases.BASE_VERSION


def version_mistake(engine: str, options: Mapping[str, str]) -> str | None:
    """Why options contradict the table version of an engine's name; None if they do not."""
    hudi = hudi_name(engine)
    if hudi is None:
        return None
    # A release that may not upgrade leaves an older table as it is, whatever version is its own.
    means = {
        hudi_releases.WRITE_VERSION: str(hudi.table_version),
        hudi_releases.AUTO_UPGRADE: "true" if hudi.is_own else "false",
    }
    given = [name for name, meant in means.items() if options.get(name, meant) != meant]
    if not given:
        return None
    release = hudi_releases.release(hudi.version)
    names = [
        f"hudi@{hudi.version}" + ("" if version == release.own_version else f"-v{version}")
        for version in release.versions
    ]
    return (
        f"{given[0]} is {options[given[0]]}, and {engine} makes version "
        f"{hudi.table_version}; the engine's name says the version: {', '.join(names)}"
    )


def own_master(name: str) -> str | None:
    """The Spark master of an engine `native@MASTER`; None for other engines."""
    master = name.removeprefix(REVISION)
    return master if master != name and re.fullmatch(_MASTER_FORM, master) else None


def revision_of(name: str) -> str | None:
    """The commit, or `worktree`, of an engine `native@...`; None for other engines."""
    if name in (BARE, WITHOUT_SPARK) or own_master(name) or not name.startswith(REVISION):
        return None
    return name.removeprefix(REVISION)


def is_native(name: str) -> bool:
    """Tell whether an engine is Keymark, of whatever revision and master."""
    return name == NATIVE or name.startswith(REVISION)


def is_without_spark(name: str) -> bool:
    """Tell whether an engine works without a Spark session, and so without an event log."""
    return name == WITHOUT_SPARK or library_name(name) is not None


def engine_indexes(name: str) -> tuple[str, ...]:
    """Names of the indexes that are measured with an engine."""
    version = hudi_version(name)
    if format_name(name) is not None or library_name(name) is not None:
        word, _, format_version = name.partition("@")
        return tuple(
            spec.name
            for spec in measured_specs().values()
            if (since := spec.in_formats.get(word)) is not None and since <= number(format_version)
        )
    if version is None:
        return tuple(specs())
    release, tables = hudi_releases.number(version), table_version(name)
    return tuple(
        spec.name for spec in measured_specs().values() if spec.hudi_has_it(release, tables)
    )


def engine_mistake(name: str) -> str | None:
    """What is wrong with an engine's name; None if there is such an engine."""
    if name == NATIVE or _NATIVE.fullmatch(name):
        return None
    if library_name(name) is not None:
        return None
    if format_name(name) is not None:
        return format_mistake(name)
    match = _HUDI.fullmatch(name)
    if match is None:
        return format_mistake(name) or library_mistake(name) or _malformed(name)
    version, suffix = match.groups()
    if hudi_releases.number(version) < hudi_releases.FIRST:
        first = ".".join(map(str, hudi_releases.FIRST))
        return f"engine {name!r}: Hudi's bundles for Spark 3.5 begin with {first}"
    return _suffix_mistake(name, version, suffix) if suffix else None


def _suffix_mistake(name: str, version: str, suffix: str) -> str | None:
    """What is wrong with the table version that an engine's name ends with."""
    release, wanted = hudi_releases.release(version), int(suffix.removeprefix("-v"))
    if wanted not in release.versions:
        can = ", ".join(map(str, release.versions))
        return f"engine {name!r}: Hudi {version} makes tables of version {can}"
    if wanted == release.own_version:
        return f"engine {name!r} is named 'hudi@{version}': version {wanted} is its own"
    return None


def _malformed(name: str) -> str:
    like = _LIKE_HUDI.fullmatch(name.strip())
    if like is not None:
        return f"unknown engine {name!r} (did you mean 'hudi@{like.group(1)}'?)"
    if name.startswith(REVISION):
        return (
            f"engine {name!r} needs a commit in hexadecimal digits, native@{WORKTREE}, "
            f"{WITHOUT_SPARK}, or a master as in 'native@local[2]'"
        )
    if name.lower().startswith("hudi"):
        return (
            f"engine {name!r} needs a release of three numbers, as in 'hudi@1.2.0', or with the "
            "version of its tables, as in 'hudi@1.2.0-v6'"
        )
    examples = ", ".join(
        [
            *(repr(release.example) for release in FORMATS.values()),
            *(f"'{library}@{pinned(library)[-1]}'" for library in LIBRARIES),
        ]
    )
    return (
        f"unknown engine {name!r} (known are 'native' and 'hudi@VERSION', as in 'hudi@0.15.0', and "
        f"those of other formats: {examples})"
    )


__all__ = [
    "BARE",
    "FORMATS",
    "FORMAT_FORM",
    "HUDI_FORM",
    "LIBRARY_FORM",
    "NATIVE",
    "NATIVE_FORM",
    "REVISION",
    "WITHOUT_SPARK",
    "WORKTREE",
    "FormatName",
    "HudiName",
    "engine_indexes",
    "engine_mistake",
    "format_name",
    "hudi_name",
    "hudi_order",
    "hudi_version",
    "is_native",
    "is_without_spark",
    "library_name",
    "own_master",
    "revision_of",
    "table_version",
    "version_mistake",
]
