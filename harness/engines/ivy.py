"""One jar by Apache Ivy, which comes with Spark and asks the repositories of its settings."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from keymark.harness.engines.repositories import MAVEN_URL, ivy_settings
from keymark.harness.errors import HarnessError
from keymark.table.runtime.java import java_home

_POLL_S = 0.2
_REASON = re.compile(
    r"^\s*(?:\[FAILED +\] \S+ )?((?:invalid|Host|Server access|Connection)\b.*?)(?: \(\d+ms\))?$",
    re.MULTILINE,
)


def get(jar: tuple[str, str, str], folder: Path, show: Callable[[int, int], None]) -> Path:
    """Download one jar without what it depends on; Ivy compares its checksum.

    Args:
        jar: group as a path, artifact, version.
        folder: an empty folder for Ivy's files; the caller deletes it.
        show: receives the bytes that came, and 0: Ivy knows no total.

    Returns:
        The jar, in that folder.

    Raises:
        HarnessError: no repository has it, none can be reached, or it is not what was announced.
    """
    group, artifact, version = jar
    home = java_home()
    if home is None:
        raise HarnessError("Ivy needs a Java, and none was found")
    settings = ivy_settings()
    target = folder / f"{artifact}-{version}.jar"
    ivy = next(iter(sorted((Path(str(resources.files("pyspark"))) / "jars").glob("ivy-*.jar"))))
    command = [
        *(str(home / "bin" / "java"), "-jar", str(ivy)),
        *([] if settings is None else ["-settings", str(settings)]),
        *("-cache", str(folder / "cache"), "-notransitive", "-types", "jar", "bundle"),
        *("-dependency", group.replace("/", "."), artifact, version),
        *("-retrieve", f"{folder}/[artifact]-[revision].[ext]"),
    ]
    log = folder / "log"
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as run:  # noqa: S603
        try:
            while run.poll() is None:
                time.sleep(_POLL_S)
                show(_size(folder / "cache"), 0)
        finally:
            run.kill()
    if not target.is_file():
        raise HarnessError(f"no {artifact} {version}: {_reason(log.read_text('utf-8', 'replace'))}")
    show(target.stat().st_size, target.stat().st_size)
    return target


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.part") if path.exists())


def _reason(log: str) -> str:
    """What Ivy says went wrong, in one line."""
    found = _REASON.search(log)
    reason = found.group(1) if found else "Ivy found it in none of its repositories"
    return f"{reason}; another repository is named by {MAVEN_URL}"
