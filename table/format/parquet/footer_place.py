"""Where the footer of a Parquet file is.

    ... | footer (Thrift) | length of the footer, uint32 LE | "PAR1" |

Source: the file format of Apache Parquet.
"""

from __future__ import annotations

import struct

from keymark.table.errors import CorruptFileError
from keymark.table.storage.storage import RangeReader

_MAGIC = b"PAR1"
_TAIL_BYTES = 8


def find_footer(source: RangeReader) -> tuple[int, int]:
    """Offset and length of a file's footer, in bytes.

    Raises:
        CorruptFileError: no Parquet file, or shorter than its footer.
    """
    end = source.size - _TAIL_BYTES
    tail = source.read(max(0, end), _TAIL_BYTES)
    if end < len(_MAGIC) or len(tail) != _TAIL_BYTES or tail[4:] != _MAGIC:
        raise CorruptFileError(source.name, max(0, end), "no Parquet magic at the end")
    (length,) = struct.unpack_from("<I", tail)
    if length > end - len(_MAGIC):
        raise CorruptFileError(source.name, end, f"footer of {length} bytes in a smaller file")
    return end - length, length
