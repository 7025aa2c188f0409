"""What a table is made of, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

from keymark.table.format.parquet.base_file import read_footer
from keymark.table.layout.model import BaseFile
from keymark.table.layout.naming import METADATA
from keymark.table.metadata.partitions import PARTITIONS, RECORD_INDEX
from keymark.table.metadata.reader import Shard, slice_of
from keymark.table.properties.config import load_config
from keymark.table.read.arrow import open_base
from keymark.table.runtime.runner import TaskRunner
from keymark.table.secondary.runs import folder_of
from keymark.table.state.table_state import TableState
from keymark.table.storage.storage import Storage

# About what reading a footer costs, beside bytes of other work.
_FOOTER_BYTES = 128 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardInfo:
    """One file group of the record index; `bytes` are those of its current slice."""

    file_group: str
    entries: int
    bytes: int
    log_files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInfo:
    """The answer of `table info`; sizes in bytes, `bytes_per_key` None without entries."""

    rows: int
    index: str
    index_reason: str
    table_version: int
    bytes_per_key: float | None
    base_files: int
    base_bytes: int
    partitions: int
    latest_instant: str | None
    metadata_partitions: tuple[str, ...]
    shards: tuple[ShardInfo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    """A partition of the metadata table, or the secondary index of a column.

    `state` is in use, being built, or absent. The files of a secondary index are its runs.
    """

    partition: str
    state: str
    file_groups: int
    bytes: int


def describe_partitions(storage: Storage) -> list[PartitionInfo]:
    """Partitions that Keymark can build, and secondary indexes, with the size of their files."""
    config = load_config(storage)
    found = []
    for name in PARTITIONS:
        state = "absent"
        if name in config.maintained:
            state = "in use" if name in config.metadata_partitions else "being built"
        files = storage.list(f"{METADATA}/{name}") if state != "absent" else []
        groups = {parsed[0] for file in files if (parsed := slice_of(name, file.name))}
        found.append(
            PartitionInfo(
                partition=name,
                state=state,
                file_groups=len(groups),
                bytes=sum(file.size for file in files),
            )
        )
    for column in config.secondary_columns:
        runs = storage.list(folder_of(column))
        found.append(
            PartitionInfo(
                partition=f"secondary({column})",
                state="in use",
                file_groups=len(runs),
                bytes=sum(run.size for run in runs),
            )
        )
    return found


def describe(state: TableState, index: str, reason: str, runner: TaskRunner) -> TableInfo:
    """Count rows by the footers and entries by reading every shard."""
    files = state.snapshot.files
    shards = _shards(state, runner)
    weights = [min(file.size, _FOOTER_BYTES) for file in files]
    counts = runner.run(_CountRows(state.storage), files, weights=weights)
    entries = sum(shard.entries for shard in shards)
    size = sum(shard.bytes for shard in shards)
    commits = state.timeline.commit_times()
    return TableInfo(
        rows=sum(counts),
        index=index,
        index_reason=reason,
        table_version=int(state.config.properties["hoodie.table.version"]),
        bytes_per_key=size / entries if entries else None,
        base_files=len(files),
        base_bytes=sum(file.size for file in files),
        partitions=len(state.snapshot.partition_paths()),
        latest_instant=max(commits, default=None),
        metadata_partitions=state.config.metadata_partitions,
        shards=shards,
    )


@dataclass(frozen=True, slots=True)
class _CountRows:
    """Counts the rows of a base file by its footer; the task that a runner distributes."""

    storage: Storage

    def __call__(self, file: BaseFile) -> int:
        return read_footer(open_base(self.storage, file)).num_rows


def _shards(state: TableState, runner: TaskRunner) -> tuple[ShardInfo, ...]:
    if state.metadata is None or RECORD_INDEX not in state.config.metadata_partitions:
        return ()
    shards = state.metadata.shards(RECORD_INDEX)
    return tuple(runner.run(_describe_shard, shards, weights=[s.slice.size for s in shards]))


def _describe_shard(shard: Shard) -> ShardInfo:
    """Count the entries of a shard; the task that a runner distributes."""
    keys, _ = shard.scan()
    return ShardInfo(
        file_group=shard.slice.file_id,
        entries=len(keys),
        bytes=shard.slice.size,
        log_files=len(shard.slice.log_files),
    )
