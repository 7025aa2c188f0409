"""Upsert, insert and delete, each from its first step to its last.

    batch -> tag (index) -> place (moves, new rows) -> write file groups -> index changes -> commit

Rows that are too many for this process stay on storage and in tasks (`large/`).

Each is one transaction: it holds the table's lease from beginning to end, and a failure takes back
what it did. The steps are in `stages.py`, the transaction in `transaction.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from keymark.table.errors import InputError
from keymark.table.index.protocol import load_index
from keymark.table.layout.model import CommitResult
from keymark.table.properties.options import DUP_POLICY
from keymark.table.rows.arrow import arrow_schema
from keymark.table.rows.keys import NamedKeys
from keymark.table.write.batch import Batch
from keymark.table.write.large.client import write_large
from keymark.table.write.large.parts import KeyRule
from keymark.table.write.large.prepare import SpooledRows
from keymark.table.write.stages import (
    count,
    index_changes,
    keyed_rows,
    keys_to_delete,
    one_row_a_key,
    place,
    place_as_new,
    tag,
    without_known,
    write_files,
)
from keymark.table.write.transaction import begin
from keymark.table.write.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def upsert(writer: Writer, rows: DataFrame | pa.Table) -> CommitResult:
    """Insert rows with new keys, merge the others with their stored rows."""
    with begin(writer, "UPSERT", arrow_schema(rows)) as tx:
        incoming = keyed_rows(tx, rows)
        if isinstance(incoming, SpooledRows):
            return write_large(tx, incoming, KeyRule.MERGE)
        batch = one_row_a_key(tx, incoming)
        tags = tag(tx, batch)
        placed = place(tx, batch, tags, exact=tx.index.is_exact)
        files = write_files(tx, placed)
        changes = index_changes(placed, files, is_global=tx.index.is_global)
        counts = count(placed, files, incoming=len(batch))
        return tx.commit(files.results, changes, counts)


def insert(writer: Writer, rows: DataFrame | pa.Table) -> CommitResult:
    """Add rows; hoodie.datasource.insert.dup.policy decides about keys that exist."""
    policy = writer.options.text(DUP_POLICY)
    with begin(writer, "INSERT", arrow_schema(rows)) as tx:
        batch = keyed_rows(tx, rows, new=True)
        # A key that was generated a moment ago is nowhere else.
        appends = policy == "none" or tx.config.generates_keys
        if isinstance(batch, SpooledRows):
            return write_large(tx, batch, KeyRule.APPEND if appends else KeyRule.NEW)
        if appends:
            placed = place_as_new(tx, batch.take(np.flatnonzero(~batch.deletes)))
        else:
            repeated = len(batch)
            batch = one_row_a_key(tx, batch)
            repeated -= len(batch)
            fresh, tags = without_known(tx, batch, policy, repeated=repeated)
            placed = place(tx, fresh, tags, exact=tx.index.is_exact)
        files = write_files(tx, placed)
        changes = index_changes(placed, files, is_global=tx.index.is_global)
        counts = count(placed, files, incoming=len(batch))
        return tx.commit(files.results, changes, counts)


def delete(writer: Writer, keys: NamedKeys) -> CommitResult:
    """Delete keys; a partition-local index needs their partition paths."""
    if not keys.placed and not load_index(writer.index).is_global:
        raise InputError(
            f"delete on a table with the {writer.index} index needs the partition columns"
        )
    with begin(writer, "DELETE", None) as tx:
        incoming = keys_to_delete(tx, keys)
        if isinstance(incoming, SpooledRows):
            return write_large(tx, incoming, KeyRule.MERGE)
        batch = one_row_a_key(tx, incoming)
        tags = tag(tx, batch)
        placed = place(tx, batch, tags, exact=tx.index.is_exact)
        files = write_files(tx, placed)
        changes = index_changes(placed, files, is_global=tx.index.is_global)
        counts = count(placed, files, incoming=len(batch))
        return tx.commit(files.results, changes, counts)


def delete_found(writer: Writer, found: pa.Table) -> CommitResult:
    """Delete keys where a search of the files found them, whatever the index says.

    The files are written whole, also where no row of theirs has the key: a trace of it goes.

    Args:
        writer: the table.
        found: key, partition_path, file_id: string, distinct rows; a key may be in
            several places.
    """
    batch = Batch.of_deletes(
        found["key"].combine_chunks(), found["partition_path"].combine_chunks()
    )
    with begin(writer, "DELETE", None) as tx:
        placed = place(tx, batch, found, exact=False)
        files = write_files(tx, placed, whole=True)
        changes = index_changes(placed, files, is_global=tx.index.is_global)
        counts = count(placed, files, incoming=len(batch))
        return tx.commit(files.results, changes, counts)
