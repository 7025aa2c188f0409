"""An HDFS on this machine's loopback: name node and data node in a JVM of their own.

The classes are those of HBase's test kit, which `keymark hbase start` downloads.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from keymark.harness.engines import jars
from keymark.harness.hbase import server as hbase_server
from keymark.table.runtime import jvm
from keymark.table.runtime.java import java_home

_HOST = "127.0.0.1"
_OPENED = ("java.lang", "java.nio", "sun.nio.ch", "java.util", "java.util.concurrent")


class HdfsUnavailableError(Exception):
    """Hadoop's servers do not start on this machine; the text is Hadoop's."""


@dataclass(frozen=True, slots=True)
class HdfsServer:
    """A server that runs; `node` is Hadoop's NameNode."""

    url: str
    port: int
    node: Any


def missing_jars() -> list[str]:
    """The jars that would have to be downloaded."""
    return [path.name for path in _paths() if not path.is_file()]


def _paths() -> list[Path]:
    folder = jars.folder() / "hbase"
    return [folder / f"{name}-{version}.jar" for _, name, version in hbase_server.JARS]


@contextlib.contextmanager
def hdfs_server(folder: Path) -> Iterator[HdfsServer]:
    """A server for as long as the context is open; it ends with this process, too.

    Raises:
        HdfsUnavailableError: a name or data node does not start here.
    """
    (py4j,) = jvm._jars().glob("py4j-*.jar")
    port, token = launch_gateway(
        jarpath=str(py4j),
        classpath=os.pathsep.join(map(str, _paths())),
        javaopts=["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                  "-Djava.net.preferIPv4Stack=true",
                  "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
                  *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED)],
        java_path=str(java_home() / "bin" / "java"),
        enable_auth=True,
        die_on_exit=True,
        create_new_process_group=True,
    )  # fmt: skip
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        try:
            server = _started(gateway, folder)
        except Py4JJavaError as error:
            raise HdfsUnavailableError(_root(error.java_exception)) from None
        yield server
    finally:
        gateway.shutdown()


def _root(thrown: Any) -> str:
    """What an exception of the JVM goes back to; asked before the gateway ends."""
    while (cause := thrown.getCause()) is not None:
        thrown = cause
    return str(thrown.toString())


def _started(gateway: Any, folder: Path) -> HdfsServer:
    hadoop = gateway.jvm.org.apache.hadoop
    server, conf = hadoop.hdfs.server, hadoop.conf.Configuration()
    # Two servers in one JVM.
    hadoop.metrics2.lib.DefaultMetricsSystem.setMiniClusterMode(True)
    settings = {
        "fs.defaultFS": f"hdfs://{_HOST}:0",
        "hadoop.tmp.dir": str(folder),
        "dfs.replication": "1",
        "dfs.datanode.hostname": _HOST,
        "dfs.namenode.name.dir": (folder / "name").as_uri(),
        "dfs.datanode.data.dir": (folder / "data").as_uri(),
        "dfs.namenode.http-address": f"{_HOST}:0",
        # A door left out takes a port that is the same for every data node of a machine.
        **{f"dfs.datanode.{door}address": f"{_HOST}:0" for door in ("", "ipc.", "http.")},
    }
    for name, value in settings.items():
        conf.set(name, value)
    server.namenode.NameNode.format(conf)
    node = server.namenode.NameNode(conf)
    port = node.getNameNodeAddress().getPort()
    conf.set("fs.defaultFS", f"hdfs://{_HOST}:{port}")
    server.datanode.DataNode.createDataNode(gateway.new_array(gateway.jvm.String, 0), conf)
    while not node.getNamesystem().getNumLiveDataNodes():
        gateway.jvm.Thread.sleep(20)
    return HdfsServer(f"hdfs://{_HOST}:{port}", port, node)
