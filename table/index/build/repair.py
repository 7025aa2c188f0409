"""One shard of a record index, built anew from the data: whatever its files hold is not read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from keymark.table.errors import DuplicateKeyError
from keymark.table.format.hashes.hashing import shards
from keymark.table.format.hfile.strings import Ordered
from keymark.table.format.hfile.writer import HFileWriter
from keymark.table.format.kernels.order import key_order
from keymark.table.index.build.scan import record_keys
from keymark.table.index.build.target import BuildTarget, Built, base_stat, open_group, put_base
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.model import BaseFile
from keymark.table.metadata.records import SCHEMA, encode_locations
from keymark.table.runtime.runner import Progress, ProgressRunner, TaskRunner
from keymark.table.storage.storage import Storage
from keymark.table.timeline.instant_name import instant_millis


@dataclass(frozen=True, slots=True)
class FileKeys:
    """A base file whose keys of one shard, of so many, are wanted."""

    storage: Storage
    file: BaseFile
    number: int
    shards: int
    keys: StoredKeys


def shard_keys(work: FileKeys) -> pa.Array:
    """The keys of the shard; a task for a runner."""
    found = (
        keys.filter(pa.array(shards(keys, work.shards) == work.number))
        for keys in record_keys(work.storage, work.file, work.keys)
    )
    return pa.concat_arrays([pa.array([], pa.string()), *found])


def rebuild_shard(
    target: BuildTarget, number: int, runner: TaskRunner, progress: Progress
) -> Built:
    """Put a shard's base file and the log file that opens its slice; holds the shard's keys.

    Raises:
        DuplicateKeyError: keys occur in more than one row.
    """
    files = target.files
    works = [FileKeys(target.storage, file, number, target.groups, target.keys) for file in files]
    parts = ProgressRunner(runner, progress, "files").run(
        shard_keys, works, weights=[f.size for f in files]
    )
    keys = pa.concat_arrays([pa.array([], pa.string()), *parts])
    codes = np.repeat(np.arange(len(files), dtype=np.int32), [len(part) for part in parts])
    repeated = len(keys) - len(keys.unique())
    if repeated:
        raise DuplicateKeyError(
            f"{repeated} rows have a record key that another row has: a record index holds each "
            "key once; delete the duplicates first"
        )
    values = encode_locations(
        [file.partition_path for file in files],
        [file.file_id for file in files],
        [instant_millis(file.instant_time, target.zone) for file in files],
    )
    writer = HFileWriter(SCHEMA, target.block_size)
    writer.add_ordered(Ordered.with_values(values).with_keys(keys, key_order(keys), codes))
    open_group(target, number)
    base = put_base(target.storage, target.base_file(number), writer)
    stats = (base_stat(base, len(keys)),) if base.size else ()
    return Built(target=target, stats=stats, records=len(keys), size=base.size)
