"""The rows of a run, written to Parquet before any clock starts, with their truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.dataset import Dataset
from keymark.datasets.generate.digest import RowsDigest, Truth
from keymark.datasets.generate.generated import GeneratedDataset
from keymark.datasets.generate.source import SourceDataset
from keymark.datasets.generate.spark import digest_dataframe
from keymark.harness.engines.base import Layout
from keymark.harness.run import chosen_rows, own_data
from keymark.harness.run.chosen_rows import ChosenRows
from keymark.harness.scenario.dataset_section import DatasetSection
from keymark.harness.scenario.scenario import Scenario
from keymark.harness.scenario.workload_section import WorkloadSection
from keymark.harness.store.data_point import DataPoint
from keymark.harness.store.run_record import MeasuredRecord
from keymark.harness.tables import independent
from keymark.harness.tables.key_text import encode_keys
from keymark.indexes.installed import measured_specs

WARM_ROWS = 1_000
"""Rows of a table that warms up where there is no batch; each may be in a partition of its own."""

SOURCE_CHANGE = 4
"""Divisor of a source's rows: no kind of change in a batch is greater than that share."""
# Repetitions have point queries of different keys, up to that many.
_POINT_KEYS = 100


class SparkInputs:
    """Batches of a dataset as Parquet files that every cell reads alike.

    Args:
        spark: the session of the run.
        dataset: rows, batches, deletes and their truth.
        workload: how many rounds and keys.
        folder: where the files go; inputs that differ in the batches alone share it.
        part: folder in it of what is not shared.
    """

    def __init__(
        self,
        spark: SparkSession,
        dataset: Dataset,
        workload: WorkloadSection,
        folder: Path,
        *,
        part: str,
    ) -> None:
        self._spark = spark
        self.dataset = dataset
        self._workload = workload
        self._folder, self._part = folder, folder / part
        self._nulled: RowsDigest | None = None
        self._truths: dict[tuple[int, bool], tuple[int, str]] = {}
        self.columns = dataset.columns
        self.layout = Layout(
            name=dataset.name,
            record_key=dataset.record_key,
            partition_path=dataset.partition_path,
            ordering=dataset.ordering,
        )

    def prepare(self, *, load: bool) -> None:
        """Write all batches and the deletes, and the load if that is wanted and not done yet."""
        rounds = range(1, self._workload.rounds + 1)
        if load:
            self._write(self._folder / "load", self.dataset.load(self._spark))
        if not rounds:
            tasks = self._spark.sparkContext.defaultParallelism  # each is to warm up
            self._write(self._part / "warm_up", self.load().limit(WARM_ROWS).repartition(tasks))
        for round_ in rounds:
            self._write(self._part / f"batch_{round_}", self.dataset.batch(self._spark, round_))
        columns = dict.fromkeys((*self.dataset.record_key, *self.dataset.partition_path))
        if self._latest is not None:
            self._latest.write(self._part / "deletes", list(columns))
        elif self._workload.delete:
            gone = self.dataset.deletes(self._spark, self._workload.rounds)
            self._write(self._part / "deletes", gone.select(*columns))
        if self._workload.spread_batch:
            self._spread.write(self._part / "spread")
        if self._workload.null_columns:
            rows = self.dataset.deletes(self._spark, self._workload.rounds)
            self._write(self._part / "nulled", _nulled(rows, self._workload.null_columns))

    def load(self) -> DataFrame:
        """The rows of the first load; where no files hold them, those who read them make them."""
        if not (self._folder / "load").is_dir():
            return self.dataset.load(self._spark)
        return self._read(self._folder / "load")

    def batch(self, round_: int, /) -> DataFrame:
        """The rows of a change batch."""
        return self._read(self._part / f"batch_{round_}")

    def warm_up(self) -> DataFrame:
        """The rows of a table that warms up: the first batch, or some of the load without one."""
        return self._read(self._part / ("batch_1" if self._workload.rounds else "warm_up"))

    def deletes(self) -> DataFrame:
        """Key and partition columns of the rows that the delete step removes."""
        return self._read(self._part / "deletes")

    def deleted_keys(self) -> pa.Array:
        """Record keys of the delete step, spelled by the harness."""
        columns = list(self.dataset.record_key)
        return encode_keys(pq.read_table(self._part / "deletes", columns=columns))

    def nulled(self) -> DataFrame:
        """The rows that the delete step removes, with some of their columns nulled."""
        return self._read(self._part / "nulled")

    def nulled_truth(self, round_: int, /) -> tuple[int, str]:
        """Rows and digest with those rows nulled: what is left without them, and they."""
        if self._nulled is None:
            found = digest_dataframe(self.nulled(), self.columns)
            self._nulled = RowsDigest.of_truth(found)
        rest = RowsDigest.of_truth(Truth(*self.truth(round_, deleted=True)))
        return (rest + self._nulled).truth

    @cached_property
    def _latest(self) -> ChosenRows | None:
        """The rows that the delete step removes where they are those of the last batch."""
        work = self._workload
        return chosen_rows.latest(self._generated, work.rounds) if work.delete_latest else None

    @cached_property
    def _spread(self) -> ChosenRows:
        work = self._workload
        return chosen_rows.spread(
            self._generated,
            work.rounds,
            deleted=bool(work.delete) and not work.delete_latest,
            without=self._latest,
        )

    @property
    def _generated(self) -> GeneratedDataset:
        if not isinstance(self.dataset, GeneratedDataset):
            raise DatasetError(f"{self.dataset.name}: only rows that are generated are chosen")
        return self.dataset

    def spread(self) -> DataFrame:
        """Rows all over the table, changed once more."""
        return self._read(self._part / "spread")

    def spread_truth(self, round_: int, /, *, deleted: bool) -> tuple[int, str]:
        """Rows and digest after that batch: rows of a version are exchanged for the next one."""
        before = RowsDigest.of_truth(Truth(*self.truth(round_, deleted=deleted)))
        return (before + self._spread.change).truth

    def size(self, step: str, /) -> int:
        """Number of keys that a write step brings."""
        if step == "bulk_insert":
            return self.truth(0, deleted=False)[0]
        if step in ("delete", "null_columns"):
            return self.dataset.delete_count
        if step == "spread":
            return len(self._spread.numbers)
        return sum(self.dataset.batch_counts(int(step.rpartition("_")[2])))

    def truth(self, round_: int, *, deleted: bool) -> tuple[int, str]:
        """Rows and digest that the table must have; computed once per state."""
        state = (round_, deleted)
        if state not in self._truths:
            if deleted and self._latest is not None:
                rest = self._generated.digest(round_, deleted=False) + self._latest.change
                truth = rest.truth
            else:
                truth = self.dataset.truth(round_, deleted=deleted)
            self._truths[state] = (truth.rows, truth.digest)
        return self._truths[state]

    def lookup_keys(self) -> pa.Table:
        """The keys of the lookup step in an order that mixes present and absent ones."""
        return self._keys

    def few_keys(self) -> pa.Table:
        """Keys of the lookup step at even distances, so that they are spread as all of them are."""
        few = self._workload.lookup_few
        return self._keys.take(np.arange(few) * self._keys.num_rows // max(few, 1))

    def model_keys(self) -> pa.Table:
        """Keys of the lookup model: the largest number of keys of one lookup, of each kind."""
        return self._model_keys

    def point_key(self, repetition: int, /) -> str:
        """A key that is in the table from the load to the end, another for each repetition."""
        return str(self._point_keys[repetition % len(self._point_keys)].as_py())

    @cached_property
    def _point_keys(self) -> pa.ChunkedArray:
        # Where deletes have taken all that was loaded, no key is there all the time.
        found = self._sampled(_POINT_KEYS, 0, loaded=True)
        if not len(found):
            found = self._sampled(_POINT_KEYS, 0)
        return found["record_key"]

    @cached_property
    def _keys(self) -> pa.Table:
        work = self._workload
        asked = self._sampled(max(work.lookup_present, 1), work.lookup_absent)
        return asked.take(pc.sort_indices(asked.column("record_key")))

    @cached_property
    def _model_keys(self) -> pa.Table:
        most = max(self._workload.model_keys, default=0)
        return self._sampled(most, most)

    def _sampled(self, present: int, absent: int, *, loaded: bool = False) -> pa.Table:
        work = self._workload
        # A sample may hold rows that were deleted by choice: as many more are taken.
        is_after = work.delete is True  # the lookups are after the delete
        chosen = self.dataset.delete_count if work.delete_latest and is_after else 0
        sampled = self.dataset.sample_keys(
            work.rounds,
            present=present + chosen,
            absent=absent,
            deleted=work.delete is True and not work.delete_latest,
            loaded=loaded,
        )
        keys = encode_keys(sampled.select(list(self.dataset.record_key)))
        found = pa.table({"record_key": keys, "expect_present": sampled["expect_present"]})
        if not chosen:
            return found
        gone = self.deleted_keys()
        live = found.filter(pc.invert(pc.is_in(keys, value_set=gone)))
        here = live.filter(live["expect_present"]).slice(0, present)
        gone = gone.slice(0, absent // 2)
        never = live.filter(pc.invert(live["expect_present"])).slice(0, absent - len(gone))
        deleted = pa.table({"record_key": gone, "expect_present": [False] * len(gone)})
        return pa.concat_tables([here, deleted, never])

    def _write(self, path: Path, df: DataFrame) -> None:
        df.write.mode("overwrite").parquet(str(path))

    def _read(self, path: Path) -> DataFrame:
        return self._spark.read.parquet(str(path))


def _nulled(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    return rows.withColumns({name: lit(None).cast(rows.schema[name].dataType) for name in columns})


def write_inputs(
    spark: SparkSession, scenario: Scenario, folder: Path
) -> dict[DataPoint, SparkInputs]:
    """The rows of each point, written; points that differ in the batch share the load."""
    inputs: dict[DataPoint, SparkInputs] = {}
    measured = {data for index in scenario.indexes for data in scenario.dataset.points_of(index)}
    for data in scenario.dataset.points:
        if data not in measured:
            continue  # its shape is of indexes that this run leaves out
        dataset = _dataset(spark, scenario, folder / "own", data)
        loaded = folder / f"{data.shape or 'rows'}-{data.rows}"
        made = SparkInputs(spark, dataset, scenario.workload, loaded, part=f"batch-{data.batch}")
        is_first = not any(other.loaded == data.loaded for other in inputs)
        made.prepare(load=is_first and scenario.dataset.load_files)
        inputs[data] = made
    return inputs


def _dataset(spark: SparkSession, scenario: Scenario, folder: Path, data: DataPoint) -> Dataset:
    """The rows of a scenario: generated ones, or those of a table that exists."""
    section = scenario.dataset
    if section.source is not None:
        return changing(section, *own_data.load(spark, section.source, folder))
    if scenario.table.source is None:
        return GeneratedDataset(section.spec(data))
    source = Path(scenario.table.source)
    facts = independent.source_facts(source)
    layout = Layout(
        name=facts.name,
        record_key=facts.record_key,
        partition_path=facts.partition_path,
        ordering=facts.ordering,
    )
    rows = independent.rows(source)
    is_local = not any(measured_specs()[index].is_global for index in scenario.indexes)
    own_data.refuse_repeated_keys(rows, layout, in_partitions=is_local)
    return changing(section, rows, layout)


def changing(section: DatasetSection, stored: pa.Table, layout: Layout) -> SourceDataset:
    """Rows that exist, and changes to them.

    Changes are as large as the scenario says, but each kind touches at most a fourth of the rows,
    so that a scenario for large tables also fits a small one.
    """
    most = stored.num_rows // SOURCE_CHANGE
    updates, inserts = section.changes()
    return SourceDataset(
        stored,
        name=layout.name,
        record_key=layout.record_key,
        partition_path=layout.partition_path,
        ordering=layout.ordering,
        seed=section.seed,
        updates=min(updates, most),
        inserts=min(inserts, most),
        deletes=min(section.delete_rows, most),
    )


def measured_sizes(inputs: Mapping[DataPoint, SparkInputs]) -> MeasuredRecord:
    """The sizes of the last point: of several sizes the largest, of a source its own."""
    largest = list(inputs.values())[-1]
    dataset = largest.dataset
    updates, inserts = dataset.batch_counts(1)
    return MeasuredRecord(
        rows=largest.truth(0, deleted=False)[0],
        batch_updates=updates,
        batch_inserts=inserts,
        deletes=dataset.delete_count,
        lookup_keys=largest.lookup_keys().num_rows,
    )
