"""The process of one release of a format: started with its jars."""

from __future__ import annotations

from keymark.harness.engines.dialects import dialect_of
from keymark.harness.engines.format_jars import format_jars
from keymark.harness.engines.formats import format_name
from keymark.harness.engines.process_engine import parallelism
from keymark.harness.engines.spark_process import SparkProcess, class_paths

_COMMAND = ("-m", "keymark.harness.engines.format_child")


class FormatProcess(SparkProcess):
    """What answers the messages of `format_child`."""

    def command(self) -> tuple[str, ...]:
        """What Python runs."""
        return _COMMAND

    def session(self) -> dict[str, str]:
        """The format's Spark options."""
        named = format_name(self._name)
        own = format_jars(named) if named else ()
        return {
            **class_paths(self.brought(own)),
            **dialect_of(self._name).session(parallelism(self._section)),
            "spark.sql.warehouse.dir": str(self._work / f"{self._name}-warehouse"),
        }
