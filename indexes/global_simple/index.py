"""The global simple index: the simple index with one key space for the whole table.

Source: HoodieGlobalSimpleIndex of Hudi 0.15.
"""

from __future__ import annotations

from typing import ClassVar

from keymark.indexes.global_simple.spec import SPEC
from keymark.indexes.simple.index import SimpleIndex
from keymark.indexes.spec import IndexSpec


class GlobalSimpleIndex(SimpleIndex):
    """Global and exact; needs nothing but the base files."""

    spec: ClassVar[IndexSpec] = SPEC
    name: ClassVar[str] = SPEC.name
    is_global: ClassVar[bool] = True
