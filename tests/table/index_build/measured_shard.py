"""Writes by how many bytes this process grows while it makes the log file of a shard of a load.

Arguments: an empty folder, how many keys, the bytes of memory that a task may hold.
"""

from __future__ import annotations

import sys
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa

from keymark.table.index.key_file import write_key_file
from keymark.table.layout.model import FileSlice
from keymark.table.layout.naming import METADATA
from keymark.table.metadata.partitions import file_id
from keymark.table.metadata.records import encode_locations
from keymark.table.metadata.shard import Shard, Validity
from keymark.table.metadata.writer import GroupUpdate
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.timeline.timeline import Timeline
from keymark.table.write.bulk_index import KeyStretch, ShardBuild, build_shard

_PART = 20_000


def build(storage: LocalStorage, count: int, memory: int, instant: str) -> ShardBuild:
    """A shard of so many keys in key files that are on storage."""
    random = np.random.default_rng(3)
    stretches = []
    for _ in range(count // _PART):
        texts = [str(uuid.UUID(bytes=random.bytes(16))) for _ in range(_PART)]
        entries = pa.table({"key": texts, "file": pa.array(np.zeros(_PART, np.int32))})
        file = write_key_file(storage, instant, entries, shards=1)
        stretches.append(KeyStretch(storage, file, 0, 0))
    place = FileSlice(
        file_id=file_id("record_index", 0),
        base_instant_time=instant,
        base_file=None,
        log_files=(),
    )
    timeline = Timeline(storage, METADATA, ())
    nothing = pa.array([], pa.string())
    return ShardBuild(
        shard=Shard(storage, place, Validity(timeline, timeline), {}),
        number=0,
        stretches=tuple(stretches),
        values=encode_locations(["p"], ["file"], [0]),
        update=GroupUpdate(
            storage=storage,
            slice=place,
            partition="record_index",
            instant=instant,
            block_size=1 << 20,
            keys=nothing,
            values=nothing.cast(pa.binary()),
        ),
        refuse_known=False,
        memory=memory,
    )


def status(name: str) -> int:
    """A number of bytes that the system reports of this process."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(text.partition(f"{name}:")[2].split()[0])


def main(folder: str, count: int, memory: int) -> None:
    """Make a small shard, so that all is loaded and compiled, then the one that counts."""
    storage = LocalStorage.at(folder, create=True, durable=False)
    build_shard(build(storage, 2 * _PART, 2 << 20, "20240101000000000"))
    work = build(storage, count, memory, "20240102000000000")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = status("VmRSS")
    done = build_shard(work)
    assert done is not None
    assert done.records == count
    sys.stdout.write(f"{status('VmHWM') - before}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
