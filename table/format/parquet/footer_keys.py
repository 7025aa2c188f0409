"""What the footer of a base file says about its keys, without Arrow's reading of all else in it."""

from __future__ import annotations

from dataclasses import dataclass

from keymark.table.errors import CorruptFileError
from keymark.table.format.bloom.filter import SIMPLE
from keymark.table.format.parquet.base_file import (
    BLOOM_ENTRY,
    BLOOM_TYPE_ENTRY,
    MAX_KEY,
    MIN_KEY,
    OLD_BLOOM_ENTRY,
    read_footer,
)
from keymark.table.format.parquet.footer_check import check_footer
from keymark.table.format.parquet.footer_entries import footer_entries
from keymark.table.format.parquet.footer_place import find_footer
from keymark.table.storage.storage import RangeReader


@dataclass(frozen=True, slots=True)
class FooterKeys:
    """Bloom filter and key range of a base file, None where the footer has none."""

    bloom_text: bytes | None
    bloom_type: str
    min_key: str | None
    max_key: str | None


def read_footer_keys(source: RangeReader, *, bloom: bool = True) -> FooterKeys:
    """Read bloom filter and key range.

    Args:
        source: the file.
        bloom: whether the filter is wanted, which is nearly all of the footer.

    Raises:
        CorruptFileError: no Parquet file, a damaged footer, or that of another file.
    """
    offset, length = find_footer(source)
    footer = source.read(offset, length)
    check_footer(footer, source.name, offset)
    found = footer_entries(footer)
    if found is None:
        known = read_footer(source)
        return FooterKeys(known.bloom_text, known.bloom_type, known.min_key, known.max_key)
    named = BLOOM_ENTRY if BLOOM_ENTRY in found else OLD_BLOOM_ENTRY
    try:
        low, high = found.get(MIN_KEY), found.get(MAX_KEY)
        return FooterKeys(
            bloom_text=found.get(named) if bloom else None,
            bloom_type=(found.get(BLOOM_TYPE_ENTRY) or SIMPLE.encode()).decode(),
            min_key=None if low is None else low.decode(),
            max_key=None if high is None else high.decode(),
        )
    except UnicodeDecodeError as error:
        raise CorruptFileError(source.name, source.size, f"damaged footer: {error}") from error
