"""A field's part of the partition path: its value as text, escaped and named as the table says.

Null and empty are `__HIVE_DEFAULT_PARTITION__`; url encoding escapes what a path cannot hold; hive
style puts `field=` before.
Source: KeyGenUtils.getPartitionPath, PartitionPathEncodeUtils of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.keygen.texts import texts_of

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = {chr(code): f"%{code:02X}" for code in (*range(1, 0x20), 0x7F, *b"\"#%'*/:=?\\{[]^")}

Segment = Callable[[pa.Table | pa.RecordBatch], pa.Array]
"""Gives a part of each row's path for a batch, without nulls"""


@dataclass(frozen=True, slots=True)
class PathStyle:
    """How a value becomes a part of a path."""

    hive_style: bool
    url_encode: bool

    def escaped(self, value: str) -> str:
        """A value as a path can hold it."""
        if self.url_encode:
            return "".join(_ESCAPED.get(char, char) for char in value)
        return value

    def named(self, field: str, values: pa.Array) -> pa.Array:
        """Values with the field's name, in hive style."""
        return pc.binary_join_element_wise(f"{field}=", values, "") if self.hive_style else values


@dataclass(frozen=True, slots=True)
class SimpleSegment:
    """The value itself."""

    field: str
    style: PathStyle

    def __call__(self, batch: pa.Table | pa.RecordBatch) -> pa.Array:
        """The part of each row's path."""
        texts = texts_of(batch, self.field, "partition").dictionary_encode()
        values = [self.style.escaped(v) or DEFAULT_PARTITION for v in texts.dictionary.to_pylist()]
        encoded = pa.array(values, pa.string()).take(texts.indices)
        return self.style.named(self.field, pc.fill_null(encoded, DEFAULT_PARTITION))
