"""The environments of engines without Spark: one for each library and version, in the user's cache.

What a library needs would fight with what Keymark and the other library need, so each has a virtual
environment beside the jars (`$XDG_CACHE_HOME` or `~/.cache`, there
`keymark/environments/<library>-<version>`). It is made by an explicit command from the pins beside
this module, with the user's own settings of pip. Nothing is ever installed by a run.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from keymark.harness.engines import jars
from keymark.harness.engines.libraries.names import (
    LIBRARIES,
    LibraryName,
    library_name,
    pinned,
)
from keymark.harness.errors import HarnessError

_KEPT_LOCK = "keymark.lock"
"""The pins that an environment was made from, in its folder."""


def folder() -> Path:
    """Where environments are kept."""
    return jars.folder().with_name("environments")


def environment(name: LibraryName) -> Path:
    """Where the environment of a library is, or would be."""
    return folder() / f"{name.library}-{name.version}"


def python(name: LibraryName) -> Path:
    """The interpreter of an environment."""
    return environment(name) / "bin" / "python"


def installed() -> tuple[LibraryName, ...]:
    """The libraries that can be used."""
    known = (LibraryName(each, version) for each in LIBRARIES for version in pinned(each))
    return tuple(name for name in known if missing_environment(name) is None)


def missing_library(engine: str) -> str | None:
    """As `missing_environment`, by the name of an engine; None for all other engines."""
    name = library_name(engine)
    return None if name is None else missing_environment(name)


def missing_environment(name: LibraryName) -> str | None:
    """One line that says why a library cannot be used, or how to get it; None if it is there."""
    library, version = name
    if not name.lock.is_file():
        return (
            f"{library} {version} cannot be had: Keymark has pins of "
            f"{', '.join(f'{library}@{each}' for each in pinned(library))}"
        )
    command = f"keymark engine install {library}@{version}"
    if not python(name).exists():
        return f"{library} {version} has no environment yet; make it once by: {command}"
    if not _is_current(name):
        return f"the environment of {library} {version} is of other pins; renew it by: {command}"
    return None


def _is_current(name: LibraryName) -> bool:
    try:
        return (environment(name) / _KEPT_LOCK).read_bytes() == name.lock.read_bytes()
    except OSError:
        return False


def install(name: LibraryName) -> Path:
    """Make an environment, whole or not at all; returns its folder.

    Raises:
        HarnessError: there are no pins of the version, or pip could not install them.
    """
    target = environment(name)
    reason = missing_environment(name)
    if reason is None:
        return target
    if not name.lock.is_file():
        raise HarnessError(reason)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as parts:
        made = Path(parts) / target.name
        for command in plan(name, made):
            _run(command, name)
        shutil.copyfile(name.lock, made / _KEPT_LOCK)
        shutil.rmtree(target, ignore_errors=True)
        # The interpreter finds its packages relative to itself, so a folder can be renamed.
        made.rename(target)
    return target


def plan(name: LibraryName, target: Path) -> list[list[str]]:
    """The commands that make an environment in a folder."""
    pip = [str(target / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    exact = ["--require-hashes", "--only-binary", ":all:", "--requirement", str(name.lock)]
    return [[sys.executable, "-m", "venv", str(target)], [*pip, "install", "--quiet", *exact]]


def _run(command: Sequence[str], name: LibraryName) -> None:
    done = subprocess.run(  # noqa: S603 - our own commands
        command, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode != 0:
        output = f"{done.stdout.decode(errors='replace')}\n{done.stderr.decode(errors='replace')}"
        raise HarnessError(
            f"{name.library}@{name.version} could not be installed: {_reason(output)}"
        )


def _reason(output: str) -> str:
    """The line that tells why pip failed: its last error, or else the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["it says nothing"])[-1]
