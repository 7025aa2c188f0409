"""Dictionary pages that grow, and pages of indices into them.

    page    [uint32 LE n | n bytes of definition levels] width (1 byte) | indices of that many bits

Levels and indices are a bit-packed run each: varint (groups << 1 | 1), then as many groups of
eight values, least bit first. Columns that may hold nulls have levels, 1 for a value and 0 for a
null, which has no index; without nulls the levels are varint (count << 1), 1. Values are added
behind those that are there, whose indices stay.
Source: the encodings of Apache Parquet (RLE/bit-packing hybrid, dictionary encoding).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.format.parquet.plain_strings import strings_of_page
from keymark.table.format.parquet.thrift import I32, STRUCT
from keymark.table.format.parquet.thrift_scan import RawFields, integer, raw_struct, varint

_DATA_PAGE, _DICTIONARY_PAGE, _RLE = 0, 2, 3
_DATA_HEADER, _DICTIONARY_HEADER = 5, 7
_GROUP = 8


def has_known_dictionary(kind: pa.DataType) -> bool:
    """Whether dictionaries of columns of a type are read and written here."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return True
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    # Arrow stores shorter numbers as 32 bits.
    return (numbers and kind.bit_width in (32, 64)) or (
        pa.types.is_date32(kind) or pa.types.is_timestamp(kind)
    )


@dataclass(slots=True)
class Dictionary:
    """The values of a dictionary page.

    Attributes:
        page: the page, not compressed.
        values: floating numbers by their bits, because zeros differ in sign.
        encodings: numbers of those of the page, and of pages of indices into it.
        grown: whether values were added.
    """

    page: bytes
    values: pa.Array
    encodings: tuple[int, int]
    grown: bool = False

    @classmethod
    def of(
        cls, page: bytes, count: int, kind: pa.DataType, encodings: tuple[int, int]
    ) -> Dictionary | None:
        """The dictionary of a page that should have `count` values; None if it has not.

        `has_known_dictionary` is true of the type.
        """
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            texts = strings_of_page(page, count)
            return None if texts is None else cls(page, texts.view(kind), encodings)
        if len(page) != count * kind.bit_width // 8:
            return None
        values = pa.Array.from_buffers(kind, count, [None, pa.py_buffer(page)])
        return cls(page, _comparable(values), encodings)

    def emptied(self) -> Dictionary:
        """One without values, for a chunk of which no page stays."""
        return Dictionary(b"", self.values.slice(0, 0), self.encodings)

    def indices(self, values: pa.Array) -> pa.Array:
        """The index of each value, null for null; values that are not there are added."""
        values = _comparable(values)
        found = pc.index_in(values, value_set=self.values)
        if found.null_count != values.null_count:
            self._add(pc.unique(values.filter(found.is_null())).drop_null())
            found = pc.index_in(values, value_set=self.values)
        return found

    def page_of(self, indices: pa.Array, *, nullable: bool) -> bytes:
        """The page of some indices.

        Args:
            indices: a stretch of those of `indices`.
            nullable: whether the column has levels.
        """
        levels = b""
        if nullable:
            # Where all are values, a run of ones.
            run = varint(len(indices) << 1) + b"\x01"
            if indices.null_count:
                valid = indices.is_valid().to_numpy(zero_copy_only=False)
                run = _packed(valid, 1)
            levels = len(run).to_bytes(4, "little") + run
        width = max(1, (len(self.values) - 1).bit_length())
        numbers = indices.drop_null().to_numpy(zero_copy_only=False)
        return levels + bytes([width]) + _packed(numbers, width)

    def _add(self, values: pa.Array) -> None:
        if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
            texts = values.cast(pa.binary()).to_pylist()
            added = b"".join(len(text).to_bytes(4, "little") + text for text in texts)
        else:
            width = values.type.bit_width // 8
            start = values.offset * width
            added = values.buffers()[1].to_pybytes()[start : start + len(values) * width]
        self.page += added
        self.values = pa.concat_arrays([self.values, values])
        self.grown = True


def _comparable(values: pa.Array) -> pa.Array:
    if not pa.types.is_floating(values.type):
        return values
    return values.view(pa.int64() if values.type.bit_width == 64 else pa.int32())


def index_header(values: int, encoding: int, *, uncompressed: int, compressed: int) -> bytes:
    """The header of a data page of version 1.

    Args:
        values: how many the page has, nulls included.
        encoding: its number.
        uncompressed: bytes of the page.
        compressed: bytes of the page in the file.
    """
    header = _numbers({1: values, 2: encoding, 3: _RLE, 4: _RLE})
    sizes = _numbers({1: _DATA_PAGE, 2: uncompressed, 3: compressed})
    return raw_struct({**sizes, _DATA_HEADER: (STRUCT, raw_struct(header))})


def dictionary_header(dictionary: Dictionary, compressed: int) -> bytes:
    """The header of a dictionary page, by the bytes that the page takes in the file."""
    header = _numbers({1: len(dictionary.values), 2: dictionary.encodings[0]})
    sizes = _numbers({1: _DICTIONARY_PAGE, 2: len(dictionary.page), 3: compressed})
    return raw_struct({**sizes, _DICTIONARY_HEADER: (STRUCT, raw_struct(header))})


def _numbers(values: dict[int, int]) -> RawFields:
    return {number: (I32, integer(value)) for number, value in values.items()}


def _packed(numbers: npt.NDArray[np.generic], width: int) -> bytes:
    """A bit-packed run of numbers of `width` bits each, at most 32; nothing for no numbers."""
    if not len(numbers):
        return b""
    groups = -(-len(numbers) // _GROUP)
    bits = np.zeros((groups * _GROUP, width), np.uint8)
    octets = numbers.astype("<u4").view(np.uint8).reshape(-1, 4)
    bits[: len(numbers)] = np.unpackbits(octets, axis=1, count=width, bitorder="little")
    return varint(groups << 1 | 1) + np.packbits(bits.ravel(), bitorder="little").tobytes()
