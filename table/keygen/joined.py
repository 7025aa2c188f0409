"""Keys that are the values of their fields, joined by a text of the user's.

The virtual-keys proposal joins so; no generator of Hudi does. A value that holds the text could
make the key of another row, and is refused. So is one with whose end the text begins before the
value is over: by `--`, `a-` and `b` would make the key of `a` and `-b`.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.errors import InvalidOptionError
from keymark.table.keygen.definition import KeyDefinition
from keymark.table.keygen.paths import PathStyle, SimpleSegment
from keymark.table.keygen.record_key import refuse_rows
from keymark.table.keygen.texts import texts_of


class JoinedKeys:
    """Keys `v1<concatenator>v2`; paths as the simple and complex generators make them.

    Implements table.keygen.custom.KeyGenerator.
    """

    def __init__(self, definition: KeyDefinition) -> None:
        if not definition.concatenator:
            raise InvalidOptionError("the concatenator is empty: it must be a text that joins keys")
        self._fields = definition.record_key
        self._concatenator = definition.concatenator
        style = PathStyle(definition.hive_style, definition.url_encode)
        self._segments = [SimpleSegment(field, style) for field in definition.partition_fields]

    def record_keys(self, batch: pa.Table) -> pa.Array:
        """The record keys; InputError names a row with a null part, or one of another row's key."""
        columns = []
        for field in self._fields:
            texts = texts_of(batch, field, "record key")
            refuse_rows(pc.is_null(texts), f"record key field {field} is null")
            holds = pc.match_substring(texts, self._concatenator)
            fault = f"record key field {field} holds the concatenator {self._concatenator!r}"
            refuse_rows(holds, fault)
            if field != self._fields[-1]:
                refuse_rows(self._begins_early(texts), f"{fault} together with its own end")
            columns.append(texts)
        return pc.binary_join_element_wise(*columns, self._concatenator)

    def _begins_early(self, texts: pa.Array) -> pa.Array:
        """Whether the concatenator behind each text begins within it."""
        followed = pc.binary_join_element_wise(texts, self._concatenator, "")
        place = pc.find_substring(followed, self._concatenator)
        return pc.not_equal(place, pc.binary_length(texts))

    def partition_paths(self, batch: pa.Table) -> pa.Array:
        """The partition paths."""
        parts = [segment(batch) for segment in self._segments]
        return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "/")
