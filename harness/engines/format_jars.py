"""Jars of the engines of other formats: whether they are in the cache, and how they get there."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from keymark.harness.engines import jars
from keymark.harness.engines.formats import FORMATS, FormatName, format_name
from keymark.harness.errors import HarnessError


def missing_jars(name: str) -> str | None:
    """One line that says why an engine's jars cannot be used, or how to get them."""
    named = format_name(name)
    if named is None:
        return None
    release, spark = named.release, metadata.version("pyspark")
    if not spark.startswith(f"{jars.SPARK}."):
        return (
            f"{release.title} {named.version} is used through its build for Spark {jars.SPARK}, "
            f"and this is PySpark {spark}; {release.for_later_spark}"
        )
    if all(path.is_file() for path in format_jars(named)):
        return None
    return (
        f"{release.title} {named.version} is not in the cache; get it once by: "
        f"keymark engine install {name}{named.release.known_builds(named.version)}"
    )


def format_jars(named: FormatName) -> tuple[Path, ...]:
    """Where the jars of an engine are, or would be."""
    return tuple(jars.kept(jar, named.release.name) for jar in named.release.jars_of(named.version))


def install_jars(named: FormatName, download: jars.Download) -> Path:
    """Put the jars of an engine into the cache, unless they are there; returns their folder.

    Raises:
        HarnessError: the repository lacks one, cannot be reached, or sent something else.
    """
    wanted = named.release.jars_of(named.version)
    try:
        paths = [jars.fetch(jar, named.release.name, download) for jar in wanted]
    except HarnessError as error:
        raise HarnessError(f"{error}{named.release.known_builds(named.version)}") from error
    return paths[0].parent


def installed_formats() -> tuple[str, ...]:
    """The engines of other formats all of whose jars are in the cache."""
    found = []
    for release in FORMATS.values():
        _, artifact = release.artifacts[0]
        for path in sorted((jars.folder() / release.name).glob(f"{artifact}-*.jar")):
            name = f"{release.name}@{path.stem.removeprefix(f'{artifact}-')}"
            named = format_name(name)
            if named and all(each.is_file() for each in format_jars(named)):
                found.append(name)
    return tuple(found)
