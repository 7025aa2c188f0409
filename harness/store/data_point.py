"""The data that a cell works on. A leaf module."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPoint:
    """What a table is loaded with and changed by: a point of the axes of a scenario's dataset.

    In reports it says only what varies within the run.

    Attributes:
        shape: name of its keys' shape; empty without.
        rows: that the table is loaded with; 0 where it is not said.
        batch: rows of each change batch; 0 where it is not said.
        place: of the shape in the scenario.
    """

    shape: str = ""
    rows: int = 0
    batch: int = 0
    place: int = field(default=0, compare=False)

    @property
    def loaded(self) -> DataPoint:
        """The same without the batch: what is equal until the first change."""
        return replace(self, batch=0)
