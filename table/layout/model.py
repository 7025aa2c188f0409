"""The values that a table is made of. Frozen; no behaviour beyond their own fields."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseFile:
    """A Parquet base file, or an HFile of the metadata table."""

    partition_path: str
    file_id: str
    write_token: str
    instant_time: str
    size: int
    extension: str = "parquet"

    @property
    def name(self) -> str:
        """The file's name: `<fileId>_<writeToken>_<instant>.<extension>`."""
        return f"{self.file_id}_{self.write_token}_{self.instant_time}.{self.extension}"

    @property
    def path(self) -> str:
        """Path relative to the table."""
        return f"{self.partition_path}/{self.name}" if self.partition_path else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """A log file of the metadata table."""

    partition_path: str
    file_id: str
    base_instant_time: str
    version: int
    write_token: str
    size: int

    @property
    def name(self) -> str:
        """The file's name: `.<fileId>_<baseInstant>.log.<version>_<writeToken>`."""
        return f".{self.file_id}_{self.base_instant_time}.log.{self.version}_{self.write_token}"

    @property
    def path(self) -> str:
        """Path relative to the metadata table."""
        return f"{self.partition_path}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSlice:
    """A base file and the log files on top of it, all of one file group."""

    file_id: str
    base_instant_time: str
    base_file: BaseFile | None
    log_files: tuple[LogFile, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the base file and the log files."""
        base = self.base_file.size if self.base_file else 0
        return base + sum(log.size for log in self.log_files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """A moment of the timeline: requested time, action and how far it came."""

    time: str
    action: str
    state: str

    @property
    def completed(self) -> bool:
        """Whether the action reached its end."""
        return self.state == "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStat:
    """What one file of a commit holds, in Hudi's terms (HoodieWriteStat); sizes in bytes."""

    file_id: str
    path: str
    partition_path: str
    prev_commit: str
    num_writes: int
    num_inserts: int
    num_updates: int
    num_deletes: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """What a write did, counted in distinct incoming keys.

    `index` is the index that found them. `unchanged` are keys older than their stored row and
    deletes of absent keys. `phases` holds the wall time of each phase in seconds.
    """

    instant: str
    inserted: int
    updated: int
    deleted: int
    moved: int
    unchanged: int
    files_written: int
    index: str
    phases: dict[str, float] = field(default_factory=dict)
