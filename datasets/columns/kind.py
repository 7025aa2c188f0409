"""What kinds of column are made of: the rows as numbers, their hashes, nulls, and texts in SQL.

A value is a function of a hash of (key of the column, row number) or of (key of the column, row
number, version), where the version of a row is the round of its last change. `Values` and
`Expressions` give that hash in either world: Arrow arrays and Spark SQL.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from keymark.datasets.changes.movers import Movers
from keymark.datasets.generate.hashing import derive, draw

DAY_MS = 86_400_000
EPOCH_MS = 1_704_067_200_000  # 2024-01-01T00:00:00Z
_FIRST_DAY = dt.date(2024, 1, 1)
_DATE_FORMATS = {"yyyy-MM-dd": "%Y-%m-%d", "yyyy/MM/dd": "%Y/%m/%d", "yyyyMMdd": "%Y%m%d"}
DateFormat = Literal["yyyy-MM-dd", "yyyy/MM/dd", "yyyyMMdd"]
# Shares of nulls are counted in this many parts.
_NULL_PARTS = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What the columns of one dataset share.

    Attributes:
        seed: of all hashes.
        date_partitions: number of partitions.
        date_format: how days are written.
        payload_bytes: size of payloads.
        rows: of the first load; rows inserted later are dealt out to partitions anew.
        insert_shares: shares of inserted rows of the newest partition, the second newest, ...
        movers: rows that go from partition to partition.
    """

    seed: int
    date_partitions: int
    date_format: DateFormat
    payload_bytes: int
    rows: int = 1 << 62
    insert_shares: tuple[float, ...] = ()
    movers: Movers | None = None

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
        numbers: row numbers.
        versions: the round of each row's last change.
    """

    shape: Shape
    name: str
    numbers: npt.NDArray[np.int64]
    versions: npt.NDArray[np.int64]

    def hash(self, *, fixed: bool) -> npt.NDArray[np.uint64]:
        """Hash of (column, row), and of the version unless fixed."""
        columns = (self.numbers,) if fixed else (self.numbers, self.versions)
        return draw(derive(self.shape.seed, self.name), *columns)

    def pick(self, count: int, *, fixed: bool = False) -> npt.NDArray[np.int64]:
        """Hash reduced to 0..count-1."""
        return np.mod(self.hash(fixed=fixed).view(np.int64), count)


@dataclass(frozen=True, kw_only=True)
class Expressions:
    """The rows of one column as SQL over the columns `number` and `version` (both bigint).

    Attributes:
        shape: what all columns share.
        name: the column, which keys its hashes.
        number: name of the column that holds the row number.
        version: name of the column that holds the version.
        moves: name of the column that says how often the row has moved.
        helpers: filled by `let`: expressions to be computed in a projection before.
    """

    shape: Shape
    name: str
    number: str
    version: str
    moves: str
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


class BaseKind(BaseModel, ABC):
    """A column; `unique` kinds have another value in each row and may be record keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    unique: ClassVar[bool] = False

    repeat: int = Field(default=1, ge=1, le=10_000)

    @property
    def is_fixed(self) -> bool:
        """Whether a row's value is the same in all its versions."""
        return self.unique or bool(getattr(self, "fixed", False))

    def arrow(self, rows: Values) -> pa.Array:
        """The values, nulls included, as an Arrow array."""
        return self._arrow(rows)

    def sql(self, rows: Expressions) -> str:
        """The values, nulls included, as a SQL expression."""
        return self._sql(rows)

    @abstractmethod
    def _arrow(self, rows: Values) -> pa.Array:
        """The values without nulls."""

    @abstractmethod
    def _sql(self, rows: Expressions) -> str:
        """The same in SQL."""


class ValueKind(BaseKind):
    """A column that may be null, in a share of the rows that a hash of its own chooses."""

    null_share: float = Field(default=0.0, ge=0, le=1)

    def arrow(self, rows: Values) -> pa.Array:
        """The values, nulls included, as an Arrow array."""
        values = self._arrow(rows)
        if not self._nulls:
            return values
        drawn = replace(rows, name=f"{rows.name}?").pick(_NULL_PARTS, fixed=self.is_fixed)
        return values.take(pa.array(np.arange(len(values)), mask=drawn < self._nulls))

    def sql(self, rows: Expressions) -> str:
        """The values, nulls included, as a SQL expression."""
        value = self._sql(rows)
        if not self._nulls:
            return value
        drawn = replace(rows, name=f"{rows.name}?").pick(_NULL_PARTS, fixed=self.is_fixed)
        return f"if({drawn} < {self._nulls}L, null, {value})"

    @property
    def _nulls(self) -> int:
        """The share, in parts of 2^20."""
        return round(self.null_share * _NULL_PARTS)


def piece(rows: Expressions, index: int | str, shift: int = 0, *, fixed: bool = False) -> str:
    """Sixteen hex digits of a hash, or fewer; the top bit is set, so that none is dropped."""
    word = f"{rows.hash(index, fixed=fixed)} | shiftleft(1L, 63)"
    return f"hex(shiftrightunsigned({word}, {shift}))" if shift else f"hex({word})"


def take(texts: Sequence[str], indices: npt.NDArray[np.int64]) -> pa.Array:
    """The texts of a list at indices."""
    return pa.array(texts, pa.string()).take(pa.array(indices))


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return "`" + name.replace("`", "``") + "`"


def element(texts: Sequence[str], index: str) -> str:
    """Element of a literal list; written as bytes, so that no quoting rule of SQL can bite."""
    data = "\n".join(texts).encode().hex()
    return f"split(cast(X'{data}' as string), '\\n')[cast({index} as int)]"


def literal(text: str) -> str:
    """A text in SQL, written as bytes likewise."""
    return f"cast(X'{text.encode().hex()}' as string)"
