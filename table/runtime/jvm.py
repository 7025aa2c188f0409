"""A JVM with Hadoop's client in it: that of this process's Spark session, or one of its own.

Spark's Python tasks have no way into their executor's JVM. A process without a session starts a
small JVM on the jars that PySpark brings, or on those of SPARK_HOME, with the configuration that
HADOOP_CONF_DIR names. It listens on the loopback interface for who knows its token, and ends with
the process.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, JavaObject, launch_gateway
from py4j.protocol import Py4JError

from keymark.table.errors import StorageError
from keymark.table.runtime.java import java_home

# Files travel in parts (table/storage/hadoop_storage.py), so that little memory is enough.
_OPTIONS = (
    *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    # Hadoop reads the realm of Kerberos there.
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
)
_LOCK = threading.Lock()


def gateway() -> JavaGateway:
    """The gateway into the JVM of this process.

    Raises:
        StorageError: there is no session, no Java that a JVM could be started with, or no jars.
    """
    with _LOCK:
        # A process that was forked off has connections that are its parent's.
        return getattr(_spark_context(), "_gateway", None) or _own(os.getpid())


def configuration(door: JavaGateway) -> JavaObject:
    """A new Hadoop Configuration: the session's where there is one, or that of its files."""
    new = door.jvm.org.apache.hadoop.conf.Configuration
    context = _spark_context()
    active = getattr(context, "_active_spark_context", None)
    if active is None or getattr(context, "_gateway", None) is not door:
        return new()
    return new(active._jsc.hadoopConfiguration())  # noqa: SLF001  the only way to it


def _spark_context() -> Any:
    """PySpark's class SparkContext, if anybody has imported it."""
    return getattr(sys.modules.get("pyspark"), "SparkContext", None)


@functools.cache
def _own(_process: int) -> JavaGateway:
    jars, home = _jars(), java_home()
    found = next(iter(sorted(jars.glob("py4j-*.jar"))), None)
    if home is None or found is None:
        raise StorageError(f"hdfs:// needs Java 17 and Spark's jars, and {jars} has no py4j-*.jar")
    try:
        port, token = launch_gateway(
            jarpath=str(found),
            classpath=os.pathsep.join([os.environ.get("HADOOP_CONF_DIR", ""), f"{jars}/*"]),
            javaopts=list(_OPTIONS),
            java_path=str(home / "bin" / "java"),
            enable_auth=True,
            die_on_exit=True,
            # An interrupt is for Python, which may have to take back what it wrote.
            create_new_process_group=True,
        )
    except (OSError, ValueError, Py4JError) as error:
        raise StorageError(f"no JVM for hdfs:// starts: {type(error).__name__}") from error
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))


def _jars() -> Path:
    """The folder of Spark's jars."""
    from pyspark import find_spark_home  # noqa: PLC0415  only where one starts

    find: Any = find_spark_home._find_spark_home  # noqa: SLF001  PySpark's own way
    return Path(find()) / "jars"
