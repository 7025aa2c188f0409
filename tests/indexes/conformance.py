"""The conformance suite that every index passes: random histories against the model.

A history is a few writes drawn from a seed. After each one the counts, the rows and the answers of
the table's index (and of every other index that can serve the table) must be the model's.
"""

from __future__ import annotations

import datetime as dt
import decimal
import random
from dataclasses import dataclass, field

import pyarrow as pa
from hudi import HudiTableBuilder
from table_model import COUNTS, Rules, TableModel, values

from keymark import Table
from keymark.table.errors import DuplicateKeyError
from keymark.table.index.protocol import load_index, spec_of
from keymark.table.properties.options import BATCH_COLLECT, EVENT_TIME_PAYLOAD, RECORD_HASHES
from keymark.table.state.table_state import TableState

POLICY = "hoodie.datasource.insert.dup.policy"
# Indexes that look into the metadata table where options say so: name of the case -> index.
BY_METADATA = {"bloom_metadata": "bloom", "global_bloom_metadata": "global_bloom"}
# The record index with hashes of keys beside it, which writes ask.
HASHED = "record_hashed"
METADATA = {
    "hoodie.bloom.index.use.metadata": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
}
# These need nothing but base files, so that they find the keys of every table.
FINDERS = ("simple", "bloom", "global_simple", "global_bloom")
SMALL_FILTERS = {
    "hoodie.index.bloom.num_entries": "40",
    "hoodie.index.bloom.fpp": "0.05",
    "hoodie.bloom.index.filter.dynamic.max.entries": "80",
}
# Astral characters sort after U+FF5E in UTF-8 and before it in UTF-16.
TEXTS = (
    "a", "b", "k-1", "k-2", "0", "-1", "ключ", "\U0001f600", "\U0001f600b", "\uff5e-x", "\ue000",
    "a,b", "a:b", "x:1,y:2", ",", ":", "__null__", "__empty__", " ", "k 1", "%2F", "'q\"", "a/b",
    "tab\t", "line\n", "nul\0x", "polygenelubricants", "z" * 300, "\x7f", "{*}?[x]",
)  # fmt: skip
DATES = ("2024-01-01", "2024-01-02", "2024-01-03")


@dataclass(frozen=True)
class Shape:
    """The key definition of a table and the values it draws from."""

    name: str
    record_key: tuple
    columns: dict
    partition: tuple = ("dt",)
    partition_values: tuple = DATES
    options: dict = field(default_factory=dict)

    @property
    def schema(self):
        data = {**{name: kind for name, (kind, _) in self.columns.items()}}
        for name in self.partition or ("dt",):
            data[name] = pa.string()
        return pa.schema([*data.items(), ("ts", pa.int64()), ("v", pa.string())])

    def rules(self, index, *, moves, event_time):
        return Rules(
            record_key=self.record_key,
            partition=self.partition,
            is_global=spec_of(index).is_global,
            moves=moves and spec_of(index).move_option is not None,
            event_time=event_time,
            hive=self.options.get("hoodie.datasource.write.hive_style_partitioning") == "true",
            encode=self.options.get("hoodie.datasource.write.partitionpath.urlencode") == "true",
        )


ZONED = pa.timestamp("us", "UTC")
MIDNIGHT = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
HIVE = {"hoodie.datasource.write.hive_style_partitioning": "true"}
ENCODED = {**HIVE, "hoodie.datasource.write.partitionpath.urlencode": "true"}
SHAPES = (
    Shape("text", ("id",), {"id": (pa.string(), TEXTS)}),
    Shape(
        "composite",
        ("a", "b"),
        {"a": (pa.string(), (*TEXTS[:14], "", None)), "b": (pa.int32(), (1, -2, 3))},
        partition=("dt", "city"),
        partition_values=("x", "ü €", "", None),
    ),
    Shape("no_partition", ("id",), {"id": (pa.string(), TEXTS)}, partition=()),
    Shape(
        "encoded",
        ("id",),
        {"id": (pa.int64(), (0, -1, 7, 1 << 40, -(1 << 63), (1 << 63) - 1))},
        partition_values=("a/b", "1=2", "u v", "x%2Fy", "", None, "*?[{"),
        options=ENCODED,
    ),
    Shape(
        "nested",
        ("id",),
        {"id": (pa.date32(), tuple(dt.date(2024, 2, day) for day in range(1, 20)))},
        partition_values=("a/b", "a/c", "d", "{e}*"),
        options=HIVE,
    ),
    Shape(
        "typed",
        ("n", "at"),
        {
            "n": (pa.decimal128(10, 2), tuple(decimal.Decimal(n).scaleb(-2) for n in range(-3, 9))),
            "at": (ZONED, (MIDNIGHT, MIDNIGHT - dt.timedelta(days=30000, microseconds=1))),
        },
    ),
)
SHAPES_BY_NAME = {shape.name: shape for shape in SHAPES}


@dataclass
class History:
    """A table under test beside its model."""

    table: Table
    model: TableModel
    shape: Shape
    rng: random.Random

    @classmethod
    def start(cls, path, index, shape, *, seed, spark=None, frozen_partitions=False, store=None):
        """Begin on a path or URL; `store` holds the settings of its object store."""
        rng = random.Random(f"{shape.name} {seed}")
        moves, event_time = seed % 2 == 0, seed % 4 < 2
        options = {**SMALL_FILTERS, **shape.options, **(store or {})}
        if index in BY_METADATA:
            options |= METADATA
            index = BY_METADATA[index]
        if index == HASHED:
            options[RECORD_HASHES] = "true"
            index = "record"
        spec = spec_of(index)
        if spec.move_option is not None:
            options[spec.move_option] = str(moves).lower()
        if event_time:
            options["hoodie.datasource.write.payload.class"] = EVENT_TIME_PAYLOAD
        if rng.random() < 0.5:
            options["hoodie.parquet.small.file.limit"] = "0"
        if index == "bucket":
            options["hoodie.bucket.index.num.buckets"] = "3"
        if spec.entries:
            own = "t" if index == "hbase" else f"{path}-entries"
            options[spec.entries_option] = own
        if index == "record":
            options["hoodie.metadata.record.index.min.filegroup.count"] = "3"
        table = Table.create(
            str(path),
            record_key=shape.record_key,
            partition_path=shape.partition,
            ordering="ts",
            index=index,
            options=options,
            spark=spark,
        )
        model = TableModel(shape.rules(index, moves=moves, event_time=event_time))
        history = cls(table, model, shape, rng)
        if frozen_partitions:
            history.partition_of = lambda row: shape.partition_values[hash_of(row, shape) % 3]
        return history

    partition_of = None
    frames = False
    """Whether rows are handed in as Spark DataFrames of several partitions."""

    def rows(self, count, *, unique=False):
        """Random rows; keys repeat unless `unique` (then also none that the table holds)."""
        drawn, seen = [], {self.model.rules.identity(row) for _, row in self.model.rows.values()}
        for _ in range(count):
            row = {n: self.rng.choice(pool) for n, (_, pool) in self.shape.columns.items()}
            if all(row[name] in (None, "") for name in self.shape.record_key):
                continue
            for name in self.shape.partition or ("dt",):
                pool = self.shape.partition_values
                row[name] = self.partition_of(row) if self.partition_of else self.rng.choice(pool)
            moments = range(6) if self.model.rules.event_time else (*range(6), None)
            row |= {"ts": self.rng.choice(moments), "v": f"v{self.rng.random()}"}
            identity = self.model.rules.identity(row)
            if not (unique and identity in seen):
                drawn.append(row)
            seen.add(identity)
        return drawn

    def arrow(self, rows, flags=None):
        table = pa.Table.from_pylist(rows, self.shape.schema)
        if flags is not None:
            table = table.append_column("_hoodie_is_deleted", pa.array(flags, pa.bool_()))
        return frame_of(table, self.table.session()) if self.frames else table

    def bulk_insert(self, count=25):
        rows = self.rows(count, unique=True)
        self.compare(self.table.bulk_insert(self.arrow(rows)), self.model.upsert(rows))

    def upsert(self, count=12):
        rows = self.rows(count)
        self.compare(self.table.upsert(self.arrow(rows)), self.model.upsert(rows))

    def upsert_with_deletes(self):
        rows = self.rows(12)
        flags = [self.rng.choice((True, False, None)) for _ in rows]
        result = self.table.upsert(self.arrow(rows, flags))
        flagged = [row | {"_hoodie_is_deleted": f} for row, f in zip(rows, flags, strict=True)]
        self.compare(result, self.model.upsert(flagged))

    def insert(self, policy):
        rows = self.rows(6, unique=policy == "none" or self.rng.random() < 0.5)
        own = {name: text for name, text in self.table._given.items() if name == BATCH_COLLECT}
        writer = Table(
            self.table.storage, {**SMALL_FILTERS, **own, POLICY: policy}, spark=self.table._spark
        )
        expected = self.model.insert(rows, policy)
        if expected is not None:
            self.compare(writer.insert(self.arrow(rows)), expected)
            return
        before = self.stored()
        try:
            writer.insert(self.arrow(rows))
        except DuplicateKeyError:
            assert self.stored() == before
        else:
            raise AssertionError("an insert of known keys went through")

    def delete(self):
        rows = self.rows(6)
        rules = self.model.rules
        by_key = self.rng.random() < 0.5
        if rules.is_global and by_key:
            result = self.table.delete([rules.key(row) for row in rows])
        else:
            chosen = [*rules.record_key, *rules.partition]
            result = self.table.delete(self.arrow(rows).select(chosen))
        self.compare(result, self.model.delete([rules.identity(row) for row in rows]))

    def step(self):
        name = self.rng.choice(("upsert", "upsert", "flags", "none", "drop", "fail", "delete"))
        if name == "upsert":
            self.upsert()
        elif name == "flags":
            self.upsert_with_deletes()
        elif name == "delete":
            self.delete()
        else:
            self.insert(name)
        return name

    def compare(self, result, expected):
        counts = {name: getattr(result, name) for name in COUNTS}
        assert counts == expected
        assert self.stored() == self.model.contents()

    def stored(self):
        """Sorted (record key, partition path, data values) of the rows read back."""
        rows = [row for table in self.table.scan().tables() for row in table.to_pylist()]
        meta = ("_hoodie_record_key", "_hoodie_partition_path")
        return sorted((*(row[name] for name in meta), values(row)) for row in rows)

    def by_hudi_rs(self):
        """The same as `stored`, read by hudi-rs."""
        parts = HudiTableBuilder.from_base_uri(self.table.storage.root).build().read()
        rows = [row for part in parts for row in part.to_pylist()]
        meta = ("_hoodie_record_key", "_hoodie_partition_path")
        return sorted((*(row[name] for name in meta), values(row)) for row in rows)

    def truth(self):
        """record key -> sorted (partition path, file id), from the rows themselves."""
        places = {}
        columns = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]
        for table in self.table.scan(columns=columns).tables():
            for key, partition, name in zip(*table.to_pydict().values(), strict=True):
                places.setdefault(key, []).append((partition, name.split("_")[0]))
        return {key: sorted(found) for key, found in places.items()}

    def check_lookups(self, indexes):
        """Every index finds each key where its row is, and no absent key."""
        truth = self.truth()
        asked = [
            *truth,
            *(key for key in ("absent", "\U0001f601", "a", "id:a") if key not in truth),
        ]
        self.rng.shuffle(asked)
        expected = [truth[key][0] if key in truth else (None, None) for key in asked]
        for name in indexes:
            assert self.located(name, asked) == expected, name
            assert self.located(name, []) == []
            self.check_partitions(name, asked, truth)

    def check_partitions(self, name, asked, truth):
        """Asked with partitions, a local index looks nowhere else, a global one everywhere."""
        paths = [*{path for places in truth.values() for path, _ in places}, "nowhere"]
        pairs = [
            (key, path) for key in asked for path in self.rng.sample(paths, min(2, len(paths)))
        ]
        held = {(key, path): (path, file) for key in truth for path, file in truth[key]}
        if load_index(name).is_global:
            pairs = [pairs[n] for n in {key: n for n, (key, _) in enumerate(pairs)}.values()]
            expected = [truth.get(key, [(None, None)])[0] for key, _ in pairs]
        else:
            expected = [held.get(pair, (None, None)) for pair in pairs]
        keys, partitions = zip(*pairs, strict=True)
        assert self.located(name, keys, partitions) == expected, name

    def located(self, name, keys, partitions=None):
        state = TableState.load(self.table.storage)
        context = self.table._context(state, None)
        wanted = None if partitions is None else pa.array(partitions, pa.string())
        found = load_index(name).lookup(pa.array(keys, pa.string()), context, wanted)
        assert found.num_rows == len(keys)
        pairs = zip(found["partition_path"], found["file_id"], strict=True)
        return [(partition.as_py(), file_id.as_py()) for partition, file_id in pairs]


def frame_of(table, spark):
    from pyspark.sql.pandas.types import from_arrow_schema

    rows = [tuple(row.values()) for row in table.to_pylist()]
    return spark.createDataFrame(
        spark.sparkContext.parallelize(rows, 3), from_arrow_schema(table.schema)
    )


def hash_of(row, shape):
    return sum(repr([row[name] for name in shape.record_key]).encode())
