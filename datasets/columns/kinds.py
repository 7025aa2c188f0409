"""The kinds of column. Each defines its values twice: as Arrow arrays and as Spark SQL.

Both definitions stand side by side and say the same: a value is a function of a hash of (key of
the column, row number) or of (key of the column, row number, version), where the version of a row
is the round of its last change. `Values` and `Expressions` give that hash in either world.
"""

from __future__ import annotations

import datetime as dt
import math
from functools import lru_cache
from typing import ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import model_validator

from keymark.datasets.changes.choice import shared_out
from keymark.datasets.changes.stripes import Stripes
from keymark.datasets.columns.kind import (
    DAY_MS,
    EPOCH_MS,
    BaseKind,
    Expressions,
    Shape,
    ValueKind,
    Values,
    element,
    take,
)
from keymark.datasets.columns.pools import country_codes
from keymark.datasets.generate.hashing import derive, draw

# Sizes of partitions are shares of _LOTS lots, or of _LOTS_EACH lots for each partition.
_LOTS, _LOTS_EACH = 4_000, 4
# Multiplied with this, places stay apart modulo 2^32 and look like hashes.
_ODD = 0x9E3779B1


class Partition(BaseKind):
    """A text that depends on the row only, so that it can be a partition path.

    Rows are dealt out to the partitions by their numbers, so that counts are as exact as they can
    be; inserted rows likewise, by the dataset's `insert_shares` if it has any. A row that moves
    goes to the next partition. The dataset's `date_partitions` says how many there are.

    Attributes:
        of: `days`, the latest last; `countries`, by their two letters; or `hashes` of eight hex
            digits, for paths of high cardinality.
        sizes: how many rows each has. `flat`: all alike; `zipf`: the n-th of them, in an order of
            its own, a share of 1/n; `recent`: each half more than the one ten places before it;
            `one`: nine tenths of them are in the last, the others are alike.
    """

    kind: Literal["partition"]
    of: Literal["days", "countries", "hashes"] = "days"
    sizes: Literal["flat", "zipf", "recent", "one"] = "flat"

    spark_type: ClassVar[str] = "string"

    @property
    def is_fixed(self) -> bool:
        """Only rows that move change theirs."""
        return True

    @property
    def most(self) -> int | None:
        """As many as there can be."""
        return len(country_codes(0)) if self.of == "countries" else None

    def _arrow(self, rows: Values) -> pa.Array:
        return take(self.labels(rows.shape), self.places(rows))

    def places(self, rows: Values) -> npt.NDArray[np.int64]:
        """The place of each row's partition among the labels."""
        shape, numbers = rows.shape, rows.numbers
        place = _place(self.lots(shape), numbers)
        if len(numbers) and numbers.max() >= shape.rows:
            added = _place(self.insert_lots(shape), np.maximum(numbers - shape.rows, 0))
            place = np.where(numbers < shape.rows, place, added)
        if shape.movers is not None and shape.movers.column == rows.name:
            place = (place + shape.movers.count(numbers, rows.versions)) % shape.date_partitions
        return place

    def _sql(self, rows: Expressions) -> str:
        shape, number = rows.shape, rows.number
        loaded = _place_sql(self.lots(shape), number)
        added = _place_sql(self.insert_lots(shape), f"({number} - {shape.rows}L)")
        place = f"if({number} < {shape.rows}L, {loaded}, {added})"
        if shape.movers is not None and shape.movers.column == rows.name:
            place = f"({place} + {rows.moves}) % {shape.date_partitions}L"
        return element(self.labels(shape), place)

    def labels(self, shape: Shape) -> tuple[str, ...]:
        """The partitions, the first first."""
        count = shape.date_partitions
        match self.of:
            case "days":
                return shape.date_labels
            case "countries":
                return country_codes(shape.seed)[:count]
            case "hashes":
                start = derive(shape.seed, "partition hashes")
                hashes = ((start + _ODD * place) % 2**32 for place in range(count))
                return tuple(f"{value:08x}" for value in hashes)

    def lots(self, shape: Shape) -> tuple[int, ...]:
        """Places among the labels, ascending, each as often as it has rows, once at least."""
        return _lots(self.sizes, shape.date_partitions, shape.seed)

    def insert_lots(self, shape: Shape) -> tuple[int, ...]:
        """The same for inserted rows; places may be missing."""
        if not shape.insert_shares:
            return self.lots(shape)
        return _insert_lots(shape.insert_shares, shape.date_partitions)


def _place(lots: tuple[int, ...], numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """What the lots of rows stand for."""
    return np.asarray(np.array(lots, np.int64)[Stripes(len(lots)).lot(numbers)])


@lru_cache(maxsize=64)
def _lots(sizes: str, count: int, seed: int) -> tuple[int, ...]:
    places, most = np.arange(count), max(_LOTS, _LOTS_EACH * count)
    match sizes:
        case "flat":
            return tuple(range(count))
        case "zipf":
            weights = 1 / (np.argsort(draw(derive(seed, "partition sizes"), places)) + 1)
        case "one":
            weights = np.where(places == count - 1, 9.0 * max(1, count - 1), 1.0)
            most = max(most, 10 * (count - 1))  # a lot for each other partition is a tenth
        case _:
            weights = 1.5 ** ((places - count) / 10)
    lots = most * weights / weights.sum()
    return tuple(np.repeat(places, np.maximum(1, np.round(lots)).astype(int)).tolist())


@lru_cache(maxsize=64)
def _insert_lots(shares: tuple[float, ...], count: int) -> tuple[int, ...]:
    others = count - len(shares)
    rest = max(0.0, 1 - math.fsum(shares)) / others if others else 0.0
    weights = [rest] * others + list(reversed(shares))
    total = max(_LOTS, _LOTS_EACH * count)
    lots = shared_out(total, weights, [total] * count)
    return tuple(np.repeat(np.arange(count), lots).tolist())


def _place_sql(lots: tuple[int, ...], number: str) -> str:
    """The label's place of a row, by its lot."""
    lot = Stripes(len(lots)).lot_sql(number)
    if lots == tuple(range(len(lots))):
        return lot
    return f"cast({element([str(place) for place in lots], lot)} as bigint)"


class Ordering(BaseKind):
    """Milliseconds since 1970 within the day of the row's version: later rounds are greater."""

    kind: Literal["ordering"]

    spark_type: ClassVar[str] = "bigint"

    def _arrow(self, rows: Values) -> pa.Array:
        return pa.array(EPOCH_MS + rows.versions * DAY_MS + rows.pick(DAY_MS))

    def _sql(self, rows: Expressions) -> str:
        return f"{EPOCH_MS}L + {rows.version} * {DAY_MS}L + {rows.pick(DAY_MS)}"


class Version(BaseKind):
    """The round of the row's last change, 0 for the first load."""

    kind: Literal["version"]

    spark_type: ClassVar[str] = "int"

    def _arrow(self, rows: Values) -> pa.Array:
        return pa.array(rows.versions.astype(np.int32))

    def _sql(self, rows: Expressions) -> str:
        return f"cast({rows.version} as int)"


class Bool(ValueKind):
    """True or false, each for half of the rows."""

    kind: Literal["bool"]
    fixed: bool = False

    spark_type: ClassVar[str] = "boolean"

    def _arrow(self, rows: Values) -> pa.Array:
        return pa.array(rows.pick(2, fixed=self.fixed) == 1)

    def _sql(self, rows: Expressions) -> str:
        return f"{rows.pick(2, fixed=self.fixed)} = 1L"


class _DateRange(ValueKind):
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

    def _arrow(self, rows: Values) -> pa.Array:
        first, days = self._bounds()
        picked = (first + rows.pick(days, fixed=self.fixed)).astype(np.int32)
        return pa.array(picked).cast(pa.date32())

    def _sql(self, rows: Expressions) -> str:
        first, days = self._bounds()
        day = f"cast({first}L + {rows.pick(days, fixed=self.fixed)} as int)"
        return f"date_add(date'1970-01-01', {day})"


class Timestamp(_DateRange):
    """A microsecond from the start of low to the end of high, in UTC.

    Attributes:
        local: a time of day as on a clock, without a zone: Avro's local-timestamp-micros.
    """

    kind: Literal["timestamp"]
    local: bool = False

    @property
    def spark_type(self) -> str:
        """The type in Spark's SQL."""
        return "timestamp_ntz" if self.local else "timestamp"

    def _arrow(self, rows: Values) -> pa.Array:
        first, days = self._bounds()
        micros = first * DAY_MS * 1000 + rows.pick(days * DAY_MS * 1000, fixed=self.fixed)
        return pa.array(micros).cast(pa.timestamp("us", None if self.local else "UTC"))

    def _sql(self, rows: Expressions) -> str:
        # none of it depends on the session's zone
        first, days = self._bounds()
        picked = rows.pick(days * DAY_MS * 1000, fixed=self.fixed)
        micros = f"{first * DAY_MS * 1000}L + {picked}"
        if not self.local:
            return f"timestamp_micros({micros})"
        seconds = f"cast(cast({micros} as decimal(18, 0)) * 0.000001BD as decimal(18, 6))"
        return f"timestamp_ntz'1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, {seconds})"
