"""The global bloom index: the bloom index with one key space for the whole table.

Source: HoodieGlobalBloomIndex of Hudi 0.15.
"""

from __future__ import annotations

from typing import ClassVar

from keymark.indexes.bloom.index import BloomIndex
from keymark.indexes.global_bloom.spec import SPEC
from keymark.indexes.spec import IndexSpec


class GlobalBloomIndex(BloomIndex):
    """Global and exact; needs nothing but the base files."""

    spec: ClassVar[IndexSpec] = SPEC
    name: ClassVar[str] = SPEC.name
    is_global: ClassVar[bool] = True
