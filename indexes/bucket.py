"""The bucket index: the hash of a key is its file group, so nothing is looked up.

    bucket  = hash(key fields) % hoodie.bucket.index.num.buckets
    file id = <bucket in 8 digits><uuid from its 9th character>-0, one per bucket and partition path

Source: HoodieSimpleBucketIndex, BucketIdentifier of Hudi 0.15.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indexes.key_scan import ABSENT, KeyProbe, first_files, locations, probe_keys
from table.config import TableConfig
from table.errors import CorruptFileError, UnsupportedTableError
from table.format.hashing import buckets
from table.naming import bucket_of, is_bucket_file_id
from table.options import BUCKET_COUNT, BUCKET_FIELDS, Options
from table.view import Snapshot
from table.write.index import IndexContext

_Numbers = npt.NDArray[np.int64]


class BucketIndex:
    """Partition-local; a tag says where a key belongs, not that it is there."""

    name: ClassVar[str] = "bucket"
    is_global: ClassVar[bool] = False
    is_exact: ClassVar[bool] = False

    def tag(self, keys: Any, partitions: Any, context: IndexContext) -> Any:
        """The file group of each key's bucket in its partition path, null where there is none."""
        count = context.options.integer(BUCKET_COUNT)
        paths, groups = _groups(context.snapshot, count)
        if not len(paths):
            return locations(np.full(len(keys), ABSENT, np.int64), context)
        wanted = self.buckets(keys, context.config, context.options)
        rows = pc.index_in(partitions, value_set=paths)
        known = pc.is_valid(rows).to_numpy(zero_copy_only=False)
        numbers = np.full(len(keys), ABSENT, np.int64)
        numbers[known] = groups[rows.drop_null().to_numpy(), wanted[known]]
        return locations(numbers, context)

    def lookup(self, keys: Any, context: IndexContext) -> Any:
        """Check the keys of each bucket against its file groups in all partition paths."""
        count = context.options.integer(BUCKET_COUNT)
        _, groups = _groups(context.snapshot, count)
        wanted = self.buckets(keys, context.config, context.options)
        order = np.argsort(wanted, kind="stable")
        bounds = np.searchsorted(wanted[order], np.arange(count + 1))
        tasks, rows, numbers = [], [], []
        for bucket in np.unique(wanted).tolist():
            members = order[bounds[bucket] : bounds[bucket + 1]]
            candidates = keys.take(pa.array(members))
            for number in groups[:, bucket][groups[:, bucket] != ABSENT].tolist():
                file = context.snapshot.files[number]
                tasks.append(KeyProbe(context.storage, file, candidates))
                rows.append(members)
                numbers.append(number)
        found = context.runner.run(probe_keys, tasks, weights=[task.weight for task in tasks])
        context.stats.files_read += len(tasks)
        answers = [(n, r[f]) for n, r, f in zip(numbers, rows, found, strict=True)]
        return locations(first_files(len(keys), answers), context)

    def buckets(self, keys: Any, config: TableConfig, options: Options) -> npt.NDArray[np.int32]:
        """The bucket of each key."""
        fields = options.optional(BUCKET_FIELDS) or ""
        return buckets(
            keys,
            options.integer(BUCKET_COUNT),
            key_fields=config.record_key,
            hash_fields=[name.strip() for name in fields.split(",") if name.strip()],
        )


def _groups(snapshot: Snapshot, count: int) -> tuple[Any, _Numbers]:
    """The partition paths (pa.Array), and per path and bucket the file number or ABSENT."""
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
