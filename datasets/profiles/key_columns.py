"""The aggregates of key columns: one pass over a table's rows, as SQL for Spark."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from keymark.datasets.columns.kind import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_UUID = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
_HEX = "^([0-9a-f]+|[0-9A-F]+)$"
_ALIKE = "^(Aa|BB)+$"
_HEAD = "trim(trailing '0123456789' from {text})"
_DIGITS_MAX = 18  # which a bigint holds
_ALIKE_CODE, _HEX_CODE = 1, 2
_META = "_hoodie_"


def aggregate(df: DataFrame, record_key: Sequence[str], roles: Collection[str]) -> dict[str, Any]:
    """One pass over the rows: everything that an aggregate without a shuffle can tell.

    What is aggregated is projected before, where Spark compiles it.

    Args:
        df: the rows.
        record_key: key columns; of the n-th, aggregates are named `k<n>_<what>`.
        roles: columns that do not count into `other_bytes`.
    """
    places = range(len(record_key))
    projected = df.selectExpr(
        *(f"{quoted(name)} as k{i}_value" for i, name in enumerate(record_key)),
        *(f"cast({quoted(name)} as string) as k{i}_text" for i, name in enumerate(record_key)),
        f"{_other_bytes(df, roles)} as other_bytes",
    ).selectExpr("*", *(f"{_HEAD.format(text=f'k{i}_text')} as k{i}_head" for i in places))
    tails = (f"substr(k{i}_text, length(k{i}_head) + 1) as k{i}_tail" for i in places)
    staged = projected.selectExpr("*", *tails).selectExpr(
        "*", *(part for i in places for part in _measures(f"k{i}"))
    )
    wanted = [part for place in places for part in _aggregates(f"k{place}")]
    if len(places) > 1:  # of one column, the keys are counted anyway
        wanted += [f"approx_count_distinct(k{i}_value) as k{i}_distinct" for i in places]
    row = staged.selectExpr(*wanted, "avg(other_bytes) as other_bytes").collect()[0]
    return dict(row.asDict())


def _measures(key: str) -> list[str]:
    """What is taken of each row of a key column, beside its text and the digits at its end."""
    text, tail = f"{key}_text", f"{key}_tail"
    measures = {
        "size": f"length({text})",
        "octets": f"octet_length({text})",
        "digits": f"length({tail})",
        "zero": f"{tail} like '0_%'",
        "number": f"if(length({tail}) between 1 and {_DIGITS_MAX}, cast({tail} as bigint), null)",
        "code": f"case when {text} rlike '{_UUID}' then ascii(substr({text}, 15, 1)) "
        f"when {text} rlike '{_ALIKE}' then {_ALIKE_CODE} when {text} rlike '{_HEX}' "
        f"then {_HEX_CODE} else 0 end",
    }
    return [f"{expression} as {key}_{name}" for name, expression in measures.items()]


def _aggregates(key: str) -> list[str]:
    """The aggregates of one key column, named `<key>_<what>`."""
    wanted = {
        "rows": f"count({key}_text)",
        "min": f"min({key}_size)",
        "mean": f"avg({key}_size)",
        "max": f"max({key}_size)",
        "bytes": f"avg({key}_octets)",
        "low": f"min({key}_text)",
        "high": f"max({key}_text)",
        "first_head": f"min({key}_head)",
        "last_head": f"max({key}_head)",
        "digits_min": f"min({key}_digits)",
        "digits_max": f"max({key}_digits)",
        "padded": f"count_if({key}_zero)",
        "number_min": f"min({key}_number)",
        "number_max": f"max({key}_number)",
        "value_min": f"min({key}_value)",
        "value_max": f"max({key}_value)",
        "uuids": f"count_if({key}_code between {ord('0')} and {ord('f')})",
        "uuid4": f"count_if({key}_code = {ord('4')})",
        "uuid7": f"count_if({key}_code = {ord('7')})",
        "hexes": f"count_if({key}_code = {_HEX_CODE})",
        "alike": f"count_if({key}_code = {_ALIKE_CODE})",
    }
    return [f"{expression} as {key}_{name}" for name, expression in wanted.items()]


def _other_bytes(df: DataFrame, roles: Collection[str]) -> str:
    """Bytes of the values of a row that are neither key, partition nor ordering, as text."""
    parts = ["0L"]
    for name, kind in df.dtypes:
        if name in roles or name.startswith(_META):
            continue
        nested = kind.startswith(("array", "map", "struct"))
        text = f"to_json({quoted(name)})" if nested else f"cast({quoted(name)} as string)"
        parts.append(f"coalesce(octet_length({text}), 0)")
    return " + ".join(parts)
