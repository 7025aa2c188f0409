"""Kinds that hold other kinds: structs, lists and maps, as deep as one likes; and all kinds.

The value of a field or at a place of a list is a column of its own, named after where it stands
(`address.street`, `readings.0`), so that it is hashed apart from all others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field, field_validator, model_validator

from keymark.datasets.columns.keys import (
    Hashed,
    HotShard,
    Letters,
    Numbered,
    OneShard,
    Sequence,
    Uuid,
    Uuid7,
)
from keymark.datasets.columns.kind import (
    Expressions,
    ValueKind,
    Values,
    literal,
    take,
)
from keymark.datasets.columns.kinds import Bool, Date, Ordering, Partition, Timestamp, Version
from keymark.datasets.columns.numeric import Decimal, Double, Float, Int, Long
from keymark.datasets.columns.textual import Binary, Choices, Payload, Template

_MAX_ELEMENTS = 100
FieldName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]


class Struct(ValueKind):
    """Named fields, each of a kind of its own."""

    kind: Literal["struct"]
    fields: dict[FieldName, Kind] = Field(min_length=1)

    @field_validator("fields")
    @classmethod
    def _are_distinct(cls, fields: dict[str, Kind]) -> dict[str, Kind]:
        if len({name.lower() for name in fields}) < len(fields):
            raise ValueError("two fields have the same name to Spark, which ignores case")
        return fields

    @property
    def spark_type(self) -> str:
        """The type in Spark's SQL."""
        inner = ",".join(f"{name}:{kind.spark_type}" for name, kind in self.fields.items())
        return f"struct<{inner}>"

    def _arrow(self, rows: Values) -> pa.Array:
        children = [
            kind.arrow(replace(rows, name=f"{rows.name}.{name}"))
            for name, kind in self.fields.items()
        ]
        return pa.StructArray.from_arrays(children, list(self.fields))

    def _sql(self, rows: Expressions) -> str:
        children = (
            f"'{name}', {kind.sql(replace(rows, name=f'{rows.name}.{name}'))}"
            for name, kind in self.fields.items()
        )
        return f"named_struct({', '.join(children)})"


class _Several(ValueKind):
    low: int = Field(default=0, ge=0)
    high: int = Field(default=4, ge=1, le=_MAX_ELEMENTS)

    @model_validator(mode="after")
    def _is_ascending(self) -> Self:
        if self.low > self.high:
            raise ValueError("low must not be above high")
        return self

    def sizes(self, rows: Values) -> npt.NDArray[np.int64]:
        """Numbers of elements."""
        return self.low + rows.pick(self.high - self.low + 1)

    def sizes_sql(self, rows: Expressions) -> str:
        """Numbers of elements as SQL of type int."""
        return rows.let(f"cast({self.low}L + {rows.pick(self.high - self.low + 1)} as int)")


class List(_Several):
    """From `low` to `high` elements of one kind."""

    kind: Literal["list"]
    items: Kind

    @property
    def spark_type(self) -> str:
        """The type in Spark's SQL."""
        return f"array<{self.items.spark_type}>"

    def _arrow(self, rows: Values) -> pa.Array:
        offsets = _offsets(self.sizes(rows))
        return pa.ListArray.from_arrays(offsets, _elements(self.items, rows, offsets))

    def _sql(self, rows: Expressions) -> str:
        elements = _elements_sql(self.items, rows, self.high)
        return f"slice({elements}, 1, {self.sizes_sql(rows)})"


class Map(_Several):
    """From `low` to `high` entries: keys that follow each other in a list, values of one kind."""

    kind: Literal["map"]
    keys: tuple[str, ...] = Field(min_length=1, max_length=1000)
    values: Kind

    @model_validator(mode="after")
    def _has_enough_keys(self) -> Self:
        if len(set(self.keys)) < len(self.keys) or len(self.keys) < self.high:
            raise ValueError(f"keys must be different, and {self.high} at least")
        return self

    @property
    def spark_type(self) -> str:
        """The type in Spark's SQL."""
        return f"map<string,{self.values.spark_type}>"

    def _arrow(self, rows: Values) -> pa.Array:
        sizes = self.sizes(rows)
        offsets = _offsets(sizes)
        starts = replace(rows, name=f"{rows.name}.keys").pick(len(self.keys))
        places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], sizes)
        keys = take(self.keys, places % len(self.keys))
        return pa.MapArray.from_arrays(offsets, keys, _elements(self.values, rows, offsets))

    def _sql(self, rows: Expressions) -> str:
        start = replace(rows, name=f"{rows.name}.keys").pick(len(self.keys))
        size = self.sizes_sql(rows)
        twice = ", ".join(literal(key) for key in self.keys * 2)
        keys = f"slice(array({twice}), cast({start} as int) + 1, {size})"
        values = f"slice({_elements_sql(self.values, rows, self.high)}, 1, {size})"
        return f"map_from_arrays({keys}, {values})"


def _offsets(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)


def _elements(kind: Kind, rows: Values, offsets: npt.NDArray[np.int32]) -> pa.Array:
    """Elements of all rows: made place by place, then put in the order of rows."""
    sizes = np.diff(offsets)
    places = [np.flatnonzero(sizes > place) for place in range(max(1, sizes.max(initial=0)))]
    made_by_place = [
        kind.arrow(
            replace(
                rows,
                name=f"{rows.name}.{place}",
                numbers=rows.numbers[chosen],
                versions=rows.versions[chosen],
            ),
        )
        for place, chosen in enumerate(places)
    ]
    targets = np.concatenate([offsets[chosen] + place for place, chosen in enumerate(places)])
    return pa.concat_arrays(made_by_place).take(pa.array(np.argsort(targets)))


def _elements_sql(kind: Kind, rows: Expressions, most: int) -> str:
    """An array of all elements that a row can have."""
    names = (f"{rows.name}.{place}" for place in range(most))
    elements = (kind.sql(replace(rows, name=name)) for name in names)
    return f"array({', '.join(elements)})"


Kind = Annotated[
    Uuid
    | Uuid7
    | Sequence
    | Numbered
    | Hashed
    | Letters
    | OneShard
    | HotShard
    | Partition
    | Ordering
    | Version
    | Choices
    | Template
    | Payload
    | Binary
    | Int
    | Long
    | Float
    | Double
    | Decimal
    | Bool
    | Date
    | Timestamp
    | Struct
    | List
    | Map,
    Field(discriminator="kind"),
]
"""Every kind of column; `kind` says which one it is."""

for _nested in (Struct, List, Map):
    _nested.model_rebuild()
