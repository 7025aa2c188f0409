"""The order-free digest of rows: two 64-bit sums of two hashes per row.

The hash of a row is XXH64 folded over the columns in the order of their names, once with each of
two first seeds. A column contributes, in this order (see `hashing` for the fold):

    boolean, date                    isnull, then the value as a 32-bit integer
    integers, timestamps (in us)     isnull, then the value as a 64-bit integer
    float, double                    isnull, then the bits of the double; -0.0 as 0.0, one NaN
    decimal up to 18 digits          isnull, then the unscaled value as a 64-bit integer
    longer decimal                   isnull, then the unscaled value's shortest two's complement
    text, binary                     isnull, then the bytes
    struct                           isnull, then each field in its order, null where it is null
    list                             the size as a 32-bit integer, -1 for null, then the elements
    map                              like the list of its (key, value), sorted by key

A null contributes its mark and no value. Spark computes the same with `xxhash64` (see
`digest_dataframe` in `spark`). Sums make the digest independent of order, and let the digest
of a later state follow from the rows that changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.hashing import draw, fold_bytes, fold_ints, fold_longs, mix_ints

SEEDS = (1, 2)
_MASK = 2**64 - 1
_LONG_DECIMAL_DIGITS = 18

_Hashes = npt.NDArray[np.uint64]


class Truth(NamedTuple):
    """What a table must hold: number of rows and digest (32 hex digits)."""

    rows: int
    digest: str


@dataclass(frozen=True, slots=True)
class RowsDigest:
    """Number of rows and the two sums of their hashes modulo 2**64."""

    rows: int = 0
    high: int = 0
    low: int = 0

    def __add__(self, other: RowsDigest) -> RowsDigest:
        return RowsDigest(
            self.rows + other.rows,
            (self.high + other.high) & _MASK,
            (self.low + other.low) & _MASK,
        )

    def __sub__(self, other: RowsDigest) -> RowsDigest:
        return RowsDigest(
            self.rows - other.rows,
            (self.high - other.high) & _MASK,
            (self.low - other.low) & _MASK,
        )

    @classmethod
    def of_truth(cls, truth: Truth) -> RowsDigest:
        """The digest that a truth was made of."""
        return cls(truth.rows, int(truth.digest[:16], 16), int(truth.digest[16:], 16))

    @property
    def hex(self) -> str:
        """The sums as 32 hex digits."""
        return f"{self.high:016x}{self.low:016x}"

    @property
    def truth(self) -> Truth:
        """Rows and digest as they are compared and printed."""
        return Truth(self.rows, self.hex)

    @classmethod
    def of(cls, table: pa.Table, columns: Sequence[str] | None = None) -> RowsDigest:
        """RowsDigest of the rows of an Arrow table over the named columns, or over all.

        Raises:
            DatasetError: a column is missing or of a type that has no digest.
        """
        names = sorted(columns if columns is not None else table.column_names)
        check_columns(names, table.column_names)
        total = cls()
        for batch in table.select(names).to_batches():
            total += cls(
                batch.num_rows,
                *(int(np.sum(row_hashes(batch, seed), dtype=np.uint64)) for seed in SEEDS),
            )
        return total


def digest_arrow(table: pa.Table, columns: Sequence[str] | None = None) -> Truth:
    """Return (rows, digest) of an Arrow table over the named columns, or over all."""
    return RowsDigest.of(table, columns).truth


def check_columns(names: Sequence[str], known: Sequence[str]) -> None:
    """Refuse column names that are not known.

    Raises:
        DatasetError: naming all of them.
    """
    missing = [name for name in names if name not in known]
    if missing:
        raise DatasetError(f"no column {', '.join(map(repr, missing))}; there are {list(known)}")


def row_hashes(batch: pa.RecordBatch, seed: int) -> _Hashes:
    """Return the hash of each row over all columns of a batch, in their order."""
    state = np.repeat(draw(seed), batch.num_rows)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        _fold(name, column, state)
    return state


def _fold(name: str, column: pa.Array, state: _Hashes) -> None:
    """Fold one column into the running hashes, in place."""
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    kind = column.type
    for types, fold in _FOLDS:
        if any(applies(kind) for applies in types):
            fold(name, column, state)
            return
    raise DatasetError(f"column {name!r} has type {kind}, of which no digest is defined")


def _valid(column: pa.Array) -> npt.NDArray[np.bool_]:
    if column.null_count == 0:
        return np.ones(len(column), np.bool_)
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False))


def _numbers(column: pa.Array, target: pa.DataType) -> np.ndarray:
    """Values as a numpy array, zero where null."""
    try:
        column = column.cast(target)
    except pa.ArrowInvalid as error:
        raise DatasetError(f"values of {column.type} do not fit {target}: {error}") from error
    return np.asarray(
        column.fill_null(pa.scalar(0, pa.int32()).cast(target)).to_numpy(zero_copy_only=False)
    )


def _fold_short(_: str, column: pa.Array, state: _Hashes) -> None:
    fold_ints(_numbers(column, pa.int32()), _valid(column), state)


def _fold_integer(_: str, column: pa.Array, state: _Hashes) -> None:
    fold_longs(_numbers(column, pa.int64()), _valid(column), state)


def _fold_timestamp(_: str, column: pa.Array, state: _Hashes) -> None:
    _fold_integer("", column.cast(pa.timestamp("us", column.type.tz)), state)


def _fold_floating(_: str, column: pa.Array, state: _Hashes) -> None:
    values = _numbers(column, pa.float64()) + 0.0  # turns -0.0 into 0.0
    values = np.where(np.isnan(values), np.nan, values)
    fold_longs(values.view(np.int64), _valid(column), state)


def _fold_decimal(_: str, column: pa.Array, state: _Hashes) -> None:
    column = column.cast(pa.decimal128(column.type.precision, column.type.scale))
    valid = _valid(column)
    words = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)
    words = words[column.offset : column.offset + len(column)]
    if column.type.precision <= _LONG_DECIMAL_DIGITS:
        fold_longs(np.ascontiguousarray(words[:, 0]), valid, state)
        return
    texts = [_shortest_bytes(int(high) << 64 | (int(low) & _MASK)) for low, high in words.tolist()]
    _fold_binary("", pa.array(texts, pa.binary(), mask=~valid), state)


def _shortest_bytes(value: int) -> bytes:
    """Big-endian two's complement without needless bytes (BigInteger.toByteArray)."""
    bits = value.bit_length() if value >= 0 else (value + 1).bit_length()
    return value.to_bytes(bits // 8 + 1, "big", signed=True)


def _fold_binary(_: str, column: pa.Array, state: _Hashes) -> None:
    column = column.cast(pa.large_binary())
    _, offsets, data = column.buffers()
    positions = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    fold_bytes(content, positions, _valid(column), state)


def _fold_struct(name: str, column: pa.Array, state: _Hashes) -> None:
    mix_ints(np.where(_valid(column), 0, 1), state)
    for inner, values in zip(column.type.fields, column.flatten(), strict=True):
        _fold(f"{name}.{inner.name}", values, state)


def _fold_list(name: str, column: pa.Array, state: _Hashes) -> None:
    valid = _valid(column)
    sizes = _numbers(pc.list_value_length(column), pa.int64())
    mix_ints(np.where(valid, sizes, -1), state)
    values = column.flatten()
    starts = np.cumsum(sizes) - sizes
    for position in range(int(sizes.max(initial=0))):
        rows = np.flatnonzero(sizes > position)
        inner = state[rows]
        _fold(f"{name}[]", values.take(pa.array(starts[rows] + position)), inner)
        state[rows] = inner


def _fold_map(name: str, column: pa.Array, state: _Hashes) -> None:
    """As a list of entries; the key of an entry is never null, but is still marked."""
    entries = [None if entry is None else sorted(entry) for entry in column.to_pylist()]
    kind = column.type
    item = pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)])
    as_list = [
        None if entry is None else [{"key": key, "value": value} for key, value in entry]
        for entry in entries
    ]
    _fold_list(name, pa.array(as_list, pa.list_(item)), state)


_TYPES = pa.types
_FOLDS: tuple[tuple[tuple[Callable[[pa.DataType], bool], ...], Callable[..., None]], ...] = (
    ((_TYPES.is_boolean, _TYPES.is_date32), _fold_short),
    ((_TYPES.is_integer,), _fold_integer),
    ((_TYPES.is_timestamp,), _fold_timestamp),
    ((_TYPES.is_floating,), _fold_floating),
    ((_TYPES.is_decimal,), _fold_decimal),
    ((_TYPES.is_string, _TYPES.is_large_string), _fold_binary),
    ((_TYPES.is_binary, _TYPES.is_large_binary, _TYPES.is_fixed_size_binary), _fold_binary),
    ((_TYPES.is_struct,), _fold_struct),
    ((_TYPES.is_map,), _fold_map),
    ((_TYPES.is_list, _TYPES.is_large_list), _fold_list),
)
