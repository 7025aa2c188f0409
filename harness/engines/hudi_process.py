"""The process of one release of Hudi: started with its bundle, and anew where it died."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keymark.harness.engines import hudi_version, jars, s3a
from keymark.harness.engines.hudi_options import HBASE_CONF
from keymark.harness.engines.pipe import Child
from keymark.harness.errors import CellError
from keymark.harness.scenario.workload_section import SparkSection

_COMMAND = ("-m", "keymark.harness.engines.hudi_child")
_MEMORY = "spark.driver.memory"
_EXTENSION = "org.apache.spark.sql.hudi.HoodieSparkSessionExtension"
# Hudi's bundle renames the classes of its HBase client, and so the one that the client asks the
# server to encode cells with: no server has it. Without a name, cells come in the answers
# themselves. Hadoop takes no empty value, but an empty default.
_HBASE_SITE = """<configuration><property>
<name>hbase.client.default.rpc.codec</name><value>${env.KEYMARK_NO_CODEC:-}</value>
</property></configuration>
"""
_CATALOG = "org.apache.spark.sql.hudi.catalog.HoodieCatalog"


class HudiProcess:
    """What answers the messages of `hudi_child`.

    A process that died, of memory or otherwise, costs the cell that it worked for. `revive` starts
    another one for the next; it is cold then, as the first one was.

    Args:
        name: of the engine.
        section: Spark's settings of the run.
        events: folder of Spark's event logs.
        work: folder for its log and what it needs.
        connection: Hadoop's settings of S3, if its tables are there.
    """

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

    def start(self) -> dict[str, Any]:
        """Start a process, and Spark in it; what it says of its options and versions.

        Raises:
            CellError: it did not come up.
        """
        self._starts += 1
        number = f".{self._starts}" if self._starts > 1 else ""
        log = self._work / f"{self._name}{number}.log"
        self._child = Child([sys.executable, *_COMMAND], log=log, name=self._name)
        conf = self._work / f"{self._name}-conf"
        conf.mkdir(parents=True, exist_ok=True)
        (conf / HBASE_CONF).write_text(_HBASE_SITE, encoding="utf-8")
        version = str(hudi_version(self._name))
        brought = [jars.bundle(version), *(s3a.installed() if self._connection else ())]
        extra = session_conf(brought, self._work / f"{self._name}-warehouse", conf)
        said = self._child.call(
            "start", version=version, spark=self._section, events=self._events, extra=extra
        )
        if self._connection:
            self._child.call("connect", settings=dict(self._connection))
        return dict(said)

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
        """An answer that takes longer ends the process; None: it takes as long as it takes."""
        self._child.patience_s = seconds

    def close(self) -> None:
        """End it."""
        self._child.close()


def session_conf(brought: Sequence[Path], warehouse: Path, conf: Path) -> dict[str, str]:
    """Spark options that Hudi needs.

    The jars go on the class paths: from the class loader of `spark.jars`, Hudi cannot read its
    own delete blocks. So does the folder `conf`, where it finds HBASE_CONF.
    """
    paths = os.pathsep.join(map(str, (*brought, conf)))
    return {
        "spark.driver.extraClassPath": paths,
        "spark.executor.extraClassPath": paths,
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": _EXTENSION,
        "spark.sql.catalog.spark_catalog": _CATALOG,
        "spark.sql.warehouse.dir": str(warehouse),
    }
