"""Pages of indices into a dictionary that is there, for values that it holds.

    page    [uint32 LE n | n bytes of definition levels] width (1 byte) | indices of so many bits

Levels and indices are a bit-packed run each: varint (groups << 1 | 1), then as many groups of
eight values, least bit first. Columns that may hold nulls have levels, 1 for a value and 0 for a
null, which has no index.
Source: the encodings of Apache Parquet (RLE/bit-packing hybrid, dictionary encoding).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.format.parquet.plain_strings import strings_of_page
from keymark.table.format.parquet.thrift import I32, STRUCT
from keymark.table.format.parquet.thrift_scan import integer, raw_struct, varint

_DATA_PAGE, _RLE = 0, 3
_GROUP = 8


def dictionary_values(page: bytes, count: int, kind: pa.DataType) -> pa.Array | None:
    """The values of a dictionary page; None where columns of that type are not read here.

    Args:
        page: the page, not compressed.
        count: how many values it has.
        kind: of the column.
    """
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        texts = strings_of_page(page, count)
        return None if texts is None else texts.view(kind)
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if not (numbers or pa.types.is_date32(kind) or pa.types.is_timestamp(kind)):
        return None
    # Arrow stores shorter numbers as 32 bits.
    if kind.bit_width not in (32, 64) or len(page) != count * kind.bit_width // 8:
        return None
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(page)])


def index_page(values: pa.Array, dictionary: pa.Array, *, nullable: bool) -> bytes | None:
    """A page of the indices of values; None where the dictionary does not hold them all.

    Args:
        values: of the page.
        dictionary: without nulls.
        nullable: whether the column has levels.
    """
    if pa.types.is_floating(values.type):
        # By their bits: zeros differ in sign.
        bits = pa.int64() if values.type.bit_width == 64 else pa.int32()
        values, dictionary = values.view(bits), dictionary.view(bits)
    found = pc.index_in(values, value_set=dictionary)
    if found.null_count != values.null_count:
        return None
    levels = b""
    if nullable:
        run = _packed(values.is_valid().to_numpy(zero_copy_only=False).astype(np.int64), 1)
        levels = len(run).to_bytes(4, "little") + run
    width = max(1, (len(dictionary) - 1).bit_length())
    indices = found.drop_null().to_numpy().astype(np.int64)
    return levels + bytes([width]) + _packed(indices, width)


def page_header(values: int, encoding: int, *, uncompressed: int, compressed: int) -> bytes:
    """The header of a data page of version 1.

    Args:
        values: how many the page has, nulls included.
        encoding: its number.
        uncompressed: bytes of the page.
        compressed: bytes of the page as it lies in the file.
    """
    told = {1: values, 2: encoding, 3: _RLE, 4: _RLE}
    data = raw_struct({number: (I32, integer(value)) for number, value in told.items()})
    sizes = {1: _DATA_PAGE, 2: uncompressed, 3: compressed}
    fields = {number: (I32, integer(value)) for number, value in sizes.items()}
    return raw_struct({**fields, 5: (STRUCT, data)})


def _packed(numbers: npt.NDArray[np.int64], width: int) -> bytes:
    """A bit-packed run of numbers of so many bits each; nothing for no numbers."""
    if not len(numbers):
        return b""
    groups = -(-len(numbers) // _GROUP)
    bits = np.zeros((groups * _GROUP, width), np.uint8)
    bits[: len(numbers)] = numbers[:, None] >> np.arange(width) & 1
    return varint(groups << 1 | 1) + np.packbits(bits.ravel(), bitorder="little").tobytes()
