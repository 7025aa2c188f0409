"""Apache Hudi tables: formats, timeline, metadata table, transaction, reader, writer."""

from keymark.table.errors import TableError
from keymark.table.layout.model import CommitResult
from keymark.table.table import Table

__all__ = ["CommitResult", "Table", "TableError"]
