"""What users hand in as rows, brought to Arrow: frames, Arrow tables, lists of dicts."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import pyarrow as pa

from keymark.table.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    Rows: TypeAlias = (
        DataFrame | pa.Table | pa.RecordBatch | pd.DataFrame | Sequence[Mapping[str, Any]]
    )
    """What is taken as rows; a list holds a mapping a row."""

    Keys: TypeAlias = Rows | pa.Array | pa.ChunkedArray | Iterable[object]
    """Encoded keys, values of the key column, or rows with the key columns."""


def is_frame(rows: object) -> TypeGuard[DataFrame]:
    """Whether the value is a Spark DataFrame, classic or Connect."""
    return hasattr(rows, "sparkSession") and hasattr(rows, "schema")


def is_rows(rows: object) -> TypeGuard[pa.Table | Sequence[Mapping[str, Any]]]:
    """Whether the value is rows with named columns, other than a Spark DataFrame."""
    if isinstance(rows, list | tuple):
        return bool(rows) and all(isinstance(row, Mapping) for row in rows)
    return isinstance(rows, pa.Table | pa.RecordBatch) or is_pandas(rows)


def is_pandas(rows: object) -> TypeGuard[pd.DataFrame]:
    """Whether the value is a DataFrame of pandas, which itself is slow to import."""
    return type(rows).__module__.startswith("pandas.") and type(rows).__name__ == "DataFrame"


def to_arrow(rows: object, known: pa.Schema | None = None) -> pa.Table:
    """Rows as a table; a Spark DataFrame is collected once, in the order of its partitions.

    Args:
        rows: `Rows`.
        known: columns of the table; pandas holds integers with nulls as floats, they tell.

    Raises:
        InputError: these are no rows, or a column has no one type.
    """
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if is_rows(rows):
        return _of_pandas(rows, known) if is_pandas(rows) else _of_mappings(rows)
    if not is_frame(rows):
        raise InputError(
            "rows must be a Spark or pandas DataFrame, a pyarrow Table or a list of dicts, "
            f"not {type(rows).__name__}"
        )
    collect = getattr(rows, "toArrow", None)  # PySpark 4
    if collect is not None:
        return collect()
    batches = rows._collect_as_arrow()  # noqa: SLF001  the only way to Arrow in PySpark 3.5
    return pa.Table.from_batches(batches, batches[0].schema if batches else arrow_schema(rows))


def _of_pandas(rows: pd.DataFrame, known: pa.Schema | None) -> pa.Table:
    arrays = []
    for number, name in enumerate(rows.columns):
        column, kind = rows.iloc[:, number], None
        if column.dtype.kind == "f" and known is not None and name in known.names:
            kind = known.field(name).type
            kind = kind if pa.types.is_integer(kind) else None
        arrays.append(as_array(column, name, kind))
    return pa.Table.from_arrays(arrays, [str(name) for name in rows.columns])


def _of_mappings(rows: Sequence[Mapping[str, object]]) -> pa.Table:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table({name: as_array([row.get(name) for row in rows], name) for name in names})


def as_array(
    values: Sequence[object] | pd.Series, name: object, kind: pa.DataType | None = None
) -> pa.Array:
    """A list or a pandas Series, in which NaN is null."""
    try:
        return pa.array(values, kind)
    except UnicodeError as error:
        raise InputError(f"column {str(name)!r} holds a text that is not valid Unicode") from error
    except (pa.ArrowException, OverflowError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"column {str(name)!r} has no one type: {reason}") from error


def arrow_schema(rows: object) -> pa.Schema:
    """The schema of a Spark DataFrame, an Arrow table or a batch."""
    return arrow_of(rows.schema) if is_frame(rows) else to_arrow(rows).schema


def arrow_of(columns: StructType) -> pa.Schema:
    """The Arrow schema of columns of Spark's."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415  only for frames

    # PySpark 3.5 assumes the time zone, 4 asks for it.
    has_timezone = "timezone" in inspect.signature(to_arrow_schema).parameters
    return to_arrow_schema(columns, **({"timezone": "UTC"} if has_timezone else {}))
