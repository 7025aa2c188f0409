"""Start Spark: a Java that it runs on, the right Python for its workers, one session."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from keymark.table.errors import InvalidOptionError
from keymark.table.runtime.java import java_home

DEFAULT_MASTER = "local[*]"
VERBOSE = "KEYMARK_VERBOSE"
"""The environment variable that lets Spark log as it is set up to; `keymark -v` sets it."""

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_LOGGING = Path(__file__).with_name("log4j2.properties")

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


def session(master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """Start a session, or return the one of this process with `conf` laid over it.

    Args:
        master: a Spark master URL; None for one from the surroundings (spark-submit) or all
            cores of this machine.
        conf: Spark options, stronger than the defaults here.

    Raises:
        InvalidOptionError: Spark does not start there.
    """
    ensure_java()
    master = master or os.environ.get("MASTER") or DEFAULT_MASTER
    settings = {**_BASE_CONF, **(_local_conf() if master.startswith("local") else {}), **conf}
    if VERBOSE not in os.environ:
        options = (
            f"{settings.get(_JAVA_OPTIONS, '')} -Dlog4j2.configurationFile={_LOGGING.as_uri()}"
        )
        settings[_JAVA_OPTIONS] = options.strip()
    builder = SparkSession.builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
        if VERBOSE not in os.environ:
            spark.sparkContext.setLogLevel("ERROR")
    except Exception as error:
        raise InvalidOptionError(f"Spark does not start on {master}: {_told(error)}") from error
    return spark


def _told(error: Exception) -> str:
    """What Java says is wrong, without its trace."""
    lines = str(error).splitlines() or [type(error).__name__]
    return next((line.removeprefix(": ") for line in lines if line.startswith(": ")), lines[0])


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
