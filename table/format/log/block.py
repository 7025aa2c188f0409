"""The blocks of a Hudi log file: kinds and header keys. See `docs/formats/log_file.md`.

Ordinals are those of HoodieLogBlock.HoodieLogBlockType and HeaderMetadataType.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from keymark.table.errors import CorruptFileError
from keymark.table.storage.storage import RangeReader

MAGIC = b"#HUDI#"
FORMAT_VERSION = 1
ROLLBACK_COMMAND = "0"
"""Value of COMMAND_BLOCK_TYPE: remove the blocks of TARGET_INSTANT_TIME."""


class BlockType(IntEnum):
    """What a block's content is."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


class HeaderKey(IntEnum):
    """Names of header entries."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBlock:
    """One block, its content still in the file.

    Attributes:
        type: what the content is.
        headers: by ordinal; those without a HeaderKey are kept (Hudi 1.x has more).
        content_offset: where the content starts in the file.
        content_length: its bytes.
        source: the file.
    """

    type: BlockType
    headers: Mapping[int, str]
    content_offset: int
    content_length: int
    source: RangeReader

    @property
    def instant_time(self) -> str:
        """The instant that wrote the block.

        Raises:
            CorruptFileError: the header does not name one.
        """
        instant = self.headers.get(HeaderKey.INSTANT_TIME)
        if not instant:
            detail = f"a {self.type.name} block without INSTANT_TIME"
            raise CorruptFileError(self.source.name, self.content_offset, detail)
        return instant

    def content(self) -> bytes:
        """Read the content."""
        content = self.source.read(self.content_offset, self.content_length)
        if len(content) != self.content_length:
            detail = f"{self.content_length} bytes expected, {len(content)} could be read"
            raise CorruptFileError(self.source.name, self.content_offset, detail)
        return content
