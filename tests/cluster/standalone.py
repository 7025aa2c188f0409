"""A Spark standalone cluster on the loop-back interface, of PySpark's own jars.

Each process is the leader of a group, so that a worker and its executors can be killed at once, as
a machine that loses its power would go.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pyspark

from keymark.table.runtime.spark import ensure_java

HOST = "127.0.0.1"
STARTED_MAX_S = 300.0
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_WORKER = re.compile(r"Successfully registered with master")


# PR_SET_PDEATHSIG of Linux is 1.
_MORTAL = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
os.execv(sys.argv[1], sys.argv[1:])
"""


def mortal(*command: str) -> list[str]:
    """A command whose process ends when the one that starts it does, however that ends."""
    return [sys.executable, "-c", _MORTAL, *command]


class Daemon:
    """A process of the cluster, and what it says."""

    def __init__(self, name: str, *arguments: str, folder: Path) -> None:
        ensure_java()
        home = Path(pyspark.__file__).parent
        folder.mkdir(parents=True, exist_ok=True)
        self.lines: list[str] = []
        self._news = threading.Condition()
        self.process = subprocess.Popen(
            mortal(
                str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments
            ),
            env={
                **{name: value for name, value in os.environ.items() if "SPARK" not in name},
                "SPARK_HOME": str(home),
                # Executors inherit it from their worker.
                "JAVA_TOOL_OPTIONS": os.environ.get("SPARK_SUBMIT_OPTS", ""),
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_LOCAL_IP": HOST,
                "SPARK_LOCAL_DIRS": str(folder),
                "SPARK_WORKER_DIR": str(folder),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        for line in self.process.stderr:
            with self._news:
                self.lines.append(line)
                self._news.notify_all()
        with self._news:
            self.lines.append("")
            self._news.notify_all()

    def wait_for(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """The first line of its log that matches."""
        with self._news:
            told = self._news.wait_for(
                lambda: (
                    [m for line in self.lines if (m := pattern.search(line))]
                    or self.lines[-1:] == [""]
                ),
                STARTED_MAX_S,
            )
        assert told, "no word in time:\n" + "".join(self.lines)
        assert told is not True, "it ended by itself:\n" + "".join(self.lines)
        return told[0]

    def kill(self) -> None:
        """SIGKILL it with all its executors."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        self.process.stderr.close()


@dataclass
class StandaloneCluster:
    """A master and workers of one core each.

    Attributes:
        folder: of the workers' files.
        url: what `--master` takes.
        workers: that live, oldest first.
    """

    folder: Path
    memory_mib: int = 700
    url: str = ""
    workers: list[Daemon] = field(default_factory=list)

    def __enter__(self) -> Self:
        # Ports of 0 are chosen by Spark.
        self._master = Daemon(
            "master.Master", "--host", HOST, "--port", "0", "--webui-port", "0", folder=self.folder
        )
        try:
            self.url = self._master.wait_for(_MASTER)[1]
            self.fill(2)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for daemon in (*self.workers, self._master):
            daemon.kill()

    def fill(self, count: int) -> None:
        """Forget dead workers, and start new ones until so many live."""
        for worker in [w for w in self.workers if w.process.poll() is not None]:
            worker.kill()
            self.workers.remove(worker)
        started = [
            Daemon(
                "worker.Worker",
                *("--host", HOST, "--port", "0", "--webui-port", "0", "--cores", "1"),
                *("--memory", f"{self.memory_mib}m", self.url),
                folder=self.folder / "worker",
            )
            for _ in range(count - len(self.workers))
        ]
        self.workers += started
        for worker in started:
            worker.wait_for(_WORKER)

    def conf(self) -> dict[str, str]:
        """Spark options of an application that takes all of the cluster."""
        return {
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.executor.memory": f"{self.memory_mib - 100}m",
            "spark.default.parallelism": "2",
            "spark.sql.shuffle.partitions": "2",
        }
