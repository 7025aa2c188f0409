"""What one run works with, behind protocols: so that the runner is tested without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harness.engines.base import Engine, Layout


class Runtime(Protocol):
    """The running Spark; `session.SparkRuntime` is one."""

    def step(self, label: str) -> AbstractContextManager[None]:
        """Attribute what runs in the block to a step."""

    def conf(self) -> dict[str, str]:
        """The options it runs with, secrets left out."""

    def close(self) -> None:
        """Stop it; the event log is complete after that."""


class Inputs(Protocol):
    """The rows of a run, prepared before any clock starts; `inputs.SparkInputs` is one.

    Data frames are the engine's own kind.
    """

    @property
    def layout(self) -> Layout:
        """How the rows are keyed, laid out and ordered."""

    def load(self) -> Any:
        """The rows that a table is loaded with."""

    def batch(self, round_: int, /) -> Any:
        """The rows of change batch 1, 2, ..."""

    def deletes(self) -> Any:
        """The keys of the delete step, with the partition columns."""

    def size(self, step: str, /) -> int:
        """Number of keys that a step handles."""

    def truth(self, round_: int, *, deleted: bool) -> tuple[int, str]:
        """Rows and digest that the table must have after a round, and after the delete step."""

    def digest(self, df: Any, /) -> tuple[int, str]:
        """Rows and digest that a data frame read from the table has."""

    def lookup_keys(self) -> Any:
        """`pa.Table` (record_key: string, expect_present: bool) of the lookup step."""

    def model_keys(self) -> Any:
        """`pa.Table` (record_key, expect_present) of the lookup model, as many keys of each kind.

        Keys of a kind are in random order, so that any stretch of them is a sample.
        """

    def point_key(self, repetition: int, /) -> str:
        """The key of the point query, another for each repetition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """Everything that measuring a cell needs.

    Attributes:
        runtime: the running Spark.
        inputs: rows and their truth.
        engines: by name.
        work: folder for tables; on the same file system as the run folder, removed at the end.
        source: table to start from instead of loading generated rows.
        clock: monotonic seconds.
    """

    runtime: Runtime
    inputs: Inputs
    engines: Mapping[str, Engine]
    work: Path
    source: Path | None
    clock: Callable[[], float]
