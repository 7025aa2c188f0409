"""The keys of a dataset and their places in file groups, without any other column.

A record index can be measured on these alone, at sizes whose rows no disk would hold. A row's key
and partition are the dataset's own. Rows arrive in the order of their numbers, in waves that bring
each partition as many rows as a file holds (of partitions of unequal sizes, on average): wave w of
a partition is its file group w.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.datasets.changes.permutation import Permutation
from keymark.datasets.changes.stream import NEVER_INSERTED
from keymark.datasets.columns.kind import Shape, Values
from keymark.datasets.columns.kinds import Partition
from keymark.datasets.columns.text import uuid_text
from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.hashing import derive, draw
from keymark.datasets.generate.rows import make_rows
from keymark.datasets.specs.spec import DatasetSpec

FILE_ROWS = 1_000_000
"""Rows of a file group, where nothing else is asked for: 120 MB of rows of 120 bytes."""


@dataclass(frozen=True, slots=True)
class Mappings:
    """Key and file group of each row of a dataset's first load.

    Attributes:
        spec: the dataset; partitioned by one column of kind `partition`, or not at all.
        file_rows: rows of a file group.

    Raises:
        DatasetError: it is partitioned in another way.
    """

    spec: DatasetSpec
    file_rows: int = FILE_ROWS

    def __post_init__(self) -> None:
        kinds = dict(self.spec.flat_columns())
        path = self.spec.partition_path
        if len(path) > 1 or not all(isinstance(kinds[name], Partition) for name in path):
            raise DatasetError(
                f"{self.spec.name}: mappings need one partition column of kind partition, or none"
            )

    @property
    def rows(self) -> int:
        """How many keys there are."""
        return self.spec.rows

    @property
    def fingerprint(self) -> str:
        """Text that is another one where keys or places are."""
        return f"{self.file_rows} {self.spec.model_dump_json()}"

    @property
    def _labels(self) -> tuple[str, ...]:
        return _labels(self.spec.partition_kind, self.spec.shape) if self.spec.partition else ("",)

    @property
    def _wave_rows(self) -> int:
        return self.file_rows * len(self._labels)

    def places(self) -> tuple[pa.Table, list[str]]:
        """Every file group: the values of its partition column, none without one; its file id."""
        labels, waves = self._labels, -(-self.rows // self._wave_rows)
        key = derive(self.spec.seed, "file groups")
        group = np.arange(waves * len(labels), dtype=np.int64)
        halves = (draw(key, group, np.full_like(group, half)) for half in (0, 1))
        file_ids = [f"{text}-0" for text in uuid_text(*halves).to_pylist()]
        columns = {name: list(labels) * waves for name in self.spec.partition_path}
        return pa.table(columns), file_ids

    def make(self, numbers: npt.NDArray[np.int64]) -> tuple[pa.Table, npt.NDArray[np.int32]]:
        """Key columns of rows, and their file groups (a row of `places`).

        Args:
            numbers: row numbers.
        """
        spec, versions = self.spec, np.zeros_like(numbers)
        groups = numbers // self._wave_rows
        for name in spec.partition_path:
            rows = Values(shape=spec.shape, name=name, numbers=numbers, versions=versions)
            groups = groups * len(self._labels) + spec.partition_kind.places(rows)
        keys = make_rows(spec, numbers, versions, list(spec.record_key))
        return keys, groups.astype(np.int32)

    def sample(self, turn: int, count: int) -> npt.NDArray[np.int64]:
        """Numbers of `count` rows at random, other ones in each turn as long as there are some."""
        order = Permutation(self.rows, derive(self.spec.seed, "sample of mappings"))
        count = min(count, self.rows)
        return order.apply((turn * count + np.arange(count, dtype=np.int64)) % self.rows)

    def absent(self, turn: int, count: int) -> npt.NDArray[np.int64]:
        """Numbers of rows that are in no table, other ones in each turn."""
        return NEVER_INSERTED + turn * count + np.arange(count, dtype=np.int64)


@lru_cache(maxsize=16)
def _labels(kind: Partition, shape: Shape) -> tuple[str, ...]:
    """The partitions of a dataset; printing days takes as long as making some thousand keys."""
    return kind.labels(shape)
