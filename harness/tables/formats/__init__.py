"""Tables of Delta and Iceberg, read from their files alone: neither Spark nor the formats' code.

What a run is verified against must not come from what is under test, so logs, manifests and deletes
are decoded here, by the published specifications.
"""

from __future__ import annotations

from pathlib import Path

from keymark.harness.tables.formats import delta_log, iceberg_files
from keymark.harness.tables.formats.model import FormatFacts, FormatFile, TableReader

READERS: tuple[TableReader, ...] = (delta_log.DeltaReader(), iceberg_files.IcebergReader())


def reader_of(table: Path) -> TableReader | None:
    """What reads a table; None for a table of Hudi's."""
    return next((each for each in READERS if each.is_of(table)), None)


__all__ = ["READERS", "FormatFacts", "FormatFile", "TableReader", "reader_of"]
