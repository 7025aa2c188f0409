"""Tables with column statistics, conditions on them, and the literals of those conditions."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from table_cases import SMALL_BLOOMS, create

STATISTICS = "hoodie.metadata.index.column.stats.enable"
SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("p", pa.string()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("d", pa.float64()),
        ("f", pa.float32()),
        ("s", pa.string()),
        ("t", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("b", pa.bool_()),
        ("dec", pa.decimal128(10, 2)),
        ("big", pa.decimal128(15, 0)),
    ]
)
_TEXTS = [
    *("", "a", "ab", "a\0", "a\0b", "b", "z", "~", "ü", "日本", "a%", "_", "\\", "it's"),
    *("\ud7ff", "\ue000", "\ufffd", "\uffff", "😀", "😀a", "\U0010ffff", "x" * 3000),
]
_DOUBLES = [-math.inf, -1e300, -1.5, -0.0, 0.0, 0.1, 1.5, 2.0, 16777217.0, math.inf, math.nan]
_FLOATS = [-1.5, -0.0, 0.0, 0.1, 1.5, 2.0, 16777216.0, math.inf, math.nan]
_INT, _LONG = (1 << 31) - 1, (1 << 63) - 1
_TIMES = [
    dt.datetime(year, 2, 3, 4, 5, 6, 789, dt.UTC) for year in (1901, 1969, 1971, 1980, 2024, 9999)
]
VALUES: dict[str, list[Any]] = {
    "p": ["p0", "p1", "p2", "P 3"],
    "i": [-_INT - 1, -7, -1, 0, 1, 5, 7, _INT],
    "l": [-_LONG - 1, -7, 0, 1, 5, _INT + 1, _LONG],
    "d": _DOUBLES,
    "f": _FLOATS,
    "s": _TEXTS,
    "t": _TEXTS,
    "day": [dt.date(year, 3, 4) for year in (1601, 1969, 1971, 2024, 9999)],
    "at": _TIMES,
    "b": [False, True],
    "dec": [Decimal(text) for text in ("-99999999.99", "-1.50", "0", "0.1", "1.5", "99999999.99")],
    "big": [Decimal(text) for text in ("-999999999999999", "-1", "0", "2", "999999999999999")],
}
NULLABLE = set(VALUES) - {"p", "t"}

FilesDrawn = list[dict[str, list[Any]]]


@st.composite
def file_rows(draw: Any) -> dict[str, list[Any]]:
    """Columns of one file's rows; each column has few distinct values, so that ranges differ."""
    count = draw(st.integers(1, 4))
    columns = {}
    for name, values in VALUES.items():
        pool = values + [None] * 2 if name in NULLABLE else values
        few = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=2))
        columns[name] = draw(st.lists(st.sampled_from(few), min_size=count, max_size=count))
    columns["p"] = [columns["p"][0]] * count
    return columns


def table_of(number: int, columns: dict[str, list[Any]]) -> pa.Table:
    """The rows of a drawn file, with keys of their own."""
    count = len(columns["p"])
    keys = [f"k{number}-{row}" for row in range(count)]
    return pa.table({"k": keys, **columns}, schema=SCHEMA)


def create_with_statistics(path: Any, **options: str) -> Any:
    """An empty table of k, p and other columns that keeps column statistics."""
    # Every insert opens new files.
    given = {**SMALL_BLOOMS, STATISTICS: "true", "hoodie.parquet.small.file.limit": "0", **options}
    return create(path, given, ordering=None)


def literal(value: Any) -> str:  # noqa: PLR0911  a line per type
    """A value in SQL, in the type that its column has."""
    if isinstance(value, bool) or value is None:
        return str(value).upper() if value is not None else "NULL"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0")
        return f"'{escaped}'"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP'{value:%Y-%m-%d %H:%M:%S.%f}'"
    if isinstance(value, dt.date):
        return f"DATE'{value}'"
    if isinstance(value, Decimal):
        return f"{value:f}BD"
    if isinstance(value, float):
        return f"{value!r}D" if math.isfinite(value) else f"double('{value}')"
    return f"{value}L" if abs(value) > _INT else str(value)


def _spelled(name: str, value: Any) -> st.SearchStrategy[str]:
    """The literal, and other spellings of it that Spark compares with the column."""
    texts = [literal(value)]
    if isinstance(value, float) and math.isfinite(value) and abs(value) < 1e9:
        texts += [f"{value:f}BD", f"{value:f}", f"{int(value)}", f"'{value}'", f"{value!r}F"]
    elif isinstance(value, Decimal):
        texts += [f"{int(value)}L", f"{float(value)!r}D", f"'{value}'", f"{value + Decimal('.05')}"]
    elif isinstance(value, int) and not isinstance(value, bool):
        texts += [f"{value}.5", f"'{value}'", f"{float(value)!r}D", f"{value}.0BD"]
    elif name in ("day", "at"):
        texts += [f"'{value}'", f"CAST('{value}' AS {'DATE' if name == 'day' else 'TIMESTAMP'})"]
    return st.sampled_from(texts)


@st.composite
def comparisons(draw: Any) -> str:  # noqa: PLR0911  a line per kind
    """One test of one column."""
    name = draw(st.sampled_from([*VALUES, "s", "t", "d", "_hoodie_partition_path"]))
    values = VALUES.get(name, ["p0", "p9"])
    value = draw(st.sampled_from(values))
    first = draw(_spelled(name, value))
    kind = draw(st.sampled_from(["compare"] * 5 + ["in", "between", "null", "like", "cast", "not"]))
    if kind == "in":
        listed = [first, *(literal(v) for v in draw(st.lists(st.sampled_from(values), max_size=3)))]
        return f"{name} IN ({', '.join(listed)}{draw(st.sampled_from(['', ', NULL']))})"
    if kind == "between":
        return f"{name} BETWEEN {first} AND {literal(draw(st.sampled_from(values)))}"
    if kind == "null":
        return f"{name} {draw(st.sampled_from(['IS NULL', 'IS NOT NULL', '<=> NULL', '= NULL']))}"
    if kind == "like":
        ends = draw(st.sampled_from(["%", "", "_", "%%", "a%"]))
        return f"{name} LIKE {literal(str(draw(st.sampled_from(_TEXTS[:12])))[:9] + ends)}"
    if kind == "cast":
        return f"CAST({name} AS STRING) = {literal(str(value))}"
    if kind == "not":
        return f"NOT ({name} {draw(st.sampled_from(['=', '<', '<=>']))} {first})"
    op = draw(st.sampled_from(["=", "<=>", "<", "<=", ">", ">=", "<>"]))
    return f"{name} {op} {first}" if draw(st.booleans()) else f"{first} {op} {name}"


conditions = st.recursive(
    comparisons(),
    lambda part: st.tuples(part, st.sampled_from(["AND", "AND", "OR"]), part).map(
        lambda parts: f"({' '.join(parts)})"
    ),
    max_leaves=4,
)
