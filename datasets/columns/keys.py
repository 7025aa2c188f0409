"""The kinds of column that may be record keys: another value in each row, the same in all versions.

How keys are shaped decides which index wins: keys that grow with time leave most files of a bloom
index out, random ones none; long ones fill shards; and where all hash alike, one shard gets all.
"""

from __future__ import annotations

from collections.abc import Sequence as Texts
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator

from keymark.datasets.columns.kind import (
    EPOCH_MS,
    BaseKind,
    Expressions,
    Values,
    element,
    piece,
    take,
)
from keymark.datasets.columns.text import LETTERS, hash_alike, hex_text, letters_text, uuid_text
from keymark.datasets.generate.hashing import derive, draw, mix

_LOW_12, _LOW_62 = np.uint64(0xFFF), np.uint64((1 << 62) - 1)
_MILLISECONDS = (1 << 48) - 1
# Row numbers, those of keys that never exist included, are below 2^61.
_BITS = 61
_PAIRS = tuple(f"{pair:02x}" for pair in range(256))
_FIRST_BITS = (40, 32, 24, 16, 8, 0)
_MODULUS = 1 << 32
_LOW_32 = np.uint64(_MODULUS - 1)
# Shares of keys with one hash code are counted in this many parts.
_PARTS = 1 << 20
# Digits in base 31 of two numbers of 63 bits and of one of 32, as Spark writes them.
_SIZES, _DIGITS = (13, 13, 7), "0123456789ABCDEFGHIJKLMNOPQRSTU"
# What the first two of them, and the letters for 0, add to the hash code of the text. The weights
# are below 2^31, so that their products with 32 bits fit what Spark has.
_WEIGHTS = (pow(31, 20, _MODULUS), pow(31, 7, _MODULUS))
_ZEROS = ord(LETTERS[0]) * (31 ** sum(_SIZES) // 30) % _MODULUS


class _Key(BaseKind):
    """Most keys are texts."""

    unique: ClassVar[bool] = True
    spark_type: ClassVar[str] = "string"


class Uuid(_Key):
    """A text shaped like a random UUID, version 4."""

    kind: Literal["uuid"]

    def _arrow(self, rows: Values) -> pa.Array:
        row = rows.hash(fixed=True)
        return uuid_text(mix(np.array([0]), row), mix(np.array([1]), row))

    def _sql(self, rows: Expressions) -> str:
        high = rows.let(rows.hash(0, fixed=True))
        return _uuid_sql(rows, f"shiftrightunsigned({high}, 16)", high, version=4)


class Uuid7(_Key):
    """A text shaped like a UUID of version 7: it grows with the row number, as one with time.

    `per_ms` rows have the same millisecond, and no order among themselves.
    """

    kind: Literal["uuid7"]
    per_ms: int = Field(default=10, ge=1, le=10**6)

    def _arrow(self, rows: Values) -> pa.Array:
        row = rows.hash(fixed=True)
        at = (EPOCH_MS + rows.numbers // self.per_ms) & _MILLISECONDS
        high = (at.astype(np.uint64) << np.uint64(16)) | (mix(np.array([0]), row) & _LOW_12)
        return uuid_text(high, mix(np.array([1]), row), version=7)

    def _sql(self, rows: Expressions) -> str:
        at = rows.let(f"({EPOCH_MS}L + {rows.number} div {self.per_ms}L) & {_MILLISECONDS}L")
        third = rows.let(rows.hash(0, fixed=True))
        return _uuid_sql(rows, at, third, version=7)


class Sequence(_Key):
    """The row number as a number, counted from `start`."""

    kind: Literal["sequence"]
    start: int = Field(default=0, ge=0, le=10**15)

    spark_type: ClassVar[str] = "bigint"

    def _arrow(self, rows: Values) -> pa.Array:
        return pa.array(rows.numbers + self.start)

    def _sql(self, rows: Expressions) -> str:
        return f"{rows.number} + {self.start}L"


class Numbered(_Key):
    """A prefix and the row number, with zeros before it up to `width` digits; 0 for none."""

    kind: Literal["numbered"]
    prefix: str = Field(default="", max_length=1000, pattern=r"^[^\n]*$")
    width: int = Field(default=0, ge=0, le=100)

    def _arrow(self, rows: Values) -> pa.Array:
        digits = pc.utf8_lpad(pa.array(rows.numbers).cast(pa.string()), self.width, "0")
        return pc.binary_join_element_wise(pa.scalar(self.prefix), digits, "")

    def _sql(self, rows: Expressions) -> str:
        digits = f"cast({rows.number} as string)"
        if self.width:
            digits = (
                f"if(length({digits}) < {self.width}, lpad({digits}, {self.width}, '0'), {digits})"
            )
        prefix = f"cast(X'{self.prefix.encode().hex()}' as string)"
        return f"concat({prefix}, {digits})" if self.prefix else digits


class Hashed(_Key):
    """Hex digits as of a digest; 32 look like MD5, 64 like SHA-256."""

    kind: Literal["hashed"]
    digits: Literal[32, 48, 64] = 32

    def _arrow(self, rows: Values) -> pa.Array:
        row = rows.hash(fixed=True)
        pieces = [mix(np.array([index]), row) for index in range(self.digits // 16)]
        return pc.ascii_lower(hex_text(pieces, self.digits))

    def _sql(self, rows: Expressions) -> str:
        parts = [piece(rows, index, fixed=True) for index in range(self.digits // 16)]
        return f"lower(concat({', '.join(parts)}))"


class Letters(_Key):
    """Letters of an alphabet, drawn at random, then the row number: for long keys of any script."""

    kind: Literal["letters"]
    length: int = Field(default=24, ge=1, le=32_000)
    alphabet: str = Field(default="aäñßжλ中日🙂😀", min_length=2, max_length=1000)

    @field_validator("alphabet")
    @classmethod
    def _has_no_break(cls, alphabet: str) -> str:
        if "\n" in alphabet:
            raise ValueError("must not contain line breaks")
        return alphabet

    def _arrow(self, rows: Values) -> pa.Array:
        key = derive(rows.shape.seed, rows.name)
        places = np.tile(np.arange(self.length), len(rows.numbers))
        hashes = draw(key, np.repeat(rows.numbers, self.length), places).view(np.int64)
        letters = take(self.alphabet, np.mod(hashes, len(self.alphabet)))
        bounds = np.arange(0, len(places) + 1, self.length)
        drawn = pc.binary_join(pa.LargeListArray.from_arrays(bounds, letters), "")
        return pc.binary_join_element_wise(drawn, pa.array(rows.numbers).cast(pa.string()), "")

    def _sql(self, rows: Expressions) -> str:
        letter = element(
            self.alphabet, f"pmod({rows.hash('i', fixed=True)}, {len(self.alphabet)}L)"
        )
        drawn = f"transform(sequence(0L, {self.length - 1}L), i -> {letter})"
        return f"concat(array_join({drawn}, ''), cast({rows.number} as string))"


class OneShard(_Key):
    """Texts that all have the same String.hashCode, so that one shard of an index gets all keys.

    "Aa" and "BB" collide, and so do all texts of as many of either: the bits of the row number.
    """

    kind: Literal["one_shard"]

    def _arrow(self, rows: Values) -> pa.Array:
        return hash_alike(rows.numbers, _BITS)

    def _sql(self, rows: Expressions) -> str:
        bits = f"lpad(bin({rows.number}), {_BITS}, '0')"
        return f"replace(replace({bits}, '0', 'Aa'), '1', 'BB')"


class HotShard(_Key):
    """Texts of 33 letters, of which a share has the String.hashCode 0: they are in the first shard.

    The others have any hash code. The last seven letters make it what it is to be.

    Attributes:
        share: of the rows of the first load.
        inserted_share: of inserted rows, and of keys that no table has.
    """

    kind: Literal["hot_shard"]
    share: float = Field(default=0.9, ge=0, le=1)
    inserted_share: float = Field(default=0.9, ge=0, le=1)

    def _arrow(self, rows: Values) -> pa.Array:
        row = rows.hash(fixed=True)
        first, second, code, drawn = (mix(np.array([place]), row) for place in range(4))
        first, second = first >> np.uint64(1), second >> np.uint64(1)
        shares = (self.share, self.inserted_share)
        loaded, inserted = (np.uint64(round(share * _PARTS)) for share in shares)
        hot = drawn % np.uint64(_PARTS) < np.where(rows.numbers < rows.shape.rows, loaded, inserted)
        before = first * np.uint64(_WEIGHTS[0]) + second * np.uint64(_WEIGHTS[1])
        last = (np.where(hot, np.uint64(0), code) - before - np.uint64(_ZEROS)) & _LOW_32
        return letters_text([first, second, last], _SIZES)

    def _sql(self, rows: Expressions) -> str:
        words = [
            rows.let(f"shiftrightunsigned({rows.hash(place, fixed=True)}, 1)") for place in (0, 1)
        ]
        loaded, inserted = (
            f"{round(share * _PARTS)}L" for share in (self.share, self.inserted_share)
        )
        most = f"if({rows.number} < {rows.shape.rows}L, {loaded}, {inserted})"
        hot = f"({rows.hash(3, fixed=True)} & {_PARTS - 1}L) < {most}"
        code = f"if({hot}, 0L, {rows.hash(2, fixed=True)} & {_MODULUS - 1}L)"
        before = " - ".join(
            f"pmod(({word} & {_MODULUS - 1}L) * {weight}L, {_MODULUS}L)"
            for word, weight in zip(words, _WEIGHTS, strict=True)
        )
        last = f"pmod({code} - {before} - {_ZEROS}L, {_MODULUS}L)"
        texts = [
            f"lpad(conv(cast({number} as string), 10, 31), {size}, '0')"
            for number, size in zip([*words, last], _SIZES, strict=True)
        ]
        return f"translate(concat({', '.join(texts)}), '{_DIGITS}', '{LETTERS}')"


def _uuid_sql(rows: Expressions, first: str, third: str, *, version: int) -> str:
    """A UUID of the lowest 48 and 12 bits of two values and 62 of the row's second hash.

    Pairs of digits are looked up: `hex` and its padding take twice the time.
    """
    low = rows.let(rows.hash(1, fixed=True))
    dashed = [f"{pair}-" for pair in _PAIRS]
    pieces = [
        *(_byte(dashed if bits in (0, 16) else _PAIRS, first, bits) for bits in _FIRST_BITS),
        _byte([f"{version}{digit:x}" for digit in range(16)], third, 8),
        _byte(dashed, third, 0),
        _byte(_PAIRS[128:192], low, 56),
        _byte(dashed, low, 48),
        *(_byte(_PAIRS, low, bits) for bits in _FIRST_BITS),
    ]
    return f"concat({', '.join(pieces)})"


def _byte(texts: Texts[str], word: str, bits: int) -> str:
    """The text at the lowest bits, as many as the texts need, of a word shifted to the right."""
    return element(texts, f"shiftrightunsigned({word}, {bits}) & {len(texts) - 1}L")
