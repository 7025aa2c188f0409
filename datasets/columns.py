"""The kinds of column. Each defines its values twice: as Arrow arrays and as Spark SQL.

Both definitions stand side by side and say the same: a value is a function of a hash of (key of
the column, row number) or of (key of the column, row number, version), where the version of a row
is the round of its last change. `Values` and `Expressions` give that hash in either world.
"""

from __future__ import annotations

import datetime as dt
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from datasets.hashing import derive, draw, mix
from datasets.keys import Hashed, Letters, Numbered, OneShard, Sequence, Uuid, Uuid7
from datasets.kind import (
    DAY_MS,
    EPOCH_MS,
    BaseKind,
    Expressions,
    Shape,
    Values,
    element,
    piece,
    take,
)
from datasets.pools import PoolName, pool
from datasets.text import hex_text

_UNROLLED_PIECES = 64
# Sizes of partitions are shares of so many lots.
_LOTS = 4_000


class Partition(BaseKind):
    """A day as text; it depends on the row only, so it can be a partition path.

    `sizes` says how many rows a day has: `flat` all alike; `zipf` the n-th of them, in an order of
    its own, a share of 1/n; `recent` each day half more rows than the one ten days before it.
    """

    kind: Literal["partition"]
    sizes: Literal["flat", "zipf", "recent"] = "flat"

    spark_type: ClassVar[str] = "string"

    def arrow(self, rows: Values) -> pa.Array:
        """Return the values as an Arrow array."""
        labels = self._lots(rows.shape)
        return take(labels, rows.pick(len(labels), fixed=True))

    def sql(self, rows: Expressions) -> str:
        """Return the values as a SQL expression."""
        labels = self._lots(rows.shape)
        return element(labels, rows.pick(len(labels), fixed=True))

    def _lots(self, shape: Shape) -> tuple[str, ...]:
        """The days, each as often as it shall have rows; at least once."""
        labels = shape.date_labels
        if self.sizes == "flat":
            return labels
        places = np.arange(len(labels))
        if self.sizes == "zipf":
            ranks = np.argsort(draw(derive(shape.seed, "partition sizes"), places))
            weights = 1 / (ranks + 1)
        else:
            weights = 1.5 ** ((places - len(labels)) / 10)
        lots = np.maximum(1, np.round(_LOTS * weights / weights.sum())).astype(int)
        return tuple(label for label, lot in zip(labels, lots, strict=True) for _ in range(lot))


class Ordering(BaseKind):
    """Milliseconds since 1970 within the day of the row's version: later rounds are greater."""

    kind: Literal["ordering"]

    spark_type: ClassVar[str] = "bigint"

    def arrow(self, rows: Values) -> pa.Array:
        """Return the values as an Arrow array."""
        return pa.array(EPOCH_MS + rows.versions * DAY_MS + rows.pick(DAY_MS))

    def sql(self, rows: Expressions) -> str:
        """Return the values as a SQL expression."""
        return f"{EPOCH_MS}L + {rows.version} * {DAY_MS}L + {rows.pick(DAY_MS)}"


class Version(BaseKind):
    """The round of the row's last change, 0 for the first load."""

    kind: Literal["version"]

    spark_type: ClassVar[str] = "int"

    def arrow(self, rows: Values) -> pa.Array:
        """Return the values as an Arrow array."""
        return pa.array(rows.versions.astype(np.int32))

    def sql(self, rows: Expressions) -> str:
        """Return the values as a SQL expression."""
        return f"cast({rows.version} as int)"


class Choice(BaseKind):
    """One text of a list or of a pool of realistic texts."""

    kind: Literal["choice"]
    values: tuple[str, ...] = ()
    pool: PoolName | None = None
    size: int = Field(default=100, ge=1, le=100_000)
    fixed: bool = False

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if bool(self.values) == bool(self.pool):
            raise ValueError("give either values or pool")
        if any("\n" in value for value in self.values):
            raise ValueError("values must not contain line breaks")
        return self

    def texts(self, shape: Shape) -> tuple[str, ...]:
        """Return the list that is chosen from."""
        return self.values or pool(self.pool or "name", self.size, shape.seed)

    spark_type: ClassVar[str] = "string"

    def arrow(self, rows: Values) -> pa.Array:
        """Return the values as an Arrow array."""
        texts = self.texts(rows.shape)
        return take(texts, rows.pick(len(texts), fixed=self.fixed))

    def sql(self, rows: Expressions) -> str:
        """Return the values as a SQL expression."""
        texts = self.texts(rows.shape)
        return element(texts, rows.pick(len(texts), fixed=self.fixed))


class _Range(BaseKind):
    low: int
    high: int
    fixed: bool = False

    @model_validator(mode="after")
    def _is_ascending(self) -> Self:
        if self.low > self.high or self.high - self.low >= 2**62:
            raise ValueError("low must not be above high, nor the range beyond 62 bits")
        return self

    def _whole(self, rows: Values, scale: int = 1) -> np.ndarray:
        count = (self.high - self.low) * scale + 1
        return self.low * scale + rows.pick(count, fixed=self.fixed)

    def _whole_sql(self, rows: Expressions, scale: int = 1) -> str:
        count = (self.high - self.low) * scale + 1
        return f"({self.low * scale}L + {rows.pick(count, fixed=self.fixed)})"


class Long(_Range):
    """A whole number from low to high, both included."""

    kind: Literal["long"]

    spark_type: ClassVar[str] = "bigint"

    def arrow(self, rows: Values) -> pa.Array:
        """Return the values as an Arrow array."""
        return pa.array(self._whole(rows))

    def sql(self, rows: Expressions) -> str:
        """Return the values as a SQL expression."""
        return self._whole_sql(rows)


class Double(_Range):
    """A number from low to high in steps of 1/100."""

    kind: Literal["double"]

    spark_type: ClassVar[str] = "double"

    def arrow(self, rows: Values) -> pa.Array:
        """Return the values as an Arrow array."""
        return pa.array(self._whole(rows, 100).astype(np.float64) / 100.0)

    def sql(self, rows: Expressions) -> str:
        """Return the values as a SQL expression."""
        return f"cast({self._whole_sql(rows, 100)} as double) / 100.0D"


class Decimal(_Range):
    """An amount from low to high in cents, as decimal(12, 2)."""

    kind: Literal["decimal"]
    low: int = Field(ge=-(10**9))
    high: int = Field(le=10**9)

    spark_type: ClassVar[str] = "decimal(12,2)"

    def arrow(self, rows: Values) -> pa.Array:
        """Return the values as an Arrow array."""
        cents = self._whole(rows, 100)
        words = np.stack([cents, cents >> 63], axis=1)
        data = pa.py_buffer(np.ascontiguousarray(words))
        return pa.Array.from_buffers(pa.decimal128(12, 2), len(cents), [None, data])

    def sql(self, rows: Expressions) -> str:
        """Return the values as a SQL expression."""
        return f"cast(cast({self._whole_sql(rows, 100)} as double) / 100.0D as decimal(12, 2))"


class Bool(BaseKind):
    """True or false, each for half of the rows."""

    kind: Literal["bool"]
    fixed: bool = False

    spark_type: ClassVar[str] = "boolean"

    def arrow(self, rows: Values) -> pa.Array:
        """Return the values as an Arrow array."""
        return pa.array(rows.pick(2, fixed=self.fixed) == 1)

    def sql(self, rows: Expressions) -> str:
        """Return the values as a SQL expression."""
        return f"{rows.pick(2, fixed=self.fixed)} = 1L"


class _DateRange(BaseKind):
    low: dt.date
    high: dt.date
    fixed: bool = False

    @model_validator(mode="after")
    def _is_ascending(self) -> Self:
        if self.low > self.high:
            raise ValueError("low must not be after high")
        return self

    def _bounds(self) -> tuple[int, int]:
        """First day since 1970 and number of days."""
        first = (self.low - dt.date(1970, 1, 1)).days
        return first, (self.high - self.low).days + 1


class Date(_DateRange):
    """A day from low to high, both included."""

    kind: Literal["date"]

    spark_type: ClassVar[str] = "date"

    def arrow(self, rows: Values) -> pa.Array:
        """Return the values as an Arrow array."""
        first, days = self._bounds()
        picked = (first + rows.pick(days, fixed=self.fixed)).astype(np.int32)
        return pa.array(picked).cast(pa.date32())

    def sql(self, rows: Expressions) -> str:
        """Return the values as a SQL expression."""
        first, days = self._bounds()
        day = f"cast({first}L + {rows.pick(days, fixed=self.fixed)} as int)"
        return f"date_add(date'1970-01-01', {day})"


class Timestamp(_DateRange):
    """A microsecond from the start of low to the end of high, in UTC."""

    kind: Literal["timestamp"]

    spark_type: ClassVar[str] = "timestamp"

    def arrow(self, rows: Values) -> pa.Array:
        """Return the values as an Arrow array."""
        first, days = self._bounds()
        micros = first * DAY_MS * 1000 + rows.pick(days * DAY_MS * 1000, fixed=self.fixed)
        return pa.array(micros).cast(pa.timestamp("us", "UTC"))

    def sql(self, rows: Expressions) -> str:
        """Return the values as a SQL expression."""
        first, days = self._bounds()
        picked = rows.pick(days * DAY_MS * 1000, fixed=self.fixed)
        return f"timestamp_micros({first * DAY_MS * 1000}L + {picked})"


class Payload(BaseKind):
    """Hex digits that compress to no less than about half; their number is a dataset setting."""

    kind: Literal["payload"]

    spark_type: ClassVar[str] = "string"

    def arrow(self, rows: Values) -> pa.Array:
        """Return the values as an Arrow array."""
        size = rows.shape.payload_bytes
        row = rows.hash(fixed=False)
        return hex_text([mix(np.array([piece]), row) for piece in range(-(-size // 16))], size)

    def sql(self, rows: Expressions) -> str:
        """Return the values as a SQL expression."""
        whole, rest = divmod(rows.shape.payload_bytes, 16)
        if whole <= _UNROLLED_PIECES:
            parts = [piece(rows, index) for index in range(whole)]
        else:
            each = f"transform(sequence(0L, {whole - 1}L), i -> {piece(rows, 'i')})"
            parts = [f"array_join({each}, '')"]
        if rest:
            parts.append(piece(rows, whole, 64 - 4 * rest))
        return f"concat({', '.join(parts)})"


Kind = Annotated[
    Uuid
    | Uuid7
    | Sequence
    | Numbered
    | Hashed
    | Letters
    | OneShard
    | Partition
    | Ordering
    | Version
    | Choice
    | Long
    | Double
    | Decimal
    | Bool
    | Date
    | Timestamp
    | Payload,
    Field(discriminator="kind"),
]
