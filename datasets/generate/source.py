"""A dataset that starts from the rows of an existing table and changes samples of them.

Updates are sampled rows with the ordering column raised by 1 (a timestamp by its unit); inserts are
copies of sampled rows with a new key: `-k<n>` appended to a text, or a number above the greatest;
deletes are sampled rows that the same round does not update. Samples are images of keyed
permutations, so counts are exact. A key may be in several partitions: each of its rows is changed
for itself, as with an index that looks for a key in its partition only.
The model of the table is three numbers per row: the source row that it copies, by how much its
ordering value is raised, and the number of its new key.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from keymark.datasets.changes.permutation import Permutation
from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.digest import RowsDigest, Truth, check_columns
from keymark.datasets.generate.hashing import derive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
_SUFFIX = r"-k(?P<n>[0-9]{1,15})$"
_CHUNK_ROWS = 65_536
_FAR = 1 << 20

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Model:
    """The table's rows; all arrays are equally long. Deleted rows are not among them.

    Attributes:
        origin: row of the source.
        raised: what is added to its ordering value.
        key: 0 for the source's key, otherwise the number of a new key.
    """

    origin: _Numbers
    raised: _Numbers
    key: _Numbers

    def __len__(self) -> int:
        return len(self.origin)

    def take(self, rows: _Numbers) -> _Model:
        return _Model(self.origin[rows], self.raised[rows], self.key[rows])

    def append(self, other: _Model) -> _Model:
        return _Model(
            np.concatenate([self.origin, other.origin]),
            np.concatenate([self.raised, other.raised]),
            np.concatenate([self.key, other.key]),
        )


class SourceDataset:
    """Implements `keymark.datasets.generate.dataset.Dataset` for rows that already exist.

    A delete step may follow any round and is the last step then.

    Args:
        rows: of the source; Hudi's meta columns are left out.
        name: name of the dataset.
        record_key: key columns.
        partition_path: partition columns, may be empty.
        ordering: the ordering column, an integer or a timestamp.
        seed: of all samples.
        updates: rows changed per round.
        inserts: rows added per round.
        deletes: rows removed by a delete step.

    Raises:
        DatasetError: a column is missing, null or of a type that cannot be changed as described.
    """

    def __init__(  # noqa: PLR0913 - the facts of a table and the sizes of its changes, by keyword
        self,
        rows: pa.Table,
        *,
        name: str,
        record_key: Sequence[str],
        partition_path: Sequence[str],
        ordering: str | None,
        seed: int,
        updates: int,
        inserts: int,
        deletes: int,
    ) -> None:
        self.name = name
        self.record_key = tuple(record_key)
        self.partition_path = tuple(partition_path)
        self.ordering: str | None = ordering
        self.delete_count = deletes
        self._seed = seed
        self._updates = updates
        self._inserts = inserts
        self._rows = _normal(rows)
        self.columns = tuple(self._rows.column_names)
        self._ordering = self._checked_ordering()
        self._new_key = self._key_to_change()
        size = self._rows.num_rows
        zeros = np.zeros(size, np.int64)
        self._models = {0: _Model(np.arange(size, dtype=np.int64), zeros, zeros)}
        self._changes: dict[int, RowsDigest] = {}

    def batch_counts(self, round: int) -> tuple[int, int]:  # noqa: A002
        """(updates, inserts) of the batch of a round."""
        self._order(round)
        return self._updates, self._inserts

    def load(self, spark: SparkSession) -> DataFrame:
        """Rows of the source."""
        return self._frame(spark, "load", self._rows)

    def batch(self, spark: SparkSession, round: int) -> DataFrame:  # noqa: A002
        """Updates and inserts of a round, one row per key."""
        changed = self._updated(round).append(self._inserted(round))
        return self._frame(spark, f"batch_{round}", self._table(changed))

    def deletes(self, spark: SparkSession, round: int) -> DataFrame:  # noqa: A002
        """The rows that the delete step of a round removes, as stored."""
        return self._frame(spark, f"deletes_{round}", self._table(self._deleted(round)))

    def truth(self, round: int, *, deleted: bool) -> Truth:  # noqa: A002
        """Rows and digest after the batches 1..round, and after deletes(round) if `deleted`."""
        total = RowsDigest()
        for past in range(round + 1):
            total += self._change(past)
        if deleted:
            total -= self._digest(self._deleted(round))
        return total.truth

    def sample_keys(
        self,
        round: int,  # noqa: A002
        *,
        present: int,
        absent: int,
        deleted: bool,
        loaded: bool = False,
    ) -> pa.Table:
        """Key columns and `expect_present`; see `Dataset.sample_keys`.

        Keys that the source has in several rows, one a partition, are none of them.
        """
        model = self._model(round)
        live = np.arange(len(model))
        gone = self._deleted_places(round) if deleted else np.empty(0, np.int64)
        live = np.delete(live, gone)
        is_alone = (model.key > 0) | self._alone[model.origin]
        live, gone = live[is_alone[live]], gone[is_alone[gone]]
        if loaded:
            live = live[model.key[live] == 0]
        count = min(present, len(live))
        if count:
            order = Permutation(len(live), derive(self._seed, "sample", round))
            live = live[order.apply(np.arange(count, dtype=np.int64))]
        gone = gone[: absent // 2]
        never = np.arange(absent - len(gone), dtype=np.int64)
        copies = _Model(
            never % self._rows.num_rows, 0 * never, self._last_key(round) + _FAR + never
        )
        known = model.take(np.concatenate([live[:count], gone]))
        keys = self._table(known.append(copies)).select(list(self.record_key))
        return keys.append_column("expect_present", pa.array(np.arange(len(keys)) < count))

    def _checked_ordering(self) -> str:
        known = self._rows.column_names
        if self.ordering is None:
            raise DatasetError(f"{self.name} has no ordering column, which updates must raise")
        check_columns([*self.record_key, *self.partition_path, self.ordering], known)
        kind = self._rows.schema.field(self.ordering).type
        if not (pa.types.is_integer(kind) or pa.types.is_timestamp(kind)):
            raise DatasetError(
                f"ordering column {self.ordering!r} is {kind}, neither an integer nor a timestamp"
            )
        if self.ordering in self.record_key:
            raise DatasetError(f"ordering column {self.ordering!r} is part of the record key")
        for name in self.record_key:
            if self._rows[name].null_count:
                raise DatasetError(f"key column {name!r} holds nulls")
        return self.ordering

    def _key_to_change(self) -> str:
        """The key column that new keys differ in: a text, else an integer, no partition column."""
        free = [name for name in self.record_key if name not in self.partition_path]
        kinds = {name: self._rows.schema.field(name).type for name in free}
        for fits in (_is_text, pa.types.is_integer):
            for name, kind in kinds.items():
                if fits(kind):
                    return name
        shown = ", ".join(f"{name!r} ({kind})" for name, kind in kinds.items()) or "none"
        raise DatasetError(
            f"{self.name}: new keys need a text or integer key column that is no partition "
            f"column; there is {shown}"
        )

    @cached_property
    def _alone(self) -> npt.NDArray[np.bool_]:
        """Whether no other row of the source has the same key, for each row."""
        keys, row = list(self.record_key), "keymark_row"
        numbered = self._rows.select(keys)
        numbered = numbered.append_column(row, pa.array(np.arange(len(numbered))))
        ends = numbered.group_by(keys).aggregate([(row, "min"), (row, "max")])
        first, last = (ends[f"{row}_{name}"].to_numpy() for name in ("min", "max"))
        found = np.zeros(len(numbered), np.bool_)
        found[first[first == last]] = True
        return found

    @cached_property
    def _first_key(self) -> int:
        """Number before that of the first new key, so that no key of the source comes again."""
        column = self._rows[self._new_key]
        if not _is_text(column.type):
            # 0 stands for a row that keeps its key.
            return max(0, int(pc.max(column).as_py() or 0))
        ends = pc.extract_regex(column, _SUFFIX).combine_chunks().flatten()[0]
        return int(pc.max(ends.cast(pa.int64())).as_py() or 0)

    def _last_key(self, round_: int) -> int:
        return self._first_key + round_ * self._inserts

    def _order(self, round_: int) -> Permutation:
        """Permutation of the rows that a round meets: first the updates, then the deletes."""
        size = len(self._model(max(round_ - 1, 0)))
        needed = (self._updates if round_ else 0) + self.delete_count
        if needed > size or not size:
            raise DatasetError(
                f"{self.name}: round {round_} changes {needed} rows, but there are {size}"
            )
        return Permutation(size, derive(self._seed, "round", round_))

    def _model(self, round_: int) -> _Model:
        if round_ < 0:
            raise DatasetError(f"there is no round {round_}; rounds start at 1, the load is 0")
        if round_ not in self._models:
            before = self._model(round_ - 1)
            raised = before.raised.copy()
            raised[self._updated_places(round_)] += 1
            changed = _Model(before.origin, raised, before.key)
            self._models[round_] = changed.append(self._inserted(round_))
        return self._models[round_]

    def _updated_places(self, round_: int) -> _Numbers:
        count = self._updates if round_ else 0
        return self._order(round_).apply(np.arange(count, dtype=np.int64))

    def _deleted_places(self, round_: int) -> _Numbers:
        first = self._updates if round_ else 0
        places = np.arange(first, first + self.delete_count, dtype=np.int64)
        return self._order(round_).apply(places)

    def _updated(self, round_: int) -> _Model:
        """The rows that a round updates, as they are afterwards."""
        old = self._replaced(round_)
        return _Model(old.origin, old.raised + 1, old.key)

    def _replaced(self, round_: int) -> _Model:
        """The rows that a round updates, as they were."""
        return self._model(max(round_ - 1, 0)).take(self._updated_places(round_))

    def _deleted(self, round_: int) -> _Model:
        return self._model(round_).take(self._deleted_places(round_))

    def _inserted(self, round_: int) -> _Model:
        """The rows that a round adds: copies of rows that it meets, with new keys."""
        before = self._model(max(round_ - 1, 0))
        numbers = np.arange(self._inserts if round_ else 0, dtype=np.int64)
        order = Permutation(len(before), derive(self._seed, "insert", round_))
        copied = before.take(order.apply(numbers % len(before)))
        return _Model(copied.origin, copied.raised, self._last_key(round_ - 1) + 1 + numbers)

    def _change(self, round_: int) -> RowsDigest:
        """New versions and new rows of a round, less the versions that they replace."""
        if round_ == 0:
            self._changes.setdefault(0, self._digest(self._model(0)))
        if round_ not in self._changes:
            fresh = self._updated(round_).append(self._inserted(round_))
            self._changes[round_] = self._digest(fresh) - self._digest(self._replaced(round_))
        return self._changes[round_]

    def _digest(self, model: _Model) -> RowsDigest:
        total = RowsDigest()
        for start in range(0, len(model), _CHUNK_ROWS):
            rows = np.arange(start, min(start + _CHUNK_ROWS, len(model)))
            total += RowsDigest.of(self._table(model.take(rows)))
        return total

    def _table(self, model: _Model) -> pa.Table:
        """The rows of a model."""
        table = self._rows.take(pa.array(model.origin))
        table = _replace(
            table,
            self._ordering,
            lambda old: pc.add_checked(old.cast(pa.int64()), pa.array(model.raised)),
        )
        return _replace(table, self._new_key, lambda old: _renamed(old, pa.array(model.key)))

    def _frame(self, spark: SparkSession, name: str, table: pa.Table) -> DataFrame:
        """Hand a table to Spark as a file: Parquet keeps every type, nested ones as well."""
        path = Path(self._folder.name) / f"{name}.parquet"
        if not path.exists():
            pq.write_table(table, path)
        return spark.read.parquet(path.as_uri())

    @cached_property
    def _folder(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix="keymark-source-")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _normal(rows: pa.Table) -> pa.Table:
    """Data columns as one chunk each, in the types that Spark reads them in.

    Nanoseconds come from INT96, Spark's older form of a timestamp, which is in UTC.
    """
    names = [name for name in rows.column_names if name not in _META_COLUMNS]
    # a Spark schema in the metadata of the source's files would count more than the columns
    table = rows.select(names).replace_schema_metadata(None).combine_chunks()
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            micros = table[field.name].cast(pa.timestamp("us", "UTC"))
            table = table.set_column(index, field.name, micros)
    return table


def _renamed(keys: pa.ChunkedArray, numbers: pa.Array) -> pa.ChunkedArray:
    """Keys, but new ones where the number is not 0."""
    if _is_text(keys.type):
        old = keys.cast(pa.large_string())
        parts = (old, numbers.cast(old.type), pa.scalar("-k", old.type))
        new = pc.binary_join_element_wise(*parts)
    else:
        old, new = keys.cast(pa.int64()), numbers
    return pc.if_else(pc.greater(numbers, 0), new, old)


def _replace(
    table: pa.Table, name: str, change: Callable[[pa.ChunkedArray], pa.ChunkedArray]
) -> pa.Table:
    """Change the values of a column, not its type."""
    field = table.schema.field(name)
    try:
        values = change(table[name]).cast(field.type)
    except pa.ArrowInvalid as error:
        raise DatasetError(f"column {name!r} ({field.type}) has no room: {error}") from error
    return table.set_column(table.column_names.index(name), field, values)
