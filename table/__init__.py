"""Apache Hudi tables: formats, timeline, metadata table, transaction, reader, writer."""

from table.errors import TableError
from table.model import CommitResult
from table.table import Table

__all__ = ["CommitResult", "Table", "TableError"]
