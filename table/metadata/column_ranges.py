"""What the `column_stats` partition says about one column in many base files.

    files, column  ->  keys  ->  point look-ups in each file group  ->  ends and counts, in arrays

A record describes a file that never changes: of several records of one key any is right, and the
newest is taken. Hudi merges them to the union of their ranges (HoodieMetadataPayload,
HoodieTableMetadataUtil.mergeColumnStatsRecords), which only log files of merge-on-read tables need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.errors import CorruptFileError
from keymark.table.format.avro.columns import (
    BOOLEAN,
    BYTES,
    FIXED4,
    FIXED8,
    LONG,
    NULL,
    REFUSED,
    read_records,
)
from keymark.table.format.hashes.hashing import column_id, string_buffers
from keymark.table.layout.model import BaseFile
from keymark.table.metadata.column_stats import DECIMAL_SCALE, Wrapper, file_key
from keymark.table.metadata.shard import Shard, split_by_shard

_TEXT = (NULL, BYTES)
_COUNT = (NULL, LONG)
_WRAPPED = (
    *(NULL, BOOLEAN, LONG, LONG, FIXED4, FIXED8, BYTES, BYTES, LONG, BYTES),
    *(LONG, LONG),
)
# Meta columns, key, type; files, bloom filter, column statistics and what is in them.
_SHAPE = (
    *((_TEXT,) * 5),
    *((BYTES,), (LONG,)),
    *((NULL, REFUSED), (NULL, REFUSED), (REFUSED, NULL)),
    *(_TEXT, _TEXT, _WRAPPED, _WRAPPED),
    *((_COUNT,) * 4),
    (BOOLEAN,),
)
_FILE, _COLUMN, _LOW, _HIGH, _VALUES, _NULLS = range(10, 16)
_DELETED = 18
_WHOLE_NUMBERS = (
    *(Wrapper.INT, Wrapper.LONG, Wrapper.DATE, Wrapper.TIME_MICROS, Wrapper.TIMESTAMP_MICROS),
)
_FLOAT_TYPES = {Wrapper.FLOAT: "<f4", Wrapper.DOUBLE: "<f8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRanges:
    """Records of one column, an array entry per file asked for.

    Attributes:
        found: whether there is a record of that file and column that can be read and is not
            deleted. All else means nothing where there is none.
        wrappers: the wrapper of both ends; 0 where they are null or wrapped differently.
        nulls, values: how many rows are null and how many there are; -1 where unknown.
    """

    found: npt.NDArray[np.bool_]
    wrappers: npt.NDArray[np.int64]
    nulls: npt.NDArray[np.int64]
    values: npt.NDArray[np.int64]
    _low: npt.NDArray[np.int64]
    _high: npt.NDArray[np.int64]
    _data: Any

    def ends(
        self, wrapper: Wrapper
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any], npt.NDArray[Any]]:
        """The ranges in one wrapper.

        Returns:
            Positions of the files; lowest and highest value of each: int64 for booleans,
            whole numbers, days and microseconds, float64, or objects (str, Decimal). Texts that
            are no UTF-8 are left out.
        """
        rows = np.flatnonzero(self.found & (self.wrappers == wrapper))
        lows, highs = self._low[rows], self._high[rows]
        if wrapper in _FLOAT_TYPES:
            kind = _FLOAT_TYPES[wrapper]
            return rows, self._floats(lows, kind), self._floats(highs, kind)
        if wrapper not in (Wrapper.STRING, Wrapper.DECIMAL):
            return rows, lows[:, 0], highs[:, 0]
        convert = _text if wrapper is Wrapper.STRING else _decimal
        low, high = self._objects(lows, convert), self._objects(highs, convert)
        kept = np.array([a is not None and b is not None for a, b in zip(low, high, strict=True)])
        kept = kept.astype(bool)
        return rows[kept], low[kept], high[kept]

    def _floats(self, spans: npt.NDArray[np.int64], kind: str) -> npt.NDArray[np.float64]:
        width = np.dtype(kind).itemsize
        gathered = self._data[spans[:, :1] + np.arange(width)]
        return np.ascontiguousarray(gathered).view(kind)[:, 0].astype(np.float64)

    def _objects(
        self, spans: npt.NDArray[np.int64], convert: Callable[[bytes], str | Decimal | None]
    ) -> npt.NDArray[np.object_]:
        out = np.empty(len(spans), object)
        data = memoryview(self._data)
        out[:] = [convert(bytes(data[at : at + size])) for at, size in spans.tolist()]
        return out


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _decimal(raw: bytes) -> Decimal:
    return Decimal(f"{int.from_bytes(raw, 'big', signed=True)}E-{DECIMAL_SCALE}")


def file_keys(files: Sequence[BaseFile]) -> list[str]:
    """The part of the records' keys that names each file; the same for all columns."""
    return [file_key(file.partition_path, file.name) for file in files]


def read_ranges(
    shards: Sequence[Shard], column: str, files: Sequence[BaseFile], keys: Sequence[str]
) -> ColumnRanges:
    """Look up the records of a column.

    Args:
        shards: the file groups of the column_stats partition.
        column: the column's name.
        files: base files.
        keys: what `file_keys` gives for them.

    Raises:
        CorruptFileError: a file of the partition is damaged. A record that cannot be read is taken
            for none.
    """
    start = column_id(column)
    rows, values = _look_up(shards, pa.array([start + key for key in keys], pa.string()))
    return _ranges(rows, values, column, files)


def live_keys(shards: Sequence[Shard], keys: Sequence[str]) -> list[str]:
    """The keys that have a record which can be read and is not deleted.

    Args:
        shards: the file groups of the column_stats partition.
        keys: of records.

    Raises:
        CorruptFileError: a file of the partition is damaged.
    """
    rows, values = _look_up(shards, pa.array(keys, pa.string()))
    good, fields = read_records(values, _SHAPE)
    return [keys[row] for row in rows[good & (fields[:, _DELETED, 1] == 0)]]


def _look_up(
    shards: Sequence[Shard], wanted: pa.Array
) -> tuple[npt.NDArray[np.int64], pa.BinaryArray]:
    """The places of the keys that have a record, and these records."""
    rows, values = [np.empty(0, np.int64)], [pa.array([], pa.binary())]
    for shard, mine in zip(shards, split_by_shard(wanted, len(shards)), strict=True):
        if len(mine):
            hits, found = shard.lookup(wanted.take(pa.array(mine)))
            rows.append(mine[hits])
            values.append(found)
    return np.concatenate(rows), pa.concat_arrays(values)


def decode_ranges(values: pa.Array, column: str, files: Sequence[BaseFile]) -> ColumnRanges:
    """What records of a column say, in the order of their files.

    Args:
        values: a record for each file.
        column: the column's name.
        files: base files.
    """
    return _ranges(np.arange(len(files)), values, column, files)


def range_texts(values: pa.Array, name: str) -> pa.Array:
    """The ends of the ranges in records, as texts.

    Args:
        values: records of any files and columns.
        name: the file they come from, for errors.

    Returns:
        Of binary: texts and byte strings as they are, whole numbers, days and microseconds in
        decimal digits. Other types and absent ends are left out.

    Raises:
        CorruptFileError: a value is no such record.
    """
    good, fields = read_records(values, _SHAPE)
    if not good.all():
        detail = f"{int((~good).sum())} records are no column statistics"
        raise CorruptFileError(name, 0, detail)
    data = memoryview(cast("Any", string_buffers(values)[1]))
    texts = []
    for wrapper, at, size in fields[:, (_LOW, _HIGH)].reshape(-1, 3).tolist():
        if wrapper in (Wrapper.STRING, Wrapper.BYTES):
            texts.append(bytes(data[at : at + size]))
        elif wrapper in _WHOLE_NUMBERS:
            texts.append(b"%d" % at)
    return pa.array(texts, pa.binary())


def _ranges(
    rows: npt.NDArray[np.int64], values: pa.Array, column: str, files: Sequence[BaseFile]
) -> ColumnRanges:
    """Arrange the records of the files at `rows`."""
    good, fields = read_records(values, _SHAPE)
    _, data = string_buffers(values)
    good &= fields[:, _DELETED, 1] == 0
    good[good] &= _named(data, fields[good], column, [files[row].name for row in rows[good]])
    rows, fields = rows[good], fields[good]
    found = np.zeros(len(files), bool)
    found[rows] = True
    spread = np.zeros((len(files), *fields.shape[1:]), np.int64)
    spread[rows] = fields
    same = spread[:, _LOW, 0] == spread[:, _HIGH, 0]
    counts = np.where(
        spread[:, _VALUES : _NULLS + 1, 0] == 1, spread[:, _VALUES : _NULLS + 1, 1], -1
    )
    return ColumnRanges(
        found=found,
        wrappers=np.where(same, spread[:, _LOW, 0], 0),
        nulls=counts[:, 1],
        values=counts[:, 0],
        _low=spread[:, _LOW, 1:],
        _high=spread[:, _HIGH, 1:],
        _data=data,
    )


def _named(
    data: Any, fields: npt.NDArray[np.int64], column: str, names: Sequence[str]
) -> npt.NDArray[np.bool_]:
    """Whether each record says that it is of that column and of its file."""
    text = memoryview(data)
    expected = column.encode()
    spans = fields[:, (_FILE, _COLUMN), 1:].reshape(-1, 4).tolist()
    return np.array(
        [
            text[at : at + size] == name.encode() and text[of : of + length] == expected
            for (at, size, of, length), name in zip(spans, names, strict=True)
        ],
        bool,
    )
