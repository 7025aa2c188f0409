"""The bucket index: the hash of a key is its file group, so nothing is looked up.

    bucket  = hash(key fields) % hoodie.bucket.index.num.buckets
    file id = <bucket in 8 digits><uuid from its 9th character>-0, one per bucket and partition path

Source: HoodieSimpleBucketIndex, BucketIdentifier of Hudi 0.15.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.indexes.bucket.cost import BUCKET_COUNT
from keymark.indexes.bucket.spec import BUCKET_FIELDS, SPEC
from keymark.indexes.shared.key_scan import ABSENT, KeyProbe, first_files, locations, probe_keys
from keymark.indexes.spec import IndexSpec
from keymark.table.errors import CorruptFileError, TableWarning, UnsupportedTableError
from keymark.table.format.hashes.hashing import buckets
from keymark.table.index.protocol import IndexContext
from keymark.table.layout.naming import bucket_of, is_bucket_file_id
from keymark.table.layout.view import Snapshot
from keymark.table.properties.config import TableConfig
from keymark.table.properties.options import KEY_ENCODING, NAMED_ENCODING, Options

_Numbers = npt.NDArray[np.int64]


class BucketIndex:
    """Partition-local; a tag says where a key belongs, not that it is there."""

    spec: ClassVar[IndexSpec] = SPEC
    name: ClassVar[str] = SPEC.name
    is_global: ClassVar[bool] = False
    is_exact: ClassVar[bool] = False

    def tag(self, keys: pa.Array, partitions: pa.Array, context: IndexContext) -> pa.Table:
        """The file group of each key's bucket in its partition path, null where there is none."""
        return locations(self._belong(keys, partitions, context), context)

    def lookup(
        self, keys: pa.Array, context: IndexContext, partitions: pa.Array | None = None
    ) -> pa.Table:
        """Check the keys against the file groups of their buckets."""
        if partitions is None:
            candidates = self._everywhere(keys, context)
        else:
            numbers = self._belong(keys, partitions, context)
            candidates = [item for item in _grouped(numbers) if item[0] != ABSENT]
        files = context.snapshot.files
        tasks = [
            KeyProbe(
                storage=context.storage,
                config=context.config,
                first=number,
                files=(files[number],),
                keys=keys.take(pa.array(rows)),
            )
            for number, rows in candidates
        ]
        found = context.runner.run(probe_keys, tasks, weights=[task.weight for task in tasks])
        context.stats.files_read += len(tasks)
        answers = [
            (number, rows[held.positions])
            for (number, rows), held in zip(candidates, found, strict=True)
        ]
        return locations(first_files(len(keys), answers), context)

    def buckets(
        self, keys: pa.Array, config: TableConfig, options: Options
    ) -> npt.NDArray[np.int32]:
        """The bucket of each key."""
        _warn_of_colons(keys, config)
        fields = options.optional(BUCKET_FIELDS) or ""
        return buckets(
            keys,
            options.integer(BUCKET_COUNT),
            key_fields=config.record_key,
            hash_fields=[name.strip() for name in fields.split(",") if name.strip()],
        )

    def _belong(self, keys: pa.Array, partitions: pa.Array, context: IndexContext) -> _Numbers:
        """The file number of each key's bucket in its partition path, or ABSENT."""
        numbers = np.full(len(keys), ABSENT, np.int64)
        paths, groups = _groups(context.snapshot, context.options.integer(BUCKET_COUNT))
        rows = pc.index_in(partitions, value_set=paths)
        known = pc.is_valid(rows).to_numpy(zero_copy_only=False)
        wanted = self.buckets(keys, context.config, context.options)
        numbers[known] = groups[rows.drop_null().to_numpy(), wanted[known]]
        return numbers

    def _everywhere(self, keys: pa.Array, context: IndexContext) -> list[tuple[int, _Numbers]]:
        """The file groups of the keys' buckets in all partition paths, and the rows of each."""
        _, groups = _groups(context.snapshot, context.options.integer(BUCKET_COUNT))
        wanted = self.buckets(keys, context.config, context.options)
        return [
            (number, rows)
            for bucket, rows in _grouped(wanted)
            for number in groups[groups[:, bucket] != ABSENT, bucket].tolist()
        ]


def _warn_of_colons(keys: pa.Array, config: TableConfig) -> None:
    """Tell that simple keys with a colon crowd into one bucket, as Hudi 0.15 places them.

    It takes such a key apart as if it were composite (BucketIdentifier.getHashKeys) and then finds
    none of its fields.
    """
    single = len(config.record_key) == 1
    if not single or config.properties.get(KEY_ENCODING) == NAMED_ENCODING:
        return
    if pc.any(pc.match_substring(keys, ":")).as_py():
        warnings.warn(
            f"keys of column {config.record_key[0]} hold a colon: like Hudi 0.15, the bucket index "
            "puts such keys of one column into one bucket of each partition; a table whose record "
            f"key is two columns, or option {KEY_ENCODING}={NAMED_ENCODING} at creation, which "
            "goes with the complex key generator, spreads them",
            TableWarning,
            stacklevel=2,
        )


def _grouped(numbers: npt.NDArray[np.int32 | np.int64]) -> Iterator[tuple[int, _Numbers]]:
    """Each distinct number and the rows that hold it."""
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    return zip(found.tolist(), np.split(order, starts[1:]), strict=False)


def _groups(snapshot: Snapshot, count: int) -> tuple[pa.Array, _Numbers]:
    """The partition paths, and per path and bucket the file number or ABSENT."""
    paths = snapshot.partition_paths()
    rows = {path: row for row, path in enumerate(paths)}
    groups: _Numbers = np.full((len(paths), count), ABSENT, np.int64)
    for number, file in enumerate(snapshot.files):
        if not is_bucket_file_id(file.file_id):
            raise UnsupportedTableError(
                f"{file.path} is not laid out by buckets: the bucket index serves only tables "
                "that were written with it"
            )
        row, bucket = rows[file.partition_path], bucket_of(file.file_id)
        if bucket >= count:
            raise UnsupportedTableError(
                f"{file.path} is of bucket {bucket}, and option {BUCKET_COUNT} is {count}"
            )
        if groups[row, bucket] != ABSENT:
            other = snapshot.files[groups[row, bucket]].path
            detail = f"a second file group of bucket {bucket} beside {other}"
            raise CorruptFileError(file.path, 0, detail)
        groups[row, bucket] = number
    return pa.array(paths, pa.string()), groups
