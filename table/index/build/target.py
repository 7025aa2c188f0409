"""What a build starts from and what comes out of it; both are the same for every partition."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from typing import TypeVar

from keymark.table.errors import CorruptFileError
from keymark.table.format.hashes.digest import Digest
from keymark.table.format.hfile.file_info import IDENTITY, identity
from keymark.table.format.hfile.writer import BLOCK_SIZE, HFileWriter
from keymark.table.format.log.writer import empty_delete_block
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.model import BaseFile, LogFile, WriteStat
from keymark.table.layout.naming import METADATA, PARTITION_METADATA, parse_base_file
from keymark.table.metadata.partitions import file_id
from keymark.table.metadata.writer import partition_metadata
from keymark.table.properties.options import TASK_MEMORY_BYTES
from keymark.table.storage.spool import Content
from keymark.table.storage.storage import Storage

A = TypeVar("A")
R = TypeVar("R")


_INIT_TOKEN = "0-0-0"  # noqa: S105  a write token, no secret


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildTarget:
    """One partition to be built.

    Attributes:
        storage: the table's storage.
        folder: where the build keeps its own files; the caller deletes it once the partition is
            in use, or given up.
        partition: of the metadata table.
        instant: the initialisation's instant in the metadata table.
        files: the base files of a snapshot, in its order.
        groups: number of file groups.
        keys: how to get the keys of the files' rows.
        zone: of instant times; None is the process's own.
        block_size: uncompressed bytes of a data block (hoodie.hfile.block.size).
        max_tasks: hoodie.metadata.max.init.parallelism.
        memory: bytes that a task may hold of keys (keymark.task.memory.bytes).
        place: the folder that files are put into, each at its path in the metadata table.
    """

    storage: Storage
    folder: str
    partition: str
    instant: str
    files: tuple[BaseFile, ...]
    groups: int
    keys: StoredKeys = field(default_factory=StoredKeys)
    zone: tzinfo | None = None
    block_size: int = BLOCK_SIZE
    max_tasks: int = 100_000
    memory: int = TASK_MEMORY_BYTES
    place: str = METADATA

    @property
    def fingerprint(self) -> str:
        """What the build's outcome depends on, as 64 hex digits."""
        state = hashlib.sha256(
            f"2\n{self.partition}\n{self.instant}\n{self.groups}\n{self.block_size}\n".encode()
        )
        for file in self.files:
            state.update(f"{file.path}\0{file.size}\n".encode())
        return state.hexdigest()

    def base_file(self, number: int, size: int = 0) -> BaseFile:
        """The base file of a group. Its name is the same in every attempt, as its entries are."""
        return BaseFile(
            partition_path=self.partition,
            file_id=file_id(self.partition, number),
            write_token=f"{number}-0-0",
            instant_time=self.instant,
            size=size,
            extension="hfile",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A partition whose files are all on storage; nothing refers to them yet.

    Attributes:
        target: what was asked for.
        stats: one per base file, for the delta commit that makes them count; groups without
            records have no base file.
        records: how many there are.
        size: bytes of the base files.
        digest: of the entries; record index only.
    """

    target: BuildTarget
    stats: tuple[WriteStat, ...]
    records: int
    size: int
    digest: Digest = field(default=Digest())


def base_stat(file: BaseFile, records: int) -> WriteStat:
    """What a commit says about a base file of the metadata table."""
    return WriteStat(
        file_id=file.file_id,
        path=file.path,
        partition_path=file.partition_path,
        prev_commit="null",
        num_writes=records,
        num_inserts=records,
        num_updates=0,
        num_deletes=0,
        size=file.size,
    )


def put_once(storage: Storage, path: str, data: Content) -> bool:
    """Put a file whose content is the same in every attempt; False if it was there."""
    try:
        storage.put(path, data)
    except FileExistsError:
        return False
    return True


@contextlib.contextmanager
def decoding_build_file(path: str) -> Iterator[None]:
    """Name a build's own file whose bytes cannot be decoded; the build begins anew then.

    Raises:
        CorruptFileError: from what the block raised.
    """
    try:
        yield
    except (ValueError, KeyError, TypeError, RecursionError, OSError) as error:
        raise CorruptFileError(path, 0, f"a file of an index build: {error}") from error


def put_base(
    storage: Storage, base: BaseFile, writer: HFileWriter, place: str = METADATA
) -> BaseFile:
    """Put what a writer holds as a group's base file; a writer without entries puts none.

    Where an earlier attempt put the file, that one stays, and its size is returned.

    Hudi's base files have a bloom filter besides; no reader of the metadata table asks for it.
    """
    if not writer.entry_count:
        return base
    ends = {"minRecordKey": writer.first_key or b"", "maxRecordKey": writer.last_key or b""}
    data = writer.close(None, {**ends, IDENTITY: identity(base.file_id, base.instant_time)})
    path = f"{place}/{base.path}"
    # Small blocks may come out compressed in another way: the file that is there counts.
    there = not put_once(storage, path, data)
    return replace(base, size=storage.open(path).size if there else len(data))


def open_groups(target: BuildTarget) -> None:
    """Open every file group by a log file with an empty delete block, base file or not.

    Source: HoodieBackedTableMetadataWriter.initializeFileGroups.
    """
    content = partition_metadata(target.instant, target.partition)
    folder = f"{METADATA}/{target.partition}"
    put_once(target.storage, f"{folder}/{PARTITION_METADATA}", content)
    for number in range(target.groups):
        open_group(target, number)


def open_group(target: BuildTarget, number: int) -> None:
    """Open one file group by a log file with an empty delete block."""
    block = empty_delete_block(target.instant)
    log = LogFile(
        partition_path=target.partition,
        file_id=file_id(target.partition, number),
        base_instant_time=target.instant,
        version=1,
        write_token=_INIT_TOKEN,
        size=len(block),
    )
    put_once(target.storage, f"{target.place}/{log.path}", block)


def remove_groups(target: BuildTarget) -> None:
    """Delete the base files of the target's instant; what writers logged since then stays."""
    for status in target.storage.list(f"{METADATA}/{target.partition}"):
        base = parse_base_file(target.partition, status.name, status.size)
        if base is not None and base.instant_time == target.instant:
            target.storage.delete(status.path)
