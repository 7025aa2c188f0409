"""What a generated table is like, and its steps, as a seed draws them; nothing is run here."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from table_cases import EVENT_TIME, PAYLOAD, SMALL_BLOOMS

from keymark import Table

# Index -> what Hudi is told.
INDEX_TYPES = {
    "record": "RECORD_INDEX",
    "global_simple": "GLOBAL_SIMPLE",
    "global_bloom": "GLOBAL_BLOOM",
    "bucket": "BUCKET",
    "compact": "GLOBAL_SIMPLE",
    "partitioned_record": "SIMPLE",
}
# Those that Hudi does not know: Keymark makes their tables.
OWN = ("compact", "partitioned_record")
# Those that look for a key in one partition.
LOCAL = ("bucket", "partitioned_record")
MOVES = {
    "record": "hoodie.record.index.update.partition.path",
    "global_simple": "hoodie.simple.index.update.partition.path",
    "global_bloom": "hoodie.bloom.index.update.partition.path",
    "compact": "hoodie.simple.index.update.partition.path",
}
GENERATORS = {
    (False, False): "org.apache.hudi.keygen.SimpleKeyGenerator",
    (True, False): "org.apache.hudi.keygen.ComplexKeyGenerator",
    (False, True): "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    (True, True): "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
}
NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
LETTERS = "abcXYZ019 .-_,;&%=|~é ü Ключ 键 😀"
# A write makes some 30 calls that change storage; one that is to die later goes through.
CALLS_MAX = 40
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
    """Columns that get secondary indexes and lose them: all have one if Keymark makes the table."""

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
            index=rng.choice(["record", "record", "record", *INDEX_TYPES, *OWN]),
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
        """Options that Keymark is given."""
        options = dict(self.options)
        if self.index in OWN:
            # Its own name is in hoodie.properties, beside the one that Hudi is told.
            del options["hoodie.index.type"]
        # Its record index may have been dropped.
        fallback = {"keymark.index.fallback": "global_bloom"} if self.index == "record" else {}
        return options | fallback

    @property
    def options(self) -> dict[str, str]:
        """Options of both writers."""
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
        """What hoodie.properties will say about a table that Hudi makes."""
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
        """A row of that number: its key, with a local index its partition too, follow from it."""
        name = random.Random(number)
        place = name if self.index in LOCAL else rng
        # Hudi's reader takes `a=b` for hive style where it is not encoded.
        encoded = dict(self.settings)["hoodie.datasource.write.partitionpath.urlencode"] == "true"
        # Releases of Hudi differ on the buckets of such keys: see test_buckets.py.
        colon, comma = ("", "") if self.index == "bucket" else (":", ",")
        row = {
            "k": f"{name.choice(['a', 'é', '😀', 'x/y', f'b{colon}c', f'd{comma}e'])}{number}",
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
        columns = ",".join(self.secondary)
        secondary = {"keymark.secondary.columns": columns} if columns else {}
        return Table.create(
            str(root),
            name="drawn",
            record_key=list(self.keys),
            partition_path=list(self.partitions),
            ordering="ts",
            index=self.index,
            options=self.own_options | secondary,
        )

    @property
    def services(self) -> list[str]:
        """What Keymark does between writes; those that change an index are there more often."""
        services = ["compact", "clean", "archive", "back"]
        services += 3 * ["secondary"] if self.secondary else []
        # Without the record index Hudi moves rows that are to stay: test_limits.py.
        drops = self.index in OWN or (self.index == "record" and self.moves)
        services += 3 * ["index"] if drops else []
        if self.index == "record":
            services += ["hashes", "hashes", "reshard", "reshard", "begin reshard"]
        return services


@dataclass(frozen=True)
class Step:
    """One step of a table.

    Attributes:
        writer: `keymark` or `hudi`.
        operation: a write or a service of Keymark's.
        seed: of all that the step chooses: rows, a column, a number of shards.
        dies: the call that changes storage before which Keymark is killed; 0 if it is not.
        recovers: Keymark takes back what its death left; otherwise who writes next.
        compares: afterwards all is compared.
    """

    writer: str
    operation: str
    seed: str
    dies: int = 0
    recovers: bool = False
    compares: bool = False


def draw(seed: str) -> tuple[Drawn, list[Step]]:
    """What the table of a seed is like, and its steps: Keymark and Hudi write by turns."""
    rng = random.Random(seed)
    drawn = Drawn.draw(rng)
    writers = ["keymark", "hudi"]
    rng.shuffle(writers)
    first = [name for name in drawn.operations(writers[0]) if name != "delete"]
    steps = [Step(writers[0], rng.choice(first), f"{seed}/0")]

    def of_keymark(operation: str) -> Step:
        # Going back is several steps in one, of which the model knows the end only.
        dies = operation != "back" and rng.random() < 0.25
        return Step(
            writer="keymark",
            operation=operation,
            seed=f"{seed}/{rng.getrandbits(64)}",
            dies=rng.randint(1, CALLS_MAX) if dies else 0,
            recovers=rng.random() < 0.4,
        )

    count = rng.choice([3, 4, 5])
    for number in range(1, count + 1):
        writer = writers[number % 2]
        operation = rng.choice(drawn.operations(writer))
        if writer == "keymark":
            steps.append(of_keymark(operation))
        else:
            steps.append(Step(writer, operation, f"{seed}/{rng.getrandbits(64)}"))
        steps += [of_keymark(rng.choice(drawn.services)) for _ in range(rng.choice([0, 0, 1, 2]))]
        if number in (count // 2, count):
            steps[-1] = replace(steps[-1], compares=True)
    return drawn, steps
