"""A dict to compare a table with: what the table is like, and what rows it must hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from table_cases import EVENT_TIME, MOVES, PAYLOAD, SMALL_BLOOMS

from keymark import Table

KEYS = ["a", "b", "ä", "Ключ", "😀x", "with space", "c,d", "e:f", "g/h", "i", "j", "__null__"]
DELETED = "_hoodie_is_deleted"


@dataclass(frozen=True)
class Shape:
    """What the table is like."""

    composite: bool
    partitions: int
    event_time: bool
    moves: bool
    ordering: bool
    max_file: str
    small_limit: str
    shards: str
    hive_style: bool
    index: str = "record"

    @property
    def record_key(self) -> list[str]:
        return ["k", "n"] if self.composite else ["k"]

    @property
    def partition_fields(self) -> list[str]:
        return ["p", "q"][: self.partitions]

    @property
    def options(self) -> dict[str, str]:
        return {
            **SMALL_BLOOMS,
            MOVES: str(self.moves).lower(),
            "hoodie.parquet.max.file.size": self.max_file,
            "hoodie.parquet.small.file.limit": self.small_limit,
            "hoodie.datasource.write.hive_style_partitioning": str(self.hive_style).lower(),
            **({PAYLOAD: EVENT_TIME} if self.event_time else {}),
        }

    def create(self, path: Path) -> Table:
        groups = "hoodie.metadata.record.index.{}.filegroup.count"
        counts = {groups.format(end): self.shards for end in ("min", "max")}
        return Table.create(
            str(path),
            name="t",
            record_key=self.record_key,
            partition_path=self.partition_fields,
            ordering="ts" if self.ordering else None,
            index=self.index,
            options={**self.options, **counts},
        )

    def key(self, row: dict[str, Any]) -> str:
        """The encoded record key of a row."""
        if not self.composite:
            return row["k"]
        number = "__null__" if row["n"] is None else str(row["n"])
        return f"k:{row['k']},n:{number}"

    def path(self, row: dict[str, Any]) -> str:
        """The partition path of a row."""
        values = {name: row[name] or "__HIVE_DEFAULT_PARTITION__" for name in self.partition_fields}
        return "/".join(f"{n}={v}" if self.hive_style else v for n, v in values.items())


@dataclass
class Model:
    """The rows that the table must hold, by encoded key, and where they are."""

    shape: Shape
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)

    def newest(self, batch: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """One row per key: the highest ts, on a tie the later one."""
        chosen: dict[str, dict[str, Any]] = {}
        for row in batch:
            known = chosen.get(self.shape.key(row))
            if known is None or not self.shape.ordering or row["ts"] >= known["ts"]:
                chosen[self.shape.key(row)] = row
        return chosen

    def upsert(self, batch: list[dict[str, Any]]) -> dict[str, int]:
        counts = dict.fromkeys(("inserted", "updated", "deleted", "moved", "unchanged"), 0)
        for key, row in self.newest(batch).items():
            counts[self._merge(key, row)] += 1
        return counts

    def _merge(self, key: str, row: dict[str, Any]) -> str:
        stored = self.rows.get(key)
        older = stored is not None and self.shape.event_time and stored["ts"] > row["ts"]
        if older or (stored is None and row[DELETED]):
            return "unchanged"
        if row[DELETED]:
            del self.rows[key], self.paths[key]
            return "deleted"
        self.rows[key] = row
        path = self.shape.path(row)
        if stored is None:
            self.paths[key] = path
            return "inserted"
        if self.shape.moves and path != self.paths[key]:
            self.paths[key] = path
            return "moved"
        return "updated"

    def insert(self, batch: list[dict[str, Any]]) -> dict[str, int]:
        """Only what is not there; with policy fail nothing of the batch may be there."""
        fresh = {k: r for k, r in self.newest(batch).items() if k not in self.rows}
        counts = self.upsert(list(fresh.values()))
        counts["unchanged"] += len(self.newest(batch)) - len(fresh)
        return counts

    def delete(self, batch: list[dict[str, Any]]) -> dict[str, int]:
        keys = {self.shape.key(row) for row in batch}
        gone = keys & self.rows.keys()
        for key in gone:
            del self.rows[key], self.paths[key]
        return {"deleted": len(gone), "unchanged": len(keys) - len(gone)}

    def clashes(self, batch: list[dict[str, Any]]) -> bool:
        keys = [self.shape.key(row) for row in batch]
        return len(set(keys)) < len(keys) or bool(set(keys) & self.rows.keys())


def frame(batch: list[dict[str, Any]], *, flags: bool) -> pa.Table:
    schema = [("k", pa.string()), ("n", pa.int32()), ("p", pa.string()), ("q", pa.string())]
    schema += [("ts", pa.int64()), ("v", pa.int64()), *([(DELETED, pa.bool_())] if flags else [])]
    return pa.Table.from_pylist(batch, schema=pa.schema(schema))
