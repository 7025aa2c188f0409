"""Key generators as a user writes them, right ones and wrong ones."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


class Shouted:
    """Keys and paths in capital letters."""

    def __init__(self, definition) -> None:
        (self.field,) = definition.record_key
        (self.partition,) = definition.partition_fields

    def record_keys(self, batch):
        return pc.utf8_upper(_column(batch, self.field))

    def partition_paths(self, batch):
        return pc.utf8_upper(_column(batch, self.partition))


class Halved(Shouted):
    """Forgets rows."""

    def record_keys(self, batch):
        return super().record_keys(batch)[: batch.num_rows // 2]


class Nulled(Shouted):
    """Null for every row."""

    def record_keys(self, batch):
        return pa.nulls(batch.num_rows, pa.string())


class Listed(Shouted):
    """No Arrow array."""

    def partition_paths(self, batch):
        return super().partition_paths(batch).to_pylist()


class Escaping(Shouted):
    """Paths outside the table."""

    def partition_paths(self, batch):
        return pa.array(["../x"] * batch.num_rows)


class KeysOnly:
    """Half a generator."""

    def record_keys(self, batch):
        return _column(batch, "k")


class Broken(Shouted):
    """Cannot be made."""

    def __init__(self, definition) -> None:
        raise ValueError(f"not with {definition.record_key}")


def _column(batch, name):
    return batch[name].combine_chunks()
