"""Tables drawn from a seed: schema, keys, partitions, and a history of two writers in turns.

Keymark and Hudi write to the table by turns, each on what the other left; either may have made it.
At the end, and once on the way, all must agree: the rows exactly, by both readers, and for each key
the place that Hudi reads from the data with what the record index answers. Keymark gives the record
index other numbers of shards now and then, and keeps secondary indexes, which Hudi does not know.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from hudi_judge import (
    PARTITIONS,
    Hudi,
    by_key,
    findings,
    metadata_partitions,
    options_of,
    texts,
)
from table_cases import EVENT_TIME, PAYLOAD, SMALL_BLOOMS, begin_reshard

from keymark import Table
from keymark.table.metadata.reshard_plan import resharding

INDEX_TYPES = {
    "record": "RECORD_INDEX",
    "global_simple": "GLOBAL_SIMPLE",
    "global_bloom": "GLOBAL_BLOOM",
    "bucket": "BUCKET",
}
MOVES = {
    "record": "hoodie.record.index.update.partition.path",
    "global_simple": "hoodie.simple.index.update.partition.path",
    "global_bloom": "hoodie.bloom.index.update.partition.path",
}
GENERATORS = {
    (False, False): "org.apache.hudi.keygen.SimpleKeyGenerator",
    (True, False): "org.apache.hudi.keygen.ComplexKeyGenerator",
    (False, True): "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    (True, True): "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
}
NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
LETTERS = "abcXYZ019 .-_,;&%=|~é ü Ключ 键 😀"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

Row = dict[str, Any]


def _text(rng: random.Random) -> str:
    length = rng.choice([0, 1, 3, 8, 20, 20, 300])
    return "".join(rng.choice(LETTERS) for _ in range(length))


def _time(rng: random.Random) -> dt.datetime:
    return _EPOCH + dt.timedelta(microseconds=rng.randrange(-(10**15), 4 * 10**15))


# Name -> the Arrow type, and what draws a value of it.
KINDS: dict[str, tuple[Any, Callable[[random.Random], Any]]] = {
    "text": (pa.string(), _text),
    "bytes": (pa.binary(), lambda rng: rng.randbytes(rng.choice([0, 1, 16]))),
    "int": (pa.int32(), lambda rng: rng.choice([0, -(2**31), 2**31 - 1, rng.randrange(1000)])),
    "long": (pa.int64(), lambda rng: rng.choice([0, -(2**63), 2**63 - 1, rng.randrange(10**12)])),
    "float": (pa.float32(), lambda rng: rng.choice([0.0, -0.0, 1.5, float("inf"), 2.0**-20])),
    "double": (pa.float64(), lambda rng: rng.choice([float("nan"), -0.0, rng.random(), 1e300])),
    "bool": (pa.bool_(), lambda rng: rng.random() < 0.5),
    "day": (
        pa.date32(),
        lambda rng: dt.date(1970, 1, 1) + dt.timedelta(rng.randrange(-9999, 9999)),
    ),
    "time": (pa.timestamp("us", "UTC"), _time),
    "money": (pa.decimal128(10, 2), lambda rng: Decimal(rng.randrange(-(10**9), 10**9)) / 100),
    "huge": (pa.decimal128(38, 0), lambda rng: Decimal(rng.randrange(-(10**30), 10**30))),
    "list": (
        pa.list_(pa.int64()),
        lambda rng: [rng.randrange(9) for _ in range(rng.randrange(4))],
    ),
    "struct": (
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        lambda rng: {"a": rng.choice([None, 1]), "b": _text(rng)},
    ),
    "map": (
        pa.map_(pa.string(), pa.int64()),
        lambda rng: [(name, rng.randrange(9)) for name in "xyz"[: rng.randrange(4)]],
    ),
}


# The literal of a value in SQL, for the kinds that get secondary indexes.
LITERALS: dict[str, Callable[[Any], str]] = {
    "text": lambda value: f"'{value}'",
    "int": str,
    "bool": lambda value: str(value).lower(),
    "day": lambda value: f"DATE '{value}'",
}


@dataclass(frozen=True)
class Drawn:
    """What a table is like; drawn from its seed."""

    index: str
    keys: tuple[str, ...]
    partitions: tuple[str, ...]
    columns: tuple[str, ...]
    event_time: bool
    moves: bool
    stats: bool
    settings: tuple[tuple[str, str], ...]
    secondary: tuple[str, ...]

    @classmethod
    def draw(cls, rng: random.Random) -> Drawn:
        composite = rng.random() < 0.35
        partitions = rng.choice([("p",), ("p",), (), ("p", "q") if composite else ("p",)])
        settings = {
            "hoodie.parquet.max.file.size": rng.choice(["125829120", "20000"]),
            "hoodie.parquet.small.file.limit": rng.choice(["0", "104857600"]),
            "hoodie.parquet.compression.codec": rng.choice(["gzip", "snappy", "zstd"]),
            "hoodie.metadata.compact.max.delta.commits": rng.choice(["1", "2", "10"]),
            "hoodie.cleaner.commits.retained": rng.choice(["1", "2", "10"]),
            "hoodie.datasource.write.hive_style_partitioning": rng.choice(["true", "false"]),
            "hoodie.datasource.write.partitionpath.urlencode": rng.choice(["true", "false"]),
            "hoodie.bucket.index.num.buckets": rng.choice(["1", "3"]),
        }
        stats = rng.random() < 0.3
        # The statistics of Hudi 0.15 take no decimal with more than 15 digits before the point.
        kinds = sorted(KINDS.keys() - {"huge"}) if stats else sorted(KINDS)
        shards = rng.choice(["1", "2", "5"])
        settings |= {
            f"hoodie.metadata.record.index.{end}.filegroup.count": shards for end in ("min", "max")
        }
        columns = tuple(rng.choices(kinds, k=rng.randrange(1, 9)))
        named = [f"c{at}_{kind}" for at, kind in enumerate(columns) if kind in LITERALS]
        return cls(
            index=rng.choice(["record", "record", "record", *INDEX_TYPES]),
            keys=("k", "n", "w")[: rng.choice([2, 3])] if composite else (rng.choice("kn"),),
            partitions=partitions,
            columns=columns,
            event_time=rng.random() < 0.3,
            moves=rng.random() < 0.6,
            stats=stats,
            settings=tuple(settings.items()),
            secondary=tuple(named) if rng.random() < 0.6 else (),
        )

    @property
    def own_options(self) -> dict[str, str]:
        """Options that Keymark is given, besides."""
        secondary = ",".join(self.secondary)
        return {**self.options, **({"keymark.secondary.columns": secondary} if secondary else {})}

    @property
    def options(self) -> dict[str, str]:
        """Options that both writers are given."""
        moves = {MOVES[self.index]: str(self.moves).lower()} if self.index in MOVES else {}
        event_time = {PAYLOAD: EVENT_TIME} if self.event_time else {}
        stats = {"hoodie.metadata.index.column.stats.enable": "true"} if self.stats else {}
        settings = dict(self.settings)
        if self.index != "bucket":
            del settings["hoodie.bucket.index.num.buckets"]
        index = {"hoodie.index.type": INDEX_TYPES[self.index]}
        return {**SMALL_BLOOMS, **settings, **index, **moves, **event_time, **stats}

    @property
    def properties(self) -> dict[str, str]:
        """What hoodie.properties will say of a table that Hudi makes."""
        partitions = ["files", "record_index"] if self.index == "record" else ["files"]
        return {
            "hoodie.table.name": "drawn",
            "hoodie.table.recordkey.fields": ",".join(self.keys),
            "hoodie.table.partition.fields": ",".join(self.partitions),
            "hoodie.table.keygenerator.class": GENERATORS[len(self.keys) > 1, not self.partitions],
            "hoodie.table.precombine.field": "ts",
            "hoodie.table.metadata.partitions": ",".join(partitions),
        }

    @property
    def schema(self) -> pa.Schema:
        columns = [(f"c{at}_{kind}", KINDS[kind][0]) for at, kind in enumerate(self.columns)]
        keys = [("k", pa.string()), ("n", pa.int64()), ("w", pa.string())]
        return pa.schema(
            [*keys, ("p", pa.string()), ("q", pa.int32()), ("ts", pa.int64()), *columns]
        )

    def row(self, number: int, rng: random.Random, ts: int) -> Row:
        """A row of that number: its key is a function of it, with buckets its partition, too."""
        name = random.Random(number)
        place = name if self.index == "bucket" else rng
        # Hudi's reader takes `a=b` for hive style where it is not encoded.
        encoded = dict(self.settings)["hoodie.datasource.write.partitionpath.urlencode"] == "true"
        colon = "" if self.index == "bucket" else ":"
        row = {
            "k": f"{name.choice(['a', 'é', '😀', 'x/y', f'b{colon}c', 'd,e'])}{number}",
            "n": number * name.choice([1, 1_000_003]),
            # Without partitions Hudi's bulk insert takes no part of a key that is null or empty.
            "w": name.choice([None, "", "w"] if self.partitions else ["v", "w", "x"]),
            "p": place.choice(["p1", "p 2", "ü😀", None, "a=b/c" if encoded else "a-b"]),
            "q": place.choice([0, 7, None]),
            "ts": ts,
        }
        for at, kind in enumerate(self.columns):
            drawn = KINDS[kind][1](rng)
            row[f"c{at}_{kind}"] = None if rng.random() < 0.15 else drawn
        return row

    def operations(self, writer: str) -> list[str]:
        """What a writer does to the table; those it does most are there twice."""
        operations = ["upsert", "upsert", "insert", "delete", "bulk_insert"]
        # A bulk insert of Hudi's makes second file groups of buckets; ours is refused.
        refused = self.index == "bucket"
        # Hudi 0.15 loses lists that it bulk inserted beside short decimals: see test_limits.py.
        lossy = writer == "hudi" and {"list", "money"} <= set(self.columns)
        if refused or lossy:
            operations.remove("bulk_insert")
        return operations

    def key(self, row: Row) -> str:
        """The encoded record key of a row."""
        if len(self.keys) == 1:
            return str(row[self.keys[0]])
        named = {None: "__null__", "": "__empty__"}
        return ",".join(f"{name}:{named.get(row[name], row[name])}" for name in self.keys)

    def create(self, root: Path) -> Table:
        """The empty table, by Keymark."""
        return Table.create(
            str(root),
            name="drawn",
            record_key=list(self.keys),
            partition_path=list(self.partitions),
            ordering="ts",
            index=self.index,
            options=self.own_options,
        )


@dataclass
class Figures:
    """What was done and compared."""

    tables: int = 0
    rows: int = 0
    keys_in_index: int = 0
    comparisons: int = 0
    secondary: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    shapes: Counter[str] = field(default_factory=Counter)


@dataclass
class Pair:
    """A table that Keymark and Hudi write to by turns, and the rows it must hold.

    `homes` are the partition columns of the partition that a row is in, `writer` who wrote last.
    """

    hudi: Hudi
    root: Path
    drawn: Drawn
    rng: random.Random
    rows: dict[str, Row] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    homes: dict[str, Row] = field(default_factory=dict)
    made: int = 0
    ts: int = 0
    writer: str = ""
    figures: Figures = field(default_factory=Figures)

    def step(self, writer: str, operation: str) -> None:
        """One write."""
        self.ts += 1
        self.writer = writer
        self.figures.steps[f"{writer} {operation}"] += 1
        batch = self._deleted() if operation == "delete" else self._written(operation)
        rows = pa.Table.from_pylist(batch, self.drawn.schema)
        if writer == "hudi":
            self._by_hudi(rows, operation)
        else:
            getattr(self.table(), operation)(rows)

    def _by_hudi(self, rows: pa.Table, operation: str) -> None:
        known = self.drawn.properties
        if (self.root / ".hoodie").exists():
            known[PARTITIONS] = ",".join(metadata_partitions(self.root))
        options = options_of(known, self.hudi.version) | self.drawn.options
        self.hudi.write(self.root, rows, operation, options)

    def table(self) -> Table:
        """The table as Keymark opens it; made if there is none."""
        if not (self.root / ".hoodie").exists():
            return self.drawn.create(self.root)
        return Table.open(str(self.root), options=self.drawn.own_options)

    def serve(self) -> None:
        """One of Keymark's services; one that re-shards goes on with what it began."""
        table = self.table()
        plan = resharding(table.storage)
        names = ["compact", "clean", "archive", "back"]
        if "record_index" in metadata_partitions(self.root):
            names += ["reshard", "reshard", "begin reshard"]
        name = self.rng.choice(names) if plan is None else "reshard"
        self.figures.steps[f"keymark {name}"] += 1
        if name.endswith("reshard"):
            shards = self.rng.choice([1, 2, 3, 4, 7]) if plan is None else plan.after
            if name == "reshard":
                table.reshard_index(shards)
            else:
                begin_reshard(table, shards)
        elif name == "back":
            kept = dict(self.rows), dict(self.numbers), dict(self.homes)
            saved = table.savepoint()
            self.step("keymark", "upsert")
            table.restore(saved)
            table.drop_savepoint(saved)
            self.rows, self.numbers, self.homes = kept
        else:
            getattr(table, name)()

    def _written(self, operation: str) -> list[Row]:
        fresh = range(self.made, self.made + self.rng.randrange(1, 40))
        self.made = fresh.stop
        known = sorted(self.numbers.values()) if operation == "upsert" else []
        chosen = [*fresh, *self.rng.sample(known, min(len(known), self.rng.randrange(30)))]
        rows = []
        for number in chosen:
            ts = self.rng.randrange(6) if self.drawn.event_time else self.ts
            row = self.drawn.row(number, self.rng, ts)
            key = self.drawn.key(row)
            rows.append(row)
            stored = self.rows.get(key)
            if stored is None or row["ts"] >= stored["ts"]:
                self.rows[key], self.numbers[key] = row, number
                home = {name: row[name] for name in self.drawn.partitions}
                self.homes[key] = home if self.drawn.moves else self.homes.get(key, home)
        self.rng.shuffle(rows)
        return rows

    def _deleted(self) -> list[Row]:
        chosen = self.rng.sample(sorted(self.rows), min(len(self.rows), self.rng.randrange(1, 12)))
        for key in chosen:
            del self.numbers[key], self.homes[key]
        return [self.rows.pop(key) for key in chosen]

    def compare(self) -> list[str]:
        """All differences, by both readers."""
        wanted = self._wanted(self.rows)
        # Hudi's Spark reader takes partition columns from the path: where a row stays in its old
        # partition it does not tell the value that the row arrived with.
        read = self._wanted({key: row | self.homes[key] for key, row in self.rows.items()})
        found = findings(self.hudi, self.root, read)
        table = self.table()
        if by_key(pa.concat_tables(table.scan().tables())) != wanted:
            found.append("Keymark reads other rows")
        has_index = "record_index" in metadata_partitions(self.root)
        if has_index or self.drawn.secondary:
            checked = table.check()
            self.figures.keys_in_index += checked.keys if has_index else 0
            found += [] if checked.ok else [f"table check: {checked}"]
        for name in self.drawn.secondary:
            found += self._compare_secondary(table, name)
        self.figures.rows += len(wanted)
        self.figures.comparisons += 1
        return found

    def _compare_secondary(self, table: Table, name: str) -> list[str]:
        """Which files a comparison opens: those with a match; after Hudi's writes others too."""
        value = self.rng.choice([None, *(row[name] for row in self.rows.values())])
        literal = LITERALS[name.partition("_")[2]]
        where = f"{name} IS NULL" if value is None else f"{name} = {literal(value)}"
        plan = table.scan()
        files = zip(plan.files, plan.tables(), strict=True)
        wanted = {file.path for file, rows in files if value in rows[name].to_pylist()}
        opened = {file.path for file in table.files(where)}
        self.figures.secondary += 1
        if wanted <= opened and (opened == wanted or self.writer == "hudi"):
            return []
        return [f"{where}: opens {sorted(opened)}, matches are in {sorted(wanted)}"]

    def _wanted(self, rows: dict[str, Row]) -> dict[str, str]:
        """Rows as `by_key` tells them."""
        table = pa.Table.from_pylist(list(rows.values()), self.drawn.schema)
        return dict(zip(rows, texts(table), strict=True))


def run_table(hudi: Hudi, seed: str, folder: Path) -> tuple[Figures, list[str]]:
    """Make the table of a seed; what was done, and the differences."""
    rng = random.Random(seed)
    drawn = Drawn.draw(rng)
    pair = Pair(hudi=hudi, root=folder / "t", drawn=drawn, rng=rng)
    writers = ["keymark", "hudi"]
    rng.shuffle(writers)
    first = [name for name in drawn.operations(writers[0]) if name != "delete"]
    pair.step(writers[0], rng.choice(first))
    found: list[str] = []
    count = rng.choice([3, 4, 5])
    for number in range(1, count + 1):
        writer = writers[number % 2]
        pair.step(writer, rng.choice(drawn.operations(writer)))
        if rng.random() < 0.4:
            pair.serve()
        if number in (count // 2, count):
            found += [f"after step {number}: {text}" for text in pair.compare()]
    pair.figures.tables = 1
    pair.figures.shapes.update(
        [
            drawn.index,
            f"{len(drawn.keys)} key columns",
            f"{len(drawn.partitions)} partition columns",
            *(["secondary indexes"] if drawn.secondary else []),
        ]
    )
    pair.figures.shapes.update(f"column {kind}" for kind in drawn.columns)
    return pair.figures, found
