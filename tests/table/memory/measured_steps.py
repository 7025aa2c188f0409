"""Writes by how many bytes this process grows while it does one step on a large shard.

    measured_steps.py FOLDER KEYS MEMORY make              makes the shard
    measured_steps.py FOLDER KEYS MEMORY STEP              does a step, small first, then measured

Steps are those of `STEPS`. MEMORY is the bytes that a task may hold.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

sys.path.append(str(Path(__file__).parents[1] / "index_build"))

from bootstrap_cases import INSTANT, UTC, Table, put_file

from keymark.table.index.build.record_index import rebuild_shard
from keymark.table.index.key_file import write_key_file
from keymark.table.layout.model import BaseFile, FileSlice, WriteStat
from keymark.table.layout.naming import METADATA, parse_base_file, parse_log_file
from keymark.table.metadata.partitions import RECORD_INDEX, file_id
from keymark.table.metadata.records import encode_locations
from keymark.table.metadata.shard import Shard
from keymark.table.metadata.writer import GroupUpdate
from keymark.table.runtime.runner import LocalRunner
from keymark.table.services.check.index import Differences, count_differences
from keymark.table.services.check.verify_index import shard_digest
from keymark.table.services.compact import GroupCompaction, compact_group
from keymark.table.services.recover.returning_keys import ShardReturn, log_shard
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.write.bulk_index import KeyStretch

FILE_KEYS = 20_000
GROUP = file_id(RECORD_INDEX, 0)
LATER = "20240103000000000"


@dataclass(frozen=True)
class Case:
    """A table of one shard: its base files, its index, and what a task may hold."""

    storage: LocalStorage
    memory: int

    def files(self) -> list[BaseFile]:
        """The base files of the data."""
        found = (
            parse_base_file("p", status.name, status.size) for status in self.storage.list("p")
        )
        return [file for file in found if file is not None]

    def shard(self) -> Shard:
        """The shard with all of its files."""
        listed = self.storage.list(f"{METADATA}/{RECORD_INDEX}")
        bases = [parse_base_file(RECORD_INDEX, each.name, each.size) for each in listed]
        logs = [parse_log_file(RECORD_INDEX, each.name, each.size) for each in listed]
        place = FileSlice(
            file_id=GROUP,
            base_instant_time=INSTANT,
            base_file=next((base for base in bases if base is not None), None),
            log_files=tuple(log for log in logs if log and log.base_instant_time == INSTANT),
        )
        validity: Any = SimpleNamespace(latest="9", counts=lambda _: True)
        return Shard(self.storage, place, validity, {})

    def update(self, keys: pa.Array, values: pa.Array, deletes: pa.Array) -> GroupUpdate:
        """A log file of the shard."""
        return GroupUpdate(
            storage=self.storage,
            slice=self.shard().slice,
            partition=RECORD_INDEX,
            instant=LATER,
            block_size=1 << 20,
            keys=keys,
            values=values,
            deletes=deletes.to_pylist(),
        )


def texts(part: int) -> pa.Array:
    """The keys of one of the base files."""
    digits = np.random.default_rng(part).bytes(18 * FILE_KEYS).hex()
    return pa.array([digits[at : at + 36] for at in range(0, len(digits), 36)])


def make(case: Case, count: int) -> None:
    """Base files, the record index of them, and a log file in which a tenth of the keys moves."""
    files = [
        put_file(case.storage, number, "p", texts(number).to_pylist())
        for number in range(count // FILE_KEYS)
    ]
    Table(case.storage, files, dict.fromkeys(range(count))).build(1)
    moved = pa.concat_arrays([texts(number)[: FILE_KEYS // 10] for number in range(len(files))])
    moved = moved.take(pc.array_sort_indices(moved))
    value = encode_locations(["p"], [files[0].file_id], [1704067200000])
    case.update(moved, pa.concat_arrays([value] * len(moved)), texts(0)[-100:].sort()).write()


def digest(case: Case) -> int:
    """The digest of the shard."""
    return shard_digest(case.shard()).count


def differences(case: Case) -> Differences:
    """Keys of the shard and of the data compared."""
    state: Any = SimpleNamespace(
        storage=case.storage,
        config=SimpleNamespace(virtual_keys=False),
        metadata=SimpleNamespace(shards=lambda _: (case.shard(),)),
    )
    return count_differences(state, case.files(), (0,), case.memory)


def compaction(case: Case) -> int:
    """The shard merged into a base file."""
    work = GroupCompaction(
        shard=case.shard(),
        partition=RECORD_INDEX,
        instant=f"{LATER}001",
        block_size=1 << 20,
        live_files=None,
        memory=case.memory,
    )
    done = compact_group(work)
    assert isinstance(done, WriteStat)
    case.storage.delete(f"{METADATA}/{done.path}")
    return done.num_writes


def repair(case: Case) -> int:
    """The shard built anew from the data."""
    target = Table(case.storage, case.files(), {}).target(
        1, memory=case.memory, instant="20240104000000000010", zone=UTC, folder=".hoodie/repair"
    )
    built = rebuild_shard(target, 0, rows=FILE_KEYS, runner=LocalRunner(1))
    case.storage.delete_tree(target.folder)
    for stat in built.stats:
        case.storage.delete(f"{METADATA}/{stat.path}")
    return built.records


def returning(case: Case) -> int:
    """A log file that puts all keys of the shard back."""
    files = case.files()
    stretches = []
    for number in range(len(files)):
        entries = pa.table({"key": texts(number), "file": pa.array([number] * FILE_KEYS, "int32")})
        kept = write_key_file(case.storage, LATER, entries, shards=1)
        stretches.append(KeyStretch(case.storage, kept, 0, 0))
    values = encode_locations(["p"] * len(files), [f.file_id for f in files], [0] * len(files))
    nothing = pa.array([], pa.string())
    update = case.update(nothing, nothing.cast(pa.binary()), nothing)
    done = log_shard(
        ShardReturn(stretches=tuple(stretches), values=values, update=update, memory=case.memory)
    )
    assert done is not None
    case.storage.delete(f"{METADATA}/{done.path}")
    case.storage.delete_tree(".hoodie/.temp")
    return done.records


STEPS: dict[str, Callable[[Case], object]] = {
    each.__name__: each for each in (digest, differences, compaction, repair, returning)
}


def status(name: str) -> int:
    """A number of bytes that the system reports of this process."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(text.partition(f"{name}:")[2].split()[0])


def main(folder: Path, count: int, memory: int, step: str) -> None:
    """Make the shard, or do a step on a small shard, then the one that counts."""
    case = Case(LocalStorage.at(folder, create=True, durable=False), memory)
    if step == "make":
        make(case, count)
        return
    small = Case(LocalStorage.at(folder / f"small-{step}", create=True, durable=False), memory)
    make(small, 2 * FILE_KEYS)
    # Little memory, so that runs are made and merged as they will be.
    STEPS[step](replace(small, memory=1 << 20))
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = status("VmRSS")
    done = STEPS[step](case)
    sys.stdout.write(f"{status('VmHWM') - before} {done}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
