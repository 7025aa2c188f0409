"""Kinds of numbers: each is drawn as a whole number of steps, which both worlds divide alike."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field, model_validator

from keymark.datasets.columns.kind import Expressions, ValueKind, Values

_STEPS = 100
# Spark multiplies decimals of 19 and of 18 digits exactly, in its 38.
_MAX_SCALE = 18


class Range(ValueKind):
    """Whole numbers from low to high, both included, in steps of a part of one."""

    low: int
    high: int
    fixed: bool = False

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.low > self.high or self.high - self.low >= 2**62:
            raise ValueError("low must not be above high, nor the range beyond 62 bits")
        low, high = self.bounds()
        if not low <= self.low <= self.high <= high:
            raise ValueError(f"low and high must be from {low} to {high}")
        return self

    def bounds(self) -> tuple[int, int]:
        """The least and the greatest value that the type can hold."""
        return -(2**63), 2**63 - 1

    def whole(self, rows: Values, scale: int = 1) -> npt.NDArray[np.int64]:
        """Steps as numbers."""
        count = (self.high - self.low) * scale + 1
        return self.low * scale + rows.pick(count, fixed=self.fixed)

    def whole_sql(self, rows: Expressions, scale: int = 1) -> str:
        """Steps as SQL of type bigint."""
        count = (self.high - self.low) * scale + 1
        return f"({self.low * scale}L + {rows.pick(count, fixed=self.fixed)})"


class Int(Range):
    """A whole number of 32 bits from low to high, both included."""

    kind: Literal["int"]

    spark_type: ClassVar[str] = "int"

    def bounds(self) -> tuple[int, int]:
        """The least and the greatest value that the type can hold."""
        return -(2**31), 2**31 - 1

    def _arrow(self, rows: Values) -> pa.Array:
        return pa.array(self.whole(rows).astype(np.int32))

    def _sql(self, rows: Expressions) -> str:
        return f"cast({self.whole_sql(rows)} as int)"


class Long(Range):
    """A whole number from low to high, both included."""

    kind: Literal["long"]

    spark_type: ClassVar[str] = "bigint"

    def _arrow(self, rows: Values) -> pa.Array:
        return pa.array(self.whole(rows))

    def _sql(self, rows: Expressions) -> str:
        return self.whole_sql(rows)


class _Hundredths(Range):
    def bounds(self) -> tuple[int, int]:
        """What is exact as a double when counted in steps."""
        return -(2**53) // _STEPS, 2**53 // _STEPS

    def doubles(self, rows: Values) -> npt.NDArray[np.float64]:
        """The values."""
        return self.whole(rows, _STEPS).astype(np.float64) / _STEPS

    def doubles_sql(self, rows: Expressions) -> str:
        """The values as SQL of type double."""
        return f"cast({self.whole_sql(rows, _STEPS)} as double) / {_STEPS}.0D"


class Float(_Hundredths):
    """A number of single precision from low to high in steps of 1/100."""

    kind: Literal["float"]

    spark_type: ClassVar[str] = "float"

    def _arrow(self, rows: Values) -> pa.Array:
        return pa.array(self.doubles(rows).astype(np.float32))

    def _sql(self, rows: Expressions) -> str:
        return f"cast({self.doubles_sql(rows)} as float)"


class Double(_Hundredths):
    """A number from low to high in steps of 1/100."""

    kind: Literal["double"]

    spark_type: ClassVar[str] = "double"

    def _arrow(self, rows: Values) -> pa.Array:
        return pa.array(self.doubles(rows))

    def _sql(self, rows: Expressions) -> str:
        return self.doubles_sql(rows)


class Decimal(Range):
    """An amount from low to high in the smallest steps that a decimal of its scale has."""

    kind: Literal["decimal"]
    precision: int = Field(default=12, ge=1, le=38)
    scale: int = Field(default=2, ge=0, le=_MAX_SCALE)

    def bounds(self) -> tuple[int, int]:
        """What has the digits, and as a number of steps 63 bits."""
        digits = min(10 ** (self.precision - self.scale) - 1, 2**61 // 10**self.scale)
        return -digits, digits

    @property
    def spark_type(self) -> str:
        """The type in Spark's SQL."""
        return f"decimal({self.precision},{self.scale})"

    def _arrow(self, rows: Values) -> pa.Array:
        steps = self.whole(rows, 10**self.scale)
        words = np.stack([steps, steps >> 63], axis=1)
        data = pa.py_buffer(np.ascontiguousarray(words))
        kind = pa.decimal128(self.precision, self.scale)
        return pa.Array.from_buffers(kind, len(steps), [None, data])

    def _sql(self, rows: Expressions) -> str:
        steps = f"cast({self.whole_sql(rows, 10**self.scale)} as decimal(19, 0))"
        step = f"0.{'0' * (self.scale - 1)}1BD" if self.scale else "1BD"
        return f"cast({steps} * {step} as {self.spark_type})"
