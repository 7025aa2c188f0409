"""What a format must say about itself so that `format_engine` can measure it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

CODEC, FILE_SIZE = "hoodie.parquet.compression.codec", "hoodie.parquet.max.file.size"
"""Options of the cells of all engines that each format has a word for."""

SPARK = "spark."
_NOT_THE_TABLES = ("hoodie.", "keymark.", SPARK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a write left.

    Attributes:
        files: that it wrote: data files and files of deletes.
        phases: seconds of phases, as far as the format measures them itself.
    """

    files: int
    phases: Mapping[str, float] = field(default_factory=dict)


class Dialect(Protocol):
    """A format in words of Spark's SQL."""

    @property
    def source(self) -> str:
        """Its name after `USING`."""

    @property
    def file_name(self) -> str:
        """The file of a row, as an expression."""

    def session(self, parallelism: int) -> dict[str, str]:
        """Options of the Spark session.

        Args:
            parallelism: tasks of each shuffle.
        """

    def relation(self, place: str) -> str:
        """A table, as SQL names it."""

    def settings(self, place: str, options: Mapping[str, str]) -> dict[str, str]:
        """Options of the session for each statement about a table.

        Args:
            place: of the table, a path or URL.
            options: of the cell.
        """

    def properties(self, options: Mapping[str, str]) -> dict[str, str]:
        """Properties of a new table: what the cell's options say in the format's words."""

    def compaction(
        self, place: str, options: Mapping[str, str], *, order_by: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """The statements that put a table's files together, with the format's defaults.

        Args:
            place: of the table, a path or URL.
            options: of the cell.
            order_by: columns by which all rows are put in the order that the options ask for;
                none: rows lie as they came.
        """

    def written(self, table: Path) -> Written:
        """What the latest commit says about itself; the folder has the table's files."""

    def settle(self, where: str, place: str, *, connection: Mapping[str, str]) -> None:
        """Make a copied table independent of the folder that it was copied from.

        Args:
            where: the copy is, as Keymark's storage spells it.
            place: the same, as Spark spells it.
            connection: options of the store.
        """


def own_properties(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a cell that are table properties of its format."""
    return {name: value for name, value in options.items() if not name.startswith(_NOT_THE_TABLES)}


def own_settings(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a cell that are Spark's."""
    return {name: value for name, value in options.items() if name.startswith(SPARK)}
