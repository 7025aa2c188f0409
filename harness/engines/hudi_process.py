"""The process of one release of Hudi: started with its bundle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keymark.harness.engines import hudi_version, jars
from keymark.harness.engines.hudi_options import HBASE_CONF
from keymark.harness.engines.spark_process import SparkProcess, class_paths

_COMMAND = ("-m", "keymark.harness.engines.hudi_child")
_EXTENSION = "org.apache.spark.sql.hudi.HoodieSparkSessionExtension"
# Hudi's bundle renames the classes of its HBase client, and so the one that the client asks the
# server to encode cells with: no server has it. Without a name, cells come in the answers
# themselves. Hadoop takes no empty value, but an empty default.
_HBASE_SITE = """<configuration><property>
<name>hbase.client.default.rpc.codec</name><value>${env.KEYMARK_NO_CODEC:-}</value>
</property></configuration>
"""
_CATALOG = "org.apache.spark.sql.hudi.catalog.HoodieCatalog"


class HudiProcess(SparkProcess):
    """What answers the messages of `hudi_child`."""

    def command(self) -> tuple[str, ...]:
        """What Python runs."""
        return _COMMAND

    def session(self) -> dict[str, str]:
        """Hudi's Spark options; its settings for HBase are written where Java finds them."""
        conf = self._work / f"{self._name}-conf"
        conf.mkdir(parents=True, exist_ok=True)
        (conf / HBASE_CONF).write_text(_HBASE_SITE, encoding="utf-8")
        brought = self.brought([jars.bundle(str(hudi_version(self._name)))])
        return session_conf(brought, self._work / f"{self._name}-warehouse", conf)

    def start_arguments(self) -> dict[str, Any]:
        """The release."""
        return {"version": str(hudi_version(self._name))}


def session_conf(brought: Sequence[Path], warehouse: Path, conf: Path) -> dict[str, str]:
    """Spark options that Hudi needs.

    The jars go on the class paths: from the class loader of `spark.jars`, Hudi cannot read its
    own delete blocks. So does the folder `conf`, where it finds HBASE_CONF.
    """
    return {
        **class_paths([*brought, conf]),
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": _EXTENSION,
        "spark.sql.catalog.spark_catalog": _CATALOG,
        "spark.sql.warehouse.dir": str(warehouse),
    }
