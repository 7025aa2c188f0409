"""The copy of a table under test has the index under test and no other."""

from __future__ import annotations

from collections.abc import Mapping

from keymark import Table
from keymark.indexes.installed import measured_specs


def drop_other_indexes(table: str, index: str, options: Mapping[str, str]) -> None:
    """Drop what other indexes keep in the metadata table: writes would keep it up to date.

    Args:
        table: path or URL of the copy.
        index: name of the index under test.
        options: of the connection.

    Raises:
        TableError: the table cannot be opened or changed.
    """
    opened = Table.open(table, options=options)
    others = {spec.metadata_partition for spec in measured_specs().values()}
    others.discard(measured_specs()[index].metadata_partition)
    for partition in opened.config.metadata_partitions:
        if partition in others:
            opened.drop_index(partition)
