"""A write whose rows stay on storage and in tasks, from its prepared rows to its commit."""

from __future__ import annotations

from keymark.table.layout.model import CommitResult
from keymark.table.properties.options import DUP_POLICY
from keymark.table.write.large.groups import write_groups
from keymark.table.write.large.parts import KeyRule, refuse_known, sorted_parts
from keymark.table.write.large.place import placed_groups, without_stale_moves
from keymark.table.write.large.prepare import SpooledRows
from keymark.table.write.transaction import WriteTransaction


def write_large(tx: WriteTransaction, rows: SpooledRows, rule: KeyRule) -> CommitResult:
    """Upsert, insert or delete a spooled batch: the same result as a collected one has."""
    with tx.phase("tag"):
        parts = sorted_parts(tx, rows, rule)
        if rule is KeyRule.NEW:
            refuse_known(parts, tx.options.text(DUP_POLICY))
    with tx.phase("place"):
        parts = without_stale_moves(tx, rows, parts)
        groups = placed_groups(tx, rows, parts)
    with tx.phase("write"):
        written = write_groups(tx, rows, groups, rule)
    counts = written.count(sum(part.incoming for part in parts))
    return tx.commit(written.results, written.changes(), counts)
