"""One write on the timeline: begun under the lock, completed by one atomic put, or undone.

What a failed write leaves is its data files (named by markers made before them), its log files in
the metadata table and its instants. Undoing deletes them in an order that keeps the instant pending
until nothing else is left, so that it can be cut off anywhere and done again.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from table.config import TableConfig, load_config, restore_properties
from table.errors import CorruptFileError, UnsupportedTableError
from table.format.schema import from_avro, with_meta, without_meta
from table.metadata.partitions import FILES
from table.metadata.reader import MetadataTable, Validity
from table.metadata.writer import take_back_delta
from table.model import BaseFile
from table.naming import (
    PARTITION_METADATA,
    TEMP,
    check_relative,
    marked_file,
    parse_base_file,
)
from table.storage import Storage
from table.timeline.instant_name import COMPLETED
from table.timeline.timeline import Timeline
from table.view import Listing, Snapshot, snapshot
from table.write.late import fenced_times, note_fenced, sweep_late
from table.write.uncommitted import may_be_archived

_LOOKS = 3
_REMEDY = "table recover PATH"
_MARKERS_FILE = re.compile(r"^MARKERS\d+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What the holder of the lease did to a table since it was read.

    Attributes:
        time: its instant on the data's timeline; "" for none.
        written: the base files of that instant.
        deleted: names of deleted base files by partition path.
    """

    time: str = ""
    written: Sequence[BaseFile] = ()
    deleted: Mapping[str, Iterable[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """One consistent reading of a table: config, both timelines, listing and snapshot."""

    storage: Storage
    config: TableConfig
    timeline: Timeline
    metadata: MetadataTable | None
    listing: Listing
    snapshot: Snapshot

    @classmethod
    def load(cls, storage: Storage, as_of: str | None = None) -> TableState:
        """Read the table as it is, or as it was at an instant.

        Instants can be archived between the listing of a timeline and the reading of their files:
        then another look finds them gone from both.
        """
        for _ in range(_LOOKS - 1):
            with contextlib.suppress(FileNotFoundError):
                return cls._load(storage, as_of)
        return cls._load(storage, as_of)

    @classmethod
    def _load(cls, storage: Storage, as_of: str | None) -> TableState:
        config = load_config(storage)
        timeline = Timeline.load(storage)
        metadata = None
        with naming_the_remedy():
            if FILES in config.metadata_partitions:
                metadata = MetadataTable.load(storage, timeline)
                listing: Listing = metadata.listing()
            else:
                listing = list_storage(storage, without=fenced_times(storage))
            shown = snapshot(listing, timeline, as_of)
            # The newest commit says how rows are read.
            table_schema(timeline)
        return cls(
            storage=storage,
            config=config,
            timeline=timeline,
            metadata=metadata,
            listing=listing,
            snapshot=shown,
        )

    def after(self, change: Change) -> TableState:
        """The table after a change of the holder's own: only the timelines are listed again.

        Where the data's timeline tells of more than that change, the table is read anew.
        """
        timeline = self.timeline.again()
        differing = set(timeline.instants) ^ set(self.timeline.instants)
        if not {instant.time for instant in differing} <= {change.time}:
            return TableState.load(self.storage)
        metadata = None
        if self.metadata is not None:
            own = self.metadata.timeline.again()
            metadata = MetadataTable(self.storage, own, Validity(own, timeline))
        listing = _changed(self.listing, change)
        return replace(
            self,
            timeline=timeline,
            metadata=metadata,
            listing=listing,
            snapshot=snapshot(listing, timeline),
        )


@contextlib.contextmanager
def naming_the_remedy() -> Iterator[None]:
    """Name the command that goes back to the last whole commit where a file is torn."""
    try:
        yield
    except CorruptFileError as error:
        if _REMEDY in error.detail:
            raise
        detail = f"{error.detail}; `{_REMEDY}` goes back to the last whole commit"
        raise CorruptFileError(error.name, error.offset, detail) from error


def _changed(listing: Listing, change: Change) -> Listing:
    changed = {partition: dict(names) for partition, names in listing.items()}
    for file in change.written:
        changed.setdefault(file.partition_path, {})[file.name] = file.size
    for partition, names in change.deleted.items():
        for name in names:
            changed[partition].pop(name, None)
    return changed


def list_storage(storage: Storage, *, without: Collection[str] = ()) -> dict[str, dict[str, int]]:
    """The listing of a table without a metadata table: every folder that holds base files.

    Files of the instants `without` are left out.
    """
    listing: dict[str, dict[str, int]] = {}
    for status in storage.walk(""):
        folder, _, name = status.path.rpartition("/")
        file = parse_base_file(folder, name, status.size)
        if file is None or status.path.startswith(".hoodie/") or file.instant_time in without:
            continue
        listing.setdefault(folder, {})[name] = status.size
    return listing


def clear_failed(storage: Storage) -> None:
    """Undo what dead writers left and sweep the markers of completed instants.

    Call it under the lease. Pending writes of kinds that Keymark does not make are refused by name:
    they belong to an engine that can finish them.
    """
    restore_properties(storage)
    timeline = Timeline.load(storage)
    _refuse_pending(timeline)
    for instant in timeline.pending():
        if instant.action == "commit":
            note_fenced(storage, instant.time, _marked(storage, instant.time))
            # A power cut may have taken markers and left files.
            undo(storage, timeline, instant.time, everywhere=True)
    _sweep_markers(storage, timeline)
    sweep_late(storage, timeline)


def _sweep_markers(storage: Storage, timeline: Timeline) -> None:
    """Delete the markers of completed instants, and what tasks wrote that outlived their writer.

    Such a task makes markers and files of an instant that was taken back already, or completed
    without them. The files of an instant that was archived stay.
    """
    done = {instant.time: instant for instant in timeline.completed()}
    for time in {s.path.split("/")[2] for s in storage.walk(TEMP) if s.path.count("/") > 2}:
        instant = done.get(time)
        if instant is not None and instant.action in ("commit", "replacecommit"):
            named = {path for _, path, _ in timeline.commit(instant).files}
            sweep_losers(storage, time, named)
        elif instant is None:
            if not time.isdigit() or may_be_archived(time, timeline):
                continue
            for path in list(data_files(storage, time)):
                storage.delete(path)
        storage.delete_tree(f"{TEMP}/{time}")


def _refuse_pending(timeline: Timeline) -> None:
    for instant in timeline.pending():
        if instant.action in ("deltacommit", "replacecommit", "compaction", "logcompaction"):
            raise UnsupportedTableError(
                f"a {instant.action} of instant {instant.time} is pending: finish or roll it back "
                "with Apache Hudi first"
            )


def undo(storage: Storage, timeline: Timeline, time: str, *, everywhere: bool = False) -> None:
    """Take an uncompleted commit back: data files, index blocks, markers, instants, in that order.

    Files are found by the instant's markers, or `everywhere`, by a listing of the table.

    An instant that was completed after all stays: the put may have succeeded and its answer lost.
    """
    if storage.exists(timeline.path(time, "commit", COMPLETED)):
        return
    for path in data_files(storage, time, everywhere=everywhere):
        storage.delete(path)
    take_back_delta(storage, time)
    storage.delete_tree(f"{TEMP}/{time}")
    # After a power cut nothing but the instant leads to a file that is there again.
    storage.sync()
    timeline.remove(time, "commit")


def data_files(storage: Storage, time: str, *, everywhere: bool = False) -> Iterator[str]:
    """Files that an instant made, by its markers, and by a listing where it has none or is asked.

    Args:
        storage: the table's.
        time: the instant.
        everywhere: whether files without a marker are looked for.
    """
    folder = f"{TEMP}/{time}"
    marked = set(_marked(storage, time))
    if everywhere or not storage.exists(folder):
        marked |= {status.path for status in storage.walk("")}
    partitions: set[str] = set()
    found: list[str] = []
    for path in marked:
        check_relative(path, folder)
        partition, _, name = path.rpartition("/")
        file = parse_base_file(partition, name, 0)
        if file is not None and file.instant_time == time:
            partitions.add(partition)
            found.append(path)
    # These first: with the base files gone, nothing would lead here again.
    for partition in partitions:
        yield from _partition_metadata(storage, partition, time)
    yield from found


def sweep_losers(storage: Storage, time: str, winners: set[str]) -> None:
    """Delete the data files that an instant marked and no result of it names."""
    for path in set(_marked(storage, time)) - winners:
        storage.delete(check_relative(path, f"{TEMP}/{time}"))


def _marked(storage: Storage, time: str) -> Iterator[str]:
    """The files that DIRECT markers or a timeline server's marker files name."""
    for status in storage.walk(f"{TEMP}/{time}"):
        if _MARKERS_FILE.match(status.name):
            for line in storage.read(status.path).decode("utf-8", "replace").splitlines():
                path = marked_file(line, time)
                if path is not None:
                    yield path
        else:
            path = marked_file(status.path, time)
            if path is not None:
                yield path


def _partition_metadata(storage: Storage, partition: str, time: str) -> Iterator[str]:
    """The partition's own file, where this instant opened the partition."""
    path = f"{partition}/{PARTITION_METADATA}" if partition else PARTITION_METADATA
    try:
        text = storage.read(path).decode("iso-8859-1")
    except FileNotFoundError:
        return
    if f"commitTime={time}\n" in text:
        yield path


def table_schema(timeline: Timeline) -> str | None:
    """The Avro schema of the table's rows as the latest commit tells it; None before the first."""
    for instant in reversed(timeline.completed(("commit", "replacecommit"))):
        schema = timeline.commit(instant).schema
        if schema:
            return schema
    return None


def stored_schema(state: TableState) -> pa.Schema:
    """The columns of base files, meta columns first; those alone before any row."""
    text = table_schema(state.timeline)
    return with_meta(without_meta(from_avro(text)) if text else pa.schema([]))
