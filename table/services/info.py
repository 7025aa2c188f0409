"""What a table is made of, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

from keymark.indexes.installed import of_key_runs
from keymark.table.format.parquet.base_file import read_footer
from keymark.table.index.protocol import spec_of
from keymark.table.layout.model import BaseFile
from keymark.table.layout.naming import METADATA
from keymark.table.metadata.partitions import PARTITIONS, RECORD_INDEX
from keymark.table.metadata.reader import slice_of
from keymark.table.metadata.shard import Shard
from keymark.table.properties.config import load_config
from keymark.table.read.arrow import reading_base
from keymark.table.runtime.runner import TaskRunner
from keymark.table.state.table_state import TableState
from keymark.table.storage.storage import Storage
from keymark.table.values.hash_runs import runs_of
from keymark.table.values.indexed import folder_of, record_keys

# About what reading a footer costs, beside bytes of other work.
_FOOTER_BYTES = 128 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardInfo:
    """One file group of the record index; `bytes` are those of its current slice.

    In an index that keeps key runs, it is a run: `entries` counts keys that came and that went.
    """

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
    """A partition of the metadata table, or an index of values: of a column, or of record keys.

    `state` is in use, being built, or absent. The files of an index of values are its runs.
    """

    partition: str
    state: str
    file_groups: int
    bytes: int


def describe_partitions(storage: Storage) -> list[PartitionInfo]:
    """Partitions that Keymark can build, and indexes of values, with the size of their files."""
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
    folders = {f"secondary({column})": folder_of(column) for column in config.secondary_columns}
    if config.key_runs:
        name = of_key_runs(config.key_runs).name
        folders[name] = record_keys(config, config.key_runs).folder
    for name, folder in folders.items():
        runs = storage.list(folder)
        found.append(
            PartitionInfo(
                partition=name,
                state="in use",
                file_groups=len(runs),
                bytes=sum(run.size for run in runs),
            )
        )
    return found


def describe(state: TableState, index: str, reason: str, runner: TaskRunner) -> TableInfo:
    """Count rows by the footers and entries by reading every shard, or the footer of every run."""
    files = state.snapshot.files
    keeps_runs = spec_of(index).key_runs != ""
    shards = _key_runs(state) if keeps_runs else _shards(state, runner)
    weights = [min(file.size, _FOOTER_BYTES) for file in files]
    counts = runner.run(_CountRows(state.storage), files, weights=weights)
    rows = sum(counts)
    # Runs have entries of keys that went, too.
    keys = rows if keeps_runs else sum(shard.entries for shard in shards)
    size = sum(shard.bytes for shard in shards)
    commits = state.timeline.commit_times()
    return TableInfo(
        rows=rows,
        index=index,
        index_reason=reason,
        table_version=int(state.config.properties["hoodie.table.version"]),
        bytes_per_key=size / keys if keys and shards else None,
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
        with reading_base(self.storage, file) as source:
            return read_footer(source).num_rows


def _key_runs(state: TableState) -> tuple[ShardInfo, ...]:
    keys = record_keys(state.config, state.config.key_runs)
    sizes = {status.path: status.size for status in state.storage.list(keys.folder)}
    return tuple(
        ShardInfo(
            file_group=run.path.rpartition("/")[2].partition(".")[0],
            entries=run.entries,
            bytes=sizes[run.path],
            log_files=0,
        )
        for run in runs_of(state.storage, keys)
        if run.path in sizes
    )


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
