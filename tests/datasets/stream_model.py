"""A table as a dictionary: what batches and deletes must leave, row by row."""

from __future__ import annotations

import pyarrow as pa

from keymark.datasets.generate.digest import Truth, digest_arrow


class TableModel:
    """Rows by record key."""

    def __init__(self, load: pa.Table, key: tuple[str, ...], ordering: str = "ts") -> None:
        self.schema = load.schema
        self.key = key
        self.ordering = ordering
        self.rows = {self.key_of(row): row for row in load.to_pylist(maps_as_pydicts=None)}
        assert len(self.rows) == load.num_rows

    def key_of(self, row: dict) -> tuple:
        return tuple(row[name] for name in self.key)

    def upsert(self, batch: pa.Table) -> tuple[int, int]:
        """Apply a batch, the greatest ordering value first; return (updates, inserts)."""
        before = dict(self.rows)
        for row in batch.to_pylist(maps_as_pydicts=None):
            stored = self.rows.get(self.key_of(row))
            if stored is None or stored[self.ordering] < row[self.ordering]:
                self.rows[self.key_of(row)] = row
        inserts = len(self.rows.keys() - before.keys())
        updates = sum(self.rows[key] is not row for key, row in before.items())
        return updates, inserts

    def delete(self, gone: pa.Table) -> None:
        for row in gone.to_pylist():
            del self.rows[self.key_of(row)]

    def copy(self) -> TableModel:
        other = TableModel(self.schema.empty_table(), self.key, self.ordering)
        other.rows = dict(self.rows)
        return other

    @property
    def truth(self) -> Truth:
        return digest_arrow(pa.Table.from_pylist(list(self.rows.values()), self.schema))
