"""An HBase on this machine: one process with master, region server and ZooKeeper, one with Thrift.

    <folder>/conf/hbase-site.xml    made anew by each start
    <folder>/data/                  tables; they outlive a stop
    <folder>/server.log, thrift.log of the last start
    <folder>/state.json             ports and process ids of the last start

Everything listens on 127.0.0.1 only. The jars come once from a Maven repository
(`engines/jars.py`).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from keymark.harness.engines import jars
from keymark.harness.errors import HarnessError
from keymark.indexes.hbase.spec import SPEC

if TYPE_CHECKING:
    from keymark.table.runtime.clock import Clock

# Coordinates of what runs a real HBase: its test context carries the servers.
JARS = (
    ("org/apache/hbase", "hbase-shaded-testing-util", "2.5.7-hadoop3"),
    ("org/apache/hbase", "hbase-thrift", "2.5.8"),
    ("org/apache/thrift", "libthrift", "0.14.1"),
    ("org/slf4j", "slf4j-api", "1.7.36"),
    ("org/slf4j", "slf4j-simple", "1.7.36"),
    ("log4j", "log4j", "1.2.17"),
    ("io/opentelemetry", "opentelemetry-api", "1.15.0"),
    ("io/opentelemetry", "opentelemetry-context", "1.15.0"),
    ("io/opentelemetry", "opentelemetry-semconv", "1.15.0-alpha"),
    ("org/apache/yetus", "audience-annotations", "0.13.0"),
    ("commons-logging", "commons-logging", "1.2"),
    ("org/apache/htrace", "htrace-core4", "4.1.0-incubating"),
    ("javax/servlet", "javax.servlet-api", "3.1.0"),
    ("javax/annotation", "javax.annotation-api", "1.3.2"),
)
HOST = "127.0.0.1"
THRIFT_PORT, ZOOKEEPER_PORT = 9090, 2181

_SERVER, _THRIFT = "server", "thrift"
_CLASSES = {
    _SERVER: "org.apache.hadoop.hbase.master.HMaster",
    _THRIFT: "org.apache.hadoop.hbase.thrift.ThriftServer",
}
_HEAP = {_SERVER: "1g", _THRIFT: "256m"}
# What HBase and ZooKeeper reach into.
_OPENED = (
    *("java.lang", "java.lang.reflect", "java.nio", "sun.nio.ch", "java.util"),
    *("java.util.concurrent", "jdk.internal.ref", "jdk.internal.misc", "sun.net.dns"),
)
_START_S, _STOP_S, _POLL_S = 120.0, 60.0, 0.25
_PROBE_MS = 2000

Show = Callable[[str], None]
"""Called with what is being done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """An HBase that runs; `server_pid` and `thrift_pid` are process ids."""

    folder: str
    thrift_port: int
    zookeeper_port: int
    server_pid: int
    thrift_pid: int

    @property
    def zookeeper(self) -> str:
        """Where Hudi finds it (hoodie.index.hbase.zkquorum)."""
        return HOST


def default_folder() -> Path:
    """In the user's cache, beside the jars."""
    return jars.folder().parent / SPEC.name


def running(folder: Path) -> Running | None:
    """The HBase of a folder, if both its processes live; the state file may be of a dead one."""
    state = _state(folder)
    if state is None:
        return None
    pids = ((_SERVER, state.server_pid), (_THRIFT, state.thrift_pid))
    return state if all(_lives(folder, name, pid) for name, pid in pids) else None


def start(
    folder: Path, *, thrift_port: int, zookeeper_port: int, show: Show, download: jars.Download
) -> Running:
    """Start the HBase of a folder, unless it runs; it answers when this returns.

    Raises:
        HarnessError: a port is taken, there is no Java, or it does not come up.
    """
    found = running(folder)
    if found is not None:
        return found
    stop(folder, show)
    from keymark.table.runtime.java import java_home  # noqa: PLC0415  only where a server is started

    home = java_home()
    if home is None:
        raise HarnessError("HBase needs Java 17, and there is none; `make install` brings one")
    _refuse_taken("Thrift", "--thrift-port", thrift_port)
    _refuse_taken("ZooKeeper", "--zookeeper-port", zookeeper_port)
    for who, port in _inner_ports(zookeeper_port).items():
        _refuse_taken(f"HBase's {who}", "--zookeeper-port, which it follows", port)
    paths = [jars.fetch(jar, SPEC.name, download) for jar in JARS]
    show("starting HBase")
    folder.mkdir(parents=True, exist_ok=True)
    _write_site(folder, zookeeper_port)
    arguments = {
        _SERVER: ["start"],
        _THRIFT: ["start", "-b", HOST, "-p", str(thrift_port), "--infoport", "-1"],
    }
    spawned = {
        name: _spawn(folder, name, home / "bin" / "java", paths, rest)
        for name, rest in arguments.items()
    }
    state = Running(
        folder=str(folder),
        thrift_port=thrift_port,
        zookeeper_port=zookeeper_port,
        server_pid=spawned[_SERVER].pid,
        thrift_pid=spawned[_THRIFT].pid,
    )
    (folder / "state.json").write_text(json.dumps(asdict(state)), encoding="utf-8")
    try:
        _wait(folder, state, spawned, _clock())
    except BaseException:
        stop(folder, show)
        raise
    return state


def stop(folder: Path, show: Show) -> bool:
    """Stop the HBase of a folder; False if none ran. Its tables stay.

    Raises:
        HarnessError: it does not end.
    """
    state, clock = _state(folder), _clock()
    if state is None:
        return False
    pids = {_THRIFT: state.thrift_pid, _SERVER: state.server_pid}
    alive = {name: pid for name, pid in pids.items() if _lives(folder, name, pid)}
    if alive:
        show("stopping HBase")
    for name, pid in alive.items():
        _end(folder, name, pid, clock)
    (folder / "state.json").unlink(missing_ok=True)
    return bool(alive)


def _state(folder: Path) -> Running | None:
    try:
        return Running(**json.loads((folder / "state.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _lives(folder: Path, name: str, pid: int) -> bool:
    """Whether a process is the one that was started; its id may have been reused."""
    asked = subprocess.run(  # noqa: S603  no shell
        ["ps", "-ww", "-o", "state=,args=", "-p", str(pid)],  # noqa: S607  the system's own
        capture_output=True,
        text=True,
        check=False,
    )
    # A process that ended and was not waited for is a zombie.
    listed = asked.stdout.strip()
    return not listed.startswith("Z") and _mark(folder) in listed and _CLASSES[name] in listed


def _mark(folder: Path) -> str:
    return f"-Dkeymark.hbase={folder}"


def _inner_ports(zookeeper_port: int) -> dict[str, int]:
    """Ports that only HBase uses; they stay the same, or HBase would wait for the earlier ones."""
    return {"master": zookeeper_port + 1, "regionserver": zookeeper_port + 2}


def _refuse_taken(role: str, option: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise HarnessError(
                f"{role}'s port {port} on {HOST} is taken ({error.strerror}); "
                f"name another one by {option}"
            ) from error


def _write_site(folder: Path, zookeeper_port: int) -> None:
    data = folder / "data"
    settings = {
        "hbase.rootdir": (data / SPEC.name).as_uri(),
        "hbase.tmp.dir": str(data / "tmp"),
        "hbase.zookeeper.property.dataDir": str(data / "zookeeper"),
        "hbase.cluster.distributed": "false",
        # A local file system cannot promise what these ask for.
        "hbase.unsafe.stream.capability.enforce": "false",
        "hbase.wal.provider": "filesystem",
        "hbase.zookeeper.quorum": HOST,
        "hbase.zookeeper.property.clientPort": str(zookeeper_port),
        "hbase.zookeeper.property.clientPortAddress": HOST,
        **{f"hbase.{who}.ipc.address": HOST for who in ("master", "regionserver")},
        **{f"hbase.{who}.hostname": "localhost" for who in ("master", "regionserver")},
        **{f"hbase.{who}.port": str(port) for who, port in _inner_ports(zookeeper_port).items()},
        **{f"hbase.{who}.info.port": "-1" for who in ("master", "regionserver")},
        # The jars of the test context do not tell their version.
        "hbase.defaults.for.version.skip": "true",
    }
    lines = [
        f"<property><name>{name}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    ]
    conf = folder / "conf"
    conf.mkdir(exist_ok=True)
    text = "\n".join(["<configuration>", *lines, "</configuration>", ""])
    (conf / "hbase-site.xml").write_text(text, encoding="utf-8")


def _spawn(
    folder: Path, name: str, java: Path, paths: list[Path], rest: list[str]
) -> subprocess.Popen[bytes]:
    command = [
        str(java),
        f"-Xmx{_HEAP[name]}",
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss,SSS",
        _mark(folder),
        "-cp",
        os.pathsep.join([str(folder / "conf"), *map(str, paths)]),
        _CLASSES[name],
        *rest,
    ]
    with (folder / f"{name}.log").open("wb") as log:
        # In a session of its own, so that Ctrl-C does not reach it.
        return subprocess.Popen(  # noqa: S603  our own command
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            start_new_session=True,
        )


def _wait(
    folder: Path, state: Running, spawned: dict[str, subprocess.Popen[bytes]], clock: Clock
) -> None:
    """Wait until the server lists its tables, or raise HarnessError."""
    give_up = clock.seconds() + _START_S
    while clock.seconds() < give_up:
        for name, process in spawned.items():
            if process.poll() is not None:
                raise HarnessError(f"HBase's {name} process ended: {_last_line(folder, name)}")
        if answers(state.thrift_port):
            return
        clock.sleep(_POLL_S)
    raise HarnessError(f"HBase does not answer after {_START_S:.0f} s; see {folder}/server.log")


def answers(thrift_port: int) -> bool:
    """Whether a Thrift server on this machine, and the HBase behind it, answers."""
    from keymark.indexes.hbase.client import Access, connected  # noqa: PLC0415  only where HBase is used
    from keymark.table.errors import TableError  # noqa: PLC0415

    with contextlib.suppress(TableError):
        access = Access(HOST, thrift_port, "keymark")
        # What is asked before HBase is up is asked again by Thrift only after longer and longer.
        with connected(access, timeout_ms=_PROBE_MS) as client:
            client.exists()
        return True
    return False


def _clock() -> Clock:
    from keymark.table.runtime.clock import SystemClock  # noqa: PLC0415  only where a server is waited for

    return SystemClock()


def _last_line(folder: Path, name: str) -> str:
    path = folder / f"{name}.log"
    lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"{lines[-1] if lines else 'it said nothing'} ({path})"


def _end(folder: Path, name: str, pid: int, clock: Clock) -> None:
    """End a process, politely first."""
    for kind, patience in ((signal.SIGTERM, _STOP_S), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, kind)
        give_up = clock.seconds() + patience
        while clock.seconds() < give_up:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            if not _lives(folder, name, pid):
                return
            clock.sleep(_POLL_S)
    raise HarnessError(f"HBase's {name} process {pid} does not end")
