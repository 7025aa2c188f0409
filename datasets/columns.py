"""The kinds of column. Each defines its values twice: as Arrow arrays and as Spark SQL.

Both definitions stand side by side and say the same: a value is a function of a hash of (key of
the column, row number) or of (key of the column, row number, version), where the version of a row
is the round of its last change. `Values` and `Expressions` give that hash in either world.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, model_validator

from datasets.hashing import derive, draw, mix
from datasets.pools import PoolName, pool
from datasets.text import hex_text, uuid_text

DAY_MS = 86_400_000
_EPOCH_MS = 1_704_067_200_000  # 2024-01-01T00:00:00Z
_FIRST_DAY = dt.date(2024, 1, 1)
_UNROLLED_PIECES = 64
_DATE_FORMATS = {"yyyy-MM-dd": "%Y-%m-%d", "yyyy/MM/dd": "%Y/%m/%d", "yyyyMMdd": "%Y%m%d"}
DateFormat = Literal["yyyy-MM-dd", "yyyy/MM/dd", "yyyyMMdd"]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What the columns of one dataset share."""

    seed: int
    date_partitions: int
    date_format: DateFormat
    payload_bytes: int

    @property
    def date_labels(self) -> tuple[str, ...]:
        """The partition paths, one day each."""
        days = (_FIRST_DAY + dt.timedelta(days=day) for day in range(self.date_partitions))
        return tuple(day.strftime(_DATE_FORMATS[self.date_format]) for day in days)


@dataclass(frozen=True, kw_only=True)
class Values:
    """The rows of one column as numbers, for the Arrow definition.

    Attributes:
        shape: what all columns share.
        name: the column, which keys its hashes.
        numbers: int64, row numbers.
        versions: int64, the round of each row's last change.
    """

    shape: Shape
    name: str
    numbers: np.ndarray
    versions: np.ndarray

    def hash(self, *, fixed: bool) -> np.ndarray:
        """Hash of (column, row), and of the version unless fixed; uint64."""
        columns = (self.numbers,) if fixed else (self.numbers, self.versions)
        return draw(derive(self.shape.seed, self.name), *columns)

    def pick(self, count: int, *, fixed: bool = False) -> np.ndarray:
        """Hash reduced to 0..count-1; int64."""
        return np.mod(self.hash(fixed=fixed).view(np.int64), count)


@dataclass(frozen=True, kw_only=True)
class Expressions:
    """The rows of one column as SQL over the columns `number` and `version` (both bigint).

    Attributes:
        shape: what all columns share.
        name: the column, which keys its hashes.
        number: name of the column that holds the row number.
        version: name of the column that holds the version.
        helpers: filled by `let`: expressions to be computed in a projection before.
    """

    shape: Shape
    name: str
    number: str
    version: str
    helpers: dict[str, str] = field(default_factory=dict)

    def hash(self, *more: int | str, fixed: bool) -> str:
        """Hash of (column, row), and of the version unless fixed, and of what is given."""
        terms = [f"{derive(self.shape.seed, self.name)}L", self.number]
        terms += [] if fixed else [self.version]
        terms += [f"{term}L" if isinstance(term, int) else term for term in more]
        return f"xxhash64({', '.join(terms)})"

    def pick(self, count: int, *, fixed: bool = False) -> str:
        """Hash reduced to 0..count-1."""
        return f"pmod({self.hash(fixed=fixed)}, {count}L)"

    def let(self, expression: str) -> str:
        """Name an expression that is used more than once, so that it is computed once."""
        name = f"__{self.name}_{len(self.helpers)}"
        self.helpers[name] = expression
        return f"`{name}`"


class _Kind(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    repeat: int = Field(default=1, ge=1, le=10_000)


class Uuid(_Kind):
    """A text shaped like a UUID of version 4; it never changes, so it can be a record key."""

    kind: Literal["uuid"]

    spark_type: ClassVar[str] = "string"

    def arrow(self, rows: Values) -> pa.Array:
        """Return the values as an Arrow array."""
        row = rows.hash(fixed=True)
        return uuid_text(mix(np.array([0]), row), mix(np.array([1]), row))

    def sql(self, rows: Expressions) -> str:
        """Return the values as a SQL expression."""
        high = rows.let(rows.hash(0, fixed=True))
        low = rows.let(rows.hash(1, fixed=True))
        groups = (
            _padded_hex(f"shiftrightunsigned({high}, 32)", 8),
            _padded_hex(f"(shiftrightunsigned({high}, 16) & 65535L)", 4),
            f"hex(({high} & 4095L) | 16384L)",
            f"hex((shiftrightunsigned({low}, 48) & 16383L) | 32768L)",
            _padded_hex(f"({low} & 281474976710655L)", 12),
        )
        dashed = ", '-', ".join(groups)
        return f"lower(concat({dashed}))"


class Partition(_Kind):
    """A day as text; it depends on the row only, so it can be a partition path."""

    kind: Literal["partition"]

    spark_type: ClassVar[str] = "string"

    def arrow(self, rows: Values) -> pa.Array:
        """Return the values as an Arrow array."""
        labels = rows.shape.date_labels
        return _take(labels, rows.pick(len(labels), fixed=True))

    def sql(self, rows: Expressions) -> str:
        """Return the values as a SQL expression."""
        labels = rows.shape.date_labels
        return _element(labels, rows.pick(len(labels), fixed=True))


class Ordering(_Kind):
    """Milliseconds since 1970 within the day of the row's version: later rounds are greater."""

    kind: Literal["ordering"]

    spark_type: ClassVar[str] = "bigint"

    def arrow(self, rows: Values) -> pa.Array:
        """Return the values as an Arrow array."""
        return pa.array(_EPOCH_MS + rows.versions * DAY_MS + rows.pick(DAY_MS))

    def sql(self, rows: Expressions) -> str:
        """Return the values as a SQL expression."""
        return f"{_EPOCH_MS}L + {rows.version} * {DAY_MS}L + {rows.pick(DAY_MS)}"


class Version(_Kind):
    """The round of the row's last change, 0 for the first load."""

    kind: Literal["version"]

    spark_type: ClassVar[str] = "int"

    def arrow(self, rows: Values) -> pa.Array:
        """Return the values as an Arrow array."""
        return pa.array(rows.versions.astype(np.int32))

    def sql(self, rows: Expressions) -> str:
        """Return the values as a SQL expression."""
        return f"cast({rows.version} as int)"


class Choice(_Kind):
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
        return _take(texts, rows.pick(len(texts), fixed=self.fixed))

    def sql(self, rows: Expressions) -> str:
        """Return the values as a SQL expression."""
        texts = self.texts(rows.shape)
        return _element(texts, rows.pick(len(texts), fixed=self.fixed))


class _Range(_Kind):
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


class Bool(_Kind):
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


class _DateRange(_Kind):
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


class Payload(_Kind):
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
            parts = [_piece(rows, index) for index in range(whole)]
        else:
            each = f"transform(sequence(0L, {whole - 1}L), i -> {_piece(rows, 'i')})"
            parts = [f"array_join({each}, '')"]
        if rest:
            parts.append(_piece(rows, whole, 64 - 4 * rest))
        return f"concat({', '.join(parts)})"


Kind = Annotated[
    Uuid
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


def _padded_hex(value: str, digits: int) -> str:
    """Hex text of fixed width; padding, which is slow, is tried only where digits are missing."""
    smallest = 16 ** (digits - 1)
    return f"if({value} < {smallest}L, lpad(hex({value}), {digits}, '0'), hex({value}))"


def _piece(rows: Expressions, index: int | str, shift: int = 0) -> str:
    word = f"{rows.hash(index, fixed=False)} | shiftleft(1L, 63)"
    return f"hex(shiftrightunsigned({word}, {shift}))" if shift else f"hex({word})"


def _take(texts: Sequence[str], indices: np.ndarray) -> pa.Array:
    return pa.array(texts, pa.string()).take(pa.array(indices))


def _element(texts: Sequence[str], index: str) -> str:
    """Element of a literal list; written as bytes, so that no quoting rule of SQL can bite."""
    data = "\n".join(texts).encode().hex()
    return f"split(cast(X'{data}' as string), '\\n')[cast({index} as int)]"
