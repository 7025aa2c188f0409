"""Kinds of texts and bytes: chosen from a list, put together by a template, or hashed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from string import Formatter
from typing import ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator, model_validator

from keymark.datasets.columns.kind import (
    Expressions,
    Shape,
    ValueKind,
    Values,
    element,
    literal,
    piece,
    take,
)
from keymark.datasets.columns.pools import POOL_NAMES, PoolName, pool
from keymark.datasets.columns.text import hex_text, word_bytes
from keymark.datasets.generate.hashing import mix

_UNROLLED_PIECES = 64
_DIGITS_PER_PIECE = 16
_NUMBER = "number"


class Choices(ValueKind):
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

    def _arrow(self, rows: Values) -> pa.Array:
        texts = self.texts(rows.shape)
        return take(texts, rows.pick(len(texts), fixed=self.fixed))

    def _sql(self, rows: Expressions) -> str:
        texts = self.texts(rows.shape)
        return element(texts, rows.pick(len(texts), fixed=self.fixed))


class Template(ValueKind):
    """A text with gaps: `Order {number} for {city}`.

    A gap is filled from the pool that it names, of `size` texts, or as `{number}` by a whole number
    below `numbers`. Gaps are filled independently of each other.
    """

    kind: Literal["template"]
    text: str = Field(max_length=10_000)
    size: int = Field(default=1000, ge=1, le=100_000)
    numbers: int = Field(default=1_000_000, ge=1, le=2**62)
    fixed: bool = False

    spark_type: ClassVar[str] = "string"

    @field_validator("text")
    @classmethod
    def _has_known_gaps(cls, text: str) -> str:
        gaps = [(name, spec, how) for _, name, spec, how in Formatter().parse(text)]
        known = (None, _NUMBER, *POOL_NAMES)
        for name, spec, how in gaps:
            if name not in known or spec or how:
                names = ", ".join(sorted(POOL_NAMES))
                raise ValueError(f"there is no {{{name}}}, but {{{_NUMBER}}} and pools: {names}")
        return text

    def _arrow(self, rows: Values) -> pa.Array:
        parts = [pa.scalar("")]
        for text, gap, name in self._parts(rows.name):
            parts.append(pa.scalar(text))
            own = replace(rows, name=name)
            if gap == _NUMBER:
                numbers = own.pick(self.numbers, fixed=self.fixed)
                parts.append(pa.array(numbers).cast(pa.string()))
            elif gap:
                texts = pool(gap, self.size, rows.shape.seed)
                parts.append(take(texts, own.pick(len(texts), fixed=self.fixed)))
        joined = pc.binary_join_element_wise(*parts, "")
        scalar = isinstance(joined, pa.Scalar)
        return pa.array([joined.as_py()] * len(rows.numbers), pa.string()) if scalar else joined

    def _sql(self, rows: Expressions) -> str:
        parts = []
        for text, gap, name in self._parts(rows.name):
            parts += [literal(text)] if text else []
            own = replace(rows, name=name)
            if gap == _NUMBER:
                parts.append(f"cast({own.pick(self.numbers, fixed=self.fixed)} as string)")
            elif gap:
                texts = pool(gap, self.size, rows.shape.seed)
                parts.append(element(texts, own.pick(len(texts), fixed=self.fixed)))
        return f"concat({', '.join(parts)})"

    def _parts(self, column: str) -> Iterator[tuple[str, PoolName | Literal["number"] | None, str]]:
        """Texts, each with the gap behind it and the name that keys the gap's hashes."""
        for place, (text, gap, _, _) in enumerate(Formatter().parse(self.text)):
            yield text, gap, f"{column}.{place}"  # type: ignore[misc] # the validator knows them


class Payload(ValueKind):
    """Hex digits that compress to no less than about half; their number is a dataset setting."""

    kind: Literal["payload"]

    spark_type: ClassVar[str] = "string"

    def _arrow(self, rows: Values) -> pa.Array:
        size = rows.shape.payload_bytes
        return hex_text(_pieces(rows, size), size)

    def _sql(self, rows: Expressions) -> str:
        return _digits_sql(rows, rows.shape.payload_bytes)


class Binary(ValueKind):
    """Bytes of a hash, which do not compress but for their first bit of each eight."""

    kind: Literal["binary"]
    size: int = Field(default=16, ge=1, le=1_000_000)

    spark_type: ClassVar[str] = "binary"

    def _arrow(self, rows: Values) -> pa.Array:
        return word_bytes(_pieces(rows, 2 * self.size), len(rows.numbers), self.size)

    def _sql(self, rows: Expressions) -> str:
        return f"unhex({_digits_sql(rows, 2 * self.size)})"


def _pieces(rows: Values, digits: int) -> list[npt.NDArray[np.uint64]]:
    """Words of sixteen hex digits each, of which the last may be needed in part."""
    row = rows.hash(fixed=False)
    return [mix(np.array([piece]), row) for piece in range(-(-digits // _DIGITS_PER_PIECE))]


def _digits_sql(rows: Expressions, digits: int) -> str:
    """The digits of these words as SQL."""
    whole, rest = divmod(digits, _DIGITS_PER_PIECE)
    if whole <= _UNROLLED_PIECES:
        parts = [piece(rows, index) for index in range(whole)]
    else:
        each = f"transform(sequence(0L, {whole - 1}L), i -> {piece(rows, 'i')})"
        parts = [f"array_join({each}, '')"]
    if rest:
        parts.append(piece(rows, whole, 64 - 4 * rest))
    return f"concat({', '.join(parts)})"
