"""What one run works with, behind protocols: so that the runner is tested without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harness.engines.base import Engine, Layout


class Inputs(Protocol):
    """The rows of a run, prepared before any clock starts; `inputs.SparkInputs` is one."""

    @property
    def layout(self) -> Layout:
        """How the rows are keyed, laid out and ordered."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns that digests are over."""

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
        inputs: rows and their truth.
        engines: by name.
        work: folder for tables; on the same file system as the run folder, removed at the end.
        source: table to start from instead of loading generated rows.
        clock: monotonic seconds.
    """

    inputs: Inputs
    engines: Mapping[str, Engine]
    work: Path
    source: Path | None
    clock: Callable[[], float]
