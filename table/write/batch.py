"""A batch of incoming rows: keyed, checked and combined to one row per key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.errors import InputError
from keymark.table.format.schema import conform, without_meta
from keymark.table.keygen import partition_paths, record_keys
from keymark.table.properties.config import TableConfig

DELETED_COLUMN = "_hoodie_is_deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows with their keys.

    Attributes:
        keys: one per row.
        partitions: the partition path of each row.
        deletes: whether each row takes its key away.
        rows: the data columns; None for a delete by keys.
    """

    keys: pa.Array
    partitions: pa.Array
    deletes: npt.NDArray[np.bool_]
    rows: pa.Table | None

    @classmethod
    def of_deletes(cls, keys: pa.Array, partitions: pa.Array | None) -> Batch:
        """A batch that takes all its keys away; partition paths are null where none are known."""
        deletes = np.ones(len(keys), bool)
        paths = pa.nulls(len(keys), pa.string()) if partitions is None else partitions
        return cls(keys=keys, partitions=paths, deletes=deletes, rows=None)

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: npt.NDArray[np.int64 | np.uint64]) -> Batch:
        """The rows of those numbers, in that order."""
        indices = pa.array(rows, pa.int64())
        return Batch(
            keys=self.keys.take(indices),
            partitions=self.partitions.take(indices),
            deletes=self.deletes[rows],
            rows=None if self.rows is None else self.rows.take(indices),
        )

    def ordering(self, config: TableConfig) -> Any:
        """The ordering values (pa.Array), or None."""
        if config.ordering is None or self.rows is None:
            return None
        return self.rows[config.ordering].combine_chunks()


def check_fields(rows: pa.Table, config: TableConfig) -> None:
    """Refuse rows without the columns that keys and order are made of."""
    roles = [("record key", config.record_key), ("partition", config.partition_fields)]
    if config.ordering is not None:
        roles.append(("ordering", (config.ordering,)))
    for role, fields in roles:
        for name in fields:
            if name not in rows.column_names:
                raise InputError(f"{role} field {name} is not a column of the input")
            kind = rows.schema.field(name).type
            if role == "ordering" and pa.types.is_nested(kind):
                raise InputError(f"ordering field {name} of type {kind} has no order")
    if len(config.record_key) == 1 and rows[config.record_key[0]].null_count:
        row = pc.index(pc.is_null(rows[config.record_key[0]]), value=True).as_py()
        raise InputError(f"record key field {config.record_key[0]} is null in row {row}")


@contextmanager
def counted_from(part: int, first: int, *, path: str = "") -> Iterator[None]:
    """Let an error that names one of some rows say what the number of the row is counted from.

    Args:
        part: number of the Spark partition that the rows are from; an Arrow table is one.
        first: number of the first of the rows in the part.
        path: if not empty, only rows of this partition path are counted.
    """
    try:
        yield
    except InputError as error:
        if not (part or first or path) or " row " not in str(error):
            raise
        of = f"those of partition path {path} in " if path else ""
        text = f"{error}, counted from row {first} of {of}part {part} of the rows"
        raise InputError(text) from error


def delete_flags(rows: pa.Table) -> Any:
    """For each row (bool): the column `_hoodie_is_deleted` says that the row takes its key away."""
    if DELETED_COLUMN not in rows.column_names:
        return np.zeros(rows.num_rows, bool)
    flags = rows[DELETED_COLUMN]
    if pa.types.is_null(flags.type):
        # As lists of dicts and files of text have it where no row says anything.
        flags = flags.cast(pa.bool_())
    if not pa.types.is_boolean(flags.type):
        raise InputError(f"column {DELETED_COLUMN} must be boolean, not {flags.type}")
    return pc.fill_null(flags, fill_value=False).to_numpy()


def in_table_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Incoming rows in a table's schema: without meta columns and delete flags."""
    extra = [c for c in without_meta(rows.schema).names if c != DELETED_COLUMN]
    if len(set(extra)) < len(extra):
        name = next(c for c in extra if extra.count(c) > 1)
        raise InputError(f"the incoming rows have more than one column {name!r}")
    chosen = rows.select(extra)
    if DELETED_COLUMN in schema.names:
        chosen = chosen.append_column(DELETED_COLUMN, pa.array(delete_flags(rows)))
    return conform(chosen, schema, "the incoming rows")


def keyed(
    rows: pa.Table,
    config: TableConfig,
    deletes: npt.NDArray[np.bool_],
    keys: pa.Array | None = None,
) -> Batch:
    """Rows with their record keys and partition paths.

    Args:
        rows: the rows, in the table's schema.
        config: the table.
        deletes: whether each row takes its key away.
        keys: the record keys where their columns do not make them.
    """
    return Batch(
        keys=record_keys(rows, config) if keys is None else keys,
        partitions=partition_paths(rows, config),
        deletes=deletes,
        rows=rows,
    )


def combine(batch: Batch, config: TableConfig, *, is_global: bool) -> Batch:
    """One row per key: the highest ordering value, on a tie the row later in the input.

    With a partition-local index a key counts once per partition path.
    """
    identity = {"key": batch.keys}
    if not is_global:
        identity["partition"] = batch.partitions
    last = _greatest(identity, np.arange(len(batch)))
    if len(last) == len(batch):
        return batch
    ordering = batch.ordering(config)
    if ordering is not None:
        # Stable: of equal values the row later in the input comes last.
        order = pc.array_sort_indices(ordering, null_placement="at_start").to_numpy()
        places = np.empty(len(batch), np.int64)
        places[order] = np.arange(len(batch))
        last = order[_greatest(identity, places)]
    return batch.take(np.sort(last))


def _greatest(
    identity: dict[str, pa.Array], places: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """The greatest place of each key; keys are hashed, so one that comes often costs the same."""
    rows = pa.table({**identity, "place": places})
    greatest = rows.group_by(list(identity)).aggregate([("place", "max")])["place_max"]
    return np.asarray(greatest.to_numpy())
