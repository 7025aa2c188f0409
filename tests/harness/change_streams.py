"""Random change streams played against an engine: each state is compared with the dataset's truth.

A stream is a generated dataset of a few hundred rows with all that a batch may hold: updates, new
keys, rows that move to another partition, rows that come too late, keys that come twice, and delete
steps between the rounds. The same seed is the same stream.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from keymark.datasets.generate.generated import GeneratedDataset
from keymark.datasets.generate.rows import make_rows
from keymark.datasets.specs.spec import DatasetSpec, load_spec
from keymark.harness.engines.base import Engine, Layout, MeasuredTable
from keymark.harness.tables import independent, verify
from keymark.harness.tables.key_text import encode_keys
from keymark.harness.tables.readings import FileReadings
from keymark.table.properties.options import EVENT_TIME_PAYLOAD, PAYLOAD_CLASS

CATALOG = ("trips", "events", "iot", "customers", "wide")
SECOND_KEY = {"events": "user_id", "iot": "device"}
"""A column that never changes, by the dataset that has one."""

OPTIONS = {PAYLOAD_CLASS: EVENT_TIME_PAYLOAD}


class Files:
    """Rows as a data frame that was read from a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def inputFiles(self):  # noqa: N802 - PySpark's name
        return [self.path.as_uri()]


def spec_of(seed: int) -> DatasetSpec:
    """The dataset of a stream; some have a key of two columns, some no partitions."""
    drawn = random.Random(seed)
    rows = drawn.randint(100, 500)
    name = CATALOG[seed % len(CATALOG)]
    said = {
        "rows": rows,
        "seed": seed,
        "date_partitions": drawn.randint(1, 6),
        "payload_bytes": drawn.randint(1, 40),
        "updates": drawn.randint(0, rows // 4),
        "inserts": drawn.randint(1, 40),
        "deletes": drawn.randint(1, rows // 20),
        "delete_every": drawn.choice([1, 2, 3]),
        "late": drawn.randint(0, 10),
        "duplicates": drawn.randint(0, 10),
        "repeats": drawn.randint(0, 5),
    }
    if drawn.random() < 0.3 and name in SECOND_KEY:
        plain = load_spec(name)
        said["record_key"] = [*plain.record_key, SECOND_KEY[name]]
    if drawn.random() < 0.2:
        return load_spec(name, {**said, "partition_path": []})
    return load_spec(name, {**said, "moves": drawn.randint(0, rows // 50)})


def play(seed: int, engine: Engine, mode: str, folder: Path, *, rounds: int = 4) -> list[str]:
    """Play a stream against a table of an engine; what differs from the truth, state by state."""
    spec = spec_of(seed)
    dataset = GeneratedDataset(spec)
    layout = Layout(
        name=spec.name,
        record_key=spec.record_key,
        partition_path=spec.partition_path,
        ordering=spec.ordering,
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "table"
    table = engine.create(path, layout, index=mode, options=OPTIONS)
    table.bulk_insert(_held(engine, folder, dataset, 0))
    wrong = _differences(engine, dataset, path, mode, (0, False))
    for round_ in range(1, rounds + 1):
        table.upsert(_held(engine, folder, dataset, round_))
        wrong += _differences(engine, dataset, path, mode, (round_, False))
        if round_ % spec.delete_every == 0:
            numbers = dataset.stream.deleted(*dataset.stream.deleted_slice(round_))
            columns = [*dict.fromkeys([*spec.record_key, *spec.partition_path])]
            gone = make_rows(spec, numbers, np.full_like(numbers, round_), columns)
            table.delete(_written(engine, folder / f"deletes-{round_}.parquet", gone))
            wrong += _differences(engine, dataset, path, mode, (round_, True))
    return [f"stream {seed} ({spec.name}): {each}" for each in wrong]


def _held(engine: Engine, folder: Path, dataset: GeneratedDataset, round_: int):
    numbers, versions = dataset.batch_slice(round_, 0, dataset.batch_size(round_))
    rows = make_rows(dataset.spec, numbers, versions, dataset.columns)
    return _written(engine, folder / f"batch-{round_}.parquet", rows)


def _written(engine: Engine, path: Path, rows: pa.Table):
    pq.write_table(rows, path)
    return engine.hold_rows(Files(path))


def _differences(
    engine: Engine, dataset: GeneratedDataset, path: Path, mode: str, state: tuple[int, bool]
) -> list[str]:
    """What a table that is opened anew holds, against the truth after a round."""
    round_, is_deleted = state
    table = engine.open(path, index=mode, options=OPTIONS)
    truth = tuple(dataset.truth(round_, deleted=is_deleted))
    when = f"after {'the deletes of ' if is_deleted else ''}round {round_}"
    mistakes = [
        verify.rows_mistake(engine.digest(table.read(), dataset.columns), truth),
        verify.rows_mistake(FileReadings().digest(path, dataset.columns), truth),
        _lookup_mistake(engine, table, path, _asked(dataset, round_, deleted=is_deleted)),
        _query_mistake(table, path, dataset.columns),
    ]
    return [f"{when}: {mistake}" for mistake in mistakes if mistake]


def _asked(dataset: GeneratedDataset, round_: int, *, deleted: bool) -> pa.Table:
    sampled = dataset.sample_keys(round_, present=20, absent=10, deleted=deleted)
    keys = encode_keys(sampled.select(list(dataset.record_key)))
    return pa.table({"record_key": keys, "expect_present": sampled["expect_present"]})


def _lookup_mistake(
    engine: Engine, table: MeasuredTable, path: Path, asked: pa.Table
) -> str | None:
    keys = asked["record_key"].combine_chunks()
    found = table.lookup(engine.hold_keys(keys, table))
    answer = engine.answer(found, keys)
    return verify.lookup_mistake(answer, asked=asked, located=independent.locations(path))


def _query_mistake(table: MeasuredTable, path: Path, columns: Sequence[str]) -> str | None:
    """The row of the table's first key, by that key and by an independent reading."""
    located = independent.locations(path)
    if not located.num_rows:
        return None
    key = located["record_key"][0].as_py()
    rows = [row.asDict() for row in table.read(keys=[key]).collect()]
    return verify.point_mistake(rows, independent.find(path, key, columns))
