"""What a table holds and answers, as a dict: the rules of design and Hudi without any file.

The model shares no code with the package: keys and partition paths are spelled anew.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field

ESCAPED = set("\"#%'*/:=?\\{[]^") | {chr(code) for code in range(1, 32)} | {chr(127)}


@dataclass(frozen=True)
class Rules:
    record_key: tuple
    partition: tuple = ()
    is_global: bool = True
    moves: bool = False
    event_time: bool = False
    hive: bool = False
    encode: bool = False

    def key(self, row):
        if len(self.record_key) == 1:
            return text(row[self.record_key[0]])
        return ",".join(f"{name}:{part(row[name])}" for name in self.record_key)

    def path(self, row):
        parts = []
        for name in self.partition:
            value = text(row[name]) or "__HIVE_DEFAULT_PARTITION__"
            if self.encode:
                value = "".join(f"%{ord(c):02X}" if c in ESCAPED else c for c in value)
            parts.append(f"{name}={value}" if self.hive else value)
        return "/".join(parts)

    def identity(self, row):
        return self.key(row) if self.is_global else (self.path(row), self.key(row))


def order(row):
    """A missing ordering value comes before all others."""
    return (row["ts"] is not None, row["ts"] or 0)


def part(value):
    shown = text(value)
    return "__null__" if shown is None else shown or "__empty__"


def text(value):
    if isinstance(value, dt.datetime):
        since = value - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        return str(since // dt.timedelta(microseconds=1))
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


COUNTS = ("inserted", "updated", "deleted", "moved", "unchanged")


@dataclass
class TableModel:
    """identity -> (partition path of the file group, row)."""

    rules: Rules
    rows: dict = field(default_factory=dict)

    def upsert(self, batch):
        counts = dict.fromkeys(COUNTS, 0)
        for identity, row in self._combined(batch).items():
            counts[self._put(identity, row)] += 1
        return counts

    def insert(self, batch, policy):
        """None where the batch is refused."""
        single = self._combined(batch)
        known = self.rows.keys() & single.keys()
        if policy == "fail" and (known or len(single) < len(batch)):
            return None
        fresh = [row for identity, row in single.items() if identity not in known]
        counts = self.upsert(fresh)
        counts["unchanged"] += len(known)
        return counts

    def delete(self, identities):
        counts = dict.fromkeys(COUNTS, 0)
        for identity in set(identities):
            counts["deleted" if self.rows.pop(identity, None) else "unchanged"] += 1
        return counts

    def _combined(self, batch):
        single = {}
        for row in batch:
            identity = self.rules.identity(row)
            known = single.get(identity)
            if known is None or order(row) >= order(known):
                single[identity] = row
        return single

    def _put(self, identity, row):
        stored = self.rows.get(identity)
        gone = row.get("_hoodie_is_deleted")
        if stored is None:
            if gone:
                return "unchanged"
            self.rows[identity] = (self.rules.path(row), row)
            return "inserted"
        if self.rules.event_time and stored[1]["ts"] > row["ts"]:
            return "unchanged"
        if gone:
            del self.rows[identity]
            return "deleted"
        moved = self.rules.moves and self.rules.path(row) != stored[0]
        self.rows[identity] = (self.rules.path(row) if moved else stored[0], row)
        return "moved" if moved else "updated"

    def contents(self):
        """Sorted (record key, partition path, data values)."""
        return sorted((self.rules.key(row), path, values(row)) for path, row in self.rows.values())


def values(row):
    """A row's data as comparable text, in the order of its column names."""
    return tuple(f"{n}={text(row[n])!r}" for n in sorted(row) if not n.startswith("_hoodie_"))
