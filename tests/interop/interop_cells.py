"""The cells of the interop suite: index, keys, services, operation, Hudi; and their rows.

Sixteen cells hold every pair of choices of two factors (an orthogonal array over GF(4)); the share
that CI runs takes each with one Hudi, the full suite with both.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hudi_judge import VERSIONS, texts
from table_cases import SMALL_BLOOMS

from keymark import Table

INDEXES = ("record", "global_simple", "global_bloom", "bucket")
LOCAL_INDEXES = ("bucket", "simple", "bloom", "partitioned_record")
KEYS = ("simple", "composite_hive", "non_partitioned", "unicode")
SERVICES = ("maintained", "taken_back", "built", "purged")
OPERATIONS = ("delete", "insert", "bulk_insert", "delete_flag")
FACTORS = (INDEXES, KEYS, SERVICES, OPERATIONS, VERSIONS)

HIVE = {
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.partitionpath.urlencode": "true",
}
OPTIONS = {
    **SMALL_BLOOMS,
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.metadata.record.index.max.filegroup.count": "2",
    "hoodie.parquet.small.file.limit": "0",
    # So small that batches leave some pages alone, which are copied.
    "keymark.parquet.page.rows": "4",
}
INDEX_OPTIONS = {
    "record": {"hoodie.record.index.update.partition.path": "true"},
    "global_simple": {"hoodie.simple.index.update.partition.path": "true"},
    "global_bloom": {"hoodie.bloom.index.update.partition.path": "true"},
    "bucket": {"hoodie.bucket.index.num.buckets": "3"},
    "simple": {},
    "bloom": {},
    "partitioned_record": {},
    "compact": {"hoodie.simple.index.update.partition.path": "true"},
}
PARTITIONS = {
    "simple": ["2024/01/30", "2024/01/31", "2024/02/01"],
    "composite_hive": ["a b", "c=d/é%", "plain"],
    "non_partitioned": ["x"],
    "unicode": ["ü 😀", "Ключ", "plain"],
}
DELETED = "_hoodie_is_deleted"
SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("n", pa.int64()),
        ("p", pa.string()),
        ("ts", pa.int64()),
        ("text", pa.string()),
        ("fare", pa.float64()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(10, 2)),
        ("tags", pa.list_(pa.int32())),
        (DELETED, pa.bool_()),
    ]
)
_EPOCH = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Cell:
    """One table and what happens to it."""

    index: str
    keys: str
    services: str
    operation: str

    def __str__(self) -> str:
        return f"{self.index}-{self.keys}-{self.services}-{self.operation}"

    @property
    def moves(self) -> bool:
        """Whether a row can move to another partition."""
        return self.index not in LOCAL_INDEXES and self.keys != "non_partitioned"

    @property
    def record_key(self) -> list[str]:
        return ["k", "n"] if self.keys == "composite_hive" else ["k"]

    @property
    def options(self) -> dict[str, str]:
        """What every handle on the table is given."""
        styled = HIVE if self.keys == "composite_hive" else {}
        return {**OPTIONS, **INDEX_OPTIONS[self.index], **styled}

    def create(self, root: Path) -> Table:
        """The empty table."""
        return Table.create(
            str(root),
            name="interop",
            record_key=self.record_key,
            partition_path=None if self.keys == "non_partitioned" else "p",
            ordering="ts",
            index=self.index,
            options=self.options,
        )

    def key(self, row: Mapping[str, Any]) -> str:
        """The encoded record key of a row."""
        if len(self.record_key) == 1:
            return str(row["k"])
        return ",".join(f"{name}:{row[name]}" for name in self.record_key)

    def row(self, number: int, ts: int, *, shift: int = 0, deleted: bool = False) -> dict[str, Any]:
        """The row of a number; `shift` moves it to another partition."""
        paths = PARTITIONS[self.keys]
        text = f"key-{number:04d}"
        if self.keys == "unicode":
            # Hudi 0.15 and 1.x put keys with colons into different buckets: see test_buckets.
            colon = "" if self.index == "bucket" else ":"
            text = f"ключ{colon}键/😀,{number} é&%=.|~"
        return {
            "k": text,
            "n": number % 7,
            "p": paths[(number + shift) % len(paths)],
            "ts": ts,
            "text": None if number % 5 == 0 else f"v{ts} of {number} ü",
            "fare": number / 3 - ts,
            "day": dt.date(1969, 12, 30) + dt.timedelta(days=number),
            "at": _EPOCH + dt.timedelta(microseconds=number * 1_000_003 + ts),
            "price": Decimal(number * ts - 50) / 4,
            "tags": None if number % 3 == 0 else [number, ts],
            DELETED: deleted,
        }


def all_cells() -> dict[Cell, str]:
    """The sixteen cells and those below, each with the Hudi that the share runs it with."""
    found = dict(_MORE)
    for a in range(4):
        for b in range(4):
            at = [a, b, a ^ b, a ^ _twice(b), a ^ b ^ _twice(b)]
            names = [factor[i % len(factor)] for factor, i in zip(FACTORS, at, strict=True)]
            found[Cell(*names[:4])] = names[4]
    return found


# The indexes that are global otherwise, looking in one partition only; and Keymark's own.
_MORE = {
    Cell("compact", "composite_hive", "purged", "delete"): VERSIONS[0],
    Cell("compact", "unicode", "taken_back", "bulk_insert"): VERSIONS[1],
    Cell("simple", "composite_hive", "taken_back", "insert"): VERSIONS[0],
    Cell("simple", "non_partitioned", "built", "bulk_insert"): VERSIONS[1],
    Cell("bloom", "unicode", "purged", "delete_flag"): VERSIONS[1],
    Cell("bloom", "simple", "maintained", "delete"): VERSIONS[0],
}


def shared(shares: Mapping[Any, str]) -> list[Any]:
    """Parameters of a test, each with the Hudi that the share runs it with."""
    return [
        pytest.param(value, marks=pytest.mark.share(version), id=getattr(value, "__name__", None))
        for value, version in shares.items()
    ]


def _twice(x: int) -> int:
    """x times 2 in GF(4)."""
    return (0, 2, 3, 1)[x]


def frame(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Rows as a table."""
    return pa.Table.from_pylist(list(rows), SCHEMA)


@dataclass
class Ledger:
    """The rows that a table must hold, by key."""

    cell: Cell
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)

    def put(self, numbers: Iterable[int], ts: int, *, shift: int = 0) -> pa.Table:
        """Rows that are written; moves need a global index."""
        rows = [self.cell.row(number, ts, shift=shift) for number in numbers]
        self.rows |= {self.cell.key(row): row for row in rows}
        return frame(rows)

    def drop(self, numbers: Iterable[int], *, flagged: int = 0) -> pa.Table:
        """Rows that are deleted; with `flagged` as an ordering value, by their flag."""
        rows = [self.cell.row(number, flagged, deleted=bool(flagged)) for number in numbers]
        for row in rows:
            stored = self.rows.pop(self.cell.key(row), None)
            row["p"] = row["p"] if stored is None else stored["p"]
        return frame(rows)

    def wanted(self) -> dict[str, str]:
        """The rows as `by_key` tells them."""
        return dict(zip(self.rows, texts(frame(self.rows.values())), strict=True))
