"""Record keys from key columns.

- plain: the value's text; null or empty is an error;
- named: `f1:v1,f2:v2` in the order of the fields, null as `__null__`, empty as `__empty__`; all of
  them null or empty is an error.

With several fields every generator of Hudi names them. With one field all write it plain, but for
the complex generator: Hudi up to 0.14.0 and from 1.1 on named it, 0.14.1 to 1.0.2 did not.
Source: KeyGenUtils.getRecordKey, ComplexAvroKeyGenerator.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.errors import InputError
from keymark.table.keygen.texts import texts_of

NULL_TEXT, EMPTY_TEXT = "__null__", "__empty__"


def plain_keys(batch: pa.Table, field: str) -> pa.Array:
    """Keys of one field; InputError names field and row."""
    keys = texts_of(batch, field, "record key")
    empty = pc.or_(pc.is_null(keys), pc.fill_null(pc.equal(keys, ""), fill_value=False))
    refuse_rows(empty, f"record key field {field} is null or empty")
    return keys


def named_keys(batch: pa.Table, fields: Sequence[str]) -> pa.Array:
    """Keys of one or more fields; InputError names fields and row."""
    columns = [texts_of(batch, field, "record key") for field in fields]
    blank = [pc.or_kleene(pc.is_null(c), pc.equal(c, "")) for c in columns]
    empty = blank[0]
    for column in blank[1:]:
        empty = pc.and_(empty, column)
    refuse_rows(empty, f"record key field {', '.join(fields)} is null or empty")
    parts = []
    for field, column in zip(fields, columns, strict=True):
        value = pc.fill_null(pc.if_else(pc.equal(column, ""), EMPTY_TEXT, column), NULL_TEXT)
        parts.append(pc.binary_join_element_wise(f"{field}:", value, ""))
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, ",")


def refuse_rows(wrong: pa.Array, fault: str) -> None:
    """InputError with the first row where an array is true."""
    if pc.any(wrong).as_py():
        row = pc.index(wrong, value=True).as_py()
        raise InputError(f"{fault} in row {row} of the input")
