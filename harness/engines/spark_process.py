"""The process of an engine that brings its own jars: started with them, and anew where it died."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keymark.harness.engines import s3a
from keymark.harness.engines.pipe import PATIENCE_S, Child
from keymark.harness.errors import CellError
from keymark.harness.scenario.workload_section import SparkSection

_MEMORY = "spark.driver.memory"


class SparkProcess(ABC):
    """What answers the messages of a `spark_child.ChildSession`.

    A process that died, of memory or otherwise, costs the cell that it worked for, and so does one
    that hangs: it is ended. `revive` starts another one for the next; it is cold then, as the first
    one was.

    Args:
        name: of the engine.
        section: Spark's settings of the run.
        events: folder of Spark's event logs.
        work: folder for its log and what it needs.
        connection: Hadoop's settings of S3, if its tables are there.

    Attributes:
        longest_s: seconds that an answer may take where no other patience is set, starting and
            verifying included.
    """

    longest_s: float = PATIENCE_S

    def __init__(
        self,
        name: str,
        *,
        section: SparkSection,
        events: Path,
        work: Path,
        connection: Mapping[str, str] | None = None,
    ) -> None:
        self._name, self._section, self._connection = name, section, connection
        self._events, self._work = events, work
        self._held: list[tuple[str, ...]] = []
        self._starts = 0
        self._death = ""
        self._child: Child

    @abstractmethod
    def command(self) -> tuple[str, ...]:
        """What Python runs."""

    @abstractmethod
    def session(self) -> dict[str, str]:
        """The engine's own Spark options."""

    def start_arguments(self) -> dict[str, Any]:
        """What the message `start` says besides."""
        return {}

    def start(self) -> dict[str, Any]:
        """Start a process, and Spark in it; what it says about its options and versions.

        Raises:
            CellError: it did not come up.
        """
        self._starts += 1
        number = f".{self._starts}" if self._starts > 1 else ""
        log = self._work / f"{self._name}{number}.log"
        self._child = Child([sys.executable, *self.command()], log=log, name=self._name)
        self.patience(None)
        answer = self._child.call(
            "start",
            spark=self._section,
            events=self._events,
            extra=self.session(),
            **self.start_arguments(),
        )
        if self._connection:
            self._child.call("connect", settings=dict(self._connection))
        return dict(answer)

    def revive(self) -> None:
        """Start another process if this one died; it knows the same rows."""
        if self._child.is_dead:
            self._child.close()
            self._death = ""
            self.start()
            for files in self._held:
                self._child.call("hold_rows", files=files)

    def call(self, name: str, /, **arguments: Any) -> Any:
        """The answer to a message.

        Raises:
            CellError: its method raised, or it died; says how much memory it had if that was it.
        """
        if self._death:
            raise CellError(self._death)
        try:
            answer = self._child.call(name, **arguments)
        except CellError as error:
            if not self._child.is_dead:
                raise
            self._death = str(error)
            if "OutOfMemoryError" in self._death:
                self._death += f"; it had {_MEMORY}={self._section.conf.get(_MEMORY, '1g')}"
            raise CellError(self._death) from error
        if name == "hold_rows" and arguments["files"] not in self._held:
            self._held.append(arguments["files"])
        return answer

    def patience(self, seconds: float | None) -> None:
        """An answer that takes longer ends the process; None: longer than `longest_s`."""
        self._child.patience_s = self.longest_s if seconds is None else seconds

    def close(self) -> None:
        """End it."""
        self._child.close()

    def brought(self, own: Sequence[Path]) -> tuple[Path, ...]:
        """The engine's own jars, and those of Hadoop's client of S3 where tables are there."""
        return (*own, *(s3a.installed() if self._connection else ()))


def class_paths(paths: Sequence[Path]) -> dict[str, str]:
    """Spark options that put jars and folders on the class paths of driver and executors."""
    joined = os.pathsep.join(map(str, paths))
    return {"spark.driver.extraClassPath": joined, "spark.executor.extraClassPath": joined}
