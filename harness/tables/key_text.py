"""Record keys as texts, spelled by the harness itself: what a run is verified against.

The rules are those of Hudi's SimpleKeyGenerator and ComplexKeyGenerator (KeyGenUtils): one field is
its text; several are `name:text`, joined by commas, where null is `__null__` and empty `__empty__`.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_NULL, _EMPTY = "__null__", "__empty__"


def encode_keys(columns: pa.Table) -> pa.Array:
    """The record keys of rows, as text.

    Args:
        columns: the key columns and no others, in the order of the record key.
    """
    texts = [column.cast(pa.string()).combine_chunks() for column in columns.columns]
    if len(texts) == 1:
        return texts[0]
    shown = [pc.fill_null(pc.if_else(pc.equal(text, ""), _EMPTY, text), _NULL) for text in texts]
    parts = [
        pc.binary_join_element_wise(pa.scalar(name), text, ":")
        for name, text in zip(columns.column_names, shown, strict=True)
    ]
    return pc.binary_join_element_wise(*parts, ",")
