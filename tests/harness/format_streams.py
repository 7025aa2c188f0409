"""Random change streams played into an engine of another format, step by step against the truth.

A stream comes from its seed: types and nulls of columns, keys of one column or two, partitions or
none, and batches with rows that move, come late, come twice or many times. After each step the rows
that the engine reads and the rows that its files hold, read without it, are compared with what the
generator says, and some keys are looked up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from keymark.datasets.generate.generated import GeneratedDataset
from keymark.datasets.generate.rows import make_rows
from keymark.datasets.specs.spec import DatasetSpec
from keymark.harness.engines.base import Engine, Layout, compactable
from keymark.harness.tables import independent, verify
from keymark.harness.tables.key_text import encode_keys
from keymark.harness.tables.readings import FileReadings
from keymark.harness.tables.table_folders import LocalTables

PAYLOAD = "hoodie.datasource.write.payload.class"
BY_TIME = {PAYLOAD: "org.apache.hudi.common.model.DefaultHoodieRecordPayload"}
ROUNDS = 3

_VALUES = (
    {"kind": "long", "low": -5, "high": 5},
    {"kind": "double", "low": -1, "high": 1},
    {"kind": "decimal", "low": -10, "high": 10},
    {"kind": "date", "low": "1969-01-01", "high": "2030-01-01"},
    {"kind": "timestamp", "low": "1969-01-01", "high": "2030-01-01"},
    {"kind": "bool"},
    {"kind": "choice", "values": ["", "a", "ä`'\\"]},
)


def spec_of(seed: int) -> DatasetSpec:
    """The stream of a seed."""
    chance = Random(seed)
    rows = chance.randrange(40, 400)
    columns = {"uuid": {"kind": "uuid"}}
    keys = ["uuid"]
    if chance.random() < 0.3:
        columns["part"] = {"kind": "choice", "values": ["x", "y:z", "a,b"], "fixed": True}
        keys = ["part", "uuid"]
    columns |= {"dt": {"kind": "partition"}, "ts": {"kind": "ordering"}}
    for number, value in enumerate(chance.sample(_VALUES, 3)):
        columns[f"c{number}"] = {**value, "null_share": chance.choice([0.0, 0.3])}
    is_partitioned = chance.random() < 0.8
    return DatasetSpec.model_validate(
        {
            "name": "t",
            "seed": seed,
            "rows": rows,
            "record_key": tuple(keys),
            "partition_path": ("dt",) if is_partitioned else (),
            "ordering": "ts",
            "date_partitions": chance.randrange(1, 5),
            "updates": rows // 8,
            "inserts": rows // 10,
            "deletes": rows // 20,
            "delete_every": 1,
            "moves": rows // 20 if is_partitioned else 0,
            "late": rows // 10,
            "duplicates": rows // 10,
            "repeats": chance.choice([0, 7]),
            "columns": {**columns, "version": {"kind": "version"}, "p": {"kind": "payload"}},
        }
    )


class Files:
    """Rows in a Parquet file, as a data frame that was read from it."""

    def __init__(self, path: Path, rows: pa.Table) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, path)
        self._path = path

    def inputFiles(self) -> list[str]:  # noqa: N802 - a data frame's name for it
        return [str(self._path)]


@dataclass
class Player:
    """One stream, one mode.

    Attributes:
        engine: under test.
        mode: of its tables.
        folder: for the table and the batches.
        compacts: whether the engine puts files together.
        options: of the table, beside those of all streams.
        differences: what was wrong, a line each.
    """

    engine: Engine
    mode: str
    folder: Path
    seed: int
    compacts: bool = True
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.given = {**BY_TIME, **self.options}
        self.differences: list[str] = []
        self.data = GeneratedDataset(spec_of(self.seed))
        self.chance = np.random.default_rng(self.seed)
        self.layout = Layout(
            name="t",
            record_key=self.data.record_key,
            partition_path=self.data.partition_path,
            ordering="ts",
        )

    def play(self) -> list[str]:
        """The differences of a stream."""
        path = self.folder / "ns" / f"t{self.seed}"
        path.parent.mkdir(parents=True, exist_ok=True)
        table = self.engine.create(path, self.layout, index=self.mode, options=self.given)
        table.bulk_insert(self.batch(0))
        self.compare(path, 0, deleted=False, step="load")
        if table.info().index != self.mode:
            self.differences.append(f"the table is in mode {table.info().index}")
        for round_ in range(1, ROUNDS + 1):
            table = self.engine.open(path, index=self.mode, options=self.given)
            table.upsert(self.batch(round_))
            self.compare(path, round_, deleted=False, step=f"upsert_{round_}")
            table.delete(self.deletes(round_))
            self.compare(path, round_, deleted=True, step=f"delete_{round_}")
            if round_ == ROUNDS - 1 and self.compacts:
                compactable(table).compact_rows()
                self.compare(path, round_, deleted=True, step=f"compact_{round_}")
        self.look_up(table, path)
        return self.differences

    def batch(self, round_: int):
        numbers, versions = self.data.batch_slice(round_, 0, self.data.batch_size(round_))
        order = self.chance.permutation(len(numbers))
        rows = make_rows(self.data.spec, numbers[order], versions[order])
        return self.held(f"batch-{round_}", rows)

    def deletes(self, round_: int):
        numbers = self.data.stream.deleted(*self.data.stream.deleted_slice(round_))
        columns = [*dict.fromkeys((*self.layout.record_key, *self.layout.partition_path))]
        rows = make_rows(self.data.spec, numbers, np.full_like(numbers, round_), columns)
        return self.held(f"deletes-{round_}", rows)

    def held(self, name: str, rows: pa.Table):
        path = self.folder / "batches" / self.mode / str(self.seed) / f"{name}.parquet"
        return self.engine.hold_rows(Files(path, rows))

    def compare(self, path: Path, round_: int, *, deleted: bool, step: str) -> None:
        truth = self.data.truth(round_, deleted=deleted)
        table = self.engine.open(path, index=self.mode, options=self.given)
        for who, found in (
            ("the engine", self.engine.digest(table.read(), self.data.columns)),
            ("its files", FileReadings().digest(path, self.data.columns)),
        ):
            mistake = verify.rows_mistake(found, tuple(truth))
            if mistake:
                self.differences.append(f"{step}, read by {who}: {mistake}")

    def look_up(self, table, path: Path) -> None:
        asked = self.data.sample_keys(ROUNDS, present=20, absent=8, deleted=True)
        keys = encode_keys(asked.select(list(self.layout.record_key)))
        wanted = pa.table({"record_key": keys, "expect_present": asked["expect_present"]})
        table.lookup(self.engine.hold_keys(keys, table))
        answer = self.engine.answer(None, keys)
        mistake = verify.lookup_mistake(
            answer, asked=wanted, located=independent.locations(path, keys)
        )
        if mistake:
            self.differences.append(f"lookup: {mistake}")
        key = keys[0].as_py()
        found = [row.asDict() for row in table.read(keys=[key]).collect()]
        expected = independent.find(path, key, ["uuid", "ts"])
        if mistake := verify.point_mistake(found, expected):
            self.differences.append(f"point query: {mistake}")


def play(
    engine: Engine,
    mode: str,
    folder: Path,
    seed: int,
    *,
    compacts: bool = True,
    options: Mapping[str, str] | None = None,
) -> list[str]:
    """The differences of a stream in a mode, a line each."""
    player = Player(
        engine=engine,
        mode=mode,
        folder=folder,
        seed=seed,
        compacts=compacts,
        options=options or {},
    )
    told = player.play()
    return [f"{mode}, seed {seed}: {each}" for each in told]


def local() -> LocalTables:
    """Tables in a folder."""
    return LocalTables()
