"""The phases of a write, named on Spark's jobs, where the event log has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def phase_describer(spark: SparkSession | None) -> Callable[[str | None], None]:
    """What names a write's phase on Spark's jobs, for the event log; None takes the name away."""
    if spark is None:
        return lambda phase: None  # noqa: ARG005
    context = spark.sparkContext

    def describe(phase: str | None) -> None:
        # None takes the description away, whatever PySpark's types say.
        context.setJobDescription(phase and f"keymark/{phase}")  # type: ignore[arg-type]

    return describe
