"""The dialects of the formats, by the names of their engines."""

from __future__ import annotations

from keymark.harness.engines.delta.dialect import DeltaDialect
from keymark.harness.engines.format_dialect import Dialect
from keymark.harness.engines.formats import format_name
from keymark.harness.engines.iceberg.dialect import IcebergDialect
from keymark.harness.errors import CellError

_DIALECTS: dict[str, Dialect] = {"delta": DeltaDialect(), "iceberg": IcebergDialect()}


def dialect_of(engine: str) -> Dialect:
    """The dialect of an engine.

    Raises:
        CellError: it is no engine of another format.
    """
    named = format_name(engine)
    if named is None:
        raise CellError(f"{engine} is no engine of another format")
    return _DIALECTS[named.release.name]
