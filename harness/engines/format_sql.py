"""The semantics of a write in SQL, the same for each format.

What Hudi and Keymark do with a batch is said by one MERGE:

    of the batch     one row a key: the greatest ordering value, then the row later in the input
    key is there     the row is replaced, wherever it is; where event time decides, only if the
                     stored row is not newer (a null is newer than nothing)
    key is not there the row is inserted

A row whose partition column changes is deleted in the old partition and written in the new one: to
a format it is an update like any other. The name of a row's file and its place in it say which row
is "later in the input": formats refuse a source that numbers its rows as they are read.
"""

# ruff: noqa: S608 - names are escaped
from __future__ import annotations

from collections.abc import Mapping, Sequence

from keymark.harness.engines.base import Layout
from keymark.harness.sql_text import named, quoted
from keymark.table.properties.options import EVENT_TIME_PAYLOAD, PAYLOAD_CLASS

BATCH = "keymark_batch"
"""View of the rows of a write."""

NUMBERED, FILE, ROW = "keymark_numbered", "keymark_file", "keymark_row"
"""View of the same rows, each with the name of its file and its place in it in these columns."""

ASKED = "keymark_asked"
"""View of the keys of a lookup, in the column `record_key`."""

NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Partition path of a null."""

_RANK = "keymark_rank"


def create(relation: str, layout: Layout, *, source: str, properties: Mapping[str, str]) -> str:
    """Make a table of the rows of the batch.

    Args:
        relation: the table, as SQL names it.
        layout: how its rows are laid out.
        source: name of the format.
        properties: of the table.
    """
    parts = ", ".join(named(column) for column in layout.partition_path)
    clauses = ", ".join(f"{quoted(name)} = {quoted(value)}" for name, value in properties.items())
    words = [f"CREATE TABLE {relation} USING {source}"]
    words += [f"PARTITIONED BY ({parts})"] if parts else []
    words += [f"TBLPROPERTIES ({clauses})", f"AS SELECT * FROM {BATCH}"]
    return " ".join(words)


def upsert(
    relation: str,
    layout: Layout,
    options: Mapping[str, str],
    *,
    partitions: Sequence[Sequence[str | None]] | None = None,
) -> str:
    """Merge the batch into a table.

    Args:
        relation: the table, as SQL names it.
        layout: how its rows are keyed and ordered.
        options: of the cell: its payload class says whether event time decides.
        partitions: in which alone keys are looked for, each the texts of its columns' values; None:
            in all of them.
    """
    by_time = options.get(PAYLOAD_CLASS) == EVENT_TIME_PAYLOAD and layout.ordering
    ordering = named(layout.ordering) if layout.ordering else ""
    guard = f" AND NOT coalesce(t.{ordering} > s.{ordering}, false)" if by_time else ""
    within = "" if partitions is None else _in_partitions(layout, partitions)
    return (
        f"MERGE INTO {relation} AS t USING ({newest(layout)}) AS s ON {_same_key(layout)}{within} "
        f"WHEN MATCHED{guard} THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def delete(relation: str, layout: Layout) -> str:
    """Delete the keys of the batch from a table."""
    keys = ", ".join(named(column) for column in layout.record_key)
    return (
        f"MERGE INTO {relation} AS t USING (SELECT DISTINCT {keys} FROM {BATCH}) AS s "
        f"ON {_same_key(layout)} WHEN MATCHED THEN DELETE"
    )


def newest(layout: Layout) -> str:
    """One row a key of the batch, as a query."""
    keys = ", ".join(named(column) for column in layout.record_key)
    order = [f"{named(layout.ordering)} DESC NULLS LAST"] if layout.ordering else []
    ranked = ", ".join([*order, f"{FILE} DESC", f"{ROW} DESC"])
    return (
        f"SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY {ranked}) "
        f"AS {_RANK} FROM {NUMBERED}) WHERE {_RANK} = 1"
    )


def lookup(relation: str, layout: Layout, *, file_name: str) -> str:
    """The place of each asked key that is there.

    Args:
        relation: the table, as SQL names it.
        layout: how its rows are keyed and laid out.
        file_name: the file of a row, as an expression.
    """
    columns = [*layout.record_key, *layout.partition_path]
    read = ", ".join(dict.fromkeys([*map(named, columns), f"{file_name} AS {FILE}"]))
    single = len(layout.record_key) == 1
    key = f"t.{named(layout.record_key[0])}" if single else key_text(layout.record_key, "t.")
    return (
        f"SELECT a.record_key, {_partition_path(layout)} AS partition_path, t.{FILE} "
        f"FROM (SELECT {read} FROM {relation}) AS t JOIN {ASKED} AS a ON {key} = a.record_key"
    )


def key_text(columns: Sequence[str], prefix: str = "") -> str:
    """The record key of several columns as text; `tables.key_text` has the rule."""
    parts = []
    for column in columns:
        text = f"cast({prefix}{named(column)} AS string)"
        shown = f"CASE WHEN {text} IS NULL THEN '__null__' WHEN {text} = '' THEN '__empty__' "
        parts.append(f"concat({quoted(f'{column}:')}, {shown}ELSE {text} END)")
    return f"concat_ws(',', {', '.join(parts)})"


def _same_key(layout: Layout) -> str:
    """A key of one column has no null; of several, nulls are parts like others."""
    sign = "=" if len(layout.record_key) == 1 else "<=>"
    columns = map(named, layout.record_key)
    return " AND ".join(f"t.{column} {sign} s.{column}" for column in columns)


def partitions(layout: Layout) -> str:
    """The partitions of the batch, as texts, as a query."""
    texts = ", ".join(f"cast({named(column)} AS string)" for column in layout.partition_path)
    return f"SELECT DISTINCT {texts} FROM {BATCH}"


def _in_partitions(layout: Layout, partitions: Sequence[Sequence[str | None]]) -> str:
    """Conditions by which a format leaves out partitions while it plans: on single columns."""
    words = []
    for number, column in enumerate(layout.partition_path):
        name, values = named(column), {part[number] for part in partitions}
        texts = ", ".join(sorted(quoted(value) for value in values if value is not None))
        tests = [f"t.{name} IN ({texts})"] if texts else []
        tests += [f"t.{name} IS NULL"] if None in values else []
        words.append(f" AND t.{name} <=> s.{name} AND ({' OR '.join(tests)})")
    return "".join(words)


def _partition_path(layout: Layout) -> str:
    parts = (f"coalesce(cast(t.{named(column)} AS string), {quoted(NO_PARTITION)})"
             for column in layout.partition_path)  # fmt: skip
    texts = ", ".join(parts)
    return f"concat_ws('/', {texts})" if texts else "''"
